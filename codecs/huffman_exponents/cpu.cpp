// Portable kernel of huffman_exponents: the walk, with elements joined one at a time.
#include "codecs/huffman_exponents/container_walk.h"

namespace ecmv::codecs::huffman_exponents {
namespace {

void join_bf16(const uint8_t* exponents, const uint8_t* raw, int64_t from, int64_t count, int8_t* out, int64_t at) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = raw[from + i];
    const uint16_t element =
        static_cast<uint16_t>((bits & 0x80) << 8 | uint32_t{exponents[i]} << kBf16MantissaBits | (bits & 0x7f));
    std::memcpy(out + 2 * (at + i), &element, 2);
  }
}

void decode_bf16(const Stored& stored, const backends::DecodeArgs& args) { run_decode(stored, args, join_bf16); }
void decode_f8(const Stored& stored, const backends::DecodeArgs& args) { run_decode(stored, args, join_f8); }

backends::BoundKernel bind(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return bind_decode(*layers[0].matrix, decode_bf16, decode_f8);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "runs", .refuses = refuses_big_endian, .bind = bind},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_exponents

// Portable kernels of huffman_exponents: the walks of both layouts, with elements joined one at a time.
#include "codecs/huffman_exponents/container_walk.h"
#include "codecs/huffman_exponents/segments_walk.h"

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

using backends::DecodeArgs, backends::Layers, backends::Place, backends::Policy;

void decode_container_bf16(const container::Stored& stored, const DecodeArgs& args) {
  container::run_decode(stored, args, join_bf16);
}
void decode_container_f8(const container::Stored& stored, const DecodeArgs& args) {
  container::run_decode(stored, args, container::join_f8);
}
void decode_segments_bf16(const segments::Stored& stored, const DecodeArgs& args) {
  segments::run_decode<true>(stored, args, segments::join_unit);
}
void decode_segments_f8(const segments::Stored& stored, const DecodeArgs& args) {
  segments::run_decode<false>(stored, args, segments::join_unit_f8);
}

backends::BoundKernel bind_container(const Policy&, Layers layers, int, Place&) {
  return container::bind_decode(*layers[0].matrix, decode_container_bf16, decode_container_f8);
}
backends::BoundKernel bind_segments(const Policy&, Layers layers, int, Place&) {
  return segments::bind_decode(*layers[0].matrix, decode_segments_bf16, decode_segments_f8);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "runs", .refuses = container::refuses_layout, .bind = bind_container},
    {.op = backends::Op::decode, .variant = "segments", .refuses = segments::refuses_layout, .bind = bind_segments},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_exponents

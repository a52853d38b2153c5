// Portable kernels of huffman_exponents: the walks of both layouts, elements joined one at a time.
#include "codecs/huffman_exponents/container_walk.h"
#include "codecs/huffman_exponents/segments_walk.h"

namespace ecmv::codecs::huffman_exponents {
namespace {

void join_bf16(const uint8_t* exponents, const uint8_t* raw, int64_t from, int64_t count, int8_t* out, int64_t at) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = raw[from + i];
    const uint16_t element = static_cast<uint16_t>((bits & 0x80) << 8 | uint32_t{exponents[i]} << kBf16MantissaBits | (bits & 0x7f));
    std::memcpy(out + 2 * (at + i), &element, 2);
  }
}

void decode_container(const KernelCall& call) {
  if (container::is_bf16(call.matrix->type))
    container::run_decode(call, join_bf16);
  else
    container::run_decode(call, container::join_f8);
}

void decode_segments(const KernelCall& call) { segments::run_decode(call, segments::join_unit); }

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode,
     .variant = "runs",
     .tunings = backends::kDefaultTuning,
     .refuses = container::refuses_layout,
     .rows_per_block = container::kernel_rows_per_block,
     .scratch_bytes = container::kernel_scratch_bytes,
     .launch = decode_container},
    {.op = backends::Op::decode,
     .variant = "segments",
     .tunings = backends::kDefaultTuning,
     .refuses = segments::refuses_layout,
     .rows_per_block = segments::kernel_rows_per_block,
     .scratch_bytes = segments::kernel_scratch_bytes,
     .launch = decode_segments},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_exponents

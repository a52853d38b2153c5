// Elements of packed_exponents for products with many tokens, with fewer operations than in tokens_gpu.h. Exponents are
// counted from the next multiple of 16, so that a code of four bits is joined to them by OR, in the instruction that
// masks it. So elements and sums are 2^k times as large, with k from 0 to 15, until sums are stored.
#pragma once

#include "codecs/packed_exponents/tokens_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

struct RaisedElements {
  static constexpr uint32_t kStep = 16;  // exponents
  // The most for which the highest code is no infinity.
  static constexpr int kMostLowest = 224;

  uint32_t first = 0;            // exponents of the code 0, in both halves of a word
  int raised = 0;                // k
  float raise = 1, restore = 1;  // 2^k and 2^-k

  RaisedElements() = default;
  explicit RaisedElements(int lowest) {
    const uint32_t exponent = (static_cast<uint32_t>(lowest) + kStep - 1) / kStep * kStep;
    first = exponent * 0x00800080u;
    raised = static_cast<int>(exponent) - lowest;
    raise = static_cast<float>(1 << raised);
    restore = 1 / raise;
  }

  // A lane's eight elements of a strip, from its 16 bytes of three lines.
  ECMV_GPU_DEVICE gpu::uint4 chunk(const gpu::uint4 (&lines)[3], int strip) const {
    const gpu::uint4& bytes = lines[1 + strip / 2];
    return {join(lines[0].x, bytes.x, strip), join(lines[0].y, bytes.y, strip), join(lines[0].z, bytes.z, strip),
            join(lines[0].w, bytes.w, strip)};
  }
  // Whether an outlier differs from what is stored of it by its exponent alone: it is no zero and no subnormal number,
  // and none that becomes infinite.
  ECMV_GPU_DEVICE bool keeps_mantissa(const Outlier& outlier) const {
    return outlier.exponent - 1 < static_cast<uint32_t>(254 - raised);
  }
  // If so, the bits in which it differs.
  ECMV_GPU_DEVICE uint32_t change(const Outlier& outlier) const {
    const uint32_t lowest = (first & 0xFFFFu) >> 7, exponent = outlier.exponent + static_cast<uint32_t>(raised);
    return (exponent ^ (exponent < lowest ? lowest : lowest + kCodes - 1)) << 7;
  }
  // What a record makes of an element that has the sign and the mantissa of `stored`.
  ECMV_GPU_DEVICE uint32_t element(const Outlier& outlier, uint32_t stored) const {
    return gpu::bits_of(gpu::float_of(outlier.element(stored) << 16) * raise) >> 16;
  }

 private:
  // Two neighbouring columns. A byte of `codes`, or of its rotation, which strips 1 and 3 share, has an element's sign
  // and code at its ends, and others between.
  ECMV_GPU_DEVICE uint32_t join(uint32_t codes, uint32_t bytes, int strip) const {
    const uint32_t turned = gpu::funnel_shift_left(codes, codes, 4);
    const uint32_t both = strip == 0   ? gpu::byte_permute(bytes, codes, 0x7250)
                          : strip == 1 ? gpu::byte_permute(bytes, turned, 0x7351)
                          : strip == 2 ? gpu::byte_permute(bytes, codes, 0x6240)
                                       : gpu::byte_permute(bytes, turned, 0x4361);
    return (both & 0x87FF87FFu) | first;
  }
};

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE

// SIMD kernels of rans_byte_planes for AVX-512 with VBMI2 (Highway's AVX3_DL, AVX3_ZEN4, AVX3_SPR): one step takes 64
// states through one symbol each without leaving the registers. Four steps are written stage by stage, so that the 64
// entries of the vector schedulers hold independent work: 27.6 instead of 26.1 G elements/s (Zen 4, pairs).
//   1. slot -> symbol (the slot is the low plane)   2. symbol -> frequency, minus start   3. new state = f * high +
//      bias
//   4. planes apart   5. a zero high byte draws the next byte   6. raw bits join the class bits, which look up the
//      value
#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/kernel.h"
#include "codecs/rans_byte_planes/decode_block.h"
#include "codecs/rans_byte_planes/format.h"
#include "codecs/rans_byte_planes/policies.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/rans_byte_planes/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/piece_product-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::rans_byte_planes::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace cpu = backends::cpu::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3_ZEN4 || HWY_TARGET == HWY_AVX3_SPR
constexpr bool kByteExpand = true;

#include "codecs/rans_byte_planes/decode_rounds.inc"

#else
constexpr bool kByteExpand = false;
struct Quarters {};
struct Halves {};
#endif

bool HasByteExpand() { return kByteExpand; }

template <class Order>
struct Decode {
  StoredMatrix matrix;
  Layout layout;
  int64_t ahead;  // prefetch distance in bytes
  void operator()(void*, const backends::DecodeArgs& args) const {
    const auto [begin, end] = args.rows;
    if (layout.blocks == 0 || begin >= end) return;
    const Sections sections(matrix);
    if (sections.header.models == 0) {
      std::memcpy(args.out, matrix.elements + begin * layout.cols, (end - begin) * layout.cols);
      return;
    }
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3_ZEN4 || HWY_TARGET == HWY_AVX3_SPR
    for (int64_t row = begin; row < end; row += layout.rows_per_block) {
      const int64_t block = row / layout.rows_per_block;
      int8_t* out = reinterpret_cast<int8_t*>(args.out) + (row - begin) * layout.cols;
      Product none{};
      std::byte head[kHeadBytes + kExceptionPadding] = {};
      DecodeBlock<Order, false>(sections, layout, block, out, none, ahead, head);
      int64_t at = 0;
      sections.each_exception(head, sections.block(block), sections.block(block + 1),
                              [&](Sections::Exception exception) {
                                at += exception.gap;
                                out[at] = static_cast<int8_t>(out[at] + exception.delta);
                              });
    }
#endif
  }
};

// Rows of a matrix that is stored as it is for which there is scratch.
inline int64_t ScratchRows(int64_t cols) { return (backends::kVectorPaddingBytes + cols - 1) / cols; }

template <class Order>
struct Multiply {
  StoredMatrix matrix;
  Layout layout;
  int64_t ahead;
  void operator()(void*, const backends::MatvecArgs& args) const {
    const auto [begin, end] = args.rows;
    const int64_t cols = layout.cols;
    const int8_t* x = args.x;
    if (cols == 0) {
      std::fill(args.y + begin, args.y + end, 0);
      return;
    }
    std::fill(args.y + begin, args.y + end, -128 * cpu::SumX(x, cols));
    if (layout.blocks == 0 || begin >= end) return;
    const Sections sections(matrix);
    if (sections.header.models == 0) {
      int32_t* y = args.y + begin;
      const int8_t* elements = matrix.elements + begin * cols;
      if (!cpu::kDotIsBiased) std::fill(args.y + begin, args.y + end, 0);
      // MultiplyPieces may read a vector past the elements, so the last rows go through scratch, as many as a vector has.
      const int64_t rows = end - begin, last_rows = std::min(rows, ScratchRows(cols)), first_rows = rows - last_rows;
      cpu::MultiplyPieces<1>(elements, 0, 0, first_rows * cols, cols, x, &y);
      int8_t* last = reinterpret_cast<int8_t*>(args.scratch);
      std::memcpy(last, elements + first_rows * cols, last_rows * cols);
      cpu::MultiplyPieces<1>(last, 0, first_rows * cols, last_rows * cols, cols, x, &y);
      return;
    }
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3_ZEN4 || HWY_TARGET == HWY_AVX3_SPR
    for (int64_t row = begin; row < end; row += layout.rows_per_block) {
      const int64_t block = row / layout.rows_per_block;
      Product product{.x = x, .y = args.y + row, .cols = cols};
      std::byte head[kHeadBytes + kExceptionPadding] = {};
      DecodeBlock<Order, true>(sections, layout, block, nullptr, product, ahead, head);
      int64_t at_row = 0, at_col = 0;
      sections.each_exception(head, sections.block(block), sections.block(block + 1),
                              [&](Sections::Exception exception) {
                                at_col += exception.gap;
                                if (at_col >= cols) {
                                  // Nearly always the next row; a division would cost as much as five exceptions.
                                  const int64_t rows = at_col < 2 * cols ? 1 : at_col / cols;
                                  at_row += rows;
                                  at_col -= rows * cols;
                                }
                                product.y[at_row] += exception.delta * x[at_col];
                              });
    }
#endif
  }
};

// The scratch is for the last rows of a matrix stored as it is.
template <typename Body>
backends::BoundKernel Bind(const CompressedView& matrix, int64_t ahead, int64_t scratch_bytes) {
  const Layout layout = layout_of(matrix.shape, *matrix.settings);
  return {Body{matrix, layout, ahead}, {.rows_per_block = layout.rows_per_block, .scratch_bytes = scratch_bytes}};
}
backends::BoundKernel BindDecode(const CompressedView& matrix, const PlanesPolicy& policy) {
  return policy.halves ? Bind<Decode<Halves>>(matrix, policy.ahead, 0)
                       : Bind<Decode<Quarters>>(matrix, policy.ahead, 0);
}
backends::BoundKernel BindMatvec(const CompressedView& matrix, const PlanesPolicy& policy) {
  const int64_t cols = matrix.shape.cols,
                scratch = cols == 0 ? 0 : ScratchRows(cols) * cols + backends::kVectorPaddingBytes;
  return policy.halves ? Bind<Multiply<Halves>>(matrix, policy.ahead, scratch)
                       : Bind<Multiply<Quarters>>(matrix, policy.ahead, scratch);
}

}  // namespace ecmv::codecs::rans_byte_planes::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::rans_byte_planes {
namespace {

HWY_EXPORT(HasByteExpand);
HWY_EXPORT(BindDecode);
HWY_EXPORT(BindMatvec);

std::string refuses(const CompressedView&, const backends::DeviceInfo&, const backends::Policy&) {
  if (HWY_DYNAMIC_DISPATCH(HasByteExpand)()) return "";
  return "The register form needs the byte permutes and the byte expansion of AVX-512 VBMI and VBMI2 (AVX3_DL, "
         "AVX3_ZEN4 or AVX3_SPR).";
}

backends::BoundKernel bind_decode(const backends::Policy& policy, std::span<const backends::Layer> layers,
                                  backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(*layers[0].matrix, policy.as<PlanesPolicy>());
}
backends::BoundKernel bind_matvec(const backends::Policy& policy, std::span<const backends::Layer> layers,
                                  backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(*layers[0].matrix, policy.as<PlanesPolicy>());
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode,
     .variant = "planes",
     .policies = kPlanesPolicies,
     .refuses = refuses,
     .bind = bind_decode},
    {.op = backends::Op::matvec,
     .variant = "planes",
     .policies = kPlanesPolicies,
     .refuses = refuses,
     .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::rans_byte_planes
#endif  // HWY_ONCE

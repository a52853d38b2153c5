// SIMD kernels of rans_byte_planes for AVX-512 with VBMI2 (Highway's AVX3_DL, AVX3_ZEN4, AVX3_SPR): one step takes 64
// states through one symbol each without leaving the registers. Four steps are written stage by stage, so that the 64
// entries of the vector schedulers hold independent work: 27.6 instead of 26.1 G elements/s (Zen 4, pairs).
//   1. slot -> symbol (the slot is the low plane)
//   2. symbol -> frequency, minus start
//   3. new state = f * high + bias
//   4. planes apart
//   5. a zero high byte draws the next byte
//   6. raw bits join the class bits, which look up the value
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "backends/cpu/products/panel_product.h"
#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/rans_byte_planes/decode_block.h"
#include "codecs/rans_byte_planes/format.h"
#include "codecs/rans_byte_planes/policies.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/rans_byte_planes/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/piece_product-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::rans_byte_planes::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace cpu = backends::cpu::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3_ZEN4 || HWY_TARGET == HWY_AVX3_SPR
constexpr bool kByteExpand = true;

#include "codecs/rans_byte_planes/decode_rounds.inc"
#include "codecs/rans_byte_planes/exceptions.inc"
#include "codecs/rans_byte_planes/floats.inc"

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
      std::byte head[kHeadBytes + kExceptionPadding] = {};
      ElementBuffer buffer(out, layout.block_rows(block) * layout.cols);
      DecodeBlock<Order, Buffer>(sections, layout, block, buffer, ahead, head);
      buffer.Finish();
      UseExceptions(sections, head, sections.block(block), sections.block(block + 1), StoreExceptions(out));
    }
#endif
  }
};

// Rows of a matrix stored as it is that the scratch has room for.
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
      // MultiplyPieces may read a vector past the elements, so the last rows go through scratch, as many as a vector
      // has.
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
      const Product product{.x = x, .y = args.y + row, .cols = cols};
      std::byte head[kHeadBytes + kExceptionPadding] = {};
      DecodeBlock<Order, const Product>(sections, layout, block, product, ahead, head);
      const BlockIndex here = sections.block(block), next = sections.block(block + 1);
      if (cols < MultiplyExceptions::kMostCols) {
        UseExceptions(sections, head, here, next, MultiplyExceptions(product));
        continue;
      }
      int64_t at = 0;
      sections.each_exception(head, here, next, [&](Sections::Exception exception) {
        at += exception.gap;
        product.y[at / cols] += exception.delta * x[at % cols];
      });
    }
#endif
  }
};

template <class Order>
struct DecodeFloats {
  StoredMatrix matrix;
  Layout layout;
  int64_t ahead;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const auto [begin, end] = args.rows;
    if (layout.blocks == 0 || begin >= end) return;
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3_ZEN4 || HWY_TARGET == HWY_AVX3_SPR
    const Sections sections(matrix);
    StoredElements stored{reinterpret_cast<uint8_t*>(args.out)};
    for (int64_t row = begin; row < end; row += layout.rows_per_block)
      UseBlock<Order>(matrix, sections, layout, row / layout.rows_per_block, ahead, StoredElements::Use, &stored);
#endif
  }
};

// The scratch holds a tile of rows for panels, and tokens.
template <class Order>
struct MultiplyFloats {
  static constexpr int64_t kAhead = 2048;
  StoredMatrix matrix;
  Layout layout;
  backends::cpu::PanelForm form;
  int batch;

  int64_t tile_bytes() const { return (2 * backends::cpu::kPanelSumRows * layout.cols + 63) / 64 * 64; }
  // One or two tokens take at most 16 bytes a column and some vectors.
  int64_t scratch_bytes() const {
    return tile_bytes() + std::max(backends::cpu::packed_bytes(layout.cols), int64_t{2048} + 16 * layout.cols);
  }

  void operator()(void*, const backends::MatmulArgs& args) const {
    const auto [begin, end] = args.rows;
    if (begin >= end) return;
    if (layout.cols == 0) {
      for (int t = 0; t < batch; ++t) std::fill_n(args.y + t * args.y_stride + begin, end - begin, 0.0f);
      return;
    }
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3_ZEN4 || HWY_TARGET == HWY_AVX3_SPR
    const bool dots = form == backends::cpu::PanelForm::avx512_bf16 || form == backends::cpu::PanelForm::amx;
    if (batch > backends::cpu::kFewTokens) return Many(args);
    if (batch == 2) return dots ? Few<PairDots, 2>(args) : Few<Widened, 2>(args);
    return dots ? Few<PairDots, 1>(args) : Few<Widened, 1>(args);
#endif
  }

#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3_ZEN4 || HWY_TARGET == HWY_AVX3_SPR
  template <class Form, int kTokens>
  void Few(const backends::MatmulArgs& args) const {
    float* tokens = reinterpret_cast<float*>(args.scratch + tile_bytes());
    Form::Prepare(args, kTokens, layout.cols, tokens);
    FewTokens<Form, kTokens> product{tokens, layout.cols, args.y + args.rows.begin, args.y_stride};
    product.Clear();
    UseBlocks(args.rows, FewTokens<Form, kTokens>::Use, &product);
  }
  void Many(const backends::MatmulArgs& args) const {
    std::byte* tokens = args.scratch + tile_bytes();
    backends::cpu::pack_tokens(form, args, batch, layout.cols, tokens);
    ManyTokens product{form, tokens, args.scratch, layout.cols, batch, args.y + args.rows.begin, args.y_stride};
    UseBlocks(args.rows, ManyTokens::Use, &product);
    product.Multiply();
  }
  void UseBlocks(backends::Rows rows, FloatBuffer::Function use, void* user) const {
    const Sections sections(matrix);
    for (int64_t row = rows.begin; row < rows.end; row += layout.rows_per_block)
      UseBlock<Order>(matrix, sections, layout, row / layout.rows_per_block, kAhead, use, user);
  }
#endif
};

// The scratch holds the last rows of a matrix stored as it is.
template <typename Body>
backends::BoundKernel Bind(const CompressedView& matrix, int64_t ahead, int64_t scratch_bytes) {
  const Layout layout = layout_of(matrix.shape, matrix.type, *matrix.settings);
  return {Body{matrix, layout, ahead}, {.rows_per_block = layout.rows_per_block, .scratch_bytes = scratch_bytes}};
}
template <class Order>
backends::BoundKernel BindFloats(const CompressedView& matrix, backends::cpu::PanelForm form, int batch) {
  const Layout layout = layout_of(matrix.shape, matrix.type, *matrix.settings);
  const MultiplyFloats<Order> body{matrix, layout, form, batch};
  return {body,
          {.rows_per_block = layout.rows_per_block,
           .scratch_bytes = body.scratch_bytes(),
           .rounding = backends::cpu::panel_rounding(form)}};
}
backends::BoundKernel BindMatmul(const CompressedView& matrix, const FloatPolicy& policy, int batch) {
  return policy.halves ? BindFloats<Halves>(matrix, policy.form, batch)
                       : BindFloats<Quarters>(matrix, policy.form, batch);
}
backends::BoundKernel BindDecode(const CompressedView& matrix, const PlanesPolicy& policy) {
  if (matrix.type == datasets::ElementType::bf16) {
    return policy.halves ? Bind<DecodeFloats<Halves>>(matrix, policy.ahead, 0)
                         : Bind<DecodeFloats<Quarters>>(matrix, policy.ahead, 0);
  }
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
HWY_EXPORT(BindMatmul);

std::string refuses(const CompressedView&, const backends::DeviceInfo&, const backends::Policy&) {
  if (HWY_DYNAMIC_DISPATCH(HasByteExpand)()) return "";
  return "The register form needs the byte permutes and the byte expansion of AVX-512 VBMI and VBMI2 (AVX3_DL, "
         "AVX3_ZEN4 or AVX3_SPR).";
}

std::string refuses_matvec(const CompressedView& matrix, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  if (matrix.type != datasets::ElementType::i8) return "The kernel multiplies int8 elements.";
  return refuses(matrix, device, policy);
}
std::string refuses_matmul(const CompressedView& matrix, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  if (matrix.type != datasets::ElementType::bf16) return "The kernel multiplies elements of bf16.";
  const std::string reason = refuses(matrix, device, policy);
  return reason.empty() ? backends::cpu::why_not(policy.as<FloatPolicy>().form) : reason;
}

backends::BoundKernel bind_decode(const backends::Policy& policy, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(*layers[0].matrix, policy.as<PlanesPolicy>());
}
backends::BoundKernel bind_matvec(const backends::Policy& policy, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(*layers[0].matrix, policy.as<PlanesPolicy>());
}

backends::BoundKernel bind_matmul(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatmul)(*layers[0].matrix, policy.as<FloatPolicy>(), batch);
}

using backends::Activations, backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "planes", .policies = kPlanesPolicies, .refuses = refuses, .bind = bind_decode},
    {.op = Op::matvec,
     .variant = "planes",
     .policies = kPlanesPolicies,
     .refuses = refuses_matvec,
     .bind = bind_matvec},
    {.op = Op::matmul, .variant = "planes", .policies = kFloatPolicies, .refuses = refuses_matmul, .bind = bind_matmul},
    {.op = Op::matmul,
     .variant = "planes",
     .policies = kBf16Policies,
     .activations = Activations::bf16,
     .refuses = refuses_matmul,
     .bind = bind_matmul,
     .choose = backends::cpu::choose_panels},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::rans_byte_planes
#endif  // HWY_ONCE

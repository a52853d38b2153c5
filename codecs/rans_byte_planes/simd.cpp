// SIMD kernels of rans_byte_planes for AVX-512 with VBMI2 (Highway's AVX3_DL, AVX3_ZEN4, AVX3_SPR): one step takes 64 states
// through one symbol each without leaving the registers. Four steps are written stage by stage, so that the 64 entries of
// the vector schedulers hold independent work: 27.6 instead of 26.1 G elements/s (Zen 4, pairs).
//   1. slot -> symbol (the slot is the low plane)   2. symbol -> frequency, minus start   3. new state = f * high + bias
//   4. planes apart   5. a zero high byte draws the next byte   6. raw bits join the class bits, which look up the value
#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/kernel.h"
#include "codecs/rans_byte_planes/decode_block.h"
#include "codecs/rans_byte_planes/format.h"

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

#include "codecs/rans_byte_planes/decode_rounds-inl.h"

#else
constexpr bool kByteExpand = false;
#endif

// Prefetch distances by tuning. From DRAM 2 KiB ahead is worth a factor of three over none (README.md).
[[maybe_unused]] constexpr int64_t kAhead[] = {2048, 4096, 0};

bool HasByteExpand() { return kByteExpand; }

void Decode(const backends::KernelCall& call) {
  const Layout layout = layout_of(call.matrix->shape, *call.matrix->settings);
  if (layout.blocks == 0 || call.row_begin >= call.row_end) return;
  const Sections sections(*call.matrix);
  if (sections.header.models == 0) {
    std::memcpy(call.decoded, call.matrix->sections[kElements].bytes.data() + call.row_begin * layout.cols, (call.row_end - call.row_begin) * layout.cols);
    return;
  }
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3_ZEN4 || HWY_TARGET == HWY_AVX3_SPR
  for (int64_t row = call.row_begin; row < call.row_end; row += layout.rows_per_block) {
    const int64_t block = row / layout.rows_per_block;
    int8_t* out = call.decoded + (row - call.row_begin) * layout.cols;
    Product none{};
    std::byte head[kHeadBytes + kExceptionPadding] = {};
    DecodeBlock<false>(sections, layout, block, out, none, kAhead[call.tuning], head);
    int64_t at = 0;
    sections.each_exception(head, sections.block(block), sections.block(block + 1), [&](Sections::Exception exception) {
      at += exception.gap;
      out[at] = static_cast<int8_t>(out[at] + exception.delta);
    });
  }
#endif
}

void Matvec(const backends::KernelCall& call) {
  const Layout layout = layout_of(call.matrix->shape, *call.matrix->settings);
  if (layout.cols == 0) {
    std::fill(call.y + call.row_begin, call.y + call.row_end, 0);
    return;
  }
  std::fill(call.y + call.row_begin, call.y + call.row_end, -128 * cpu::SumX(call.x, layout.cols));
  if (layout.blocks == 0 || call.row_begin >= call.row_end) return;
  const Sections sections(*call.matrix);
  if (sections.header.models == 0) {
    int32_t* y = call.y + call.row_begin;
    const int8_t* elements = reinterpret_cast<const int8_t*>(call.matrix->sections[kElements].bytes.data()) + call.row_begin * layout.cols;
    if (!cpu::kDotIsBiased) std::fill(call.y + call.row_begin, call.y + call.row_end, 0);
    // MultiplyPieces may read a vector behind the elements, so the last row goes through scratch.
    const int64_t rows = call.row_end - call.row_begin;
    cpu::MultiplyPieces<1>(elements, 0, 0, (rows - 1) * layout.cols, layout.cols, call.x, &y);
    int8_t* last = reinterpret_cast<int8_t*>(call.scratch);
    std::memcpy(last, elements + (rows - 1) * layout.cols, layout.cols);
    cpu::MultiplyPieces<1>(last, 0, (rows - 1) * layout.cols, layout.cols, layout.cols, call.x, &y);
    return;
  }
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX3_ZEN4 || HWY_TARGET == HWY_AVX3_SPR
  for (int64_t row = call.row_begin; row < call.row_end; row += layout.rows_per_block) {
    const int64_t block = row / layout.rows_per_block;
    Product product{.x = call.x, .y = call.y + row, .cols = layout.cols};
    std::byte head[kHeadBytes + kExceptionPadding] = {};
    DecodeBlock<true>(sections, layout, block, nullptr, product, kAhead[call.tuning], head);
    int64_t at_row = 0, at_col = 0;
    sections.each_exception(head, sections.block(block), sections.block(block + 1), [&](Sections::Exception exception) {
      at_col += exception.gap;
      if (at_col >= layout.cols) {
        // Nearly always the next row; a division would cost as much as five exceptions.
        const int64_t rows = at_col < 2 * layout.cols ? 1 : at_col / layout.cols;
        at_row += rows;
        at_col -= rows * layout.cols;
      }
      product.y[at_row] += exception.delta * call.x[at_col];
    });
  }
#endif
}

}  // namespace ecmv::codecs::rans_byte_planes::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::rans_byte_planes {
namespace {

HWY_EXPORT(HasByteExpand);
HWY_EXPORT(Decode);
HWY_EXPORT(Matvec);

std::string refuses(const CompressedView&, const backends::DeviceInfo&, int) {
  if (HWY_DYNAMIC_DISPATCH(HasByteExpand)()) return "";
  return "The register form needs the byte permutes and the byte expansion of AVX-512 VBMI and VBMI2 (AVX3_DL, AVX3_ZEN4 or AVX3_SPR).";
}

void decode(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Decode)(call); }
void matvec(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Matvec)(call); }

int64_t rows_per_block(const CompressedView& compressed) { return layout_of(compressed.shape, *compressed.settings).rows_per_block; }

// The last row of a matrix stored as it is.
int64_t scratch_bytes(const CompressedView& compressed, int) { return compressed.shape.cols + backends::kVectorPaddingBytes; }

constexpr backends::Tuning kTunings[] = {{"prefetch2k"}, {"prefetch4k"}, {"no_prefetch"}};

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "planes", .tunings = kTunings, .refuses = refuses,
     .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = decode},
    {.op = backends::Op::matvec, .variant = "planes", .tunings = kTunings, .refuses = refuses,
     .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::rans_byte_planes
#endif  // HWY_ONCE

// See panel_product.h. A slab has 32 rows. Each piece of its columns becomes two panels of 16 rows, so that the piece's
// packed tokens are read from the first-level cache more than once; between pieces the sums rest in a small buffer.
// AMX: tile_product-inl.h.
#include "backends/cpu/products/panel_product.h"

#include <algorithm>
#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/panel_product.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/element_numbers.h"
#include "backends/cpu/products/tile_product-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(std::endian::native == std::endian::little, "The first of two columns is a word's lower half.");

using D32 = hn::ScalableTag<uint32_t>;
using DF = hn::RebindToFloat<D32>;
using V32 = hn::Vec<D32>;
using VF = hn::Vec<DF>;

// Words in a row of a panel. A step is one word of 32 bits: one column, or two.
inline constexpr int64_t kPanelSteps = 128;
inline constexpr int64_t kPanelRows = 16, kSlabRows = kPanelSumRows;
inline constexpr int64_t kTokenLanes = static_cast<int64_t>(HWY_MAX_LANES_D(D32));
static_assert(kMaxBatch % kTokenLanes == 0);

// Packed tokens: [vector of tokens][step][token of the vector], steps in whole fours, or whole tiles.
HWY_INLINE int64_t PackedSteps(int64_t steps, int64_t whole = 4) { return (steps + whole - 1) / whole * whole; }

struct Widened {
  static constexpr int64_t kCols = 1;
  static HWY_INLINE VF MulAdd(const uint32_t* HWY_RESTRICT weight, V32 x, VF sum) {
    const DF df;
    float number;
    std::memcpy(&number, weight, sizeof(number));
    return hn::MulAdd(hn::Set(df, number), hn::BitCast(df, x), sum);
  }
};

struct Pairs {
  static constexpr int64_t kCols = 2;
  static HWY_INLINE VF MulAdd(const uint32_t* HWY_RESTRICT weights, V32 x, VF sum) {
    const D32 d;
    const DF df;
    const V32 w = hn::Set(d, *weights), upper = hn::Set(d, 0xFFFF0000u);
    sum = hn::MulAdd(hn::BitCast(df, hn::ShiftLeft<16>(w)), hn::BitCast(df, hn::ShiftLeft<16>(x)), sum);
    return hn::MulAdd(hn::BitCast(df, hn::And(w, upper)), hn::BitCast(df, hn::And(x, upper)), sum);
  }
};

// VDPBF16PS is in no Highway instruction set that is compiled here. For this one instruction a whole set would have to
// be compiled for all kernels.
#undef ECMV_PAIR_DOTS
#if HWY_TARGET == HWY_AVX3_DL && HWY_ARCH_X86_64
#define ECMV_PAIR_DOTS 1
#else
#define ECMV_PAIR_DOTS 0
#endif
#if ECMV_PAIR_DOTS
struct PairDots {
  static constexpr int64_t kCols = 2;
  static HWY_INLINE VF MulAdd(const uint32_t* HWY_RESTRICT weights, V32 x, VF sum) {
    asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "m"(*weights));
    return sum;
  }
};
#endif

// Requests the lines of the next panel while this one is multiplied.
struct Ahead {
  const std::byte* first = nullptr;  // null: nothing
  int64_t row_bytes = 0;
  int64_t lines_of_row = 0;
};

// One step, fully unrolled so that sums stay in registers.
template <class Form, int kRows, int kVectors>
HWY_INLINE void Step(const uint32_t* HWY_RESTRICT panel, const uint32_t* HWY_RESTRICT x, int64_t x_stride,
                     VF (&acc)[kRows][kVectors]) {
  V32 tokens[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) tokens[v] = hn::LoadU(D32(), x + v * x_stride);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) acc[r][v] = Form::MulAdd(panel + r * kPanelSteps, tokens[v], acc[r][v]);
}

// sums[row][token] += the panel's rows times kVectors vectors of tokens. Each round requests some lines ahead.
inline constexpr int64_t kRoundSteps = 16;
template <class Form, int kRows, int kVectors>
HWY_INLINE void MultiplyGroup(const uint32_t* HWY_RESTRICT panel, int64_t steps, const uint32_t* HWY_RESTRICT x,
                              int64_t x_stride, float* HWY_RESTRICT sums, const Ahead& ahead) {
  const DF df;
  VF acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::LoadU(df, sums + r * kMaxBatch + v * kTokenLanes);
  const std::byte* line = ahead.first;
  int64_t row_of_line = 0, lines = line == nullptr ? 0 : kPanelRows * ahead.lines_of_row;
  const int64_t lines_of_round = (lines * kRoundSteps + kPanelSteps - 1) / kPanelSteps;
  for (int64_t s = 0; s < steps;) {
    for (int64_t i = 0; i < lines_of_round && lines > 0; ++i, --lines) {
      __builtin_prefetch(line + row_of_line * ahead.row_bytes, 0, 3);
      if (++row_of_line == kPanelRows) row_of_line = 0, line += 64;
    }
    // Not unrolled: g++ 12 then has more live values than registers and keeps sums in memory.
    const int64_t end = HWY_MIN(s + kRoundSteps, steps);
#pragma GCC unroll 1
    for (; s < end; ++s) Step<Form, kRows, kVectors>(panel + s, x + s * kTokenLanes, x_stride, acc);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[r][v], df, sums + r * kMaxBatch + v * kTokenLanes);
}

// Rows to sum at once: at least eight sums hide an addition's latency, and registers hold at most 32, or 16 before
// AVX-512.
inline constexpr bool kFewRegisters = HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3;

// Rows [kFirst, kFirst + kRows) of the panel; the first ones request ahead.
template <class Form, int kFirst, int kRows, int kVectors>
HWY_INLINE void MultiplySome(const uint32_t* HWY_RESTRICT panel, int64_t steps, const uint32_t* HWY_RESTRICT x,
                             int64_t x_stride, float* HWY_RESTRICT sums, const Ahead& ahead) {
  MultiplyGroup<Form, kRows, kVectors>(panel + kFirst * kPanelSteps, steps, x, x_stride, sums + kFirst * kMaxBatch,
                                       kFirst == 0 ? ahead : Ahead{});
}

template <class Form>
HWY_INLINE void MultiplyPanel(const uint32_t* HWY_RESTRICT panel, int64_t steps, const uint32_t* HWY_RESTRICT x,
                              int64_t x_stride, int batch, float* HWY_RESTRICT sums, Ahead ahead) {
  for (; batch > kTokenLanes; batch -= 2 * kTokenLanes, x += 2 * x_stride, sums += 2 * kTokenLanes, ahead = {}) {
    if constexpr (kFewRegisters && Form::kCols == 1) {
      MultiplySome<Form, 0, 6, 2>(panel, steps, x, x_stride, sums, ahead);
      MultiplySome<Form, 6, 5, 2>(panel, steps, x, x_stride, sums, ahead);
      MultiplySome<Form, 11, 5, 2>(panel, steps, x, x_stride, sums, ahead);
    } else if constexpr (kFewRegisters) {  // halves of words take some
      MultiplySome<Form, 0, 4, 2>(panel, steps, x, x_stride, sums, ahead);
      MultiplySome<Form, 4, 4, 2>(panel, steps, x, x_stride, sums, ahead);
      MultiplySome<Form, 8, 4, 2>(panel, steps, x, x_stride, sums, ahead);
      MultiplySome<Form, 12, 4, 2>(panel, steps, x, x_stride, sums, ahead);
    } else {
      MultiplySome<Form, 0, 8, 2>(panel, steps, x, x_stride, sums, ahead);
      MultiplySome<Form, 8, 8, 2>(panel, steps, x, x_stride, sums, ahead);
    }
  }
  if (batch <= 0) return;
  if constexpr (kFewRegisters) {
    MultiplySome<Form, 0, 8, 1>(panel, steps, x, x_stride, sums, ahead);
    MultiplySome<Form, 8, 8, 1>(panel, steps, x, x_stride, sums, ahead);
  } else {
    MultiplySome<Form, 0, 16, 1>(panel, steps, x, x_stride, sums, ahead);
  }
}

// `count` columns of a row as words of a panel.
template <class Form>
HWY_INLINE void FillRow(datasets::ElementType type, const std::byte* HWY_RESTRICT row, int64_t count,
                        uint32_t* HWY_RESTRICT words) {
  if constexpr (Form::kCols == 2) {
    const int64_t bytes = 2 * count;
    if (count % 2 != 0) words[count / 2] = 0;
    std::memcpy(words, row, static_cast<size_t>(bytes));
    return;
  }
  if (type != datasets::ElementType::bf16) return elements_to_floats(type, row, count, reinterpret_cast<float*>(words));
  const D32 d;
  const hn::Rebind<uint16_t, D32> d16;
  const uint16_t* HWY_RESTRICT halves = reinterpret_cast<const uint16_t*>(row);
  int64_t c = 0;
  for (; c + kTokenLanes <= count; c += kTokenLanes)
    hn::StoreU(hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(d16, halves + c))), d, words + c);
  for (; c < count; ++c) words[c] = uint32_t{halves[c]} << 16;
}

// Up to kSlabRows rows from `first_row` on.
template <class Form>
HWY_NOINLINE void MultiplySlab(const PanelRows& matrix, int64_t first_row, int64_t rows, const PackedTokens& tokens,
                               int batch, float* HWY_RESTRICT sums) {
  constexpr int64_t kPieceCols = kPanelSteps * Form::kCols;
  HWY_ALIGN uint32_t panel[kPanelRows * kPanelSteps];
  const int64_t bytes = datasets::element_bytes(matrix.type), cols = matrix.cols;
  const int64_t x_stride = PackedSteps((tokens.cols + Form::kCols - 1) / Form::kCols) * kTokenLanes;
  const uint32_t* HWY_RESTRICT packed =
      reinterpret_cast<const uint32_t*>(tokens.packed) + tokens.first_col / Form::kCols * kTokenLanes;
  for (int64_t first = 0; first < cols; first += kPieceCols) {
    const int64_t count = HWY_MIN(kPieceCols, cols - first), steps = (count + Form::kCols - 1) / Form::kCols;
    for (int64_t r = 0; r < rows; r += kPanelRows) {
      const std::byte* from = matrix.elements + (first_row + r) * matrix.row_bytes + first * bytes;
      const int64_t here = HWY_MIN(kPanelRows, rows - r);
      for (int64_t i = 0; i < here; ++i)
        FillRow<Form>(matrix.type, from + i * matrix.row_bytes, count, panel + i * kPanelSteps);
      if (here < kPanelRows && first == 0)
        std::memset(panel + here * kPanelSteps, 0, static_cast<size_t>((kPanelRows - here) * kPanelSteps * 4));
      Ahead ahead;
      if (matrix.streamed) {
        // The next piece of the same rows, or, after the last one, the first piece of the next slab.
        const bool last = first + kPieceCols >= cols;
        ahead = {last ? from - first * bytes + kSlabRows * matrix.row_bytes : from + kPieceCols * bytes,
                 matrix.row_bytes, kPieceCols * bytes / 64};
      }
      MultiplyPanel<Form>(panel, steps, packed + first / Form::kCols * kTokenLanes, x_stride, batch,
                          sums + r * kMaxBatch, ahead);
    }
  }
}

// Adds to sums.
void Add(PanelForm form, const PanelRows& matrix, int64_t first_row, int64_t rows, const PackedTokens& tokens,
         int batch, PanelSums& sums) {
#if ECMV_PAIR_DOTS
  if (form == PanelForm::avx512_bf16) return MultiplySlab<PairDots>(matrix, first_row, rows, tokens, batch, sums.of);
  if (form == PanelForm::amx) return MultiplySlabByTiles(matrix, first_row, rows, tokens, batch, sums.of);
#endif
  if (form == PanelForm::widened)
    MultiplySlab<Widened>(matrix, first_row, rows, tokens, batch, sums.of);
  else
    MultiplySlab<Pairs>(matrix, first_row, rows, tokens, batch, sums.of);
}

// Four steps of a token in packed form.
using D4 = hn::FixedTag<uint32_t, 4>;
using V4 = hn::Vec<D4>;
struct FloatsOfFloats {
  const float* x;
  HWY_INLINE V4 operator()(int64_t at, int64_t step) const {
    return hn::BitCast(D4(), hn::LoadU(hn::RebindToFloat<D4>(), x + at + step));
  }
};
struct FloatsOfHalves {
  const uint16_t* x;
  HWY_INLINE V4 operator()(int64_t at, int64_t step) const {
    return hn::ShiftLeft<16>(hn::PromoteTo(D4(), hn::LoadU(hn::Rebind<uint16_t, D4>(), x + at + step)));
  }
};
struct PairsOfHalves {
  const uint16_t* x;
  HWY_INLINE V4 operator()(int64_t at, int64_t step) const {
    return hn::LoadU(D4(), reinterpret_cast<const uint32_t*>(x + at) + step);
  }
};
struct PairsOfFloats {  // numbers of bf16, the upper halves
  const float* x;
  HWY_INLINE V4 operator()(int64_t at, int64_t step) const {
    const D4 d;
    const uint32_t* words = reinterpret_cast<const uint32_t*>(x + at) + 2 * step;
    const V4 a = hn::LoadU(d, words), b = hn::LoadU(d, words + 4);
    const V4 even = hn::ConcatEven(d, b, a), odd = hn::ConcatOdd(d, b, a);
    return hn::Or(hn::ShiftRight<16>(even), odd);
  }
};

// Transposes blocks of four tokens by four steps, `packed_steps` in all. Tokens past the batch and steps past the
// tokens are zeros.
template <class Load>
HWY_INLINE void Pack(const Load& load, int64_t x_stride, int batch, int64_t steps, int64_t packed_steps,
                     uint32_t* HWY_RESTRICT packed) {
  const D4 d;
  const hn::Repartition<uint64_t, D4> d64;
  const int64_t vectors = (batch + kTokenLanes - 1) / kTokenLanes;
  for (int64_t v = 0; v < vectors; ++v, packed += packed_steps * kTokenLanes)
    for (int64_t s = 0; s < packed_steps; s += 4)
      for (int64_t lane = 0; lane < kTokenLanes; lane += 4) {
        const int64_t token = v * kTokenLanes + lane;
        const auto four = [&](int64_t t)
                              HWY_ATTR { return t < batch && s < steps ? load(t * x_stride, s) : hn::Zero(d); };
        const V4 t0 = four(token), t1 = four(token + 1), t2 = four(token + 2), t3 = four(token + 3);
        const auto a = hn::BitCast(d64, hn::InterleaveLower(d, t0, t1)),
                   b = hn::BitCast(d64, hn::InterleaveLower(d, t2, t3)),
                   e = hn::BitCast(d64, hn::InterleaveUpper(d, t0, t1)),
                   f = hn::BitCast(d64, hn::InterleaveUpper(d, t2, t3));
        uint32_t* HWY_RESTRICT to = packed + s * kTokenLanes + lane;
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, a, b)), d, to);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, a, b)), d, to + kTokenLanes);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, e, f)), d, to + 2 * kTokenLanes);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, e, f)), d, to + 3 * kTokenLanes);
      }
}

void PackTokens(PanelForm form, const MatmulArgs& args, int batch, int64_t cols, std::byte* packed) {
  uint32_t* const words = reinterpret_cast<uint32_t*>(packed);
  const bool halves = args.x_bf16 != nullptr;
  const int64_t steps = form == PanelForm::widened ? cols : (cols + 1) / 2,
                packed_steps = PackedSteps(steps, form == PanelForm::amx ? kTileSteps : 4);
  const auto pack = [&](const auto& load) HWY_ATTR { Pack(load, args.x_stride, batch, steps, packed_steps, words); };
  if (form == PanelForm::widened)
    halves ? pack(FloatsOfHalves{args.x_bf16}) : pack(FloatsOfFloats{args.x});
  else
    halves ? pack(PairsOfHalves{args.x_bf16}) : pack(PairsOfFloats{args.x});
}

bool HasPairDots() { return ECMV_PAIR_DOTS != 0; }

}  // namespace ecmv::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::backends::cpu {

HWY_EXPORT(Add);
HWY_EXPORT(PackTokens);
HWY_EXPORT(HasPairDots);

std::string why_not(PanelForm form) {
  if (form != PanelForm::avx512_bf16 && form != PanelForm::amx) return {};
  if (!HWY_DYNAMIC_DISPATCH(HasPairDots)())
    return "Instructions that multiply pairs of bf16 are used with AVX3_DL, which is not the instruction set here.";
#if HWY_ARCH_X86_64
  if (__builtin_cpu_supports("avx512bf16")) return form == PanelForm::amx ? why_no_bf16_tiles() : "";
#endif
  return "This CPU lacks AVX512-BF16, the instruction that multiplies pairs of bf16.";
}

// AMX adds 16 exact products to each of two sums that begin at zero, and then adds both to the result: float32 sums in
// some order, rounded to nearest (Intel's manual, TDPBF16PS).
ProductRounding panel_rounding(PanelForm form) {
  return {.flushes_subnormals = form == PanelForm::avx512_bf16 || form == PanelForm::amx};
}

// A word for each column and token, half of them for pairs; at least one tile.
int64_t packed_bytes(int64_t cols) {
  return std::max(kTileSteps, (cols + 3) / 4 * 4) * kMaxBatch * static_cast<int64_t>(sizeof(float));
}

PanelForm fastest_pairs(datasets::ElementType type) {
  for (const PanelForm form : {PanelForm::amx, PanelForm::avx512_bf16})
    if (takes(form, type) && why_not(form).empty()) return form;
  return PanelForm::widened;
}

std::string_view choose_panels(const CompressedView& matrix, const DeviceInfo&, int) {
  const PanelForm fastest = fastest_pairs(matrix.type);
  return std::ranges::find(kPanels, fastest, &PanelPolicy::form)->name;
}

bool takes(PanelForm form, datasets::ElementType type) {
  using enum datasets::ElementType;
  if (form == PanelForm::widened || type == bf16) return true;
  return form == PanelForm::amx && datasets::element_bytes(type) == 1;
}

void pack_tokens(PanelForm form, const MatmulArgs& args, int batch, int64_t cols, std::byte* packed) {
  HWY_DYNAMIC_DISPATCH(PackTokens)(form, args, batch, cols, packed);
}

void store_sums(const PanelSums& sums, int64_t rows, int batch, float* y, int64_t y_stride) {
  for (int t = 0; t < batch; ++t)
    for (int64_t r = 0; r < rows; ++r) y[t * y_stride + r] = sums.of[r * kMaxBatch + t];
}

void add_panels(PanelForm form, const PanelRows& rows, const PackedTokens& tokens, int batch, PanelSums& sums) {
  HWY_DYNAMIC_DISPATCH(Add)(form, rows, 0, rows.rows, tokens, batch, sums);
}

void multiply_panels(PanelForm form, const PanelRows& rows, const std::byte* packed, int batch, float* y,
                     int64_t y_stride) {
  for (int64_t first = 0; first < rows.rows; first += kPanelSumRows) {
    PanelSums sums;
    const int64_t count = std::min(kPanelSumRows, rows.rows - first);
    HWY_DYNAMIC_DISPATCH(Add)(form, rows, first, count, {packed, rows.cols, 0}, batch, sums);
    store_sums(sums, count, batch, y + first, y_stride);
  }
}

namespace {

struct Panels {
  PanelRows matrix;
  PanelForm form;
  int batch;
  void operator()(void*, const MatmulArgs& args) const {
    PanelRows part = matrix;
    part.elements += args.rows.begin * matrix.row_bytes;
    part.rows = args.rows.count();
    pack_tokens(form, args, batch, matrix.cols, args.scratch);
    multiply_panels(form, part, args.scratch, batch, args.y + args.rows.begin, args.y_stride);
  }
};

}  // namespace

BoundKernel bind_panels(const Policy& policy, const PanelRows& rows, int batch) {
  const PanelForm form = policy.as<PanelPolicy>().form;
  return {Panels{rows, form, batch},
          {.rows_per_block = 8, .scratch_bytes = packed_bytes(rows.cols), .rounding = panel_rounding(form)}};
}

}  // namespace ecmv::backends::cpu
#endif  // HWY_ONCE

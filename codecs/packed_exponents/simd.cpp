// SIMD kernels of packed_exponents, for every instruction set: vectors of 16-bit words walk along the lines of a group,
// and three loads, five shifts and ten other operations make as many elements of each of the four strips. Up to two
// tokens are multiplied while the elements are in registers. For more, tiles go through the first-level cache to AMX
// (tiles.inc), or pieces of 16 rows to panels. What records say is added at the end.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "backends/cpu/products/panel_product.h"
#include "backends/kernel.h"
#include "codecs/packed_exponents/stored.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/packed_exponents/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/tile_product-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::packed_exponents::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D16 = hn::ScalableTag<uint16_t>;
using D32 = hn::Repartition<uint32_t, D16>;
using DF = hn::Repartition<float, D16>;
using Words = hn::Vec<D16>;
using Floats = hn::Vec<DF>;
static_assert(HWY_MAX_BYTES <= kLineBytes, "A vector must not be longer than a line.");

// The elements of a vector of columns in each strip of a group, or in the first two where line 2 is missing.
template <bool kWhole>
struct Strips {
  static constexpr int kCount = kWhole ? kStrips : kStrips / 2;
  Words of[kCount];

  HWY_INLINE Strips(const std::byte* at, Words lowest) {
    const D16 d;
    const auto line = [&](int64_t number) HWY_ATTR {
      return hn::LoadU(d, reinterpret_cast<const uint16_t*>(at + number * kLineBytes));
    };
    const auto join = [&](Words codes, Words bytes)
                          HWY_ATTR { return hn::Add(hn::Or(hn::And(codes, hn::Set(d, 0x8700)), bytes), lowest); };
    const auto lower = [&](Words bytes) HWY_ATTR { return hn::And(bytes, hn::Set(d, 0x00ff)); };
    const Words codes = line(0), first = line(1);
    of[0] = join(codes, lower(first));
    of[1] = join(hn::ShiftLeft<4>(codes), hn::ShiftRight<8>(first));
    if constexpr (kWhole) {
      const Words second = line(2);
      of[2] = join(hn::ShiftLeft<8>(codes), lower(second));
      of[3] = join(hn::BitCast(d, hn::RotateRight<4>(hn::BitCast(D32(), codes))), hn::ShiftRight<8>(second));
    }
  }
};

// Calls use(kWhole, first column) for each group of columns [begin, end); `begin` is the first of a group.
template <class Use>
HWY_INLINE void EachGroup(int64_t cols, int64_t begin, int64_t end, const Use& use) {
  for (; begin < end; begin += kGroupCols)
    if (group_bytes(cols, begin) == kGroupBytes)
      use(std::true_type(), begin);
    else
      use(std::false_type(), begin);
}

// Bytes that prefetches run ahead in the fields, into the first-level cache: 1.20 of the speed of uncompressed weights
// with 16 tokens, and 1.03 with 8 KiB into the second (NOTES.md).
inline constexpr int64_t kAhead = 1536;
HWY_INLINE void Prefetch(const std::byte* at) {
  for (int64_t line = 0; line < kLines; ++line) __builtin_prefetch(at + kAhead + line * kLineBytes, 0, 3);
}

// Columns of tokens: halves of groups, with zeros past the last column.
HWY_INLINE int64_t PaddedCols(int64_t cols) {
  constexpr int64_t kHalf = kGroupCols / 2;
  return (cols + kHalf - 1) / kHalf * kHalf;
}

// Tokens as even columns, then odd ones, in float32, which multiply the halves of words.
struct Widened {
  struct X {
    Floats even, odd;
  };
  static int64_t words(int64_t cols) { return PaddedCols(cols); }
  static void Prepare(const backends::MatmulArgs& args, int batch, int64_t cols, float* out) {
    for (int t = 0; t < batch; ++t, out += words(cols))
      for (int64_t c = 0; c < words(cols); ++c) {
        const int64_t at = t * args.x_stride + c;
        out[c % 2 * (words(cols) / 2) + c / 2] = c >= cols                ? 0.0f
                                                 : args.x_bf16 == nullptr ? args.x[at]
                                                                          : number_of(args.x_bf16[at]);
      }
  }
  static HWY_INLINE X Load(const float* token, int64_t cols, int64_t col) {
    return {hn::LoadU(DF(), token + col / 2), hn::LoadU(DF(), token + (words(cols) + col) / 2)};
  }
  static HWY_INLINE Floats MulAdd(Words w, const X& x, Floats sum) {
    const DF df;
    const auto both = hn::BitCast(D32(), w);
    sum = hn::MulAdd(hn::BitCast(df, hn::ShiftLeft<16>(both)), x.even, sum);
    return hn::MulAdd(hn::BitCast(df, hn::And(both, hn::Set(D32(), 0xFFFF0000u))), x.odd, sum);
  }
};

#if HWY_TARGET == HWY_AVX3_DL && HWY_ARCH_X86_64
// AVX512-BF16, which no instruction set of Highway that is compiled here includes.
struct PairDots {
  using X = Words;
  static int64_t words(int64_t cols) { return PaddedCols(cols) / 2; }
  static void Prepare(const backends::MatmulArgs& args, int batch, int64_t cols, float* out) {
    std::fill_n(out, batch * words(cols), 0.0f);
    for (int t = 0; t < batch; ++t)
      std::memcpy(out + t * words(cols), args.x_bf16 + t * args.x_stride, static_cast<size_t>(2 * cols));
  }
  static HWY_INLINE X Load(const float* token, int64_t, int64_t col) {
    return hn::LoadU(D16(), reinterpret_cast<const uint16_t*>(token) + col);
  }
  static HWY_INLINE Floats MulAdd(Words w, X x, Floats sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(x.raw));
    return sum;
  }
};
#else
using PairDots = Widened;  // never bound
#endif

// One or two tokens. A group's columns of the tokens stay in registers while the block's rows pass.
template <class Form, int kTokens>
HWY_NOINLINE void MultiplyFew(const Stored& stored, const float* tokens, const backends::MatmulArgs& args) {
  const DF df;
  const int64_t cols = stored.cols, lanes = static_cast<int64_t>(hn::Lanes(D16())), floats = lanes / 2;
  const Words lowest = hn::Set(D16(), static_cast<uint16_t>(stored.lowest << 7));
  for (int64_t row = args.rows.begin; row < args.rows.end; row += kRowsPerBlock) {
    const int64_t rows = std::min(kRowsPerBlock, args.rows.end - row);
    HWY_ALIGN float sums[kRowsPerBlock * kTokens * hn::MaxLanes(DF())] = {};
    EachGroup(cols, 0, cols, [&](auto whole, int64_t col) HWY_ATTR {
      using Group = Strips<decltype(whole)::value>;
      for (int64_t w = 0; w < kStripCols; w += lanes) {
        typename Form::X x[kTokens][Group::kCount];
        for (int t = 0; t < kTokens; ++t)
          for (int s = 0; s < Group::kCount; ++s)
            x[t][s] = Form::Load(tokens + t * Form::words(cols), cols, col + s * kStripCols + w);
        const std::byte* at = stored.group(row, col) + 2 * w;
        float* HWY_RESTRICT sum = sums;
        for (int64_t r = 0; r < rows; ++r, at += Group::kCount == kStrips ? kGroupBytes : 2 * kLineBytes) {
          if (w == 0) Prefetch(at);
          const Group group(at, lowest);
          for (int t = 0; t < kTokens; ++t, sum += floats) {
            Floats now = hn::Load(df, sum);
            for (int s = 0; s < Group::kCount; ++s) now = Form::MulAdd(group.of[s], x[t][s], now);
            hn::Store(now, df, sum);
          }
        }
      }
    });
    for (int64_t r = 0; r < rows; ++r)
      for (int t = 0; t < kTokens; ++t)
        args.y[t * args.y_stride + row + r] = hn::ReduceSum(df, hn::Load(df, sums + (r * kTokens + t) * floats));
  }
}

// Decodes columns [begin, end) of a block's rows, `begin` the first of a group, to rows of `stride` words, which have
// room for whole groups.
HWY_NOINLINE void DecodePiece(const Stored& stored, backends::Rows rows, int64_t begin, int64_t end,
                              uint16_t* HWY_RESTRICT out, int64_t stride) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D16()));
  const Words lowest = hn::Set(D16(), static_cast<uint16_t>(stored.lowest << 7));
  EachGroup(stored.cols, begin, end, [&](auto whole, int64_t col) HWY_ATTR {
    using Group = Strips<decltype(whole)::value>;
    const std::byte* at = stored.group(rows.begin, col);
    uint16_t* to = out + (col - begin);
    for (int64_t r = 0; r < rows.count();
         ++r, to += stride, at += Group::kCount == kStrips ? kGroupBytes : 2 * kLineBytes) {
      Prefetch(at);
      for (int64_t w = 0; w < kStripCols; w += lanes) {
        const Group group(at + 2 * w, lowest);
        for (int s = 0; s < Group::kCount; ++s) hn::StoreU(group.of[s], D16(), to + s * kStripCols + w);
      }
    }
  });
}

struct DecodeRows {
  Stored stored;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const int64_t cols = stored.cols, whole = cols / kGroupCols * kGroupCols;
    for (int64_t row = args.rows.begin; row < args.rows.end; row += kRowsPerBlock) {
      const backends::Rows rows{row, std::min(row + kRowsPerBlock, args.rows.end)};
      uint16_t* out = reinterpret_cast<uint16_t*>(args.out) + (row - args.rows.begin) * cols;
      DecodePiece(stored, rows, 0, whole, out, cols);
      if (whole == cols) continue;
      HWY_ALIGN uint16_t last[kRowsPerBlock * kGroupCols];
      DecodePiece(stored, rows, whole, cols, last, kGroupCols);
      for (int64_t r = 0; r < rows.count(); ++r)
        std::memcpy(out + r * cols + whole, last + r * kGroupCols, static_cast<size_t>(2 * (cols - whole)));
    }
    stored.each_record(args.rows, [&](int64_t row, int64_t col, uint16_t element, uint16_t) {
      std::memcpy(args.out + 2 * ((row - args.rows.begin) * cols + col), &element, 2);
    });
  }
};

#if HWY_TARGET == HWY_AVX3_DL && HWY_ARCH_X86_64
#include "codecs/packed_exponents/tiles.inc"
#endif

using backends::cpu::PanelForm;

// The scratch holds tokens: packed for panels, or one or two in the form that multiplies elements in registers.
struct Multiply {
  static constexpr int64_t kPieceCols = 2 * kGroupCols;
  Stored stored;
  PanelForm form;
  int batch;

  int64_t scratch_bytes() const {
    return std::max(backends::cpu::packed_bytes(stored.cols), 2 * 4 * PaddedCols(stored.cols));
  }
  void operator()(void*, const backends::MatmulArgs& args) const {
    const bool dots = form == PanelForm::avx512_bf16;
    if (batch > backends::cpu::kFewTokens || form == PanelForm::amx)
      Many(args);
    else if (batch == 2)
      dots ? Few<PairDots, 2>(args) : Few<Widened, 2>(args);
    else
      dots ? Few<PairDots, 1>(args) : Few<Widened, 1>(args);
    AddRecords(args);
  }

 private:
  template <class Form, int kTokens>
  void Few(const backends::MatmulArgs& args) const {
    float* const tokens = reinterpret_cast<float*>(args.scratch);
    Form::Prepare(args, kTokens, stored.cols, tokens);
    MultiplyFew<Form, kTokens>(stored, tokens, args);
  }
  void Many(const backends::MatmulArgs& args) const {
    backends::cpu::pack_tokens(form, args, batch, stored.cols, args.scratch);
#if HWY_TARGET == HWY_AVX3_DL && HWY_ARCH_X86_64
    if (form == PanelForm::amx) return MultiplyByTiles(stored, batch, args);
#endif
    HWY_ALIGN uint16_t piece[kRowsPerBlock * kPieceCols];
    for (int64_t row = args.rows.begin; row < args.rows.end; row += kRowsPerBlock) {
      const backends::Rows rows{row, std::min(row + kRowsPerBlock, args.rows.end)};
      backends::cpu::PanelSums sums;
      for (int64_t first = 0; first < stored.cols; first += kPieceCols) {
        const int64_t end = std::min(first + kPieceCols, stored.cols);
        DecodePiece(stored, rows, first, end, piece, kPieceCols);
        backends::cpu::add_panels(form,
                                  {datasets::ElementType::bf16, reinterpret_cast<const std::byte*>(piece),
                                   2 * kPieceCols, rows.count(), end - first},
                                  {args.scratch, stored.cols, first}, batch, sums);
      }
      backends::cpu::store_sums(sums, rows.count(), batch, args.y + row, args.y_stride);
    }
  }
  // Multiplies what clamping changed, apart from what was multiplied instead.
  void AddRecords(const backends::MatmulArgs& args) const {
    const float least = backends::cpu::panel_rounding(form).flushes_subnormals ? 0x1p-126f : 0;
    const auto taken = [&](float number) { return std::fabs(number) < least ? 0 : number; };
    stored.each_record(args.rows, [&](int64_t row, int64_t col, uint16_t element, uint16_t stand_in) {
      for (int t = 0; t < batch; ++t) {
        const int64_t at = t * args.x_stride + col;
        const float x = args.x_bf16 == nullptr ? args.x[at] : number_of(args.x_bf16[at]);
        args.y[t * args.y_stride + row] += left_over(taken(number_of(element)), number_of(stand_in), taken(x));
      }
    });
  }
};

backends::BoundKernel BindDecode(const CompressedView& matrix) {
  return {DecodeRows{stored_of(matrix)}, {.rows_per_block = kRowsPerBlock}};
}
backends::BoundKernel BindMatmul(const CompressedView& matrix, PanelForm form, int batch) {
  const Multiply body{stored_of(matrix), form, batch};
  return {body,
          {.rows_per_block = kRowsPerBlock,
           .scratch_bytes = body.scratch_bytes(),
           .rounding = with_records(backends::cpu::panel_rounding(form), matrix)}};
}

}  // namespace ecmv::codecs::packed_exponents::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::packed_exponents {
namespace {

HWY_EXPORT(BindDecode);
HWY_EXPORT(BindMatmul);

using backends::Layers, backends::Place, backends::Policy;

backends::cpu::PanelForm form_of(const Policy& policy) { return policy.as<backends::cpu::PanelPolicy>().form; }
backends::BoundKernel bind_decode(const Policy&, Layers layers, int, Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(*layers[0].matrix);
}
backends::BoundKernel bind_matmul(const Policy& policy, Layers layers, int batch, Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatmul)(*layers[0].matrix, form_of(policy), batch);
}
std::string refuses_matmul(const CompressedView&, const backends::DeviceInfo&, const Policy& policy) {
  return backends::cpu::why_not(form_of(policy));
}

using backends::Activations, backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "lines", .bind = bind_decode},
    {.op = Op::matmul,
     .variant = "lines",
     .policies = backends::cpu::kFloatPanels,
     .refuses = refuses_matmul,
     .bind = bind_matmul},
    {.op = Op::matmul,
     .variant = "lines",
     .policies = backends::cpu::kPanels,
     .activations = Activations::bf16,
     .refuses = refuses_matmul,
     .bind = bind_matmul,
     .choose = backends::cpu::choose_panels},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_exponents
#endif  // HWY_ONCE

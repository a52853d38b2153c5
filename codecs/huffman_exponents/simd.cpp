// SIMD kernels of huffman_exponents: vectors join the elements, the walks stay scalar and are compiled here for each
// instruction set.
#include "backends/cpu/products/panel_product.h"
#include "codecs/compressed_matrix.h"
#include "codecs/huffman_exponents/container_walk.h"
#include "codecs/huffman_exponents/segments_walk.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/huffman_exponents/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::huffman_exponents::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Container: a raw byte doubled into both halves of a word has the sign in bit 15 and the mantissa in bits 6..0.
void JoinBf16(const uint8_t* exponents, const uint8_t* raw, int64_t from, int64_t count, int8_t* out, int64_t at) {
  const hn::ScalableTag<uint16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  uint16_t* const elements = reinterpret_cast<uint16_t*>(out) + at;
  raw += from;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::PromoteTo(d, hn::LoadU(bytes, raw + i)),
               exponent = hn::PromoteTo(d, hn::LoadU(bytes, exponents + i));
    const auto rest = hn::And(hn::Or(bits, hn::ShiftLeft<8>(bits)), hn::Set(d, 0x807f));
    hn::StoreU(hn::Or(rest, hn::ShiftLeft<kBf16MantissaBits>(exponent)), d, elements + i);
  }
  for (; i < count; ++i)
    elements[i] =
        static_cast<uint16_t>((raw[i] & 0x80u) << 8 | uint32_t{exponents[i]} << kBf16MantissaBits | (raw[i] & 0x7fu));
}

// Two f8 a lane: the raw byte's upper half belongs to the first.
void JoinF8(const uint8_t* exponents, const uint8_t* raw, int64_t from, int64_t count, int8_t* out, int64_t at) {
  const hn::ScalableTag<uint16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::Repartition<uint8_t, decltype(d)> d8;
  const int64_t elements = 2 * static_cast<int64_t>(hn::Lanes(d));
  int64_t i = std::min(count, from % 2);
  if (i > 0) container::join_f8(exponents, raw, from, i, out, at);
  for (; i + elements <= count; i += elements) {
    const auto both = hn::PromoteTo(d, hn::LoadU(bytes, raw + (from + i) / 2));
    const auto bits = hn::And(hn::Or(hn::ShiftRight<4>(both), hn::ShiftLeft<8>(both)), hn::Set(d, 0x0f0f));
    const auto exponent = hn::ShiftLeft<kF8MantissaBits>(
        hn::BitCast(d, hn::LoadU(d8, exponents + i)));  // below 16: no bit leaves its byte
    const auto joined = hn::Or(
        hn::Or(hn::ShiftLeft<4>(hn::And(bits, hn::Set(d, 0x0808))), hn::And(bits, hn::Set(d, 0x0707))), exponent);
    hn::StoreU(hn::BitCast(d8, joined), d8, reinterpret_cast<uint8_t*>(out) + at + i);
  }
  container::join_f8(exponents + i, raw, from + i, count - i, out, at + i);
}

// Segments: in the word of four columns, column k has its sign in byte 3 - k and its mantissa in byte 2 - k, or in byte
// 3 for the last column.
void JoinUnit(const uint8_t* exponents, const uint8_t* raw, int64_t count, int8_t* out) {
  if (count < segments::unit_cols(true)) return segments::join_unit(exponents, raw, count, out);
  const hn::FixedTag<uint8_t, 16> d8;
  const hn::FixedTag<uint16_t, 8> d16;
  alignas(16) static constexpr uint8_t kSigns[16] = {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12};
  alignas(16) static constexpr uint8_t kMantissas[16] = {2, 1, 0, 3, 6, 5, 4, 7, 10, 9, 8, 11, 14, 13, 12, 15};
  const auto words = hn::LoadU(d8, raw), exponent = hn::LoadU(d8, exponents);
  const auto sign = hn::And(hn::TableLookupBytes(words, hn::Load(d8, kSigns)), hn::Set(d8, 0x80));
  const auto mantissa = hn::And(hn::TableLookupBytes(words, hn::Load(d8, kMantissas)), hn::Set(d8, 0x7f));
  // The exponent's lowest bit goes above the mantissa, its other bits below the sign.
  const auto low = hn::Or(mantissa, hn::ShiftLeft<7>(exponent)), high = hn::Or(sign, hn::ShiftRight<1>(exponent));
  hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(d8, low, high)), d16, reinterpret_cast<uint16_t*>(out));
  hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(d8, low, high)), d16, reinterpret_cast<uint16_t*>(out) + 8);
}

// Segments, f8: turned by 4 k bits, the word of eight columns has the signs of columns 2 k and 2 k + 1 in bits 15 and
// 31 and their mantissas in bits 6..4 and 22..20. Each lane turns the word for its two columns.
void JoinUnitF8(const uint8_t* exponents, const uint8_t* raw, int64_t count, int8_t* out) {
  if (count < segments::unit_cols(false)) return segments::join_unit_f8(exponents, raw, count, out);
  const hn::FixedTag<uint32_t, 4> d32;
  const hn::FixedTag<uint16_t, 8> d16;
  const hn::FixedTag<uint8_t, 16> d8;
  alignas(16) static constexpr uint32_t kLeft[4] = {0, 4, 8, 12}, kRight[4] = {31, 27, 23, 19};
  for (int64_t i = 0; i < segments::unit_cols(false); i += 16) {
    const auto turned = [&](int64_t from) {
      const auto word = hn::Set(d32, load_u32(raw + from / 2));
      // Turns by 32 - kLeft in two steps, the first of one bit.
      return hn::BitCast(
          d16, hn::Or(hn::Shl(word, hn::Load(d32, kLeft)), hn::Shr(hn::ShiftRight<1>(word), hn::Load(d32, kRight))));
    };
    const auto bits_of = [&](auto half) {
      return hn::Or(hn::And(hn::ShiftRight<8>(half), hn::Set(d16, 0x80)),
                    hn::And(hn::ShiftRight<4>(half), hn::Set(d16, 7)));
    };
    const auto bits = hn::OrderedTruncate2To(d8, bits_of(turned(i)), bits_of(turned(i + 8)));
    const auto exponent = hn::And(hn::ShiftLeft<kF8MantissaBits>(hn::LoadU(d8, exponents + i)), hn::Set(d8, 0x78));
    hn::StoreU(hn::Or(bits, exponent), d8, reinterpret_cast<uint8_t*>(out) + i);
  }
}

using backends::DecodeArgs;

void DecodeContainerBf16(const container::Stored& stored, const DecodeArgs& args) {
  container::run_decode(stored, args, JoinBf16);
}
void DecodeContainerF8(const container::Stored& stored, const DecodeArgs& args) {
  container::run_decode(stored, args, JoinF8);
}
void DecodeSegmentsBf16(const segments::Stored& stored, const DecodeArgs& args) {
  segments::run_decode<true>(stored, args, JoinUnit);
}
void DecodeSegmentsF8(const segments::Stored& stored, const DecodeArgs& args) {
  segments::run_decode<false>(stored, args, JoinUnitF8);
}

backends::BoundKernel BindContainer(const CompressedView& matrix) {
  return container::bind_decode(matrix, DecodeContainerBf16, DecodeContainerF8);
}
backends::BoundKernel BindSegments(const CompressedView& matrix) {
  return segments::bind_decode(matrix, DecodeSegmentsBf16, DecodeSegmentsF8);
}

// Products of bf16 decode 32 rows at a time into a near cache and multiply them there. The tables are made once a call.
// The scratch holds tables and buffers, decoded rows and packed tokens.
using backends::cpu::kPanelSumRows;
static_assert(kPanelSumRows % segments::kGroupRows == 0);
template <class Stored, class BuildTables, class DecodeRows>
HWY_INLINE void MultiplyRows(const Stored& stored, backends::cpu::PanelForm form, int64_t table_bytes,
                             const backends::MatmulArgs& args, int batch, const BuildTables& build,
                             const DecodeRows& decode) {
  if (args.rows.count() <= 0) return;
  const int64_t cols = stored.cols, tile_offset = (table_bytes + 63) / 64 * 64,
                packed_offset = tile_offset + (2 * kPanelSumRows * cols + 63) / 64 * 64;
  const auto tables = build(stored, args.scratch);
  std::byte* const tile = args.scratch + tile_offset;
  std::byte* const packed = args.scratch + packed_offset;
  backends::cpu::pack_tokens(form, args, batch, cols, packed);
  for (int64_t row = args.rows.begin; row < args.rows.end; row += kPanelSumRows) {
    const backends::Rows rows{row, std::min<int64_t>(row + kPanelSumRows, args.rows.end)};
    decode(stored, tables, rows, tile);
    backends::cpu::multiply_panels(form, {datasets::ElementType::bf16, tile, 2 * cols, rows.count(), cols}, packed,
                                   batch, args.y + row, args.y_stride);
  }
}

template <class Stored>
using MultiplyFunction = void (*)(const Stored&, backends::cpu::PanelForm, const backends::MatmulArgs&, int batch);

void DecodeContainerRows(const container::Stored& stored, const container::Tables& tables, backends::Rows rows,
                         std::byte* to) {
  container::decode_rows(stored, tables, rows, to, JoinBf16);
}
void MultiplyContainer(const container::Stored& stored, backends::cpu::PanelForm form, const backends::MatmulArgs& args,
                       int batch) {
  MultiplyRows(stored, form, container::kScratchBytes, args, batch, container::build_tables, DecodeContainerRows);
}
void DecodeSegmentsRows(const segments::Stored& stored, const segments::Tables& tables, backends::Rows rows,
                        std::byte* to) {
  segments::decode_rows<true>(stored, tables, rows, to, JoinUnit);
}
void MultiplySegments(const segments::Stored& stored, backends::cpu::PanelForm form, const backends::MatmulArgs& args,
                      int batch) {
  MultiplyRows(stored, form, stored.scratch_bytes(), args, batch, segments::build_tables, DecodeSegmentsRows);
}

template <class Stored>
struct Multiply {
  Stored stored;
  backends::cpu::PanelForm form;
  MultiplyFunction<Stored> multiply;
  int batch;
  void operator()(void*, const backends::MatmulArgs& args) const { multiply(stored, form, args, batch); }
};

template <class Stored>
backends::BoundKernel BindProduct(const Stored& stored, int64_t table_bytes, backends::cpu::PanelForm form,
                                  MultiplyFunction<Stored> multiply, int batch) {
  return {
      Multiply<Stored>{stored, form, multiply, batch},
      {.rows_per_block = kPanelSumRows,
       .scratch_bytes = table_bytes + 2 * kPanelSumRows * stored.cols + 128 + backends::cpu::packed_bytes(stored.cols),
       .rounding = backends::cpu::panel_rounding(form)}};
}
backends::BoundKernel BindContainerProduct(backends::cpu::PanelForm form, const CompressedView& matrix, int batch) {
  return BindProduct(container::Stored(matrix), container::kScratchBytes, form, MultiplyContainer, batch);
}
backends::BoundKernel BindSegmentsProduct(backends::cpu::PanelForm form, const CompressedView& matrix, int batch) {
  const segments::Stored stored(matrix);
  return BindProduct(stored, stored.scratch_bytes(), form, MultiplySegments, batch);
}

}  // namespace ecmv::codecs::huffman_exponents::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::huffman_exponents {
namespace {

HWY_EXPORT(BindContainer);
HWY_EXPORT(BindSegments);
HWY_EXPORT(BindContainerProduct);
HWY_EXPORT(BindSegmentsProduct);

using backends::Layers, backends::Place, backends::Policy;

backends::BoundKernel bind_container(const Policy&, Layers layers, int, Place&) {
  return HWY_DYNAMIC_DISPATCH(BindContainer)(*layers[0].matrix);
}
backends::BoundKernel bind_segments(const Policy&, Layers layers, int, Place&) {
  return HWY_DYNAMIC_DISPATCH(BindSegments)(*layers[0].matrix);
}

backends::cpu::PanelForm form_of(const Policy& policy) { return policy.as<backends::cpu::PanelPolicy>().form; }
backends::BoundKernel bind_container_product(const Policy& policy, Layers layers, int batch, Place&) {
  return HWY_DYNAMIC_DISPATCH(BindContainerProduct)(form_of(policy), *layers[0].matrix, batch);
}
backends::BoundKernel bind_segments_product(const Policy& policy, Layers layers, int batch, Place&) {
  return HWY_DYNAMIC_DISPATCH(BindSegmentsProduct)(form_of(policy), *layers[0].matrix, batch);
}
template <auto kRefusesLayout>
std::string refuses_product(const CompressedView& matrix, const backends::DeviceInfo& device, const Policy& policy) {
  if (!is_bf16(matrix.type)) return "The kernel multiplies elements of bf16.";
  const std::string reason = kRefusesLayout(matrix, device, policy);
  return reason.empty() ? backends::cpu::why_not(form_of(policy)) : reason;
}

// A product for each layout and each kind of tokens.
constexpr backends::Kernel container_product(backends::Policies policies, backends::Activations activations) {
  return {.op = backends::Op::matmul,
          .variant = "runs",
          .policies = policies,
          .activations = activations,
          .refuses = refuses_product<container::refuses_layout>,
          .bind = bind_container_product};
}
constexpr backends::Kernel segments_product(backends::Policies policies, backends::Activations activations) {
  return {.op = backends::Op::matmul,
          .variant = "segments",
          .policies = policies,
          .activations = activations,
          .refuses = refuses_product<segments::refuses_layout>,
          .bind = bind_segments_product};
}

using backends::Activations, backends::cpu::kFloatPanels, backends::cpu::kPanels;
using backends::Op;
constexpr backends::Kernel kKernels[] = {
    container_product(kFloatPanels, Activations::f32),
    container_product(kPanels, Activations::bf16),
    segments_product(kFloatPanels, Activations::f32),
    segments_product(kPanels, Activations::bf16),
    {.op = Op::decode, .variant = "runs", .refuses = container::refuses_layout, .bind = bind_container},
    {.op = Op::decode, .variant = "segments", .refuses = segments::refuses_layout, .bind = bind_segments},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_exponents
#endif  // HWY_ONCE

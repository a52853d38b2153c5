// SIMD kernels of huffman_exponents: vectors join the elements, the walk stays scalar and is compiled here for each
// instruction set.
#include "backends/cpu/products/panel_product.h"
#include "codecs/compressed_matrix.h"
#include "codecs/huffman_exponents/container_walk.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/huffman_exponents/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::huffman_exponents::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A raw byte doubled into both halves of a word has the sign in bit 15 and the mantissa in bits 6..0.
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
  if (i > 0) join_f8(exponents, raw, from, i, out, at);
  for (; i + elements <= count; i += elements) {
    const auto both = hn::PromoteTo(d, hn::LoadU(bytes, raw + (from + i) / 2));
    const auto bits = hn::And(hn::Or(hn::ShiftRight<4>(both), hn::ShiftLeft<8>(both)), hn::Set(d, 0x0f0f));
    const auto exponent = hn::ShiftLeft<kF8MantissaBits>(
        hn::BitCast(d, hn::LoadU(d8, exponents + i)));  // below 16: no bit leaves its byte
    const auto joined = hn::Or(
        hn::Or(hn::ShiftLeft<4>(hn::And(bits, hn::Set(d, 0x0808))), hn::And(bits, hn::Set(d, 0x0707))), exponent);
    hn::StoreU(hn::BitCast(d8, joined), d8, reinterpret_cast<uint8_t*>(out) + at + i);
  }
  join_f8(exponents + i, raw, from + i, count - i, out, at + i);
}

void DecodeBf16(const Stored& stored, const backends::DecodeArgs& args) { run_decode(stored, args, JoinBf16); }
void DecodeF8(const Stored& stored, const backends::DecodeArgs& args) { run_decode(stored, args, JoinF8); }

backends::BoundKernel BindDecode(const CompressedView& matrix) { return bind_decode(matrix, DecodeBf16, DecodeF8); }

// Products of bf16 decode 32 rows at a time into a near cache and multiply them there. The tables are made once a call.
// The scratch holds tables and buffers, decoded rows and packed tokens.
using backends::cpu::kPanelSumRows;
void MultiplyRows(const Stored& stored, backends::cpu::PanelForm form, const backends::MatmulArgs& args, int batch) {
  if (args.rows.count() <= 0) return;
  const int64_t cols = stored.cols, tile_offset = (kScratchBytes + 63) / 64 * 64,
                packed_offset = tile_offset + (2 * kPanelSumRows * cols + 63) / 64 * 64;
  const Tables tables = build_tables(stored, args.scratch);
  std::byte* const tile = args.scratch + tile_offset;
  std::byte* const packed = args.scratch + packed_offset;
  backends::cpu::pack_tokens(form, args, batch, cols, packed);
  for (int64_t row = args.rows.begin; row < args.rows.end; row += kPanelSumRows) {
    const backends::Rows rows{row, std::min<int64_t>(row + kPanelSumRows, args.rows.end)};
    decode_rows(stored, tables, rows, tile, JoinBf16);
    backends::cpu::multiply_panels(form, {datasets::ElementType::bf16, tile, 2 * cols, rows.count(), cols}, packed,
                                   batch, args.y + row, args.y_stride);
  }
}

struct Multiply {
  Stored stored;
  backends::cpu::PanelForm form;
  decltype(&MultiplyRows) multiply;  // of the instruction set that was in use when it was bound
  int batch;
  void operator()(void*, const backends::MatmulArgs& args) const { multiply(stored, form, args, batch); }
};

backends::BoundKernel BindProduct(backends::cpu::PanelForm form, const CompressedView& matrix, int batch) {
  const Stored stored(matrix);
  return {Multiply{stored, form, MultiplyRows, batch},
          {.rows_per_block = kPanelSumRows,
           .scratch_bytes =
               kScratchBytes + 2 * kPanelSumRows * stored.cols + 128 + backends::cpu::packed_bytes(stored.cols),
           .rounding = backends::cpu::panel_rounding(form)}};
}

}  // namespace ecmv::codecs::huffman_exponents::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::huffman_exponents {
namespace {

HWY_EXPORT(BindDecode);
HWY_EXPORT(BindProduct);

using backends::Layers, backends::Place, backends::Policy;

backends::BoundKernel bind(const Policy&, Layers layers, int, Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(*layers[0].matrix);
}

backends::cpu::PanelForm form_of(const Policy& policy) { return policy.as<backends::cpu::PanelPolicy>().form; }
backends::BoundKernel bind_product(const Policy& policy, Layers layers, int batch, Place&) {
  return HWY_DYNAMIC_DISPATCH(BindProduct)(form_of(policy), *layers[0].matrix, batch);
}
std::string refuses_product(const CompressedView& matrix, const backends::DeviceInfo& device, const Policy& policy) {
  if (!is_bf16(matrix.type)) return "The kernel multiplies elements of bf16.";
  const std::string reason = refuses_big_endian(matrix, device, policy);
  return reason.empty() ? backends::cpu::why_not(form_of(policy)) : reason;
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::matmul,
     .variant = "runs",
     .policies = backends::cpu::kFloatPanels,
     .refuses = refuses_product,
     .bind = bind_product},
    {.op = backends::Op::matmul,
     .variant = "runs",
     .policies = backends::cpu::kPanels,
     .activations = backends::Activations::bf16,
     .refuses = refuses_product,
     .bind = bind_product,
     .choose = backends::cpu::choose_panels},
    {.op = backends::Op::decode, .variant = "runs", .refuses = refuses_big_endian, .bind = bind},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_exponents
#endif  // HWY_ONCE

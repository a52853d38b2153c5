// SIMD kernels of rans for 16-bit words. Two engines that read the same bytes: bucket_registers (AVX-512, no table in memory)
// and slot_table (everywhere). Both decode several blocks at once, see blocks-inl.h.
#include <string>

#include "backends/kernel.h"
#include "codecs/rans/format.h"
#include "codecs/rans/model.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/rans/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "codecs/rans/blocks-inl.h"
#include "codecs/rans/bucket_registers-inl.h"
#include "codecs/rans/slot_table_simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::rans::HWY_NAMESPACE {

std::string RefusesRegisters(const Layout& layout, int symbols) { return RefusesBucketRegisters(layout, symbols); }

std::string RefusesTable(const Layout& layout, int) { return RefusesSlotTableSimd(layout); }

void Registers(const backends::KernelCall& call, const Layout& layout, const Model& model) {
  if (!RunTrivial(call, layout, model)) RunBucketRegisters(call, layout, model);
}

void Table(const backends::KernelCall& call, const Layout& layout, const Model& model) {
  if (!RunTrivial(call, layout, model)) RunSlotTableSimd(call, layout, model);
}

int64_t ScratchBytes() { return kPiecesBytes + kSlotTableBytes; }

}  // namespace ecmv::codecs::rans::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::rans {
namespace {

HWY_EXPORT(RefusesRegisters);
HWY_EXPORT(RefusesTable);
HWY_EXPORT(Registers);
HWY_EXPORT(Table);
HWY_EXPORT(ScratchBytes);

std::string refuses_form(const Layout& layout) {
  if (layout.state == "w16s32") return "";
  return "rans has SIMD kernels for 16-bit words and 32-bit states (w16s32), not for " + std::string(layout.state) + ".";
}

std::string refuses_registers(const CompressedView& compressed, const backends::DeviceInfo&, int) {
  const Layout layout = layout_of(compressed.shape, *compressed.settings);
  const std::string form = refuses_form(layout);
  const int symbols = static_cast<int>(compressed.sections[kAlphabet].bytes.size() / 3);
  return form.empty() ? HWY_DYNAMIC_DISPATCH(RefusesRegisters)(layout, symbols) : form;
}

std::string refuses_table(const CompressedView& compressed, const backends::DeviceInfo&, int) {
  const Layout layout = layout_of(compressed.shape, *compressed.settings);
  const std::string form = refuses_form(layout);
  return form.empty() ? HWY_DYNAMIC_DISPATCH(RefusesTable)(layout, 0) : form;
}

Model model_of(const backends::KernelCall& call, const Layout& layout) {
  return layout.blocks == 0 ? Model{} : trusted_model(call.matrix->sections[kAlphabet].bytes, layout.prob_bits);
}

void run_registers(const backends::KernelCall& call) {
  const Layout layout = layout_of(call.matrix->shape, *call.matrix->settings);
  HWY_DYNAMIC_DISPATCH(Registers)(call, layout, model_of(call, layout));
}

void run_table(const backends::KernelCall& call) {
  const Layout layout = layout_of(call.matrix->shape, *call.matrix->settings);
  HWY_DYNAMIC_DISPATCH(Table)(call, layout, model_of(call, layout));
}

// The engines tell the two operations apart by where results go.
template <void (*kRun)(const backends::KernelCall&), backends::Op kOp>
void launch(const backends::KernelCall& call) {
  if (kOp == backends::Op::decode && call.matrix->shape.elements() == 0) return;
  backends::KernelCall clean = call;
  if (kOp == backends::Op::matvec) clean.decoded = nullptr;
  kRun(clean);
}

int64_t rows_per_block(const CompressedView& compressed) {
  return layout_of(compressed.shape, *compressed.settings).rows_per_block;
}

int64_t scratch_bytes(const CompressedView&, int) { return HWY_DYNAMIC_DISPATCH(ScratchBytes)(); }

template <backends::Op kOp>
constexpr backends::Kernel registers_kernel() {
  return {.op = kOp, .variant = "bucket_registers", .tunings = backends::kDefaultTuning, .refuses = refuses_registers,
          .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = launch<run_registers, kOp>};
}

template <backends::Op kOp>
constexpr backends::Kernel table_kernel() {
  return {.op = kOp, .variant = "slot_table", .tunings = backends::kDefaultTuning, .refuses = refuses_table,
          .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = launch<run_table, kOp>};
}

constexpr backends::Kernel kKernels[] = {registers_kernel<backends::Op::decode>(), registers_kernel<backends::Op::matvec>(),
                                         table_kernel<backends::Op::decode>(), table_kernel<backends::Op::matvec>()};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::rans
#endif  // HWY_ONCE

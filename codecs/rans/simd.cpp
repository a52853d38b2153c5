// SIMD kernels of rans for 16-bit words. Two engines read the same bytes: bucket_registers (AVX-512, no table in
// memory) and slot_table (every instruction set). Both decode several blocks at once, see blocks-inl.h.
#include <string>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/rans/format.h"
#include "codecs/rans/model.h"
#include "codecs/rans/stream.h"

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

template <class Args>
backends::BoundKernel Bind(const Stream& stream, Run<Args> engine) {
  const bool constant = stream.layout.blocks == 0 || symbols_of(stream.alphabet) == 1;
  return bound<Args>(stream, constant ? RunConstant<Args> : engine, kPiecesBytes + kSlotTableBytes);
}

backends::BoundKernel BindRegisters(const Stream& stream, backends::Op op) {
  if (op == backends::Op::decode) return Bind(stream, BucketRegistersRun<backends::DecodeArgs>(stream));
  return Bind(stream, BucketRegistersRun<backends::MatvecArgs>(stream));
}

backends::BoundKernel BindTable(const Stream& stream, backends::Op op) {
  if (op == backends::Op::decode) return Bind(stream, SlotTableSimdRun<backends::DecodeArgs>(stream));
  return Bind(stream, SlotTableSimdRun<backends::MatvecArgs>(stream));
}

}  // namespace ecmv::codecs::rans::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::rans {
namespace {

HWY_EXPORT(RefusesRegisters);
HWY_EXPORT(RefusesTable);
HWY_EXPORT(BindRegisters);
HWY_EXPORT(BindTable);

std::string refuses_form(const CompressedView& compressed, const Layout& layout) {
  if (layout.state == StateForm::w16s32) return "";
  return "rans has SIMD kernels for 16-bit words and 32-bit states (w16s32), not for " +
         compressed.settings->text("state") + ".";
}

std::string refuses_registers(const CompressedView& compressed, const backends::DeviceInfo&, const backends::Policy&) {
  const Layout layout = layout_of(compressed.shape, *compressed.settings);
  const std::string form = refuses_form(compressed, layout);
  return form.empty() ? HWY_DYNAMIC_DISPATCH(RefusesRegisters)(layout, symbols_of(compressed.sections[kAlphabet].bytes))
                      : form;
}

std::string refuses_table(const CompressedView& compressed, const backends::DeviceInfo&, const backends::Policy&) {
  const Layout layout = layout_of(compressed.shape, *compressed.settings);
  const std::string form = refuses_form(compressed, layout);
  return form.empty() ? HWY_DYNAMIC_DISPATCH(RefusesTable)(layout, 0) : form;
}

using backends::Layers;

template <backends::Op kOp>
backends::BoundKernel bind_registers(const backends::Policy&, Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindRegisters)(stream_of(*layers[0].matrix), kOp);
}

template <backends::Op kOp>
backends::BoundKernel bind_table(const backends::Policy&, Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindTable)(stream_of(*layers[0].matrix), kOp);
}

using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "bucket_registers", .refuses = refuses_registers, .bind = bind_registers<Op::decode>},
    {.op = Op::matvec, .variant = "bucket_registers", .refuses = refuses_registers, .bind = bind_registers<Op::matvec>},
    {.op = Op::decode, .variant = "slot_table", .refuses = refuses_table, .bind = bind_table<Op::decode>},
    {.op = Op::matvec, .variant = "slot_table", .refuses = refuses_table, .bind = bind_table<Op::matvec>},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::rans
#endif  // HWY_ONCE

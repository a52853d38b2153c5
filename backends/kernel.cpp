// What every kernel table needs, also those inside plugins.
#include "backends/kernel.h"

namespace ecmv::backends {

std::string_view op_name(Op op) {
  switch (op) {
    case Op::decode: return "decode";
    case Op::matvec: return "matvec";
    case Op::matmul: return "matmul";
  }
  return "";
}

std::string_view activations_name(Activations activations) { return activations == Activations::bf16 ? "bf16" : "f32"; }

bool takes_scales(const Kernel& kernel, const datasets::Scales& scales) {
  if (kernel.group_cols == 0) return scales.empty() || scales.one_a_row();
  return !scales.empty() && scales.type == datasets::ScaleType::bf16 && scales.factor == 1 &&
         takes_groups(kernel, scales.group_cols);
}

std::string refuses_nothing(const CompressedView&, const DeviceInfo&, const Policy&) { return {}; }

}  // namespace ecmv::backends

// What every kernel table needs, also those inside plugins.
#include "backends/kernel.h"

namespace ecmv::backends {

std::string_view op_name(Op op) { return op == Op::decode ? "decode" : "matvec"; }

std::string refuses_nothing(const codecs::CompressedView&, const DeviceInfo&, int) { return {}; }

}  // namespace ecmv::backends

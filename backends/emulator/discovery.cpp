// The emulator's two devices, with waves of 32 and of 64 lanes. Otherwise they are like a small GPU. The environment
// variable ECMV_EMULATED_SHARED_KIB gives them more shared memory, for kernels that need it: 227 as sm_90 has.
// ECMV_EMULATED_UNITS gives them more multiprocessors, for products that many thread blocks share.
#include <string>

#include "backends/emulator/block_runner.h"
#include "backends/gpu/host/discovery.h"

namespace ecmv::backends::emulator {

std::vector<DeviceInfo> discover() {
  std::vector<DeviceInfo> devices;
  constexpr int64_t kLeastKib = 64;  // every supported device has them
  const int64_t shared_kib = asked_for("ECMV_EMULATED_SHARED_KIB", kLeastKib, 1024);
  for (const int wave_size : {32, 64}) {
    DeviceInfo info;
    info.backend = "emulator";
    info.name = "emulated GPU";
    info.simd_target = "wave" + std::to_string(wave_size);
    info.emulated = true;
    info.wave_size = wave_size;
    info.compute_units = compute_units();
    info.shared_bytes = shared_kib << 10;
    devices.push_back(info);
  }
  return devices;
}

void activate(int) {}

DeviceState read_state(int) { return {}; }
double read_joules(int) { return 0; }

std::string link_between(int, int) { return "memory of the host"; }

}  // namespace ecmv::backends::emulator

// The emulator's two devices, with waves of 32 and of 64 lanes. Otherwise they are like a small GPU.
#include "backends/gpu/host/discovery.h"

namespace ecmv::backends::emulator {

std::vector<DeviceInfo> discover() {
  std::vector<DeviceInfo> devices;
  for (const int wave_size : {32, 64}) {
    DeviceInfo info;
    info.backend = "emulator";
    info.name = "emulated GPU";
    info.simd_target = "wave" + std::to_string(wave_size);
    info.emulated = true;
    info.wave_size = wave_size;
    info.compute_units = kComputeUnits;
    info.shared_bytes = int64_t{64} << 10;  // what every supported device has
    devices.push_back(info);
  }
  return devices;
}

void activate(int) {}

DeviceState read_state(int) { return {}; }
double read_joules(int) { return 0; }

std::string link_between(int, int) { return "memory of the host"; }

}  // namespace ecmv::backends::emulator

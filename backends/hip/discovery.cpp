// Devices as the HIP runtime lists them: AMD's, or NVIDIA's where HIP was built for that platform. Most numbers are asked for one
// by one because the properties structure differs between the platforms and their versions.
#include "backends/gpu/discovery.h"

#include <fstream>

namespace ecmv::backends::hip {
namespace {

int64_t attribute(hipDeviceAttribute_t which, int index) {
  int value = 0;
  return hipDeviceGetAttribute(&value, which, index) == hipSuccess ? value : 0;
}

std::string architecture(const hipDeviceProp_t& properties) {
#if defined(__HIP_PLATFORM_NVIDIA__)
  return "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
#else
  const std::string name = properties.gcnArchName;  // "gfx90a:sramecc+:xnack-"
  return name.substr(0, name.find(':'));
#endif
}

DeviceInfo describe(int index) {
  DeviceInfo info;
  info.backend = "hip";
  hipDeviceProp_t properties{};
  if (const hipError_t status = hipGetDeviceProperties(&properties, index); status != hipSuccess) {
    info.unavailable = "The device " + std::to_string(index) + " does not answer: " + hipGetErrorString(status) + ".";
    return info;
  }
  info.name = properties.name;
  info.simd_target = architecture(properties);
  info.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  info.wave_size = static_cast<int>(attribute(hipDeviceAttributeWarpSize, index));
  info.compute_units = static_cast<int>(attribute(hipDeviceAttributeMultiprocessorCount, index));
  info.llc_bytes = attribute(hipDeviceAttributeL2CacheSize, index);
  info.shared_bytes = attribute(hipDeviceAttributeMaxSharedMemoryPerBlock, index);
  info.clock_hz = 1e3 * static_cast<double>(attribute(hipDeviceAttributeClockRate, index));
  int driver = 0, runtime = 0;
  (void)hipDriverGetVersion(&driver);
  (void)hipRuntimeGetVersion(&runtime);
  info.driver = "HIP driver " + std::to_string(driver) + ", runtime " + std::to_string(runtime);
  return info;
}

// The step of a "pp_dpm_*" file that is in use: "1: 1700Mhz *".
double current_clock_hz(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.find('*') != std::string::npos && colon != std::string::npos) return 1e6 * std::strtod(line.c_str() + colon + 1, nullptr);
  }
  return 0;
}

}  // namespace

std::vector<DeviceInfo> discover() {
  int count = 0;  // an error leaves it as it is
  const hipError_t status = hipGetDeviceCount(&count);
  std::vector<DeviceInfo> devices;
  for (int i = 0; status == hipSuccess && i < count; ++i) devices.push_back(describe(i));
  if (devices.empty()) {
    DeviceInfo none;
    none.backend = "hip";
    none.unavailable = status == hipSuccess ? "There is no HIP device." : std::string("There is no HIP device: ") + hipGetErrorString(status) + ".";
    devices.push_back(none);
  }
  return devices;
}

void activate(int index) { check(hipSetDevice(index), "choosing the device"); }

// AMD's kernel driver shows the clocks in sysfs, where its management library reads them too.
DeviceState read_state(int index) {
  DeviceState state;
  char bus_id[32] = {};
  if (hipDeviceGetPCIBusId(bus_id, sizeof(bus_id), index) != hipSuccess) return state;
  const std::string folder = "/sys/bus/pci/devices/" + std::string(bus_id) + "/";
  state.clock_hz = current_clock_hz(folder + "pp_dpm_sclk");
  state.memory_clock_hz = current_clock_hz(folder + "pp_dpm_mclk");
  return state;
}

}  // namespace ecmv::backends::hip

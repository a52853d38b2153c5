// Devices as the HIP runtime lists them: AMD's, or NVIDIA's where HIP was built for that platform. Most numbers are
// asked for one by one, since the properties structure differs between platforms and versions.
#include "backends/gpu/host/discovery.h"

#include "backends/cuda/nvml.h"
#include "backends/hip/sysfs.h"

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

// Shared memory of a thread block. On NVIDIA a block may ask for this much; HIP itself knows only what a block gets
// without asking.
int64_t shared_bytes(int index) {
#if defined(__HIP_PLATFORM_NVIDIA__)
  int value = 0;
  return cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, index) == cudaSuccess ? value : 0;
#else
  return attribute(hipDeviceAttributeMaxSharedMemoryPerBlock, index);
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
  info.llc_bytes = info.l2_bytes = attribute(hipDeviceAttributeL2CacheSize, index);
  info.shared_bytes = shared_bytes(index);
  info.clock_hz = 1e3 * static_cast<double>(attribute(hipDeviceAttributeClockRate, index));
  info.memory_clock_hz = 1e3 * static_cast<double>(attribute(hipDeviceAttributeMemoryClockRate, index));
  int driver = 0, runtime = 0;
  (void)hipDriverGetVersion(&driver);
  (void)hipRuntimeGetVersion(&runtime);
  info.driver = "HIP driver " + std::to_string(driver) + ", runtime " + std::to_string(runtime);
#if defined(__HIP_PLATFORM_NVIDIA__)
  if (const std::string number = cuda::nvml_driver_version(); !number.empty())
    info.driver = "NVIDIA driver " + number + ", " + info.driver;
#endif
  return info;
}

}  // namespace

std::vector<DeviceInfo> discover() {
  int count = 0;  // an error leaves it as it is
  const hipError_t status = hipGetDeviceCount(&count);
  if (status == hipSuccess) return list_devices("hip", count, describe, "There is no HIP device.");
  return list_devices("hip", 0, describe, std::string("There is no HIP device: ") + hipGetErrorString(status) + ".");
}

void activate(int index) { check(hipSetDevice(index), "choosing the device"); }

DeviceState read_state(int index) {
  char bus_id[32] = {};
  if (hipDeviceGetPCIBusId(bus_id, sizeof(bus_id), index) != hipSuccess) return {};
#if defined(__HIP_PLATFORM_NVIDIA__)
  return cuda::read_nvml(bus_id);
#else
  return read_sysfs("/sys/bus/pci/devices/" + std::string(bus_id));
#endif
}

double read_joules([[maybe_unused]] int index) {
#if defined(__HIP_PLATFORM_NVIDIA__)
  char bus_id[32] = {};
  if (hipDeviceGetPCIBusId(bus_id, sizeof(bus_id), index) == hipSuccess) return cuda::nvml_joules(bus_id);
#endif
  return 0;
}

std::string link_between(int one, int other) {
#if defined(__HIP_PLATFORM_NVIDIA__)
  char bus_ids[2][32] = {};
  if (hipDeviceGetPCIBusId(bus_ids[0], sizeof(bus_ids[0]), one) != hipSuccess ||
      hipDeviceGetPCIBusId(bus_ids[1], sizeof(bus_ids[1]), other) != hipSuccess)
    return {};
  return cuda::nvml_link(bus_ids[0], bus_ids[1]);
#else
  constexpr uint32_t kPcie = 2, kXgmi = 4;  // HSA's types of links
  uint32_t type = 0, hops = 0;
  if (hipExtGetLinkTypeAndHopCount(one, other, &type, &hops) != hipSuccess) return {};
  const std::string name = type == kXgmi ? "xGMI" : type == kPcie ? "PCIe" : "";
  return name.empty() || hops <= 1 ? name : name + ", " + std::to_string(hops) + " hops";
#endif
}

}  // namespace ecmv::backends::hip

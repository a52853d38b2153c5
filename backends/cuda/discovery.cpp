// NVIDIA devices as CUDA's runtime lists them. The runtime is linked statically and finds the driver by itself; without
// a driver it returns an error.
#include "backends/gpu/host/discovery.h"

#include "backends/cuda/nvml.h"

namespace ecmv::backends::cuda {
namespace {

int64_t attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, index) == cudaSuccess ? value : 0;
}

std::string version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

DeviceInfo describe(int index) {
  DeviceInfo info;
  info.backend = "cuda";
  cudaDeviceProp properties{};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess) {
    info.unavailable = "The device " + std::to_string(index) + " does not answer: " + cudaGetErrorString(status) + ".";
    return info;
  }
  info.name = properties.name;
  info.simd_target = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
  info.wave_size = properties.warpSize;
  info.compute_units = properties.multiProcessorCount;
  info.l1d_bytes = static_cast<int64_t>(properties.sharedMemPerMultiprocessor);  // the same memory serves as both
  info.llc_bytes = info.l2_bytes = properties.l2CacheSize;
  info.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  info.shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  info.clock_hz = 1e3 * static_cast<double>(attribute(cudaDevAttrClockRate, index));
  info.memory_clock_hz = 1e3 * static_cast<double>(attribute(cudaDevAttrMemoryClockRate, index));
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  const std::string number = nvml_driver_version();
  info.driver = (number.empty() ? "" : "NVIDIA driver " + number + ", ") + "CUDA driver " + version(driver) +
                ", runtime " + version(runtime);
  if (properties.major < 7 || (properties.major == 7 && properties.minor < 5))
    info.unavailable = "The device " + info.name + " is an " + info.simd_target + ", the kernels need sm_75 or newer.";
  return info;
}

}  // namespace

std::vector<DeviceInfo> discover() {
  int count = 0;  // an error leaves it as it is
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) return list_devices("cuda", count, describe, "There is no CUDA device.");
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  return list_devices("cuda", 0, describe,
                      driver == 0 ? "There is no NVIDIA driver on this machine."
                                  : std::string("There is no CUDA device: ") + cudaGetErrorString(status) + ".");
}

void activate(int index) { check(cudaSetDevice(index), "choosing the device"); }

DeviceState read_state(int index) {
  char bus_id[32] = {};
  if (cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), index) != cudaSuccess) return {};
  return read_nvml(bus_id);
}

double read_joules(int index) {
  char bus_id[32] = {};
  return cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), index) == cudaSuccess ? nvml_joules(bus_id) : 0;
}

std::string link_between(int one, int other) {
  char bus_ids[2][32] = {};
  if (cudaDeviceGetPCIBusId(bus_ids[0], sizeof(bus_ids[0]), one) != cudaSuccess ||
      cudaDeviceGetPCIBusId(bus_ids[1], sizeof(bus_ids[1]), other) != cudaSuccess)
    return {};
  return nvml_link(bus_ids[0], bus_ids[1]);
}

}  // namespace ecmv::backends::cuda

// Opened at run time, since the library comes with the driver and not with the toolkit. Its C interface is stable; the
// few types used here are plain numbers.
#include "backends/cuda/nvml.h"

#include "backends/plugins/installed_library.h"

namespace ecmv::backends::cuda {
namespace {

using Handle = void*;

struct Library {
  int (*init)() = nullptr;
  int (*find)(const char*, Handle*) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*energy)(Handle, unsigned long long*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  int (*throttle)(Handle, unsigned long long*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  int (*processes)(Handle, unsigned*, void*) = nullptr;
  int (*peer)(Handle, Handle, int, int*) = nullptr;
  int (*link)(Handle, unsigned, int*) = nullptr;
  bool ready = false;

  Library() {
    InstalledLibrary nvml("NVML");
    if (!nvml.open_file("libnvidia-ml.so.1")) return;
    nvml.find(init, "nvmlInit_v2");
    nvml.find(find, "nvmlDeviceGetHandleByPciBusId_v2");
    nvml.find(clock, "nvmlDeviceGetClockInfo");
    nvml.find(power, "nvmlDeviceGetPowerUsage");
    nvml.find(energy, "nvmlDeviceGetTotalEnergyConsumption");
    nvml.find(temperature, "nvmlDeviceGetTemperature");
    nvml.find(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    nvml.find(driver, "nvmlSystemGetDriverVersion");
    nvml.find(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    nvml.find(peer, "nvmlDeviceGetP2PStatus");
    nvml.find(link, "nvmlDeviceGetNvLinkState");
    ready = init != nullptr && find != nullptr && init() == 0;
  }
};

const Library& library() {
  static const Library library;
  return library;
}

constexpr int kClockOfUnits = 1, kClockOfMemory = 2, kSensorOfChip = 0;
constexpr int kMoreThanAskedFor =
    7;  // NVML_ERROR_INSUFFICIENT_SIZE: the answer to a call with room for none, if there are some

struct Reason {
  unsigned long long bit;
  const char* name;
};
constexpr Reason kReasons[] = {
    {0x1, "idle"},           {0x2, "clocks set by the user"}, {0x4, "power cap"},           {0x8, "hardware slowdown"},
    {0x10, "sync boost"},    {0x20, "thermal (software)"},    {0x40, "thermal (hardware)"}, {0x80, "power brake"},
    {0x100, "display clock"}};

}  // namespace

std::string nvml_driver_version() {
  char text[96] = {};
  if (!library().ready || library().driver == nullptr || library().driver(text, sizeof(text)) != 0) return {};
  return text;
}

DeviceState read_nvml(const char* bus_id) {
  const Library& library = cuda::library();
  DeviceState state;
  Handle device = nullptr;
  if (!library.ready || library.find(bus_id, &device) != 0) return state;
  unsigned value = 0;
  if (library.clock != nullptr && library.clock(device, kClockOfUnits, &value) == 0) state.clock_hz = value * 1e6;
  if (library.clock != nullptr && library.clock(device, kClockOfMemory, &value) == 0)
    state.memory_clock_hz = value * 1e6;
  if (library.power != nullptr && library.power(device, &value) == 0) state.power_w = value * 1e-3;
  if (library.temperature != nullptr && library.temperature(device, kSensorOfChip, &value) == 0)
    state.temperature_c = value;
  unsigned count = 0;
  if (library.processes != nullptr)
    if (const int status = library.processes(device, &count, nullptr); status == 0 || status == kMoreThanAskedFor)
      state.processes = static_cast<int>(count);
  unsigned long long bits = 0;
  if (library.throttle != nullptr && library.throttle(device, &bits) == 0) {
    for (const Reason& reason : kReasons)
      if ((bits & reason.bit) != 0)
        state.throttle_reasons += (state.throttle_reasons.empty() ? "" : ", ") + std::string(reason.name);
    if (state.throttle_reasons.empty()) state.throttle_reasons = "none";
  }
  return state;
}

double nvml_joules(const char* bus_id) {
  const Library& library = cuda::library();
  Handle device = nullptr;
  unsigned long long millijoules = 0;
  const bool known = library.ready && library.energy != nullptr && library.find(bus_id, &device) == 0 &&
                     library.energy(device, &millijoules) == 0;
  return known ? static_cast<double>(millijoules) * 1e-3 : 0;
}

std::string nvml_link(const char* one, const char* other) {
  constexpr int kByNvlink = 2, kWrites = 1;  // questions about two devices; 0 means yes
  constexpr unsigned kMostLinks = 36;
  const Library& library = cuda::library();
  Handle first = nullptr, second = nullptr;
  int status = 0;
  if (!library.ready || library.peer == nullptr || library.find(one, &first) != 0 || library.find(other, &second) != 0)
    return {};
  if (library.peer(first, second, kByNvlink, &status) == 0 && status == 0) {
    int links = 0, active = 0;
    for (unsigned number = 0; library.link != nullptr && number < kMostLinks; ++number)
      if (library.link(first, number, &active) == 0 && active == 1) ++links;
    return links == 0 ? "NVLink" : "NVLink, " + std::to_string(links) + " links";
  }
  if (library.peer(first, second, kWrites, &status) != 0) return {};
  return status == 0 ? "PCIe" : "PCIe, through the host";
}

}  // namespace ecmv::backends::cuda

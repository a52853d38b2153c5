// Clocks, power and throttle reasons of an NVIDIA device from the driver's management library, if there is one.
#pragma once

#include "backends/backend.h"

namespace ecmv::backends::cuda {

// "580.65.06"; "" where the library is missing.
std::string nvml_driver_version();
// `bus_id`: "0000:65:00.0". Unknown values stay 0 or "".
DeviceState read_nvml(const char* bus_id);
// Joules since the driver was loaded; 0: unknown.
double nvml_joules(const char* bus_id);
// "NVLink, 18 links", "PCIe"; "" if unknown.
std::string nvml_link(const char* one, const char* other);

}  // namespace ecmv::backends::cuda

// Exchanges vectors through the platform's own library: NCCL on NVIDIA, RCCL, which has the same interface, on AMD. The
// emulator has none. It is opened at run time, so a plugin also loads where it is missing.
#pragma once

#include <memory>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// As Device::join, for the engines "nccl" and "rccl", on the current device.
std::unique_ptr<Ranks> join_by_nccl(const RanksRequest& request);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

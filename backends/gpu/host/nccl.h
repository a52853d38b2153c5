// Vectors exchanged by the platform's own library: NCCL on NVIDIA, RCCL, which has the same interface, on AMD; the
// emulator has none. It is opened at run time, so that a plugin loads where it is missing.
#pragma once

#include <memory>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// As Device::join, for the engines "nccl" and "rccl"; on the device that is current.
std::unique_ptr<Ranks> join_by_nccl(const RanksRequest& request);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

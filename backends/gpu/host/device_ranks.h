// Engines that exchange vectors between devices of several processes: NCCL or RCCL (nccl.h), and our own, "peer", which
// uses memory that devices map from each other (peer_kernels.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// As Device::join, for the current device.
std::unique_ptr<Ranks> join_devices(const RanksRequest& request, const DeviceInfo& device);

// Gives every rank's answer to all ranks. If one throws, all throw Refused with its sentence.
std::vector<std::string> agree(Ranks& host, const std::function<std::string()>& own);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

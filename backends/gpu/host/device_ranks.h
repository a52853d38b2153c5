// Engines that exchange vectors between devices of several processes: NCCL or RCCL (nccl.h), and "peer", our own,
// through memory that devices map from each other (peer_kernels.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// As Device::join; on the device that is current.
std::unique_ptr<Ranks> join_devices(const RanksRequest& request, const DeviceInfo& device);

// What every rank answers, on all ranks. Where one of them throws, all throw Refused with its sentence.
std::vector<std::string> agree(Ranks& host, const std::function<std::string()>& own);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

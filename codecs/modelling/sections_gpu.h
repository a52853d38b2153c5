// Checks that bindings of GPU kernels make of a matrix and a device.
#pragma once

#include <string>

#include "backends/gpu/launch.h"
#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::modelling::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

inline const uint8_t* bytes_of(const CompressedView& matrix, int section) {
  return reinterpret_cast<const uint8_t*>(matrix.sections[section].bytes.data());
}
inline const uint32_t* words_of(const CompressedView& matrix, int section) {
  return reinterpret_cast<const uint32_t*>(matrix.sections[section].bytes.data());
}
inline int64_t size_of(const CompressedView& matrix, int section) {
  return static_cast<int64_t>(matrix.sections[section].bytes.size());
}

// "" if a thread block may have that many bytes of shared memory, otherwise the reason.
inline std::string refuses_shared(int64_t bytes, const backends::DeviceInfo& device) {
  if (bytes <= device.shared_bytes) return "";
  return "A thread block needs " + std::to_string(bytes) + " bytes of shared memory; it may have " +
         std::to_string(device.shared_bytes) + ".";
}

// "" for rows whose columns can be counted in 32 bits, with room to step past the last one.
inline std::string refuses_cols(datasets::Shape shape) {
  return shape.cols < (int64_t{1} << 30) ? "" : "The kernel counts columns in 32 bits: at most 2^30 of them.";
}

struct WavePolicy : backends::Policy {
  int waves;  // of a thread block
};

// Thread blocks of 256, for small kernels that give each element a thread.
inline gpu::LaunchShape a_thread_each(int64_t elements) { return {(elements + 255) / 256, 256, 0}; }

}  // namespace ecmv::codecs::modelling::ECMV_GPU_NAMESPACE

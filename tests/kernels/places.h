// The devices for kernel tests: every instruction set of this CPU, the emulator at both wave sizes, each GPU of this
// machine; and the codecs as a Catch2 generator, one section a codec.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backends/pass.h"
#include "codecs/registry.h"
#include "tests/tested_codecs.h"

namespace ecmv::tests {

enum class Place { cpu, emulator, gpu };

inline Place place_of(const backends::DeviceInfo& info) {
  if (info.emulated) return Place::emulator;
  return info.wave_size > 0 ? Place::gpu : Place::cpu;
}

using Devices = std::vector<std::unique_ptr<backends::Device>>;

// All devices of this kind that this machine can open, with `threads` threads.
inline Devices devices(Place place, int threads) {
  Devices out;
  for (const backends::Backend& backend : backends::all_backends())
    for (const backends::DeviceInfo& info : backend.devices())
      if (info.unavailable.empty() && place_of(info) == place) out.push_back(backend.open({threads, info.simd_target}));
  return out;
}

// Ends the test as skipped, with the reasons, where there is no such device.
inline Devices devices_or_skip(Place place) {
  Devices out = devices(place, 1);
  if (!out.empty()) return out;
  std::string reasons;
  for (const backends::Backend& backend : backends::all_backends())
    for (const backends::DeviceInfo& info : backend.devices())
      if (!info.unavailable.empty() && backend.id != "simd")
        reasons += std::string(backend.id) + ": " + info.unavailable + " ";
  SKIP(reasons);
  return out;
}

// The expected output of decode kernels: the matrix, or, for lossy codecs, the reference decoder's output.
inline datasets::Matrix decoded_by_reference(const codecs::CodecEntry& entry,
                                             const backends::CompressedMatrix& compressed,
                                             const datasets::Matrix& matrix) {
  datasets::Matrix decoded = matrix;
  entry.codec->decode(compressed.view(), decoded.elements);
  return decoded;
}

inline const codecs::CodecEntry& each_codec() {
  const size_t index = GENERATE_COPY(range(size_t{0}, tested_codecs().size()));
  return tested_codecs()[index];
}
// The first, third, ... of them, or the others, for tests that take minutes on an emulated processor.
inline const codecs::CodecEntry& every_second_codec(size_t first) {
  const size_t count = tested_codecs().size();
  if (first >= count) SKIP("No codec is left for this half.");
  const size_t index = GENERATE_COPY(range(first, count, size_t{2}));
  return tested_codecs()[index];
}

// A pass as a graph, or as plain launches if the kernel's cannot be captured.
inline std::unique_ptr<backends::Pass> prepare_in_any_form(backends::Device& device, backends::PassPlan plan) {
  try {
    return backends::prepare(device, plan);
  } catch (const backends::Refused&) {
    plan.graph = false;
    return backends::prepare(device, plan);
  }
}

// Whether the codec has a kernel for one of these devices that decodes or multiplies int8 elements.
inline bool has_kernels(const codecs::CodecEntry& entry, const Devices& devices) {
  return std::ranges::any_of(devices, [&](const auto& device) {
    return std::ranges::any_of(entry.kernels(device->info().backend), [](const backends::Kernel& kernel) {
      return kernel.op == backends::Op::decode || kernel.op == backends::Op::matvec;
    });
  });
}

}  // namespace ecmv::tests

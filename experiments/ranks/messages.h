// Commands to other processes, and their answers: JSON with bytes. Matrices and kernels go in them by their parts and
// names.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backends/pass.h"

namespace ecmv::experiments {

// Converts numbers to bytes of a command, and back.
template <typename T>
nlohmann::json packed(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return nlohmann::json::binary({bytes, bytes + values.size() * sizeof(T)});
}
template <typename T>
std::vector<T> unpacked(const nlohmann::json& field) {
  const auto& bytes = field.get_binary();
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Serialises a command or an answer.
std::vector<std::byte> to_message(nlohmann::json content);
nlohmann::json from_message(const std::vector<std::byte>& message);

// A compressed matrix as fields of a command, and back.
nlohmann::json matrix_fields(const backends::CompressedMatrix& matrix);
backends::CompressedMatrix matrix_from(const nlohmann::json& command);

// A kernel of a codec by its names. Its policy is chosen here where `chosen` has none. Without a kernel: the codec's
// reference decoder.
nlohmann::json kernel_name(const std::string& codec, const backends::ChosenKernel& chosen,
                           const backends::CompressedView& matrix, const backends::DeviceInfo& device, int batch);
// The kernel that was named, for a plan with its activations; the plan gets the reference decoder.
backends::ChosenKernel named_kernel(const nlohmann::json& name, const std::string& backend, backends::PassPlan& plan);

}  // namespace ecmv::experiments

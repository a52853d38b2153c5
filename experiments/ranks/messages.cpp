// See messages.h.
#include "experiments/ranks/messages.h"

#include <mutex>
#include <set>
#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "codecs/registry.h"

namespace ecmv::experiments {
namespace {

using nlohmann::json;

// Names of sections must live as long as the codec; these were made in another process. Ranks may be threads.
std::string_view kept_name(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  const std::scoped_lock lock(mutex);
  return *names.insert(name).first;
}

}  // namespace

// The kernel that rank 0 named; without a variant, the codec's reference decoder.
backends::ChosenKernel named_kernel(const json& name, const std::string& backend, backends::PassPlan& plan) {
  const std::string codec = name.at("codec"), variant = name.at("variant"), tuning = name.at("tuning");
  const codecs::CodecEntry* entry = codecs::find_codec(codec);
  if (entry == nullptr) throw std::runtime_error("A rank has no codec '" + codec + "'.");
  if (variant.empty()) {
    plan.reference_decode = entry->codec->decode;
    return {};
  }
  const auto op = static_cast<backends::Op>(name.at("op").get<int>());
  for (const backends::Kernel& kernel : entry->kernels(backend)) {
    if (kernel.op != op || kernel.variant != variant) continue;
    if (op == backends::Op::matmul && kernel.activations != plan.activations) continue;
    if (const backends::Policy* policy = kernel.policies.find(tuning); policy != nullptr) return {&kernel, policy};
  }
  throw std::runtime_error(fmt::format("A rank has no kernel {} {} of the codec '{}'.", variant, tuning, codec));
}

json kernel_name(const std::string& codec, const backends::ChosenKernel& chosen, const backends::CompressedView& matrix,
                 const backends::DeviceInfo& device, int batch) {
  json name = {{"codec", codec}, {"op", 0}, {"variant", ""}, {"tuning", ""}};
  if (chosen.kernel == nullptr) return name;
  const int tokens = chosen.kernel->op == backends::Op::matmul ? batch : 1;
  const backends::Policy& policy =
      chosen.policy == nullptr ? backends::chosen_policy(*chosen.kernel, matrix, device, tokens) : *chosen.policy;
  name["op"] = static_cast<int>(chosen.kernel->op);
  name["variant"] = chosen.kernel->variant;
  name["tuning"] = policy.name;
  return name;
}

json matrix_fields(const backends::CompressedMatrix& matrix) {
  json settings = json::object(), sections = json::array();
  for (const auto& [name, value] : matrix.settings.values())
    std::visit([&, &key = name](const auto& one) { settings[key] = one; }, value);
  for (const backends::Section& section : matrix.sections)
    sections.push_back({{"name", section.name},
                        {"role", static_cast<int>(section.role)},
                        {"align", section.align_bytes},
                        {"padding", section.padding_bytes},
                        {"bytes", packed(section.bytes)}});
  return {{"codec", matrix.codec},          {"format_version", matrix.format_version},
          {"settings", settings},           {"rows", matrix.shape.rows},
          {"cols", matrix.shape.cols},      {"type", static_cast<int>(matrix.type)},
          {"sections", std::move(sections)}};
}

backends::CompressedMatrix matrix_from(const json& command) {
  backends::CompressedMatrix matrix;
  matrix.codec = command.at("codec");
  matrix.format_version = command.at("format_version");
  for (const auto& [name, value] : command.at("settings").items())
    if (value.is_string())
      matrix.settings.set(name, value.get<std::string>());
    else
      matrix.settings.set(name, value.get<int64_t>());
  matrix.shape = {command.at("rows"), command.at("cols")};
  matrix.type = static_cast<datasets::ElementType>(command.at("type").get<int>());
  for (const json& section : command.at("sections"))
    matrix.sections.push_back({kept_name(section.at("name")),
                               static_cast<backends::Role>(section.at("role").get<int>()), section.at("align"),
                               unpacked<std::byte>(section.at("bytes")), section.at("padding")});
  return matrix;
}

namespace {

constexpr const char* kBlob = "\1blob";

// Moves every binary value out of the tree, one after the other.
void take_out(json& node, std::vector<json::binary_t>& blobs) {
  if (node.is_binary()) {
    blobs.push_back(std::move(node.get_binary()));
    node = json{{kBlob, blobs.back().size()}};
  } else if (node.is_structured()) {
    for (json& child : node) take_out(child, blobs);
  }
}

// Puts them back, in the same order.
void put_back(json& node, std::span<const std::byte>& blobs) {
  if (node.is_object() && node.contains(kBlob)) {
    const auto bytes = node.at(kBlob).get<size_t>();
    const auto* first = reinterpret_cast<const uint8_t*>(blobs.data());
    node = json::binary({first, first + bytes});
    blobs = blobs.subspan(bytes);
  } else if (node.is_structured()) {
    for (json& child : node) put_back(child, blobs);
  }
}

}  // namespace

// The library reads binary values byte by byte, and streams have gigabytes, so they follow everything else.
std::vector<std::byte> to_message(json content) {
  std::vector<json::binary_t> blobs;
  take_out(content, blobs);
  const std::vector<uint8_t> rest = json::to_cbor(content);
  const uint64_t rest_bytes = rest.size();
  size_t bytes = sizeof(rest_bytes) + rest.size();
  for (const json::binary_t& blob : blobs) bytes += blob.size();
  std::vector<std::byte> message;
  message.reserve(bytes);
  const auto append = [&](std::span<const std::byte> part) { message.insert(message.end(), part.begin(), part.end()); };
  append(std::as_bytes(std::span(&rest_bytes, 1)));
  append(std::as_bytes(std::span(rest)));
  for (const json::binary_t& blob : blobs) append(std::as_bytes(std::span(blob.data(), blob.size())));
  return message;
}

json from_message(const std::vector<std::byte>& message) {
  uint64_t rest_bytes = 0;
  std::memcpy(&rest_bytes, message.data(), sizeof(rest_bytes));
  const auto* rest = reinterpret_cast<const uint8_t*>(message.data()) + sizeof(rest_bytes);
  json content = json::from_cbor(rest, rest + rest_bytes);
  std::span<const std::byte> blobs = std::span(message).subspan(sizeof(rest_bytes) + rest_bytes);
  put_back(content, blobs);
  return content;
}

}  // namespace ecmv::experiments

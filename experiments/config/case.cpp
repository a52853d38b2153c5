// Names and keys of cases.
#include "experiments/config/case.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

#include "codecs/registry.h"
#include "experiments/config/axes.h"

namespace ecmv::experiments {
namespace {

// 64-bit FNV-1a: short, the same on all platforms, and good enough to name a few thousand cases.
uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001B3u;
  return hash;
}

}  // namespace

std::string DataSpec::name() const {
  std::string parameters;
  for (const auto& [key, value] : numbers)
    parameters += fmt::format("{}{}={}", parameters.empty() ? "" : ",", key, value);
  for (const auto& [key, value] : texts)
    parameters += fmt::format("{}{}={}", parameters.empty() ? "" : ",", key, value);
  if (!quantiser.id.empty())
    parameters += fmt::format("{}quantise={}", parameters.empty() ? "" : ",", quantiser.name());
  std::string name = parameters.empty() ? source : fmt::format("{}[{}]", source, parameters);
  if (shape.elements() > 0 || shape.rows > 0 || shape.cols > 0)
    name += fmt::format("/{}x{}x{}/seed{}", shape.rows, shape.cols, layers, seed);
  return name;
}

std::string DataSpec::key_name() const {
  if (content.empty()) return name();
  DataSpec named = *this;
  for (const char* path : {"file", "model"})
    if (const auto found = named.texts.find(path); found != named.texts.end()) found->second = content;
  return named.name();
}

std::string DataSpec::short_name() const {
  std::string name = this->name();
  constexpr std::string_view kFirstSeed = "/seed1";
  if (seed == 1 && name.ends_with(kFirstSeed)) name.resize(name.size() - kFirstSeed.size());
  return name;
}

namespace {

// "mix[attention=A,mlp=B]".
std::string mix_name(const CodecSpec& mix, std::string (CodecSpec::*name_of)() const) {
  std::string list;
  for (size_t i = 0; i < mix.kinds.size(); ++i)
    list += fmt::format("{}{}={}", list.empty() ? "" : ",", mix.kinds[i], (mix.of_kinds[i].*name_of)());
  return fmt::format("{}[{}]", mix.id, list);
}

// "4", for a mix "4.1.4".
std::string version_of(const CodecSpec& codec) {
  std::string versions = codec.is_mix() ? "" : std::to_string(codec.format_version);
  for (const CodecSpec& part : codec.of_kinds) versions += (versions.empty() ? "" : ".") + version_of(part);
  return versions;
}

}  // namespace

std::string CodecSpec::name() const {
  if (is_mix()) return mix_name(*this, &CodecSpec::name);
  std::string values = settings.to_string(), all;
  for (const TunedSettings& one : tuned)
    all += fmt::format("{}/{}x{}/{};", one.type, one.shape.rows, one.shape.cols, one.settings.to_string());
  if (!all.empty()) values += fmt::format("{}tuned={:016x}", values.empty() ? "" : ",", fnv1a(all));
  return values.empty() ? id : fmt::format("{}[{}]", id, values);
}

std::string CodecSpec::short_name() const {
  if (is_mix()) return mix_name(*this, &CodecSpec::short_name);
  backends::Settings shown;
  for (const auto& [setting, value] : settings.values())
    if (std::ranges::find(non_default, setting) != non_default.end()) shown.set(setting, value);
  std::string values = shown.to_string();
  if (!tuned.empty()) values += values.empty() ? "tuned" : ",tuned";
  return values.empty() ? id : fmt::format("{}[{}]", id, values);
}

CodecSpec make_codec_spec(const codecs::CodecEntry& entry, backends::Settings settings) {
  CodecSpec spec{std::string(entry.id), std::move(settings), entry.codec->format_version};
  const backends::Settings defaults = codecs::default_settings(*entry.codec);
  for (const auto& [setting, value] : spec.settings.values())
    if (defaults.values().at(setting) != value) spec.non_default.push_back(setting);
  return spec;
}

bool on_host(std::string_view backend) { return backend == "scalar" || backend == "simd"; }

backends::Op KernelSpec::op() const {
  const std::optional<backends::Op> op = kTasks[static_cast<size_t>(task)].op;
  if (!op.has_value()) throw std::logic_error("The task '" + std::string(task_name(task)) + "' runs nothing.");
  return *op;
}

std::string KernelSpec::name() const {
  if (task == Task::size) return "size";
  std::string name;
  for (const KernelAxis& axis : kernel_axes())
    if (axis.name_part != nullptr) name += axis.name_part(*this);
  return name;
}

std::string KernelSpec::short_name() const {
  std::string name = this->name();
  constexpr std::string_view kDefault = "/default";
  if (const size_t at = name.find(kDefault); at != std::string::npos) name.erase(at, kDefault.size());
  return name;
}

bool KernelChoice::asks_for(Task task) const { return std::ranges::find(tasks, task) != tasks.end(); }

std::string Case::short_name() const {
  return data.short_name() + "/" + codec.short_name() + "/" + kernel.short_name();
}

std::string Case::name() const { return data.name() + "/" + codec.name() + "/" + kernel.name(); }

std::optional<std::string> Case::value_of(std::string_view key) const {
  if (const KernelAxis* axis = find_kernel_axis(key); axis != nullptr && axis->value != nullptr)
    return axis->value(kernel);
  const datasets::Shape& shape = data.shape;
  if (key == "source") return data.source;
  if (key == "codec") return codec.id;
  if (key == "d") return shape.rows == shape.cols ? std::to_string(shape.rows) : "";
  if (key == "rows" && shape.rows > 0) return std::to_string(shape.rows);
  if (key == "cols" && shape.cols > 0) return std::to_string(shape.cols);
  if (key == "layers") return std::to_string(data.layers);
  if (key == "seed") return std::to_string(data.seed);
  if (key == "quantise") return data.quantiser.id.empty() ? "" : data.quantiser.name();
  const std::string name(key);
  if (const auto found = data.numbers.find(name); found != data.numbers.end()) return fmt::format("{}", found->second);
  if (const auto found = data.texts.find(name); found != data.texts.end()) return found->second;
  if (const auto found = codec.settings.values().find(name); found != codec.settings.values().end())
    return std::visit([](const auto& value) { return fmt::format("{}", value); }, found->second);
  return std::nullopt;
}

bool matches(const Case& one, const CaseRule& rule) {
  const auto number_of = [](const std::string& text) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    return text.empty() || *end != '\0' ? std::optional<double>() : number;
  };
  return std::ranges::all_of(rule, [&](const auto& entry) {
    const std::optional<std::string> value = one.value_of(entry.first);
    return value && std::ranges::any_of(entry.second, [&](const std::string& wanted) {
             return *value == wanted || (number_of(wanted) && number_of(*value) == number_of(wanted));
           });
  });
}

std::string Case::key() const {
  return fmt::format(
      "{:016x}", fnv1a(fmt::format("{}/{}/{}/v{}", data.key_name(), codec.name(), kernel.name(), version_of(codec))));
}

}  // namespace ecmv::experiments

// Names and keys of cases.
#include "experiments/case.h"

#include <fmt/format.h>

namespace ecmv::experiments {
namespace {

// 64-bit FNV-1a: short, stable everywhere, good enough to name a few thousand cases.
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
  std::string name = parameters.empty() ? source : fmt::format("{}[{}]", source, parameters);
  if (shape.elements() > 0 || shape.rows > 0 || shape.cols > 0)
    name += fmt::format("/{}x{}x{}/seed{}", shape.rows, shape.cols, layers, seed);
  return name;
}

std::string CodecSpec::name() const {
  const std::string values = settings.to_string();
  return values.empty() ? id : fmt::format("{}[{}]", id, values);
}

std::string KernelSpec::name() const {
  if (op == backends::Op::size) return "size";
  std::string place = backend;
  if (!simd_target.empty()) place += ":" + simd_target;
  if (threads > 0) place += fmt::format(":t{}", threads);
  if (device >= 0) place += fmt::format(":device{}", device);
  std::string work(backends::op_name(op));
  if (op == backends::Op::matmul) work += fmt::format(":b{}", batch);
  return fmt::format("{}/{}/{}{}/{}{}", place, work, unfused ? "unfused_" : "", variant, tuning,
                     launch == "plain" ? "/plain_launches" : "");
}

std::string Case::name() const { return data.name() + "/" + codec.name() + "/" + kernel.name(); }

std::string Case::key() const {
  return fmt::format("{:016x}", fnv1a(fmt::format("{}/v{}", name(), codec.format_version)));
}

}  // namespace ecmv::experiments

// See known_configs.h.
#include "experiments/config/known_configs.h"

#include <algorithm>
#include <system_error>

#include <yaml-cpp/yaml.h>

#include "backends/plugins/own_file.h"
#include "codecs/did_you_mean.h"

namespace ecmv::experiments {
namespace {

namespace fs = std::filesystem;

// Empty if there is none.
fs::path config_folder() {
  const fs::path own = backends::own_file().parent_path();
  std::error_code error;
  for (const fs::path& folder : {own / "configs", own / ECMV_CONFIGS_FROM_PROGRAM})
    if (!own.empty() && fs::is_directory(folder, error)) return folder.lexically_normal();
  return {};
}

// "" if the file has none.
std::string question_of(const fs::path& path) {
  try {
    const YAML::Node question = YAML::LoadFile(path.string())["question"];
    return question.IsDefined() ? question.as<std::string>() : "";
  } catch (const YAML::Exception&) {
    return {};
  }
}

}  // namespace

std::vector<KnownConfig> known_configs() {
  std::vector<KnownConfig> configs;
  const fs::path folder = config_folder();
  std::error_code error;
  if (!folder.empty())
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".yaml")
        configs.push_back({entry.path().filename().string(), question_of(entry.path()), entry.path()});
  std::sort(configs.begin(), configs.end(), [](const KnownConfig& a, const KnownConfig& b) { return a.name < b.name; });
  return configs;
}

std::string find_config(const std::string& config) {
  std::error_code error;
  const fs::path folder = config_folder(), name = config;
  if (config.empty() || folder.empty() || name.has_parent_path() || fs::exists(name, error)) return config;
  for (const fs::path& file : {folder / name, folder / (config + ".yaml")})
    if (fs::is_regular_file(file, error)) return file.string();
  return config;
}

std::string nearest_config(const std::string& name) {
  std::vector<std::string> names;
  for (const KnownConfig& config : known_configs()) names.push_back(config.path.stem().string());
  return codecs::did_you_mean(fs::path(name).stem().string(),
                              std::vector<std::string_view>(names.begin(), names.end()));
}

}  // namespace ecmv::experiments

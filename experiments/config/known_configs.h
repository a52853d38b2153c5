// The configs that come with the program: experiments/configs, beside it in a build folder, or installed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ecmv::experiments {

struct KnownConfig {
  std::string name;  // of the file: "smoke.yaml"
  std::string question;
  std::filesystem::path path;
};

// In alphabetical order; empty if they are neither beside the program nor installed with it.
std::vector<KnownConfig> known_configs();

// `config` if such a file exists or it has folders; else the supplied config of that name; else `config` again.
std::string find_config(const std::string& config);

// "" or " Did you mean 'x'?", from the supplied configs, for a name that is no file.
std::string nearest_config(const std::string& name);

}  // namespace ecmv::experiments

// The configs that come along with the program: experiments/configs, beside it in a build folder, or
// installed.
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

// In alphabetical order; none if they are neither beside the program nor installed with it.
std::vector<KnownConfig> known_configs();

// `config` if there is such a file or it has folders; else the config of that name that comes along; else
// `config` again.
std::string find_config(const std::string& config);

// "" or " Did you mean 'x'?", of the configs that come along, for a name that is no file.
std::string nearest_config(const std::string& name);

}  // namespace ecmv::experiments

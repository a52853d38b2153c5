// Whether a build has code for a device, from the architectures that it was built for. A driver says it only where a
// kernel is first launched, and with words that do not tell what to do.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace ecmv::backends {

inline std::vector<std::string> listed(std::string_view list) {
  std::vector<std::string> words;
  for (const char byte : list)
    if (byte == ',')
      words.emplace_back();
    else if (words.empty())
      words.emplace_back(1, byte);
    else
      words.back() += byte;
  return words;
}

inline std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 < words.size() ? ", " : " and ") + words[i];
  return text;
}

// One of CMake's CUDA architectures: 80, 90a-real, 100f, 90-virtual. Without a suffix it is code and PTX.
struct CudaArchitecture {
  int number = 0;  // 0: another word ("native"), of which nothing is known
  char kind = 0;   // 'a': for this architecture alone; 'f': for those of its major number; 0: for later ones too
  bool real = true, ptx = true;

  static CudaArchitecture parse(std::string_view word) {
    CudaArchitecture parsed;
    const size_t dash = std::min(word.find('-'), word.size());
    const std::string_view form = word.substr(dash);
    word = word.substr(0, dash);
    parsed.real = form != "-virtual";
    parsed.ptx = form != "-real";
    if (!word.empty() && (word.back() == 'a' || word.back() == 'f')) {
      parsed.kind = word.back();
      word.remove_suffix(1);
    }
    if (word.empty() || word.find_first_not_of("0123456789") != std::string_view::npos || word.size() > 4) return {};
    for (const char digit : word) parsed.number = 10 * parsed.number + (digit - '0');
    return parsed;
  }
  std::string name() const {
    return (real ? "sm_" : "compute_") + std::to_string(number) + (kind == 0 ? "" : std::string(1, kind));
  }
  bool code_runs_on(int device) const {
    return real && (kind == 'a' ? device == number : device / 10 == number / 10 && device >= number);
  }
  bool ptx_runs_on(int device) const {
    if (!ptx || device < number) return false;
    return kind == 0 || (kind == 'a' ? device == number : device / 10 == number / 10);
  }
};

// The variables by which users keep the driver from translating PTX, or from using anything else.
struct PtxRules {
  bool forced = false, forbidden = false;
  static PtxRules of_environment() {
    const auto is_set = [](const char* name) {
      const char* value = std::getenv(name);
      return value != nullptr && std::atoi(value) != 0;
    };
    return {is_set("CUDA_FORCE_PTX_JIT") || is_set("CUDA_FORCE_JIT"),
            is_set("CUDA_DISABLE_PTX_JIT") || is_set("CUDA_DISABLE_JIT")};
  }
};

// Why a build for `architectures` (CMake's words, with commas) has no code for a device of this number (sm_90: 90); ""
// if it has, or if nothing is known.
inline std::string why_no_cuda_code(std::string_view architectures, int device, PtxRules rules) {
  bool code = false, ptx = false;
  std::vector<std::string> names;
  for (const std::string& word : listed(architectures)) {
    const CudaArchitecture one = CudaArchitecture::parse(word);
    if (one.number == 0) return {};
    code |= one.code_runs_on(device);
    ptx |= one.ptx_runs_on(device);
    names.push_back(one.name());
  }
  if (names.empty() || (code && !rules.forced) || (ptx && !rules.forbidden)) return {};
  const std::string number = std::to_string(device), built = "the build has code for " + joined(names) + " alone";
  if (code)
    return "CUDA_FORCE_PTX_JIT is set, and " + built + ", none of which a driver translates for it: unset the variable";
  if (ptx)
    return built +
           ", which the driver may not translate for it, since CUDA_DISABLE_PTX_JIT is set: unset the "
           "variable, or build with -DCMAKE_CUDA_ARCHITECTURES=" +
           number;
  return built + ": build with -DCMAKE_CUDA_ARCHITECTURES=" + number;
}

// The same for AMD's names, such as gfx90a.
inline std::string why_no_hip_code(std::string_view architectures, const std::string& device) {
  std::vector<std::string> names;
  for (const std::string& word : listed(architectures)) {
    const std::string name = word.substr(0, word.find(':'));
    if (!name.starts_with("gfx") || name.find('-') != std::string::npos) return {};  // gfx9-generic
    if (name == device) return {};
    names.push_back(name);
  }
  if (names.empty()) return {};
  return "the build has code for " + joined(names) + " alone: build with -DECMV_HIP_ARCHITECTURES=" + device;
}

}  // namespace ecmv::backends

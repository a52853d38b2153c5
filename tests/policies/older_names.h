// Former names of policies, which published records keep.
#pragma once

#include <string>
#include <string_view>

namespace ecmv::tests {

// A word of a policy's name, old and new: waves16_ahead2 is groups16_ahead2 today. A number may follow the word.
struct RenamedWord {
  std::string_view before, now;
};
inline constexpr RenamedWord kRenamedWords[] = {
    {"waves", "groups"}, {"together", "warpgroup"}, {"alone", "warp"}, {"tiles", "amx"}, {"pair_dots", "avx512_bf16"}};

// Today's name; a name that never changed is returned unchanged.
inline std::string current_policy_name(std::string_view name) {
  std::string current(name);
  for (const auto& [before, now] : kRenamedWords)
    for (std::size_t at = 0; (at = current.find(before, at)) != std::string::npos;) {
      const std::size_t end = at + before.size();
      const bool begins = at == 0 || current[at - 1] == '_';
      const bool ends = end == current.size() || current[end] == '_' || (current[end] >= '0' && current[end] <= '9');
      if (begins && ends) current.replace(at, before.size(), now);
      at += begins && ends ? now.size() : before.size();
    }
  return current;
}

}  // namespace ecmv::tests

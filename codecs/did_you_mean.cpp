// Levenshtein distance, one row of the table at a time.
#include "codecs/did_you_mean.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace ecmv::codecs {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

namespace {

// Names that hold the word, or the word without up to `most` of its last letters: "huffmann" is in "huffman_lut" and
// "quad_huffman".
std::vector<std::string_view> names_with(std::string_view word, std::span<const std::string_view> known, size_t most) {
  constexpr size_t kLeast = 3, kMost = 4;  // letters; names
  const size_t letters = word.size() - std::min(word.size(), word.find_first_not_of('-'));
  std::vector<std::string_view> names;
  for (size_t cut = 0; cut <= most && letters >= kLeast + cut && names.empty(); ++cut)
    for (const std::string_view name : known)
      if (name.find(word.substr(0, word.size() - cut)) != std::string_view::npos && names.size() < kMost)
        names.push_back(name);
  return names;
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  // More wrong letters are no typing error: 'foo' is not 'op'.
  size_t best_distance = word.size() < 4 ? 2 : std::min<size_t>(4, (word.size() + 3) / 2);
  for (std::string_view candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance || distance >= std::max(word.size(), candidate.size())) continue;
    best = candidate;
    best_distance = distance;
  }
  if (best_distance > 1)
    if (const auto names = names_with(word, known, best_distance > 2 ? 2 : 0); !names.empty()) {
      std::string list;
      for (size_t i = 0; i < names.size(); ++i)
        list += (i == 0 ? "'" : i + 1 < names.size() ? ", '" : " or '") + std::string(names[i]) + "'";
      return " Did you mean " + list + "?";
    }
  return best.empty() ? "" : " Did you mean '" + std::string(best) + "'?";
}

}  // namespace ecmv::codecs

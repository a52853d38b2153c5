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

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance = std::min<size_t>(4, (word.size() + 3) / 2);  // more wrong letters are no typing error
  for (std::string_view candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance || distance >= std::max(word.size(), candidate.size())) continue;
    best = candidate;
    best_distance = distance;
  }
  return best.empty() ? "" : " Did you mean '" + std::string(best) + "'?";
}

}  // namespace ecmv::codecs

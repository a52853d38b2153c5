// The list of all sources. A new source is declared and listed here; nothing else knows it.
#include <algorithm>
#include <array>

#include "datasets/source.h"

namespace ecmv::datasets {

extern const DataSource kGaussianSource, kGaussianFloatsSource, kLaplaceSource, kUniformSource, kConstantSource,
    kTwoSymbolsSource, kTernarySource, kLlmLikeSource, kWorkloadSource, kWeightsSource, kSafetensorsSource, kNpySource,
    kMatvansSource, kModelSource;

std::span<const DataSource> all_sources() {
  static const std::array list{kGaussianSource, kGaussianFloatsSource, kLaplaceSource,     kUniformSource,
                               kConstantSource, kTwoSymbolsSource,     kTernarySource,     kLlmLikeSource,
                               kWorkloadSource, kWeightsSource,        kSafetensorsSource, kNpySource,
                               kMatvansSource,  kModelSource};
  return list;
}

const DataSource* find_source(std::string_view id) {
  const auto sources = all_sources();
  const auto found =
      std::find_if(sources.begin(), sources.end(), [&](const DataSource& source) { return source.id == id; });
  return found == sources.end() ? nullptr : &*found;
}

}  // namespace ecmv::datasets

// Quantiles of a few samples.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace ecmv::experiments {

// Linear interpolation between order statistics, q in [0, 1]; NaN for no values.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(position);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (position - static_cast<double>(low)) * (values[high] - values[low]);
}

}  // namespace ecmv::experiments

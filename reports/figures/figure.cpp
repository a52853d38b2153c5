// Ranges and ticks.
#include "reports/figures/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reports/fields.h"

namespace ecmv::reports {
namespace {

std::string tick_text(double value) {
  if (std::abs(value) < 1 && std::abs(value) >= 1e-3) return fmt::format("{:.6g}", value);
  std::string text = si_text(value);  // "2.00 G" -> "2 G"
  const auto point = text.find('.');
  if (point == std::string::npos) return text;
  const auto end = text.find(' ', point);
  std::string number = text.substr(0, end);
  while (number.back() == '0') number.pop_back();
  if (number.back() == '.') number.pop_back();
  return end == std::string::npos ? number : number + text.substr(end);
}

// The farthest limit of axes: beyond it squares and ratios overflow.
constexpr double kFarthest = 1e100;

double within(double value, double least, double most) {
  return std::isnan(value) ? least : std::clamp(value, least, most);
}

void choose_log_ticks(PlotAxis& axis, double data_min, double data_max) {
  data_min = within(data_min, 1 / kFarthest, kFarthest);
  data_max = within(data_max, data_min, kFarthest);
  const double margin = std::pow(data_max / data_min, 0.06) * 1.08;
  axis.min = data_min / margin;
  axis.max = data_max * margin;
  const double decades = std::log10(axis.max / axis.min);
  const std::vector<double> steps =
      decades > 3.5   ? std::vector<double>{1}
      : decades > 0.8 ? std::vector<double>{1, 2, 5}
      : decades > 0.6 ? std::vector<double>{1, 1.5, 2, 3, 4, 5, 6, 8}
                      : std::vector<double>{1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9};
  const int stride = 1 + static_cast<int>(decades / 20);
  const int first = static_cast<int>(std::floor(std::log10(axis.min))),
            last = static_cast<int>(std::ceil(std::log10(axis.max)));
  for (int power = first; power <= last; power += stride) {
    for (double step : steps) {
      const double at = step * std::pow(10, power);
      if (at >= axis.min && at <= axis.max) axis.ticks.push_back({at, tick_text(at)});
    }
  }
}

}  // namespace

std::string HeatMap::text(std::size_t y, std::size_t x) const {
  const auto mark = marks.find({y, x});
  return fixed_text(values[y][x], 2) + (mark == marks.end() || mark->second.empty() ? "" : " " + mark->second);
}

void choose_ticks(PlotAxis& axis, double data_min, double data_max) {
  axis.ticks.clear();
  if (axis.log && data_min > 0) {
    choose_log_ticks(axis, data_min, data_max);
    return;
  }
  data_min = within(data_min, -kFarthest, kFarthest);
  data_max = within(data_max, data_min, kFarthest);
  const double span = std::max(data_max - data_min, 1e-9 * std::max(std::abs(data_max), 1e-30));
  axis.min = axis.from_zero ? std::min(0.0, data_min) : data_min - 0.06 * span;
  axis.max = data_max + 0.06 * (axis.from_zero ? data_max - axis.min : span);
  if (!(axis.max > axis.min)) axis.max = axis.min + std::max(1.0, 1e-6 * std::abs(axis.min));
  double step = std::pow(10, std::floor(std::log10((axis.max - axis.min) / 5)));
  for (double factor : {2.0, 2.5, 2.0}) {  // 1, 2, 5, 10
    if ((axis.max - axis.min) / step > 7) step *= factor;
  }
  const double first = std::ceil(axis.min / step);
  for (int i = 0; i < 10 && (first + i) * step <= axis.max; ++i) {
    const double at = std::abs(first + i) < 1e-6 ? 0 : (first + i) * step;
    axis.ticks.push_back({at, tick_text(at)});
  }
}

}  // namespace ecmv::reports

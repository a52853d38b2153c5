// Figures of a point for each codec and settings: bits against speed with the Pareto front, and the roofline.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reports/fields.h"
#include "reports/figures/figures.h"

namespace ecmv::reports {

std::vector<Figure> FigureMaker::bits_against_speed() const {
  std::vector<Figure> figures;
  for (const Facet& facet :
       facets("pareto", ok_cases(), {"op", "batch", "activations", "data", "cache", "device", "threads"})) {
    const Cases cases = fastest_kernels(facet.cases);
    if (cases.size() < 2) continue;
    XyPlot plot;
    plot.x = {"stored bits per element, everything counted", false, false, 0, 1, {}};
    plot.y = {"elements/s", true, true, 0, 1, {}};
    double bits_min = INFINITY, bits_max = 0, speed_min = INFINITY, speed_max = 0, raw_speed = 0, raw_bits = 0;
    std::map<std::string, Series> by_codec;
    std::vector<std::pair<Point, const CaseRecord*>> points;
    for (const CaseRecord* record : cases) {
      const Point point{number(*record, "bits_per_element"),
                        number(*record, "elements_per_s"),
                        number(*record, "elements_per_s_p10"),
                        number(*record, "elements_per_s_p90"),
                        "",
                        mark_of(*record, "elements_per_s")};
      if (!std::isfinite(point.x) || !(point.y > 0)) continue;
      points.emplace_back(point, record);
      bits_min = std::min(bits_min, point.x), bits_max = std::max(bits_max, point.x);
      speed_min = std::min({speed_min, point.y, point.low > 0 ? point.low : point.y});
      speed_max = std::max({speed_max, point.y, std::isfinite(point.high) ? point.high : point.y});
      if (contexts_.is_baseline(*record) && point.y > raw_speed) raw_speed = point.y, raw_bits = point.x;
    }
    if (points.size() < 2) continue;
    std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first.x, -a.first.y) < std::pair(b.first.x, -b.first.y);
    });
    Series front{"Pareto front", "no case has fewer bits and is faster", kInk, false, Series::Style::staircase, {}};
    plot.legend_notes.push_back("On the Pareto front:");
    double best = 0;
    for (auto& [point, record] : points) {
      if (point.y > best) {
        best = point.y;
        point.letter = std::string(1, static_cast<char>('a' + front.points.size() % 26));
        front.points.push_back({point.x, point.y});
        plot.legend_notes.push_back(fmt::format("{}  {}", point.letter, codec_label(*record)));
      }
      Series& series = by_codec[record->codec.id];
      series.color = color(*record);
      series.style = Series::Style::points;
      series.hollow = record->time.cache == "resident";
      series.points.push_back(point);
    }
    plot.series.push_back(front);
    for (auto& [codec, series] : by_codec) {
      series.label = codec;
      series.detail = series.points.size() > 1 ? fmt::format("{} settings", series.points.size()) : "";
      plot.series.push_back(std::move(series));
    }
    const double entropy = cases.front()->size.entropy_bits_per_element;
    if (std::isfinite(entropy)) plot.vertical.push_back({entropy, fmt::format("entropy {:.3f}", entropy)});
    if (raw_bits > 0) {
      plot.vertical.push_back({raw_bits, fmt::format("raw {:.4g} bits", raw_bits)});
      plot.horizontal.push_back({raw_speed, fmt::format("raw, {}/s", si_text(raw_speed))});
    }
    if (std::isfinite(entropy)) bits_min = std::min(bits_min, entropy);
    choose_ticks(plot.x, bits_min, bits_max);
    choose_ticks(plot.y, speed_min, speed_max);
    plot.y.max *= 1.15;  // room for labels
    figures.push_back({facet.id, "Bits per element against speed", facet.subtitle,
                       "Each point is one codec and settings with its fastest kernel, bars from the 10th to the 90th "
                       "percentile. Better "
                       "is up and left. Left of the entropy line no code of independent symbols can be.",
                       std::move(plot), facet.cases});
  }
  return figures;
}

std::vector<Figure> FigureMaker::roofline() const {
  std::vector<Figure> figures;
  for (const Facet& facet :
       facets("roofline", ok_cases(), {"op", "batch", "activations", "device", "threads", "cache"})) {
    double bandwidth = 0, speed_min = INFINITY, speed_max = 0, dense_min = 0.9, dense_max = 2;
    std::map<std::string, Series> by_codec;
    for (const CaseRecord* record : fastest_kernels(facet.cases)) {
      const Context context = contexts_.of(*record);
      Point point{8.0 / number(*record, "bits_per_element"), number(*record, "elements_per_s")};
      point.mark = mark_of(*record, "elements_per_s");
      if (!context.bandwidth || !std::isfinite(point.x) || !(point.y > 0)) continue;
      bandwidth = std::max(bandwidth, context.bandwidth->read_bytes_per_s);
      speed_min = std::min(speed_min, point.y), speed_max = std::max(speed_max, point.y);
      dense_min = std::min(dense_min, point.x), dense_max = std::max(dense_max, point.x);
      Series& series = by_codec[record->codec.id];
      series.label = record->codec.id;
      series.color = color(*record);
      series.style = Series::Style::points;
      series.points.push_back(point);
      const double fraction = number(*record, "bandwidth_fraction");
      if (series.detail.empty() || fraction > series.points.front().low) {
        series.points.front().low = fraction;  // the best so far; removed below
        series.detail = fmt::format("up to {:.2g} % of its roof", 100 * fraction);
      }
    }
    if (by_codec.empty()) continue;
    XyPlot plot;
    plot.x = {"elements per stored byte, 8 / bits per element", true, true, 0, 1, {}};
    plot.y = {"elements/s", true, true, 0, 1, {}};
    choose_ticks(plot.x, dense_min, dense_max);
    choose_ticks(plot.y, std::min(speed_min, bandwidth), std::max(speed_max, bandwidth * dense_max));
    Series roof{"memory roof",
                fmt::format("read bandwidth {}B/s × elements per byte", si_text(bandwidth)),
                kInk,
                false,
                Series::Style::dashes,
                {}};
    for (double x : {plot.x.min, plot.x.max}) roof.points.push_back({x, bandwidth * x});
    plot.y.max = std::max(plot.y.max, roof.points.back().y * 1.05);
    plot.series.push_back(std::move(roof));
    for (auto& [codec, series] : by_codec) {
      for (Point& point : series.points) point.low = kUnknown;
      std::sort(series.points.begin(), series.points.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
      plot.series.push_back(std::move(series));
    }
    figures.push_back(
        {facet.id, "Roofline", facet.subtitle,
         "Each point is one codec, settings and data with its fastest kernel. On the dashed line a kernel "
         "takes stored bytes as fast as memory was measured to deliver them; below it, computing limits.",
         std::move(plot), facet.cases});
  }
  return figures;
}

}  // namespace ecmv::reports

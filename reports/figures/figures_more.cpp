// The figures that are not lines over a parameter: bits against speed with the Pareto front, roofline, the
// map of speed-ups, break-even bandwidths and sizes by role.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

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
      const Point point{number(*record, "bits_per_element"), number(*record, "elements_per_s"),
                        number(*record, "elements_per_s_p10"), number(*record, "elements_per_s_p90")};
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
      const Point point{8.0 / number(*record, "bits_per_element"), number(*record, "elements_per_s")};
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
        series.points.front().low = fraction;  // the best so far, removed below
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

std::vector<Figure> FigureMaker::speedup_map() const {
  std::vector<Figure> figures;
  Cases cases = ok_cases();
  std::erase_if(cases, [&](const CaseRecord* r) { return contexts_.is_baseline(*r) || !is_square(*r); });
  for (const Facet& facet :
       facets("map", cases,
              {"codec", "op", "batch", "activations", "data_source", "backend", "device", "threads", "cache"})) {
    const Cases chosen = best_at_each(facet.cases, "speedup_vs_raw", [](const CaseRecord& r) {
      return fmt::format("{} {}", r.data.sigma, dimension_of(r));
    });
    if (chosen.empty()) continue;
    const Names names = names_of(chosen, "in each cell");
    std::set<double> sigmas, sizes;
    for (const CaseRecord* record : chosen) {
      if (std::isfinite(record->data.sigma)) sigmas.insert(record->data.sigma), sizes.insert(dimension_of(*record));
    }
    if (sigmas.size() < 2 || sizes.size() < 2) continue;
    HeatMap map{"rows and columns of a matrix", "σ of the elements", {}, {}, {}, 1, "speed-up over raw"};
    for (double size : sizes) map.x_names.push_back(fmt::format("{:.6g}", size));
    for (double sigma : sigmas) map.y_names.push_back(fmt::format("{:.4g}", sigma));
    map.values.assign(sigmas.size(), std::vector<double>(sizes.size(), kUnknown));
    for (const CaseRecord* record : chosen) {
      if (!std::isfinite(record->data.sigma)) continue;
      const auto y = static_cast<std::size_t>(std::distance(sigmas.begin(), sigmas.find(record->data.sigma)));
      const auto x = static_cast<std::size_t>(std::distance(sizes.begin(), sizes.find(dimension_of(*record))));
      map.values[y][x] = number(*record, "speedup_vs_raw");
    }
    figures.push_back({facet.id, "Speed-up over raw: size and σ",
                       fmt::format("{} · {} · {} · {}", names.label, names.detail, facet.cases.front()->time.cache,
                                   device_label(*facet.cases.front())),
                       "The thick line parts what is faster than uncompressed from what is slower.", std::move(map),
                       facet.cases});
  }
  return figures;
}

std::vector<Figure> FigureMaker::product_bars(const BarSpec& spec) const {
  std::vector<Figure> figures;
  Cases products = ok_cases();
  // The figures over batch show batches better.
  std::erase_if(products, [](const CaseRecord* r) { return r->kernel.op == "decode" || r->kernel.batch > 1; });
  for (const Facet& facet :
       facets(spec.id, largest_of_each_source(products), {"op", "data", "cache", "device", "threads"})) {
    BarPlot plot;
    plot.x = {spec.axis, false, true, 0, 1, {}};
    plot.part_names = {spec.part};
    double roof = 0, largest = 0;
    std::vector<std::pair<double, const CaseRecord*>> values;
    for (const CaseRecord* record : fastest_kernels(facet.cases)) {
      const Context context = contexts_.of(*record);
      const double value = number_of(*record, context, spec.metric);
      // The measured read bandwidth in the metric's unit: an element a byte.
      if (context.bandwidth) {
        const double unit =
            number_of(*record, context, spec.unit_metric) / number_of(*record, context, "elements_per_s");
        if (std::isfinite(unit)) roof = std::max(roof, context.bandwidth->read_bytes_per_s * unit);
      }
      if (!std::isfinite(value) || contexts_.is_baseline(*record)) continue;
      values.emplace_back(value, record);
      largest = std::max(largest, value);
    }
    if (values.empty()) continue;
    std::stable_sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [value, record] : values) {
      plot.bars.push_back({codec_label(*record), spec.text(value), {value}, color(*record)});
    }
    if (roof > 0) plot.vertical.push_back({roof, fmt::format("this machine: {}", spec.text(roof))});
    choose_ticks(plot.x, 0, std::max(largest, roof));
    figures.push_back({facet.id, spec.title, facet.subtitle, spec.caption, std::move(plot), facet.cases});
  }
  return figures;
}

std::vector<Figure> FigureMaker::break_even() const {
  return product_bars(
      {"break_even", "Break-even memory bandwidth", "break_even_bandwidth_bytes_per_s", "elements_per_s",
       "memory bandwidth below which it beats an ideal int8 product, B/s", "break-even",
       "A bar that reaches beyond the dashed line beats, on this machine, an int8 product that is limited "
       "by "
       "memory alone. Shorter bars would win on slower memory (the same cores with less bandwidth each).",
       [](double value) { return si_text(value) + "B/s"; }});
}

std::vector<Figure> FigureMaker::decode_rate() const {
  return product_bars(
      {"decode_rate", "Decode rate of a compute unit", "elements_per_clock_and_unit", "elements_per_clock_and_unit",
       "elements a clock and compute unit", "decode rate",
       "What one streaming multiprocessor or compute unit decodes and multiplies in a clock. The dashed line: the "
       "bytes that this "
       "machine's memory gives it in a clock, hence the rate of an int8 product that memory alone limits.",
       [](double value) { return fmt::format("{:.2f}", value); }});
}

std::vector<Figure> FigureMaker::size_by_role() const {
  std::vector<Figure> figures;
  for (const Facet& facet : facets("size", largest_of_each_source(ok_cases()), {"data"})) {
    std::map<std::string, const CaseRecord*> schemes;
    for (const CaseRecord* record : facet.cases)
      if (std::isfinite(number(*record, "bits_per_element"))) schemes.emplace(codec_label(*record), record);
    if (schemes.size() < 2) continue;
    Cases cases;
    for (const auto& [label, record] : schemes) cases.push_back(record);
    std::stable_sort(cases.begin(), cases.end(),
                     [&](auto* a, auto* b) { return number(*a, "bits_per_element") < number(*b, "bits_per_element"); });
    BarPlot plot;
    plot.x = {"stored bits per element", false, true, 0, 1, {}};
    plot.part_names = {"payload", "table", "index", "scale"};
    const double entropy = cases.front()->size.entropy_bits_per_element;
    double largest = 0;
    for (const CaseRecord* record : cases) {
      const double total = number(*record, "bits_per_element");
      largest = std::max(largest, total);
      std::string text = fmt::format("{:.3f}", total);
      if (!is_exact(*record))
        text += " (lossy)";
      else if (entropy > 0)
        text += fmt::format(" ({:+.1f} %)", 100 * (total / entropy - 1));
      plot.bars.push_back({codec_label(*record),
                           text,
                           {number(*record, "payload_bits_per_element"), number(*record, "table_bits_per_element"),
                            number(*record, "index_bits_per_element"), number(*record, "scale_bits_per_element")},
                           0});
    }
    if (std::isfinite(entropy)) plot.vertical.push_back({entropy, fmt::format("entropy {:.3f}", entropy)});
    choose_ticks(plot.x, 0, largest);
    figures.push_back({facet.id, "Stored bits by role", facet.subtitle,
                       "What a kernel may read, padding included. The percentage is the excess over the entropy.",
                       std::move(plot), facet.cases});
  }
  return figures;
}

std::vector<Figure> FigureMaker::overhead_by_role() const {
  constexpr double kMostBits = 1;  // above that the small parts of the others could not be seen
  std::vector<Figure> figures;
  for (const Facet& facet : facets("overhead", largest_of_each_source(ok_cases()), {"data"})) {
    std::map<std::string, const CaseRecord*> schemes;
    for (const CaseRecord* record : facet.cases) schemes.emplace(codec_label(*record), record);
    std::vector<std::pair<double, const CaseRecord*>> cases;
    for (const auto& [label, record] : schemes) {
      const double overhead = number(*record, "bits_per_element") - record->size.entropy_bits_per_element;
      if (overhead <= kMostBits && is_exact(*record)) cases.emplace_back(overhead, record);
    }
    if (cases.size() < 2) continue;
    std::stable_sort(cases.begin(), cases.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    BarPlot plot;
    plot.x = {"bits per element above the entropy", false, true, 0, 1, {}};
    plot.part_names = {"payload above entropy", "table", "index", "scale"};
    double smallest = 0;
    for (const auto& [overhead, record] : cases) {
      const double payload = number(*record, "payload_bits_per_element") - record->size.entropy_bits_per_element;
      smallest = std::min(smallest, payload);
      const double table = number(*record, "table_bits_per_element"), index = number(*record, "index_bits_per_element");
      plot.bars.push_back({codec_label(*record),
                           fmt::format("{:.4f}: table {:.2g}, index {:.2g}", overhead, table, index),
                           {payload, table, index, number(*record, "scale_bits_per_element")},
                           0});
    }
    choose_ticks(plot.x, smallest, cases.back().first);
    figures.push_back(
        {facet.id, "Overhead above the entropy", facet.subtitle,
         fmt::format("The stored bits less the entropy, by role. Schemes more than {} bit above the entropy "
                     "are left out, and lossy ones. A payload below zero used more than the histogram.",
                     kMostBits),
         std::move(plot), facet.cases});
  }
  return figures;
}

}  // namespace ecmv::reports

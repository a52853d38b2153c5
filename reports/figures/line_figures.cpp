// Figures of lines over a parameter: throughput over size, speed over batch, speed-up over sigma and shape, and those
// that --x --y --series --facet ask for.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "reports/fields.h"
#include "reports/figures/figures.h"

namespace ecmv::reports {
namespace {

std::string axis_label(const std::string& name) {
  if (name == "dimension") return "rows and columns of a matrix";
  if (name == "sigma") return "σ of the elements";
  if (name == "batch") return "tokens of a batch";
  for (const Metric& metric : all_metrics()) {
    if (metric.id != name) continue;
    if (metric.unit == "1/s") return std::string(metric.name);
    return metric.unit.empty() ? fmt::format("{}, ×", metric.name) : fmt::format("{}, {}", metric.name, metric.unit);
  }
  return name;
}

void set_ranges(XyPlot& plot, bool exact_x_ticks) {
  double x_min = INFINITY, x_max = -INFINITY, y_min = INFINITY, y_max = -INFINITY;
  std::set<double> xs;
  for (const Series& series : plot.series) {
    for (const Point& p : series.points) {
      xs.insert(p.x);
      x_min = std::min(x_min, p.x), x_max = std::max(x_max, p.x);
      y_min = std::min({y_min, p.y, std::isfinite(p.low) ? p.low : p.y});
      y_max = std::max({y_max, p.y, std::isfinite(p.high) ? p.high : p.y});
    }
  }
  for (const Guide& guide : plot.horizontal) y_min = std::min(y_min, guide.at), y_max = std::max(y_max, guide.at);
  choose_ticks(plot.x, x_min, x_max);
  choose_ticks(plot.y, y_min, y_max);
  if (!exact_x_ticks) return;
  plot.x.ticks.clear();  // the measured values make the best ticks
  double last = -INFINITY;
  for (double x : xs) {
    const double at = plot.x.log ? std::log(x / plot.x.min) / std::log(plot.x.max / plot.x.min)
                                 : (x - plot.x.min) / (plot.x.max - plot.x.min);
    if (at - last < 0.04) continue;
    last = at;
    plot.x.ticks.push_back({x, x == std::floor(x) ? fmt::format("{:.0f}", x) : fmt::format("{:.4g}", x)});
  }
}

}  // namespace

std::vector<Figure> FigureMaker::xy(const XySpec& spec) const {
  std::vector<Figure> figures;
  Cases all = ok_cases();
  if (spec.square_only) std::erase_if(all, [](const CaseRecord* r) { return !is_square(*r); });
  for (const Facet& facet : facets(spec.id, all, spec.facets)) {
    std::map<std::string, Cases> by_series;
    for (const CaseRecord* record : facet.cases) {
      std::string name = field_text(*record, spec.series);
      if (!spec.choose_configuration) name += "|" + field_text(*record, "configuration");
      by_series[name].push_back(record);
    }
    XyPlot plot;
    plot.x = {axis_label(spec.x), spec.log_x, spec.x == "speedup_vs_raw", 0, 1, {}};
    plot.y = {axis_label(spec.y), spec.log_y, true, 0, 1, {}};
    std::set<double> xs;
    bool any_resident = false, any_streamed = false;
    int next_color = 0;
    for (const auto& [name, cases] : by_series) {
      const Cases chosen =
          best_at_each(cases, spec.y, [&](const CaseRecord& r) { return fmt::format("{}", number(r, spec.x)); });
      // The guide at 1 is the baseline's speed-up over itself.
      if (chosen.empty() || (spec.y == "speedup_vs_raw" && contexts_.is_baseline(*chosen.front()))) continue;
      const CaseRecord& first = *chosen.front();
      const int series_color = spec.series == "codec" ? color(first) : next_color++;
      Series streamed, resident;
      resident.hollow = true;
      for (Series* series : {&streamed, &resident}) series->color = series_color;
      for (const CaseRecord* record : chosen) {
        const Context context = contexts_.of(*record);
        Point point{number_of(*record, context, spec.x), number_of(*record, context, spec.y)};
        if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
        if ((spec.log_x && point.x <= 0) || (spec.log_y && point.y <= 0)) continue;
        point = with_spread(*record, point, spec.y);
        xs.insert(point.x);
        (record->time.cache == "resident" ? resident : streamed).points.push_back(point);
      }
      Series& labelled = streamed.points.empty() ? resident : streamed;
      const Names names = names_of(chosen, "at each point");
      labelled.label = spec.series == "codec" ? names.label : field_text(first, spec.series);
      labelled.detail = spec.series == "codec" ? names.detail : names.label + " · " + names.detail;
      for (Series* series : {&resident, &streamed}) {
        if (series->points.empty()) continue;
        std::stable_sort(series->points.begin(), series->points.end(),
                         [](const Point& a, const Point& b) { return a.x < b.x; });
        (series->hollow ? any_resident : any_streamed) = true;
        plot.series.push_back(*series);
      }
    }
    if (plot.series.empty() || xs.size() < 2) continue;
    if (any_resident) {
      plot.legend_notes.push_back(any_streamed ? "filled, solid: streamed from memory"
                                               : "all cases resident in a cache");
      if (any_streamed) plot.legend_notes.push_back("hollow, dashed: resident in a cache");
    }
    if (spec.y == "speedup_vs_raw") plot.horizontal.push_back({1, "raw"});
    set_ranges(plot, xs.size() <= 12);
    const std::string title =
        spec.title.empty() ? fmt::format("{} over {}", axis_label(spec.y), axis_label(spec.x)) : spec.title;
    figures.push_back({facet.id, title, facet.subtitle, spec.caption, std::move(plot), facet.cases});
  }
  return figures;
}

std::vector<Figure> FigureMaker::throughput_over_size() const {
  XySpec spec;
  spec.id = "throughput";
  spec.title = "Throughput against matrix size";
  spec.x = "dimension";
  spec.y = "elements_per_s";
  spec.facets = {"op", "batch", "activations", "source", "backend", "threads"};
  spec.caption =
      "One line a codec, at each size with its fastest settings and kernel. "
      "Bars span the 10th to 90th percentile. Vertical lines: where the uncompressed int8 chain fills a "
      "cache.";
  spec.square_only = true;
  std::vector<Figure> figures = xy(spec);
  Cases square = ok_cases();
  std::erase_if(square, [](const CaseRecord* r) { return !is_square(*r); });
  std::map<std::string, std::string> backends;  // of a figure
  for (const Facet& facet : facets(spec.id, square, spec.facets))
    backends[facet.id] = facet.cases.front()->kernel.backend;
  for (Figure& figure : figures) {
    XyPlot& plot = std::get<XyPlot>(figure.plot);
    if (records_.runs.empty()) continue;
    const RunRecord& run = records_.runs.front();
    std::int64_t layers = 1;
    for (const CaseRecord& record : records_.cases) layers = std::max(layers, record.data.layers);
    auto mark = [&](double bytes, const std::string& name) {
      const double dimension = std::sqrt(bytes / static_cast<double>(layers));
      if (bytes > 0 && dimension > plot.x.min && dimension < plot.x.max) plot.vertical.push_back({dimension, name});
    };
    const auto gpu = std::find_if(run.gpus.begin(), run.gpus.end(),
                                  [&](const GpuRecord& g) { return g.id.starts_with(backends[figure.id] + ":"); });
    const bool on_gpu = gpu != run.gpus.end();
    const auto last_level = static_cast<double>(on_gpu ? gpu->l2_bytes : run.llc_bytes);
    if (!on_gpu)
      mark(static_cast<double>(run.l2_bytes), "int8 = L2 of a core, " + bytes_text(static_cast<double>(run.l2_bytes)));
    mark(last_level, (on_gpu ? "int8 = L2 of the GPU, " : "int8 = last-level cache, ") + bytes_text(last_level));
    mark(4.0 * last_level, on_gpu ? "4 × L2" : "4 × last-level cache");
    if (!plot.vertical.empty()) plot.y.max *= 1.15;  // room for their labels
  }
  return figures;
}

std::vector<Figure> FigureMaker::speedup_over_sigma() const {
  XySpec spec;
  spec.id = "sigma";
  spec.title = "Speed-up over raw against σ";
  spec.x = "sigma";
  spec.y = "speedup_vs_raw";
  spec.facets = {"op", "batch", "activations", "data_source", "shape", "backend", "threads", "cache"};
  spec.caption =
      "One line a codec, at each σ with its fastest settings and kernel. Above 1: faster than uncompressed. Bars: the "
      "95 % interval.";
  return xy(spec);
}

std::vector<Figure> FigureMaker::speed_over_batch() const {
  XySpec spec;
  spec.facets = {"op", "activations", "data", "backend", "threads", "cache"};
  spec.x = "batch";
  spec.caption =
      "One line a codec, at each batch with its fastest settings and kernel. A batch reads "
      "the weights once for all of its tokens, so the lines rise until multiplying limits. Bars span the 10th to 90th "
      "percentile.";
  std::vector<Figure> figures;
  for (const auto& [id, title, metric] :
       {std::array{"batch", "Multiply-accumulates a second against batch", "macs_per_s"},
        std::array{"batch_tokens", "Tokens a second against batch", "tokens_per_s"}}) {
    spec.id = id;
    spec.title = title;
    spec.y = metric;
    for (Figure& figure : xy(spec)) figures.push_back(std::move(figure));
  }
  return figures;
}

std::vector<Figure> FigureMaker::speedup_by_shape() const {
  std::vector<Figure> figures;
  for (const Facet& facet :
       facets("shapes", ok_cases(), {"op", "batch", "activations", "source", "backend", "threads", "cache"})) {
    std::map<std::pair<std::int64_t, std::string>, double> places;  // shapes from small to large
    std::map<std::string, Cases> by_codec;
    for (const CaseRecord* record : facet.cases) {
      if (const double speedup = number(*record, "speedup_vs_raw"); !(speedup > 0) || std::isinf(speedup)) continue;
      places[{elements_of(*record), shape_label(*record)}] = 0;
      by_codec[record->codec.id].push_back(record);
    }
    const bool any =
        std::any_of(facet.cases.begin(), facet.cases.end(), [](const CaseRecord* r) { return !is_square(*r); });
    if (places.size() < 2 || !any) continue;
    XyPlot plot;
    plot.x = {"shape of a matrix, rows × columns",      false, false, -0.5,
              static_cast<double>(places.size()) - 0.5, {},    true};
    plot.y = {axis_label("speedup_vs_raw"), true, true, 0, 1, {}};
    plot.horizontal.push_back({1, "raw"});
    double next = 0, slowest = 1, fastest = 1;
    for (auto& [shape, at] : places) at = next++;
    for (const auto& [codec, cases] : by_codec) {
      const Cases chosen = best_at_each(cases, "speedup_vs_raw", shape_label);
      if (chosen.empty() || contexts_.is_baseline(*chosen.front())) continue;
      const Names names = names_of(chosen, "for each shape");
      Series series{names.label, names.detail, color(*chosen.front()), false, Series::Style::points, {}};
      for (const CaseRecord* record : chosen) {
        const double speedup = number(*record, "speedup_vs_raw");
        if (!(speedup > 0)) continue;
        slowest = std::min(slowest, speedup), fastest = std::max(fastest, speedup);
        const double at = places[{elements_of(*record), shape_label(*record)}];
        series.points.push_back(with_spread(*record, {at, speedup}, "speedup_vs_raw"));
      }
      plot.series.push_back(std::move(series));
    }
    std::erase_if(plot.series, [](const Series& series) { return series.points.empty(); });
    if (plot.series.empty()) continue;
    choose_ticks(plot.y, slowest, fastest);
    for (const auto& [shape, at] : places)
      plot.x.ticks.push_back({at, shape.second.substr(0, shape.second.find(" ("))});
    figures.push_back({facet.id, "Speed-up over raw by shape", facet.subtitle,
                       "Above 1: faster than uncompressed. Bars: the 95 % interval.", std::move(plot), facet.cases});
  }
  return figures;
}

}  // namespace ecmv::reports

// Figures of lines over a parameter: throughput over size, speed over batch, speed-up over sigma and shape, and those
// that --x --y --series --facet ask for.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>

#include "reports/fields.h"
#include "reports/figures/figures.h"

namespace ecmv::reports {
namespace {

std::string axis_label(const std::string& name) {
  if (name == "dimension") return "rows and columns of a matrix";
  if (name == "sigma") return "σ of the elements";
  if (name == "batch") return "tokens of a batch";
  if (name == "shape") return "shape of a matrix, rows × columns";
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

// Explains hollow points and marks below the legend.
void note_classes(XyPlot& plot) {
  bool resident = false, streamed = false, marks = false;
  for (const Series& series : plot.series) {
    (series.hollow ? resident : streamed) = true;
    for (const Point& point : series.points) marks |= !point.mark.empty();
  }
  if (resident)
    plot.legend_notes.push_back(streamed ? "filled, solid: streamed from memory" : "all cases resident in a cache");
  if (resident && streamed) plot.legend_notes.push_back("hollow, dashed: resident in a cache");
  if (marks) plot.legend_notes.push_back("! disturbed times, !! ruined ones");
}

// " Left out, without MAC/s: a, b." or nothing.
std::string left_out(const std::vector<const CaseRecord*>& cases, const std::set<std::string>& drawn,
                     const std::string& lacking) {
  std::set<std::string> others;
  for (const CaseRecord* record : cases)
    if (!drawn.contains(codec_name(*record))) others.insert(codec_name(*record));
  return others.empty() ? "" : fmt::format(" Left out, without {}: {}.", lacking, fmt::join(others, ", "));
}

}  // namespace

XPlaces::XPlaces(std::string_view name, const std::vector<const CaseRecord*>& cases) : name_(name) {
  if (is_number(name)) return;
  std::set<std::pair<double, std::string>> texts;  // numbers by their size, shapes by their elements
  for (const CaseRecord* record : cases) {
    const std::string text = field_value(*record, name_);
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    texts.emplace(name == "shape" ? static_cast<double>(elements_of(*record)) : *end == '\0' ? number : INFINITY, text);
  }
  for (const auto& [number, text] : texts) places_.emplace(text, static_cast<double>(places_.size()));
}

double XPlaces::of(const CaseRecord& record) const { return places_.at(field_value(record, name_)); }

void XPlaces::name_ticks(PlotAxis& axis) const {
  if (!are_names()) return;
  axis.ticks.clear();
  axis.min = -0.5, axis.max = static_cast<double>(places_.size()) - 0.5, axis.categories = true;
  axis.ticks.resize(places_.size());
  for (const auto& [text, at] : places_)
    axis.ticks[static_cast<std::size_t>(at)] = {at, text.empty() ? "none" : text.substr(0, text.find(" ("))};
}

std::vector<Figure> FigureMaker::xy(const XySpec& spec) const {
  std::vector<Figure> figures;
  Cases all = ok_cases(spec.asked_for);
  if (spec.square_only) std::erase_if(all, [](const CaseRecord* r) { return !is_square(*r); });
  int single = 0;  // facets with one x value
  for (const Facet& facet : facets(spec.id, all, spec.facets)) {
    std::map<std::string, Cases> by_series;
    for (const CaseRecord* record : facet.cases) {
      std::string name = field_text(*record, spec.series);
      if (!spec.choose_configuration) name += "|" + field_text(*record, "configuration");
      by_series[name].push_back(record);
    }
    const XPlaces places(spec.x, facet.cases);
    XyPlot plot;
    plot.x = {axis_label(spec.x), spec.log_x && !places.are_names(), spec.x == "speedup_vs_raw", 0, 1, {}};
    plot.y = {axis_label(spec.y), spec.log_y, true, 0, 1, {}};
    std::set<double> xs;
    std::set<std::string> drawn;  // codecs
    for (const auto& [name, cases] : by_series) add_series(plot, spec, places, cases, xs, drawn);
    if (plot.series.empty() || xs.size() < 2) {
      ++single;
      continue;
    }
    note_classes(plot);
    if (spec.y == "speedup_vs_raw") plot.horizontal.push_back({1, "raw"});
    set_ranges(plot, xs.size() <= 12 && !places.are_names());
    places.name_ticks(plot.x);
    const std::string title =
        spec.title.empty() ? fmt::format("{} over {}", axis_label(spec.y), axis_label(spec.x)) : spec.title;
    const std::string caption = spec.caption + left_out(facet.cases, drawn, axis_label(spec.y));
    figures.push_back({facet.id, title, facet.subtitle, caption, std::move(plot), facet.cases});
  }
  if (spec.asked_for && single > 0)
    for (Figure& figure : figures)
      figure.caption += fmt::format(" Left out: {} combination{} of facets with one x value or no number.", single,
                                    single == 1 ? "" : "s");
  return figures;
}

// The line of these cases, with a part for each cache class. Adds to the x values and codecs that are drawn.
void FigureMaker::add_series(XyPlot& plot, const XySpec& spec, const XPlaces& places, const Cases& cases,
                             std::set<double>& xs, std::set<std::string>& drawn) const {
  const auto x_of = [&](const CaseRecord& r) { return places.are_names() ? places.of(r) : number(r, spec.x); };
  const Cases chosen = best_at_each(cases, spec.y, [&](const CaseRecord& r) { return fmt::format("{}", x_of(r)); });
  // The guide at 1 is the baseline's speed-up over itself.
  if (chosen.empty()) return;
  if (spec.y == "speedup_vs_raw" && contexts_.is_baseline(*chosen.front())) {
    for (const CaseRecord* record : chosen) drawn.insert(codec_name(*record));
    return;
  }
  const CaseRecord& first = *chosen.front();
  const int series_color = spec.series == "codec" ? color(first) : static_cast<int>(plot.series.size());
  Series streamed, resident;
  resident.hollow = true;
  for (Series* series : {&streamed, &resident}) {
    series->color = series_color;
    if (places.are_names()) series->style = Series::Style::points;
  }
  for (const CaseRecord* record : chosen) {
    Point point{x_of(*record), number(*record, spec.y)};
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
    if ((plot.x.log && point.x <= 0) || (spec.log_y && point.y <= 0)) continue;
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
    for (const CaseRecord* record : cases) drawn.insert(codec_name(*record));
    std::stable_sort(series->points.begin(), series->points.end(),
                     [](const Point& a, const Point& b) { return a.x < b.x; });
    plot.series.push_back(*series);
  }
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
  XySpec spec;
  spec.id = "shapes";
  spec.title = "Speed-up over raw by shape";
  spec.x = "shape";
  spec.y = "speedup_vs_raw";
  spec.facets = {"op", "batch", "activations", "source", "backend", "threads", "cache"};
  spec.caption = "Above 1: faster than uncompressed. Bars: the 95 % interval.";
  std::vector<Figure> figures = xy(spec);
  std::erase_if(figures, [](const Figure& figure) {  // others have a figure over size
    return std::all_of(figure.cases.begin(), figure.cases.end(), [](const CaseRecord* r) { return is_square(*r); });
  });
  return figures;
}

}  // namespace ecmv::reports

// Facets, the choice of configurations, and the figures that are lines: throughput over size, speed-up over
// sigma and shape, and whatever --x --y --series --facet ask for. The other figures are in figures_more.cpp.
#include "reports/figures/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "reports/compare.h"
#include "reports/fields.h"
#include "reports/tables/tables.h"

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
  plot.x.ticks.clear();  // the values that were measured are the ones worth reading
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

FigureMaker::FigureMaker(const RecordSet& records, const Contexts& contexts) : records_(records), contexts_(contexts) {
  for (const CaseRecord& record : records_.cases) colors_[record.codec.id] = kInk;
  int next = 0;
  for (auto& [codec, color] : colors_) {
    CaseRecord of_codec;
    of_codec.codec.id = codec;
    if (!contexts_.is_baseline(of_codec)) color = next++;
  }
}

int FigureMaker::color(const CaseRecord& record) const { return colors_.at(record.codec.id); }

double FigureMaker::number(const CaseRecord& record, const std::string& name) const {
  return number_of(record, contexts_.of(record), name);
}

FigureMaker::Cases FigureMaker::ok_cases() const {
  Cases cases = sorted_cases(records_);
  // Counted blocks have a figure of their own (block_tables.h): a page of bars for each type of each workload shows
  // nothing.
  std::erase_if(cases, [](const CaseRecord* r) { return r->status != Status::ok || !r->blocks.empty(); });
  return cases;
}

std::vector<FigureMaker::Facet> FigureMaker::facets(const std::string& id, const Cases& cases,
                                                    std::vector<std::string> fields) const {
  auto text_of = [](const CaseRecord& record, const std::string& field) {
    const std::string text = field_text(record, field);
    if (field == "batch" && !text.empty()) return "batch " + text;
    if (field == "activations") return text.empty() || text == "f32" ? std::string() : text + " activations";
    if (field != "threads" || text.empty()) return text;
    if (record.kernel.compute_units > 0) return std::string();  // the host's, of a GPU
    return text + (text == "1" ? " thread" : " threads");
  };
  // Where speed matters each figure is of one device, and names it.
  const bool any_speed = std::find(fields.begin(), fields.end(), "threads") != fields.end();
  if (any_speed && std::find(fields.begin(), fields.end(), "device") == fields.end())
    fields.insert(std::find(fields.begin(), fields.end(), "threads"), "device");
  // File names hold only what tells the facets apart; the subtitle says everything.
  std::set<std::string> varying;
  for (const std::string& field : fields) {
    for (const CaseRecord* record : cases) {
      if (text_of(*record, field) != text_of(*cases.front(), field)) varying.insert(field);
    }
  }
  std::map<std::vector<std::string>, Facet> found;
  for (const CaseRecord* record : cases) {
    std::vector<std::string> key;
    for (const std::string& field : fields) key.push_back(text_of(*record, field));
    Facet& facet = found[key];
    if (facet.cases.empty()) {
      std::string name = id;
      for (std::size_t i = 0; i < key.size(); ++i) {
        if (key[i].empty()) continue;
        facet.subtitle += (facet.subtitle.empty() ? "" : " · ") + key[i];
        if (varying.contains(fields[i])) name += " " + key[i];
      }
      facet.id = slug(name).substr(0, 120);
    }
    facet.cases.push_back(record);
  }
  // Products before decoding, streamed before resident, the fastest first: the order in which one wants to
  // read.
  std::vector<Facet> list;
  for (auto& [key, facet] : found) list.push_back(std::move(facet));
  std::stable_sort(list.begin(), list.end(), [&](const Facet& a, const Facet& b) {
    auto rank = [&](const Facet& f) {
      double fastest = 0;
      for (const CaseRecord* r : f.cases) fastest = std::max(fastest, find_metric("elements_per_s").value(*r, {}));
      const CaseRecord& first = *f.cases.front();
      return std::tuple(first.kernel.op == "decode", first.time.cache == "resident", -fastest);
    };
    return rank(a) < rank(b);
  });
  std::set<std::string> used;
  for (Facet& facet : list) {
    while (!used.insert(facet.id).second) facet.id += "_b";
  }
  return list;
}

FigureMaker::Cases FigureMaker::fastest_kernels(const Cases& cases) const {
  std::map<std::string, const CaseRecord*> fastest;
  for (const CaseRecord* record : cases) {
    const CaseRecord*& best =
        fastest[codec_label(*record) + "|" + field_text(*record, "data") + "|" + record->time.cache];
    if (!best || number(*record, "elements_per_s") > number(*best, "elements_per_s")) best = record;
  }
  Cases list;
  for (const auto& [key, record] : fastest) list.push_back(record);
  return list;
}

FigureMaker::Cases FigureMaker::largest_of_each_source(const Cases& cases) const {
  std::map<std::string, const CaseRecord*> largest;
  for (const CaseRecord* record : cases) {
    const CaseRecord*& best = largest[source_label(*record)];
    if (!best || elements_of(*record) > elements_of(*best)) best = record;
  }
  Cases list = cases;
  std::erase_if(list, [&](const CaseRecord* r) { return shape_label(*r) != shape_label(*largest[source_label(*r)]); });
  return list;
}

FigureMaker::Cases FigureMaker::best_at_each(const Cases& cases, const std::string& y,
                                             const std::function<std::string(const CaseRecord&)>& place) const {
  std::map<std::string, const CaseRecord*> best;
  for (const CaseRecord* record : cases) {
    if (!std::isfinite(number(*record, y))) continue;
    // What a cache feeds is no better form of what memory feeds: each class has a best of its own.
    const CaseRecord*& known = best[place(*record) + "|" + record->time.cache];
    if (!known || is_better(*record, *known, y)) known = record;
  }
  Cases list;
  for (const auto& [key, record] : best) list.push_back(record);
  return list;
}

bool FigureMaker::is_better(const CaseRecord& a, const CaseRecord& b, const std::string& y) const {
  for (const Metric& metric : all_metrics()) {
    if (metric.id != y || metric.better == Better::neither) continue;
    const double of_a = number(a, y), of_b = number(b, y);
    return metric.better == Better::higher ? of_a > of_b : of_a < of_b;
  }
  return number(a, "elements_per_s") > number(b, "elements_per_s");  // y is no matter of better and worse
}

FigureMaker::Names FigureMaker::names_of(const Cases& cases, const std::string& where) {
  std::set<std::string> codecs, schemes, kernels, backends;
  for (const CaseRecord* record : cases) {
    codecs.insert(codec_name(*record));
    schemes.insert(codec_label(*record));
    kernels.insert(kernel_label(*record));
    backends.insert(record->kernel.backend);
  }
  Names names{schemes.size() == 1 ? *schemes.begin() : *codecs.begin(), *kernels.begin()};
  if (codecs.size() > 1) names.label = "best codec";
  if (schemes.size() == 1 && kernels.size() == 1) return names;
  const char* what = kernels.size() == 1 ? "settings" : schemes.size() == 1 ? "kernel" : "settings and kernel";
  names.detail = fmt::format("{}best {} {}", backends.size() == 1 ? *backends.begin() + ", " : "", what, where);
  return names;
}

Point FigureMaker::with_spread(const CaseRecord& record, Point point, const std::string& y) const {
  const Context context = contexts_.of(record);
  if (y == "speedup_vs_raw") {
    if (!context.baseline || context.baseline == &record) return point;
    const Interval interval = compare_cases(*context.baseline, record).speed_ratio;
    if (interval.low > 0) point.low = interval.low, point.high = interval.high;
  } else if (y == "elements_per_s" || y == "macs_per_s" || y == "tokens_per_s") {
    const double scale = point.y / number_of(record, context, "elements_per_s");
    point.low = scale * number_of(record, context, "elements_per_s_p10");
    point.high = scale * number_of(record, context, "elements_per_s_p90");
  }
  return point;
}

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
      // The baseline's speed-up over itself is the guide at 1.
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

std::vector<Figure> FigureMaker::all() const {
  std::vector<Figure> figures;
  for (auto make : {&FigureMaker::throughput_over_size, &FigureMaker::bits_against_speed, &FigureMaker::rate_distortion,
                    &FigureMaker::speed_over_batch, &FigureMaker::speedup_over_sigma, &FigureMaker::speedup_by_shape,
                    &FigureMaker::speedup_map, &FigureMaker::roofline, &FigureMaker::break_even,
                    &FigureMaker::decode_rate, &FigureMaker::size_by_role, &FigureMaker::overhead_by_role}) {
    for (Figure& figure : (this->*make)()) figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace ecmv::reports

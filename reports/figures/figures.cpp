// Facets, and the choice of cases for a figure.
#include "reports/figures/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "reports/compare.h"
#include "reports/fields.h"
#include "reports/tables/tables.h"

namespace ecmv::reports {

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

FigureMaker::Cases FigureMaker::ok_cases(bool with_blocks) const {
  Cases cases = sorted_cases(records_);
  // Counted blocks have a figure of their own (block_tables.h); bars for each type of each workload would fill a page
  // and show nothing.
  std::erase_if(cases,
                [&](const CaseRecord* r) { return r->status != Status::ok || (!with_blocks && !r->blocks.empty()); });
  return cases;
}

std::vector<FigureMaker::Facet> FigureMaker::facets(const std::string& id, const Cases& cases,
                                                    std::vector<std::string> fields) const {
  auto text_of = [](const CaseRecord& record, const std::string& field) {
    const std::string text = field_text(record, field);
    if (field == "batch" && !text.empty()) return "batch " + text;
    if (field == "activations") return text.empty() || text == "f32" ? std::string() : text + " activations";
    if (field != "threads" || text.empty()) return text;
    if (record.kernel.compute_units > 0) return std::string();  // they are the host's, for a GPU
    return text + (text == "1" ? " thread" : " threads");
  };
  // A figure about speed is for one device, and names it.
  const bool any_speed = std::find(fields.begin(), fields.end(), "threads") != fields.end();
  if (any_speed && std::find(fields.begin(), fields.end(), "device") == fields.end())
    fields.insert(std::find(fields.begin(), fields.end(), "threads"), "device");
  // File names have only the parts that tell the facets apart; the subtitle has everything.
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
  // Products before decoding, streamed before resident, the fastest first: the order in which people read.
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
    // Speeds from a cache and from memory are not comparable, so each cache class has a best of its own.
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
  return number(a, "elements_per_s") > number(b, "elements_per_s");  // y has no better and worse
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

std::string FigureMaker::mark_of(const CaseRecord& record, const std::string& metric) const {
  if (metric.find("bits") != std::string::npos || metric == "compression_ratio" || metric == "snr_db" ||
      metric == "largest_error" || metric == "weight_bytes_per_token" || !is_metric(metric))
    return "";
  const Context context = contexts_.of(record);
  const std::string_view mark =
      reports::mark_of(metric == "speedup_vs_raw" ? disturbance_of(record, context) : disturbance_of(record));
  return std::string(mark.substr(mark.empty() ? 0 : 1));  // without the blank
}

Point FigureMaker::with_spread(const CaseRecord& record, Point point, const std::string& y) const {
  const Context context = contexts_.of(record);
  point.mark = mark_of(record, y);
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

std::vector<Figure> FigureMaker::all() const {
  std::vector<Figure> figures;
  for (auto make :
       {&FigureMaker::throughput_over_size, &FigureMaker::bits_against_speed, &FigureMaker::rate_distortion,
        &FigureMaker::speed_over_batch, &FigureMaker::speedup_over_sigma, &FigureMaker::speedup_by_shape,
        &FigureMaker::speedup_map, &FigureMaker::tokens_map, &FigureMaker::roofline, &FigureMaker::break_even,
        &FigureMaker::decode_rate, &FigureMaker::size_by_role, &FigureMaker::overhead_by_role}) {
    for (Figure& figure : (this->*make)()) figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace ecmv::reports

// What coding gains over many shapes: how far the gain of one setting holds when nobody tuned it for the shape.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "reports/fields.h"
#include "reports/tables/tables.h"

namespace ecmv::reports {
namespace {

using Align = Column::Align;
constexpr std::size_t kLeastShapes = 3;

struct Gain {
  const CaseRecord* record;
  double speedup;
};
// The fastest case of one codec and settings for each shape.
using ByShape = std::map<std::string, Gain>;

struct OfCodec {
  const CaseRecord* first;  // for the names
  ByShape shapes = {};
};

// The data without its shape. A σ that was measured, not asked for, differs from shape to shape.
std::string weights_of(const CaseRecord& r) {
  CaseRecord one;
  one.data = r.data;
  if (!r.data.parameters.contains("sigma")) one.data.sigma = kUnknown;
  return fmt::format("{}, {}", source_label(one), r.data.type);
}

Cell times(double value) { return number_cell(value, fixed_text(value, 2)); }

Disturbance worst_of(const ByShape& shapes, const Contexts& contexts) {
  Disturbance worst = Disturbance::none;
  for (const auto& [shape, gain] : shapes)
    worst = std::max(worst, disturbance_of(*gain.record, contexts.of(*gain.record)));
  return worst;
}

std::vector<Cell> row_of(const OfCodec& codec, const Contexts& contexts) {
  double logs = 0, most_bits = 0;
  const std::pair<const std::string, Gain>*least = nullptr, *most = nullptr;
  std::size_t resident = 0;
  for (const auto& one : codec.shapes) {
    const auto& [shape, gain] = one;
    logs += std::log(gain.speedup);
    most_bits = std::max(most_bits, gain.record->size.bits_per_element);
    if (least == nullptr || gain.speedup < least->second.speedup) least = &one;
    if (most == nullptr || gain.speedup > most->second.speedup) most = &one;
    if (gain.record->time.cache == "resident") ++resident;
  }
  const auto count = static_cast<double>(codec.shapes.size());
  Cell shapes = count_cell(static_cast<std::int64_t>(codec.shapes.size()));
  if (resident > 0) shapes.text += fmt::format(", {} in a cache", resident);
  std::vector<Cell> row = {text_cell(codec_label(*codec.first)),
                           shapes,
                           number_cell(most_bits, fixed_text(most_bits, 3)),
                           times(std::exp(logs / count)),
                           times(least->second.speedup),
                           text_cell(least->first),
                           times(most->second.speedup),
                           text_cell(most->first)};
  const Disturbance worst = worst_of(codec.shapes, contexts);
  for (const std::size_t place : {3, 4, 6}) mark_cell(row[place], worst);
  row[4].note = kernel_label(*least->second.record);
  row[6].note = kernel_label(*most->second.record);
  return row;
}

}  // namespace

Table shapes_table(const RecordSet& records, const Contexts& contexts) {
  Table table{"shapes",
              "Over shapes: gains of one setting",
              "Each codec and its settings with the fastest kernel for each shape, against the fastest uncompressed "
              "kernel for that shape; from three shapes on. Means are geometric.",
              {{"codec", "codec", ""},
               {"shapes", "shapes", "", Align::right},
               {"most_bits_per_element", "most stored bits", "", Align::right},
               {"mean_speedup_vs_raw", "mean", "×", Align::right},
               {"least_speedup_vs_raw", "least", "×", Align::right},
               {"least_shape", "at", ""},
               {"most_speedup_vs_raw", "most", "×", Align::right},
               {"most_shape", "at", ""}},
              {}};
  std::vector<std::pair<std::string, std::map<std::string, OfCodec>>> groups;  // in the order of sorted_cases
  std::map<std::string, std::size_t> places;                                   // of headings
  for (const CaseRecord* r : sorted_cases(records)) {
    const Context context = contexts.of(*r);
    const double speedup = find_metric("speedup_vs_raw").value(*r, context);
    if (r->status != Status::ok || r->ranks.count > 1 || r->kernel.op == "step" || is_of_program(*r) ||
        contexts.is_baseline(*r) || std::isnan(speedup))
      continue;
    const std::string heading =
        fmt::format("{}{} · {} · {}", r->kernel.op, has_tokens(*r) ? " of " + tokens_text(*r) : "", weights_of(*r),
                    device_label(*r));
    const auto [place, is_new] = places.try_emplace(heading, groups.size());
    if (is_new) groups.emplace_back(heading, std::map<std::string, OfCodec>());
    OfCodec& codec = groups[place->second].second.try_emplace(codec_label(*r), OfCodec{r}).first->second;
    const auto [known, first] = codec.shapes.try_emplace(shape_label(*r), Gain{r, speedup});
    if (!first && speedup > known->second.speedup) known->second = {r, speedup};
  }
  for (const auto& [heading, codecs] : groups) {
    const std::size_t first = table.rows.size();
    for (const auto& [label, codec] : codecs)
      if (codec.shapes.size() >= kLeastShapes) table.rows.push_back(row_of(codec, contexts));
    if (table.rows.size() > first) table.groups.push_back({first, heading});
  }
  return table;
}

}  // namespace ecmv::reports

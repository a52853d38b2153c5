// Tables of scaling: the gain of a product that several ranks or devices share, and a forecast for more of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <vector>

#include "reports/fields.h"
#include "reports/tables/tables.h"

namespace ecmv::reports {
namespace {

constexpr auto kRight = Column::Align::right;

bool is_shareable(const CaseRecord& r) {
  return r.status == Status::ok && r.kernel.op != "size" && r.kernel.op != "decode" && !std::isnan(r.time.median_s);
}

// The name of what one rank and several have in common; the data stand beside it.
std::string worker_of(const CaseRecord& r) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}", r.run, r.kernel.backend, codec_label(r), r.kernel.simd_target, r.kernel.op,
                     r.kernel.batch, r.kernel.activations);
}

// The units that several ranks have more of: threads of CPUs, devices of GPUs.
double units_of(const CaseRecord& r) {
  return static_cast<double>(r.ranks.count * (r.kernel.compute_units > 0 ? 1 : r.kernel.threads));
}

const CaseRecord*& faster(const CaseRecord*& known, const CaseRecord& r) {
  if (known == nullptr || r.time.median_s < known->time.median_s) known = &r;
  return known;
}

// How ranks share a product: their number, the engine, the split.
struct Sharing {
  std::int64_t ranks = 1;
  std::string engine = {}, split = {};
  friend auto operator<=>(const Sharing&, const Sharing&) = default;
};
Sharing sharing_of(const CaseRecord& r) {
  return r.ranks.count == 1 ? Sharing{} : Sharing{r.ranks.count, r.ranks.engine, r.ranks.split};
}
// The fastest case for each way, of one codec on the same data.
using ByRanks = std::map<Sharing, const CaseRecord*>;

// Groups with shared products, by data, in the order of sorted_cases.
std::vector<std::pair<std::string, std::vector<ByRanks>>> by_data(const RecordSet& records) {
  std::vector<std::pair<std::string, std::vector<ByRanks>>> all;
  std::map<std::string, std::size_t> places;                           // of headings
  std::map<std::pair<std::string, std::string>, std::size_t> workers;  // places below them
  for (const CaseRecord* r : sorted_cases(records)) {
    if (!is_shareable(*r)) continue;
    const std::string heading = fmt::format("{} · {}{} · {}", field_text(*r, "data"), r->kernel.op,
                                            has_tokens(*r) ? ", " + tokens_text(*r) : "", r->kernel.backend);
    const auto [place, new_data] = places.try_emplace(heading, all.size());
    if (new_data) all.emplace_back(heading, std::vector<ByRanks>());
    std::vector<ByRanks>& groups = all[place->second].second;
    const auto [worker, new_worker] = workers.try_emplace({heading, worker_of(*r)}, groups.size());
    if (new_worker) groups.emplace_back();
    faster(groups[worker->second][sharing_of(*r)], *r);
  }
  for (auto& [heading, groups] : all)
    std::erase_if(groups, [](const ByRanks& group) { return group.rbegin()->first.ranks == 1; });
  return all;
}

Cell in_units(double value, double unit, int digits) { return number_cell(value, fixed_text(value / unit, digits)); }

// Marks the numbers of a row that compares a case with one rank or device, where either was disturbed.
void mark_times(std::vector<Cell>& row, std::initializer_list<std::size_t> places, const CaseRecord& r,
                const CaseRecord* one) {
  const Disturbance worst = std::max(disturbance_of(r), one == nullptr ? Disturbance::none : disturbance_of(*one));
  for (const std::size_t place : places) mark_cell(row[place], worst);
}

// "" if the parts are rows.
std::string in_pairs(const CaseRecord& r) { return r.ranks.split == "pairs" ? ", in pairs" : ""; }

// `count` ranks that share a product as the case's do.
std::string ranks_text(std::int64_t count, const CaseRecord& r) {
  const bool devices = r.kernel.compute_units > 0 || !r.ranks.engine.empty();
  return fmt::format("{} {}{}{}{}", count, devices ? "device" : "rank", count == 1 ? "" : "s",
                     r.ranks.engine.empty() ? "" : " by " + r.ranks.engine, in_pairs(r));
}
std::string ranks_text(const CaseRecord& r) { return ranks_text(r.ranks.count, r); }

}  // namespace

Table strong_scaling_table(const RecordSet& records, const Contexts& contexts) {
  Table table{"strong_scaling",
              "Strong scaling: one product, more ranks or devices",
              "The fastest kernel of each codec and settings. Efficiency is the speed-up over one rank divided by the "
              "ratio of threads or devices. Exchange and product were also measured alone; both include launches and "
              "waiting. vs raw: against the fastest uncompressed case with as many ranks or devices.",
              {{"codec", "codec", ""},
               {"ranks", "ranks or devices", ""},
               {"us_per_pass", "a pass", "µs", kRight},
               {"speedup_over_one", "over one", "×", kRight},
               {"efficiency", "efficiency", "%", kRight},
               {"exchange_share", "exchange", "%", kRight},
               {"exchange_us_per_layer", "exchange of a layer", "µs", kRight},
               {"product_us", "product alone", "µs", kRight},
               {"speedup_vs_raw", "vs raw", "×", kRight},
               {"cache", "cache", ""}},
              {}};
  for (const auto& [heading, groups] : by_data(records)) {
    const std::size_t first = table.rows.size();
    for (const ByRanks& group : groups) {
      const auto alone = group.find(Sharing{});
      const CaseRecord* one = alone == group.end() ? nullptr : alone->second;
      for (const auto& [key, r] : group) {
        const double over = one == nullptr ? kUnknown : one->time.median_s / r->time.median_s;
        const double efficiency = one == nullptr ? kUnknown : over * units_of(*one) / units_of(*r);
        const Context context = contexts.of(*r);
        const auto layers = static_cast<double>(std::max<std::int64_t>(1, r->data.layers));
        const double share = find_metric("exchange_share").value(*r, context),
                     product = r->ranks.count > 1 ? find_metric("product_alone_s").value(*r, context) : kUnknown;
        Cell vs_raw = in_units(find_metric("speedup_vs_raw").value(*r, context), 1, 2);
        if (context.baseline == nullptr) vs_raw.note = context.why_no_baseline;
        table.rows.push_back({text_cell(codec_label(*r)), text_cell(ranks_text(*r)),
                              in_units(r->time.median_s, 1e-6, 1), in_units(over, 1, 2), in_units(efficiency, 0.01, 1),
                              in_units(share, 0.01, 1), in_units(share * r->time.median_s / layers, 1e-6, 2),
                              in_units(product, 1e-6, 1), vs_raw, text_cell(r->time.cache)});
        mark_times(table.rows.back(), {2, 3, 4, 5, 6, 7, 8}, *r, one);
        if (!r->ranks.links.empty()) table.rows.back()[1].note = r->ranks.library + "; " + r->ranks.links;
      }
    }
    if (table.rows.size() > first) table.groups.push_back({first, heading});
  }
  return table;
}

Table weak_scaling_table(const RecordSet& records) {
  Table table{
      "weak_scaling",
      "Weak scaling: as many elements for each rank or device",
      "The fastest kernel of each codec and settings. Efficiency is the time of one rank over the time of several "
      "that have as many elements each (within 1 %).",
      {{"codec", "codec", ""},
       {"elements_of_each", "elements of each", "M", kRight},
       {"ranks", "ranks or devices", ""},
       {"shape", "shape", ""},
       {"us_per_pass", "a pass", "µs", kRight},
       {"efficiency", "efficiency", "%", kRight}},
      {}};
  const auto share = [](const CaseRecord& r) {
    return static_cast<double>(elements_of(r)) / static_cast<double>(r.ranks.count);
  };
  const auto rest = [](const CaseRecord& r) {
    return fmt::format("{}|{}|{}|{}", worker_of(r), source_label(r), r.data.layers,
                       r.kernel.compute_units > 0 ? 0 : r.kernel.threads);
  };
  const std::vector<const CaseRecord*> sorted = sorted_cases(records);
  std::vector<const CaseRecord*> alone;  // the fastest of one rank
  std::map<std::string, const CaseRecord*> best;
  for (const CaseRecord* r : sorted)
    if (is_shareable(*r) && r->ranks.count == 1) faster(best[fmt::format("{}|{}", rest(*r), elements_of(*r))], *r);
  for (const CaseRecord* r : sorted)
    for (const auto& [key, one] : best)
      if (one == r) alone.push_back(r);
  for (const CaseRecord* one : alone) {
    ByRanks group = {{Sharing{}, one}};
    for (const CaseRecord* r : sorted)
      if (is_shareable(*r) && r->ranks.count > 1 && rest(*r) == rest(*one) &&
          std::abs(share(*r) / share(*one) - 1) < 0.01)
        faster(group[sharing_of(*r)], *r);
    if (group.size() == 1) continue;
    for (const auto& [key, r] : group) {
      table.rows.push_back({text_cell(codec_label(*r)), in_units(share(*r), 1e6, 1), text_cell(ranks_text(*r)),
                            text_cell(shape_label(*r)), in_units(r->time.median_s, 1e-6, 1),
                            in_units(one->time.median_s / r->time.median_s, 0.01, 1)});
      mark_times(table.rows.back(), {4, 5}, *r, one);
    }
  }
  return table;
}

namespace {

// A pass on several devices as one and two of them tell it: a part of the product that does not shrink with more
// devices (launches, the ends of layers), a part that they share, and the exchange. A device receives (n - 1)/n of
// every vector, so two receive a half.
struct Forecast {
  double fixed_s = kUnknown, shared_s = kUnknown, exchange_of_two_s = kUnknown;
  double seconds(double n) const { return fixed_s + shared_s / n + exchange_of_two_s * 2 * (n - 1) / n; }
};

// The numbers of ranks to predict: those that were measured in the same way, and the next two powers of two.
std::set<std::int64_t> counts_beyond_two(const ByRanks& group, const Sharing& two) {
  std::set<std::int64_t> counts = {4, 8};
  for (const auto& [key, r] : group)
    if (key.ranks > 2 && key.engine == two.engine && key.split == two.split) counts.insert(key.ranks);
  return counts;
}

// Unknown where the product of the two was not measured alone.
Forecast forecast_from(const CaseRecord& one, const CaseRecord& two) {
  const double product = quantile(two.ranks.product_samples_s, 0.5), fixed = 2 * product - one.time.median_s;
  if (std::isnan(fixed)) return {};
  return {.fixed_s = std::max(0.0, fixed),
          .shared_s = fixed > 0 ? one.time.median_s - fixed : 2 * product,
          .exchange_of_two_s = std::max(0.0, two.time.median_s - product)};
}

}  // namespace

Table forecast_table(const RecordSet& records) {
  Table table{"scaling_forecast",
              "Forecast for more ranks or devices, from one and two",
              "Predicted from the fastest case of one and of two alone: a pass is f + s/n + 2 x (n - 1)/n. One takes "
              "f + s, the product of two alone f + s/2, and x is what a pass of two takes beyond it; n devices each "
              "receive (n - 1)/n of a vector. Measured: the fastest case of as many.",
              {{"codec", "codec", ""},
               {"ranks", "ranks or devices", ""},
               {"predicted_us", "predicted", "µs", kRight},
               {"measured_us", "measured", "µs", kRight},
               {"error", "error", "%", kRight},
               {"predicted_over_one", "predicted over one", "×", kRight},
               {"measured_over_one", "measured over one", "×", kRight}},
              {}};
  for (const auto& [heading, groups] : by_data(records)) {
    const std::size_t first = table.rows.size();
    for (const ByRanks& group : groups) {
      const auto alone = group.find(Sharing{});
      if (alone == group.end()) continue;
      const CaseRecord& one = *alone->second;
      for (const auto& [key, two] : group) {
        const Forecast forecast = forecast_from(one, *two);
        if (key.ranks != 2 || std::isnan(forecast.fixed_s)) continue;
        for (const std::int64_t count : counts_beyond_two(group, key)) {
          const auto found = group.find(Sharing{count, key.engine, key.split});
          const CaseRecord* const measured = found == group.end() ? nullptr : found->second;
          const double predicted = forecast.seconds(static_cast<double>(count)),
                       seconds = measured == nullptr ? kUnknown : measured->time.median_s;
          table.rows.push_back(
              {text_cell(codec_label(one)), text_cell(ranks_text(count, *two)), in_units(predicted, 1e-6, 1),
               in_units(seconds, 1e-6, 1), in_units(predicted / seconds - 1, 0.01, 1),
               in_units(one.time.median_s / predicted, 1, 2), in_units(one.time.median_s / seconds, 1, 2)});
          mark_times(table.rows.back(), {2, 5}, one, two);
          if (measured != nullptr) mark_times(table.rows.back(), {3, 4, 6}, *measured, &one);
        }
      }
    }
    if (table.rows.size() > first) table.groups.push_back({first, heading});
  }
  return table;
}

}  // namespace ecmv::reports

// Figures of bars: break-even bandwidths, decode rates, stored bits by role.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reports/fields.h"
#include "reports/figures/figures.h"

namespace ecmv::reports {

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
      const std::string mark = mark_of(*record, spec.metric);
      plot.bars.push_back(
          {codec_label(*record), spec.text(value) + (mark.empty() ? "" : " " + mark), {value}, color(*record)});
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
  constexpr double kMostBits = 1;  // with more, the others' small parts would be invisible
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

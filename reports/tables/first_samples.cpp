// See first_samples.h.
#include "reports/tables/first_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "reports/fields.h"
#include "reports/metrics.h"

namespace ecmv::reports {
namespace {

constexpr std::size_t kLeastSamples = 5;
constexpr double kDrift = 0.02;

const char* verdict_of(const FirstSamples& group) {
  if (!group.drift()) return "no drift";
  return group.median > 1 ? "slower" : "faster";
}

}  // namespace

bool FirstSamples::drift() const {
  return (median > 1 + kDrift && 2 * slower > cases) || (median < 1 - kDrift && 2 * faster > cases);
}

std::vector<FirstSamples> first_samples(const RecordSet& records) {
  std::map<std::tuple<std::string, std::string, std::string>, FirstSamples> groups;
  std::map<const FirstSamples*, std::vector<double>> ratios;
  for (const CaseRecord& r : records.cases) {
    if (r.status != Status::ok || r.time.samples_s.size() < kLeastSamples) continue;
    FirstSamples& group = groups[{r.kernel.op, r.time.cache, r.kernel.device}];
    const double first = r.time.samples_s.front();
    const std::vector<double> others(r.time.samples_s.begin() + 1, r.time.samples_s.end());
    ++group.cases;
    group.slower += first > quantile(others, 0.9);
    group.faster += first < quantile(others, 0.1);
    ratios[&group].push_back(first / quantile(others, 0.5));
  }
  std::vector<FirstSamples> found;
  for (auto& [key, group] : groups) {
    std::tie(group.op, group.cache, group.device) = key;
    const std::vector<double>& all = ratios[&group];
    group.median = quantile(all, 0.5);
    group.least = *std::ranges::min_element(all), group.most = *std::ranges::max_element(all);
    found.push_back(group);
  }
  return found;
}

Table first_samples_table(const RecordSet& records) {
  Table table{"first_samples",
              "The first sample of each case beside its others",
              "The ratio is that of the first sample to the median of the others. Beyond the others' 10th or 90th "
              "percentile a tenth of the cases are by chance; more than half of them, by more than 2 %, are a drift.",
              {},
              {}};
  table.columns = {{"op", "op", ""},
                   {"cache", "cache", ""},
                   {"device", "device", ""},
                   {"cases", "cases", "", Column::Align::right},
                   {"ratio", "first / others, median", "", Column::Align::right},
                   {"least_ratio", "least", "", Column::Align::right},
                   {"most_ratio", "most", "", Column::Align::right},
                   {"slower_cases", "slower", "cases", Column::Align::right},
                   {"faster_cases", "faster", "cases", Column::Align::right},
                   {"verdict", "verdict", ""}};
  for (const FirstSamples& group : first_samples(records)) {
    const auto ratio = [](double value) { return number_cell(value, fixed_text(value, 3)); };
    Cell verdict = text_cell(verdict_of(group));
    if (group.drift()) verdict.tone = Cell::Tone::caution;
    table.rows.push_back({text_cell(group.op), text_cell(group.cache), text_cell(group.device), count_cell(group.cases),
                          ratio(group.median), ratio(group.least), ratio(group.most), count_cell(group.slower),
                          count_cell(group.faster), verdict});
  }
  return table;
}

std::vector<std::string> drifting_first_samples(const RecordSet& records) {
  std::vector<std::string> sentences;
  for (const FirstSamples& group : first_samples(records))
    if (group.drift())
      sentences.push_back(
          fmt::format("DRIFT: the first sample of {} of {} cases of {}, {}, on {} is {} than nine tenths of the "
                      "others, in the median "
                      "{} times theirs; `warm_up` in the config takes more passes before each sample",
                      group.median > 1 ? group.slower : group.faster, group.cases, group.op, group.cache, group.device,
                      verdict_of(group), fixed_text(group.median, 2)));
  return sentences;
}

}  // namespace ecmv::reports

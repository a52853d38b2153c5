// Every case with all of its values, for pandas and the like: a row a case, a column a variable, plain values without
// units, signs or labels, and empty cells for unknown values.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>

#include "reports/compare.h"
#include "reports/fields.h"
#include "reports/keys.h"
#include "reports/tables/seeds.h"
#include "reports/tables/tables.h"

namespace ecmv::reports {
namespace {

struct FlatColumn {
  const char* id;
  Cell (*cell)(const CaseRecord&);
};

// Ten digits: further ones are noise of the arithmetic.
Cell plain(double number) {
  return std::isfinite(number) ? number_cell(std::strtod(fmt::format("{:.10g}", number).c_str(), nullptr), "") : Cell{};
}

Cell truth(bool value) { return text_cell(value ? "true" : "false"); }

// 0 means none.
Cell positive(std::int64_t count) { return count > 0 ? count_cell(count) : Cell{}; }

constexpr FlatColumn kColumns[] = {
    {"case", [](const CaseRecord& r) { return text_cell(r.case_key); }},
    {"status", [](const CaseRecord& r) { return text_cell(std::string(to_string(r.status))); }},
    {"reason", [](const CaseRecord& r) { return text_cell(r.reason); }},
    {"run", [](const CaseRecord& r) { return text_cell(r.run); }},
    {"experiment", [](const CaseRecord& r) { return text_cell(r.experiment); }},
    {"source", [](const CaseRecord& r) { return text_cell(r.data.source); }},
    {"type", [](const CaseRecord& r) { return text_cell(r.data.type); }},
    {"sigma", [](const CaseRecord& r) { return plain(r.data.sigma); }},
    {"rows", [](const CaseRecord& r) { return count_cell(r.data.rows); }},
    {"cols", [](const CaseRecord& r) { return count_cell(r.data.cols); }},
    {"layers", [](const CaseRecord& r) { return count_cell(r.data.layers); }},
    {"seed", [](const CaseRecord& r) { return text_cell(std::to_string(r.data.seed)); }},
    {"codec", [](const CaseRecord& r) { return text_cell(r.codec.id); }},
    {"codec_library", [](const CaseRecord& r) { return text_cell(r.codec.library_path); }},
    {"op", [](const CaseRecord& r) { return text_cell(r.kernel.op); }},
    {"batch", [](const CaseRecord& r) { return has_tokens(r) ? count_cell(r.kernel.batch) : Cell{}; }},
    {"activations", [](const CaseRecord& r) { return text_cell(field_text(r, "activations")); }},
    {"backend", [](const CaseRecord& r) { return text_cell(r.kernel.backend); }},
    {"device", [](const CaseRecord& r) { return text_cell(r.kernel.device); }},
    {"threads", [](const CaseRecord& r) { return positive(r.kernel.threads); }},
    {"variant", [](const CaseRecord& r) { return text_cell(r.kernel.variant); }},
    {"policy", [](const CaseRecord& r) { return text_cell(r.kernel.policy); }},
    {"chosen", [](const CaseRecord& r) { return text_cell(r.kernel.chosen); }},
    {"simd_target", [](const CaseRecord& r) { return text_cell(r.kernel.simd_target); }},
    {"launch", [](const CaseRecord& r) { return text_cell(r.kernel.launch); }},
    {"unfused", [](const CaseRecord& r) { return truth(r.kernel.unfused); }},
    {"cache", [](const CaseRecord& r) { return text_cell(r.time.cache); }},
    {"disturbed", [](const CaseRecord& r) { return truth(is_disturbed(r)); }},
    {"disturbance", [](const CaseRecord& r) { return text_cell(std::string(to_string(disturbance_of(r)))); }},
    {"kernels", [](const CaseRecord& r) { return positive(r.entrants.kernels); }},
    {"known_kernels", [](const CaseRecord& r) { return positive(r.entrants.known_kernels); }},
    {"settings", [](const CaseRecord& r) { return positive(r.entrants.settings); }},
    {"stored_bytes", [](const CaseRecord& r) { return positive(r.size.stored_bytes); }},
    {"elements", [](const CaseRecord& r) { return positive(r.time.elements); }},
    {"samples", [](const CaseRecord& r) { return positive(static_cast<std::int64_t>(r.time.samples_s.size())); }},
    {"median_s", [](const CaseRecord& r) { return plain(r.time.median_s); }},
    {"p10_s", [](const CaseRecord& r) { return plain(r.time.p10_s); }},
    {"p90_s", [](const CaseRecord& r) { return plain(r.time.p90_s); }},
};

Cell setting_cell(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end()) return {};
  if (const auto* number = std::get_if<double>(&found->second)) return plain(*number);
  if (const auto* count = std::get_if<std::int64_t>(&found->second)) return count_cell(*count);
  return text_cell(to_string(found->second));
}

}  // namespace

Table flat_table(const RecordSet& records, const Contexts& contexts) {
  Table table{"cases", "All cases", "", {}, {}};
  const PooledSeeds pooled = pooled_seeds(records);  // whose keys papers use
  const CaseKeys keys(pooled.records);
  std::set<std::string> settings, parameters;
  for (const CaseRecord& record : records.cases) {
    for (const auto& [name, value] : record.codec.settings) settings.insert(name);
    for (const auto& [name, value] : record.data.parameters)
      if (name != "sigma") parameters.insert(name);
  }
  const auto add = [&](const std::string& id) { table.columns.push_back({id, id, ""}); };
  add("key");
  for (const FlatColumn& column : kColumns) add(column.id);
  for (const std::string& name : settings) add("setting." + name);
  for (const std::string& name : parameters) add("data." + name);
  for (const Metric& metric : all_metrics()) add(std::string(metric.id));
  add("speedup_vs_raw_low");
  add("speedup_vs_raw_high");
  for (const CaseRecord* record : sorted_cases(records)) {
    const Context context = contexts.of(*record);
    std::vector<Cell>& row = table.rows.emplace_back();
    const auto place = static_cast<std::size_t>(record - records.cases.data());
    row.push_back(text_cell(keys.of(pooled.records.cases[pooled.place_of[place]])));
    for (const FlatColumn& column : kColumns) row.push_back(column.cell(*record));
    for (const std::string& name : settings) row.push_back(setting_cell(record->codec.settings, name));
    for (const std::string& name : parameters) row.push_back(setting_cell(record->data.parameters, name));
    for (const Metric& metric : all_metrics()) row.push_back(plain(metric.value(*record, context)));
    Interval interval{kUnknown, kUnknown, kUnknown};
    if (context.baseline && context.baseline != record)
      interval = compare_cases(*context.baseline, *record).speed_ratio;
    row.push_back(plain(interval.low > 0 ? interval.low : kUnknown));
    row.push_back(plain(interval.high));
  }
  return table;
}

}  // namespace ecmv::reports

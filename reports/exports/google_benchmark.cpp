// The fields of Google Benchmark 1.7 and later.
#include "reports/exports/google_benchmark.h"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "reports/fields.h"
#include "reports/keys.h"

namespace ecmv::reports {
namespace {

using Json = nlohmann::ordered_json;

Json context_of(const RecordSet& records) {
  Json context = {{"executable", "ecmv"}, {"ecmv_cpu_time", "not measured: cpu_time repeats real_time"}};
  context["caches"] = Json::array();
  if (records.runs.empty()) return context;
  const RunRecord& run = records.runs.back();
  context["date"] = run.date;
  context["host_name"] = run.host;
  context["num_cpus"] = run.cores;
  context["library_build_type"] = "release";
  context["ecmv_run"] = run.run;
  context["ecmv_revision"] = run.git_revision;
  context["ecmv_processor"] = one_line(run.cpu_model);
  return context;
}

}  // namespace

std::string to_google_benchmark(const RecordSet& records) {
  // If a case occurs several times, the last counts.
  std::vector<std::string> order;
  std::map<std::string, const CaseRecord*> cases;
  for (const CaseRecord& record : records.cases) {
    if (record.status != Status::ok || record.time.samples_s.empty()) continue;
    const std::string name = full_name(record);
    if (cases.insert_or_assign(name, &record).second) order.push_back(name);
  }
  Json benchmarks = Json::array();
  int family = 0;
  for (const std::string& name : order) {
    const CaseRecord& r = *cases.at(name);
    for (std::size_t sample = 0; sample < r.time.samples_s.size(); ++sample) {
      const double nanoseconds = r.time.samples_s[sample] * 1e9;
      benchmarks.push_back({{"name", name},
                            {"family_index", family},
                            {"per_family_instance_index", 0},
                            {"run_name", name},
                            {"run_type", "iteration"},
                            {"repetitions", r.time.samples_s.size()},
                            {"repetition_index", sample},
                            {"threads", std::max<std::int64_t>(r.kernel.threads, 1)},
                            {"iterations", r.time.iterations_per_sample},
                            {"real_time", nanoseconds},
                            {"cpu_time", nanoseconds},
                            {"time_unit", "ns"},
                            {"items_per_second", static_cast<double>(r.time.elements) / r.time.samples_s[sample]}});
    }
    ++family;
  }
  return Json{{"context", context_of(records)}, {"benchmarks", benchmarks}}.dump(
             1, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

}  // namespace ecmv::reports

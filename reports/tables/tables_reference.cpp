// Tables that explain the results: measured bandwidths, the glossary of metrics, machine and build of
// each run.
#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

#include "reports/fields.h"
#include "reports/tables/tables.h"

namespace ecmv::reports {
namespace {

using Align = Column::Align;

std::string listed(const std::set<std::string>& words, const char* separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

}  // namespace

Table library_table(const RecordSet& records) {
  Table table{"libraries",
              "† Codecs from shared objects",
              "They are not part of the build: the hash says which file was measured.",
              {},
              {}};
  table.columns = {
      {"codec", "codec", ""}, {"file", "file", ""}, {"hash", "hash", ""}, {"cases", "cases", "", Align::right}};
  std::map<std::tuple<std::string, std::string, std::string>, std::int64_t> cases;
  for (const CaseRecord& r : records.cases)
    if (!r.codec.library_path.empty()) ++cases[{codec_name(r), r.codec.library_path, r.codec.library_hash}];
  for (const auto& [library, count] : cases)
    table.rows.push_back({text_cell(std::get<0>(library)), text_cell(std::get<1>(library)),
                          text_cell(std::get<2>(library)), count_cell(count)});
  return table;
}

Table bandwidth_table(const RecordSet& records) {
  Table table{"bandwidth", "Measured read bandwidth", "", {}, {}};
  table.columns = {{"run", "run", ""},
                   {"backend", "backend", ""},
                   {"device", "device", ""},
                   {"threads", "threads", "", Align::right},
                   {"bytes", "bytes read", "", Align::right},
                   {"read_bytes_per_s", "bandwidth", "GB/s", Align::right}};
  for (const BandwidthRecord& r : records.bandwidths) {
    table.rows.push_back({text_cell(r.run), text_cell(r.backend), text_cell(r.device), count_cell(r.threads),
                          Cell{bytes_text(static_cast<double>(r.bytes)), r.bytes},
                          number_cell(r.read_bytes_per_s, fixed_text(r.read_bytes_per_s / 1e9, 2))});
  }
  return table;
}

Table metrics_table() {
  Table table{"metrics", "What the metrics mean", "", {}, {}};
  table.columns = {{"metric", "metric", ""},
                   {"unit", "unit", ""},
                   {"better", "better", ""},
                   {"formula", "formula", ""},
                   {"meaning", "meaning", ""}};
  for (const Metric& m : all_metrics()) {
    const char* better = m.better == Better::higher ? "higher" : m.better == Better::lower ? "lower" : "–";
    table.rows.push_back({text_cell(std::string(m.id)), text_cell(m.unit.empty() ? "1" : std::string(m.unit)),
                          text_cell(better), text_cell(std::string(m.formula)), text_cell(std::string(m.meaning))});
  }
  return table;
}

Table provenance_table(const RecordSet& records) {
  Table table{"provenance", "Where the numbers come from", "", {}, {}};
  table.columns.push_back({"what", "", ""});
  for (const RunRecord& run : records.runs) table.columns.push_back({"run_" + run.run, "run " + run.run, ""});
  auto add = [&](const char* what, auto text_of) {
    std::vector<Cell> row = {text_cell(what)};
    bool any = false;
    for (const RunRecord& run : records.runs) {
      row.push_back(text_cell(text_of(run)));
      any |= !row.back().text.empty();
    }
    if (any) table.rows.push_back(std::move(row));
  };
  auto known_bytes = [](std::int64_t bytes) { return bytes > 0 ? bytes_text(static_cast<double>(bytes)) : "unknown"; };
  add("experiment", [](const RunRecord& r) { return r.experiment; });
  add("date (UTC)", [](const RunRecord& r) { return r.date; });
  add("source revision",
      [](const RunRecord& r) { return r.git_revision + (r.git_dirty ? " with local changes" : ""); });
  add("configuration", [](const RunRecord& r) {
    return r.config_name + (r.config_hash.empty() ? "" : fmt::format(" ({})", r.config_hash));
  });
  add("arguments", [](const RunRecord& r) { return fmt::format("{}", fmt::join(r.arguments, " ")); });
  add("shard", [](const RunRecord& r) { return r.shard; });
  add("seed", [](const RunRecord& r) { return fmt::format("{}", r.seed); });
  add("processor", [](const RunRecord& r) { return r.cpu_model; });
  add("cores, threads", [](const RunRecord& r) { return fmt::format("{}, {}", r.cores, r.threads); });
  add("caches (L1d, L2, last level)", [&](const RunRecord& r) {
    return fmt::format("{}, {}, {}", known_bytes(r.l1d_bytes), known_bytes(r.l2_bytes), known_bytes(r.llc_bytes));
  });
  add("memory", [&](const RunRecord& r) { return known_bytes(r.memory_bytes); });
  add("instruction sets", [](const RunRecord& r) { return fmt::format("{}", fmt::join(r.simd_targets, ", ")); });
  add("frequency governor", [](const RunRecord& r) { return r.governor.empty() ? "not readable" : r.governor; });
  add("operating system", [](const RunRecord& r) { return r.os; });
  add("GPUs", [&](const RunRecord& r) {
    std::set<std::string> gpus;
    for (const GpuRecord& gpu : r.gpus) {
      const double ghz = gpu.highest_clock_hz / 1e9;
      gpus.insert(fmt::format("{}: {}, {}, {} compute units{}, memory {}, L2 {}, {}", gpu.id, gpu.name,
                              gpu.architecture, gpu.compute_units, ghz > 0 ? fmt::format(" up to {:.3f} GHz", ghz) : "",
                              known_bytes(gpu.memory_bytes), known_bytes(gpu.l2_bytes), gpu.driver));
    }
    return listed(gpus, "; ");
  });
  add("compiler", [](const RunRecord& r) { return r.compiler; });
  add("flags", [](const RunRecord& r) { return r.compiler_flags; });
  add("build type", [](const RunRecord& r) { return r.build_type; });
  add("libraries", [](const RunRecord& r) {
    std::set<std::string> libraries;
    for (const auto& [name, version] : r.libraries) libraries.insert(name + " " + version);
    return listed(libraries, ", ");
  });
  return table;
}

}  // namespace ecmv::reports

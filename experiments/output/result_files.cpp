// See result_files.h.
#include "experiments/output/result_files.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <ostream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/command/command.h"
#include "experiments/output/run_summary.h"
#include "experiments/output/table_json.h"
#include "experiments/output/terminal_table.h"
#include "experiments/run/run_record.h"
#include "reports/tables/seeds.h"
#include "reports/tables/tables.h"

namespace ecmv::experiments {
namespace {

namespace fs = std::filesystem;

// Whether these are, or would become, the same file.
bool same_place(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const fs::path first = fs::weakly_canonical(fs::absolute(a, error), error),
                 second = fs::weakly_canonical(fs::absolute(b, error), error);
  return !error && first == second;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

reports::Existing existing_of(WhenThere when) {
  switch (when) {
    case WhenThere::resume: return reports::Existing::append;
    case WhenThere::replace: return reports::Existing::replace;
    case WhenThere::set_aside: break;
  }
  return reports::Existing::set_aside;
}

// Whether a new run's records continue an old run.
bool same_run(const reports::RunRecord& a, const reports::RunRecord& b) {
  return a.experiment == b.experiment && a.shard == b.shard && a.config_hash == b.config_hash &&
         a.git_revision == b.git_revision && a.git_dirty == b.git_dirty && a.compiler == b.compiler &&
         a.compiler_flags == b.compiler_flags && a.cpu_model == b.cpu_model && a.threads == b.threads &&
         a.memory_bytes == b.memory_bytes;
}

// Columns that every run's table has are known beforehand; those of settings and parameters come with its records.
void expect_columns(std::vector<std::string> columns) {
  std::erase_if(columns,
                [](const std::string& name) { return name.starts_with("setting.") || name.starts_with("data."); });
  const reports::RecordSet none;
  if (!columns.empty()) reports::with_columns(reports::flat_table(none, reports::Contexts(none, "")), columns);
}

}  // namespace

void check_places(const fs::path& records, const Experiment& experiment, const TableFiles& files) {
  struct Place {
    std::string what;
    fs::path path;
  };
  std::vector<Place> places = {{"the records", records}};
  for (const auto& [what, file] : {std::pair("--json", files.json), {"--csv", files.csv}, {"--md", files.markdown}})
    if (!file.empty() && file != "-") places.push_back({what, file});
  if ((files.json == "-") + (files.csv == "-") + (files.markdown == "-") > 1)
    throw UsageError("Only one of --json, --csv and --md can go to stdout.");
  expect_columns(files.columns);
  std::vector<std::string> read;
  for (const Case& one : experiment.cases)
    for (const auto& [name, text] : one.data.texts)
      if (std::ranges::find(read, text) == read.end()) read.push_back(text);
  for (const auto& [what, path] : places) expect_no_input(what, path.string(), read);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto& [what, path] = places[i];
    if (same_place(path, experiment.config_name))
      throw UsageError(fmt::format("{} is the config itself; {} cannot go there.", path.string(), what));
    // The records' folder is created.
    if (i > 0) expect_folder(what, path);
    for (size_t j = 0; j < i; ++j)
      if (same_place(path, places[j].path))
        throw UsageError(fmt::format("{} and {} cannot both go to {}.", places[j].what, what, path.string()));
  }
}

ResultFile::ResultFile(fs::path path, const Experiment& experiment, const std::vector<std::string>& arguments,
                       WhenThere when, std::ostream& messages)
    : path_(std::move(path)), writer_(path_, existing_of(when)) {
  for (const std::string& note : writer_.notes()) messages << "ecmv: " << note << "\n";
  if (when == WhenThere::resume) {
    if (writer_.is_stream())
      throw UsageError(fmt::format("{} is no file, so there is nothing in it to resume.", path_.string()));
    read_existing(messages);
  }
  const reports::RunRecord record = make_run_record(experiment, arguments);
  run_id_ = record.run;
  for (const reports::RunRecord& run : existing_.runs)
    if (same_run(run, record)) run_id_ = run.run;
  if (run_id_ == record.run) writer_.write(record);
  if (!writer_.is_stream()) write_config(experiment, messages);
}

void ResultFile::read_existing(std::ostream& messages) {
  existing_ = reports::read_records(path_);
  for (const std::string& note : existing_.notes) messages << "ecmv: " << note << "\n";
  for (const reports::CaseRecord& record : existing_.cases)
    if (record.status == reports::Status::ok) {
      done_.insert(record.case_key);
      done_backends_.insert(record.kernel.backend);
    }
}

// records.jsonl -> config.yaml, x.jsonl -> x.config.yaml. Never overwrites the config of this run, nor another one.
void ResultFile::write_config(const Experiment& experiment, std::ostream& messages) const {
  fs::path config =
      path_.parent_path() / (path_.stem() == "records" ? "config.yaml" : path_.stem().string() + ".config.yaml");
  if (same_place(config, experiment.config_name)) config = path_.parent_path() / "records.config.yaml";
  std::error_code error;
  if (fs::exists(config, error)) {
    if (!fs::is_regular_file(config, error))
      throw UsageError(fmt::format("{} is no file, and the config of the records goes there.", config.string()));
    if (text_of(config) == experiment.config_text) return;
    messages << fmt::format("ecmv: the config that was in {} is now in {}\n", config.string(),
                            reports::set_aside(config).string());
  }
  write_output(config.string(), [&](std::ostream& out) { out << experiment.config_text; });
}

void write_tables(const fs::path& records, const Experiment& experiment, const TableFiles& files, std::ostream* text) {
  if (text == nullptr && files.json.empty() && files.csv.empty() && files.markdown.empty()) return;
  reports::RecordSet all = reports::read_records(records);
  std::set<std::string> keys;
  for (const Case& one : experiment.cases) keys.insert(one.key());
  std::erase_if(all.cases, [&](const reports::CaseRecord& record) { return !keys.contains(record.case_key); });
  const reports::Contexts contexts(all, std::string(kDefaultBaseline));
  const reports::RecordSet pooled = reports::pooled_seeds(all).records;
  reports::Table flat = reports::flat_table(all, contexts);
  if (!files.columns.empty()) flat = reports::with_columns(flat, files.columns);
  if (!files.json.empty())
    write_output(files.json, [&](std::ostream& out) { out << json_text(table_json(flat)) << "\n"; });
  if (!files.csv.empty()) write_output(files.csv, [&](std::ostream& out) { out << reports::to_csv(flat); });
  if (!files.markdown.empty())
    write_output(files.markdown, [&](std::ostream& out) {
      if (!files.columns.empty()) {
        out << reports::to_markdown(flat) << "\n";
        return;
      }
      for (const reports::Table& table :
           reports::results_tables(pooled, reports::Contexts(pooled, std::string(kDefaultBaseline))))
        out << reports::to_markdown(table) << "\n";
      for (const reports::Table& table :
           {reports::library_table(all), reports::failures_table(all), reports::refusals_table(all)})
        if (!table.rows.empty()) out << reports::to_markdown(table) << "\n";
    });
  if (text == nullptr) return;
  for (const std::string& sentence : reports::runs_beyond_bandwidth(all, contexts)) *text << sentence << ".\n\n";
  for (const reports::Table& table : fastest_cases(all, std::string(kDefaultBaseline)))
    *text << fitted_text(table, kLineColumns) << "\n";
  if (const reports::Table libraries = reports::library_table(all); !libraries.rows.empty())
    *text << fitted_text(libraries, kLineColumns) << "\n";
}

}  // namespace ecmv::experiments

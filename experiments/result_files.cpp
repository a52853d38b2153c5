// See result_files.h.
#include "experiments/result_files.h"

#include <fstream>
#include <ostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/command.h"
#include "experiments/fill_record.h"
#include "experiments/table_json.h"
#include "reports/tables.h"

namespace ecmv::experiments {
namespace {

namespace fs = std::filesystem;

fs::path free_name(const fs::path& path) {
  for (int i = 1;; ++i) {
    fs::path candidate = path;
    candidate.replace_extension(fmt::format("{}{}", i, path.extension().string()));
    if (!fs::exists(candidate)) return candidate;
  }
}

// Whether records of a new run belong to an old one.
bool same_run(const reports::RunRecord& a, const reports::RunRecord& b) {
  return a.experiment == b.experiment && a.config_hash == b.config_hash && a.git_revision == b.git_revision &&
         a.git_dirty == b.git_dirty && a.compiler == b.compiler && a.compiler_flags == b.compiler_flags &&
         a.cpu_model == b.cpu_model && a.threads == b.threads && a.memory_bytes == b.memory_bytes;
}

}  // namespace

ResultFile::ResultFile(fs::path path, const Experiment& experiment, const std::vector<std::string>& arguments,
                       WhenThere when, std::ostream& messages)
    : path_(std::move(path)) {
  if (fs::is_regular_file(path_) && fs::file_size(path_) > 0) {
    if (when == WhenThere::resume) {
      read_existing(messages);
    } else if (when == WhenThere::replace) {
      fs::remove(path_);
    } else {
      const fs::path aside = free_name(path_);
      fs::rename(path_, aside);
      messages << fmt::format("ecmv: the records that were in {} are now in {} (--resume would have continued them)\n",
                              path_.string(), aside.string());
    }
  }
  writer_ = std::make_unique<reports::RecordWriter>(path_);
  if (writer_->cut_bytes() > 0)
    messages << fmt::format("ecmv: cut {} bytes of an incomplete last line from {}\n", writer_->cut_bytes(),
                            path_.string());
  const reports::RunRecord record = make_run_record(experiment, arguments);
  run_id_ = record.run;
  for (const reports::RunRecord& run : existing_.runs)
    if (same_run(run, record)) run_id_ = run.run;
  if (run_id_ == record.run) writer_->write(record);
  write_config(experiment);
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

// records.jsonl -> config.yaml, x.jsonl -> x.config.yaml; never over the config that is being run.
void ResultFile::write_config(const Experiment& experiment) const {
  fs::path config =
      path_.parent_path() / (path_.stem() == "records" ? "config.yaml" : path_.stem().string() + ".config.yaml");
  std::error_code ignored;
  if (!fs::is_regular_file(path_)) return;  // a pipe or a device
  if (fs::equivalent(config, experiment.config_name, ignored)) config = path_.parent_path() / "records.config.yaml";
  write_output(config.string(), [&](std::ostream& out) { out << experiment.config_text; });
}

void write_tables(const fs::path& records, const Experiment& experiment, const TableFiles& files, std::ostream* text) {
  if (text == nullptr && files.json.empty() && files.csv.empty() && files.markdown.empty()) return;
  if (!fs::is_regular_file(records)) return;
  reports::RecordSet all = reports::read_records(records);
  std::set<std::string> keys;
  for (const Case& one : experiment.cases) keys.insert(one.key());
  std::erase_if(all.cases, [&](const reports::CaseRecord& record) { return !keys.contains(record.case_key); });
  const reports::Contexts contexts(all, std::string(kDefaultBaseline));
  if (!files.json.empty())
    write_output(files.json,
                 [&](std::ostream& out) { out << table_json(reports::flat_table(all, contexts)).dump(2) << "\n"; });
  if (!files.csv.empty())
    write_output(files.csv, [&](std::ostream& out) { out << reports::to_csv(reports::flat_table(all, contexts)); });
  if (!files.markdown.empty())
    write_output(files.markdown, [&](std::ostream& out) {
      for (const reports::Table& table : reports::results_tables(all, contexts))
        out << reports::to_markdown(table) << "\n";
      for (const reports::Table& table :
           {reports::library_table(all), reports::failures_table(all), reports::refusals_table(all)})
        if (!table.rows.empty()) out << reports::to_markdown(table) << "\n";
    });
  if (text == nullptr) return;
  for (const reports::Table& table : reports::summary_tables(all, contexts)) *text << reports::to_text(table) << "\n";
  for (const reports::Table& table :
       {reports::library_table(all), reports::failures_table(all), reports::refusals_table(all)})
    if (!table.rows.empty()) *text << reports::to_text(table) << "\n";
}

}  // namespace ecmv::experiments

// Record files from anywhere: each line is a record, is left out, or makes the file unreadable with a reason. Records
// that were read are written and read again without a change, reported without gnuplot, and compared with themselves.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "reports/compare.h"
#include "reports/report.h"
#include "tests/fuzz/target.h"

namespace ecmv::tests::fuzz {
namespace {

namespace fs = std::filesystem;
using reports::RecordSet;
using reports::ReportError;

// One for the process; it remains only if an input has ended the process.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("ecmv_fuzz_records_" + std::to_string(getpid()));
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

template <class Record>
void write_again(const Record& record) {
  const std::string line = to_json_line(record);
  const reports::AnyRecord again = reports::parse_record(line);
  const auto* same = std::get_if<Record>(&again);
  if (same == nullptr || to_json_line(*same) != line) broken("a record that was read can be written and read again");
}

void report(const RecordSet& records) {
  static const Folder folder;
  reports::ReportOptions options;
  options.baseline_codec = "raw_int8,raw_bf16";
  options.gnuplot = "no such program";
  (void)reports::write_report(records, options, folder.path);
}

}  // namespace

// The first run, bandwidth and cases of each published file and of the tests' files.
std::vector<Bytes> seeds() {
  std::vector<Bytes> out;
  for (const char* folder : {ECMV_SOURCE_DIR "/reports/published", ECMV_SOURCE_DIR "/tests/reports/fixtures"})
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".jsonl") continue;
      constexpr size_t kLongestLine = 4096;  // runs hold whole configs
      std::ifstream file(entry.path());
      std::string text, line;
      for (int lines = 0; lines < 4 && std::getline(file, line);)
        if (line.size() <= kLongestLine) text += line + "\n", ++lines;
      out.emplace_back(text.begin(), text.end());
    }
  return out;
}

void try_input(std::span<const uint8_t> input) {
  std::istringstream stream(std::string(input.begin(), input.end()));
  RecordSet records;
  try {
    records = reports::read_records(stream, "fuzzed.jsonl");
  } catch (const ReportError&) {
    return;
  }
  for (const auto& record : records.cases) write_again(record);
  for (const auto& record : records.runs) write_again(record);
  for (const auto& record : records.bandwidths) write_again(record);
  try {
    report(records);
  } catch (const ReportError&) {  // no case at all
  }
  try {
    (void)comparison_table(compare(records, records));
  } catch (const ReportError&) {
  }
  try {
    (void)comparison_table(compare_with_baseline(records, "raw_int8"));
  } catch (const ReportError&) {
  }
}

}  // namespace ecmv::tests::fuzz

// Handmade record files beside this header, with round numbers, so that expected values can be computed by hand.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "reports/record.h"

namespace ecmv::reports {

inline std::filesystem::path fixture_path(const std::string& name) {
  return std::filesystem::path(ECMV_SOURCE_DIR) / "tests/reports/fixtures" / name;
}

inline RecordSet fixture(const std::string& name) { return read_records(fixture_path(name)); }

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline const CaseRecord& case_of(const RecordSet& records, const std::string& key) {
  for (const CaseRecord& record : records.cases) {
    if (record.case_key == key) return record;
  }
  throw ReportError("no case " + key);
}

// A folder that is removed at the end of the test.
struct ScratchFolder {
  std::filesystem::path path;
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ecmv_reports_XXXXXX").string();
    if (!::mkdtemp(name.data())) throw ReportError("no temporary folder");
    path = name;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
};

}  // namespace ecmv::reports

// Writes results of `ecmv verify` as JUnit XML, which continuous-integration services read.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace ecmv::experiments {

struct JunitCase {
  enum class Result { passed, failed, skipped };
  std::string group;  // JUnit's class name
  std::string name;
  Result result = Result::passed;
  std::string message;
};

void write_junit(const std::string& suite, const std::vector<JunitCase>& cases, std::ostream& out);

}  // namespace ecmv::experiments

// See junit.h.
#include "experiments/output/junit.h"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

namespace ecmv::experiments {
namespace {

// Replaces characters that XML 1.0 forbids by '?'.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\n': out += "&#10;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

}  // namespace

void write_junit(const std::string& suite, const std::vector<JunitCase>& cases, std::ostream& out) {
  const auto count = [&](JunitCase::Result result) {
    return std::count_if(cases.begin(), cases.end(), [&](const JunitCase& c) { return c.result == result; });
  };
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out << fmt::format("<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n",
                     escaped(suite), cases.size(), count(JunitCase::Result::failed), count(JunitCase::Result::skipped));
  for (const JunitCase& one : cases) {
    out << fmt::format("  <testcase classname=\"{}\" name=\"{}\"", escaped(one.group), escaped(one.name));
    if (one.result == JunitCase::Result::passed)
      out << "/>\n";
    else
      out << fmt::format("><{} message=\"{}\"/></testcase>\n",
                         one.result == JunitCase::Result::failed ? "failure" : "skipped", escaped(one.message));
  }
  out << "</testsuite>\n";
}

}  // namespace ecmv::experiments

#include "reports/plausible.h"

#include <fmt/format.h>

#include <cmath>

namespace ecmv::reports {
namespace {

// Deeper than any record, and harmless for recursive functions.
constexpr int kDeepest = 16;
constexpr std::size_t kLongest = 16 << 20, kMostSamples = 100'000;

}  // namespace

void expect_shallow(std::string_view text) {
  if (text.size() > kLongest)
    throw ReportError(fmt::format("broken record: {} bytes, more than {}", text.size(), kLongest));
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest) throw ReportError(fmt::format("broken record: nested more than {} deep", kDeepest));
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

bool is_beyond_measure(double value) {
  const double size = std::abs(value);
  return size > 1e30 || (size > 0 && size < 1e-30);
}

void expect_count(const char* name, std::int64_t count, int bits) {
  if (count < 0 || count >> bits != 0)
    throw ReportError(fmt::format("the field \"{}\" is {}, which is no count of its kind", name, count));
}

void expect_plausible(const CaseRecord& r) {
  if (r.time.samples_s.size() > kMostSamples)
    throw ReportError(
        fmt::format("\"samples_s\" holds {} samples, more than {}", r.time.samples_s.size(), kMostSamples));
  for (const double seconds : r.time.samples_s)
    if (seconds <= 0) throw ReportError(fmt::format("\"samples_s\" holds {}, and no pass takes that", seconds));
}

}  // namespace ecmv::reports

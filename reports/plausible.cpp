// See plausible.h.
#include "reports/plausible.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <utility>

namespace ecmv::reports {
namespace {

// Deeper and longer than any record is, and no danger to functions that call themselves once a level.
constexpr int kDeepest = 16;
constexpr std::size_t kLongest = 16 << 20, kMostSamples = 100'000;

// Counts and sizes are none below zero, and small enough that sums and products of them are numbers.
void expect_counts(std::initializer_list<std::pair<const char*, std::int64_t>> counts, int most_bits) {
  for (const auto& [name, count] : counts)
    if (count < 0 || count >> most_bits != 0)
      throw ReportError(fmt::format("the field \"{}\" is {}, which is no count of its kind", name, count));
}

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

void expect_plausible(const CaseRecord& r) {
  expect_counts({{"rows", r.data.rows}, {"cols", r.data.cols}}, 40);
  expect_counts({{"layers", r.data.layers}, {"threads", r.kernel.threads}, {"batch", r.kernel.batch}}, 31);
  expect_counts({{"elements", r.time.elements}, {"iterations_per_sample", r.time.iterations_per_sample}}, 56);
  expect_counts({{"stored_bytes", r.size.stored_bytes},
                 {"payload", r.size.payload_bytes},
                 {"table", r.size.table_bytes},
                 {"index", r.size.index_bytes},
                 {"scale", r.size.scale_bytes},
                 {"padding_bits", r.size.padding_bits}},
                56);
  expect_counts({{"blocks", r.step.blocks}, {"encoded_blocks", r.step.encoded_blocks}}, 31);
  for (const CaseRecord::Step::Part& part : r.step.parts)
    expect_counts(
        {{"layers", part.layers}, {"rows", part.rows}, {"cols", part.cols}, {"stored_bytes", part.stored_bytes}}, 56);
  for (const CaseRecord::Blocks& b : r.blocks)
    expect_counts({{"block_bytes", b.block_bytes},
                   {"blocks", b.blocks},
                   {"bits", b.bits},
                   {"side_bits", b.side_bits},
                   {"link_bytes", b.link_bytes},
                   {"raw_link_bytes", b.raw_link_bytes}},
                  56);
  if (r.time.samples_s.size() > kMostSamples)
    throw ReportError(
        fmt::format("\"samples_s\" holds {} samples, more than {}", r.time.samples_s.size(), kMostSamples));
  for (const double seconds : r.time.samples_s)
    if (seconds <= 0) throw ReportError(fmt::format("\"samples_s\" holds {}, and no pass takes that", seconds));
}

}  // namespace ecmv::reports

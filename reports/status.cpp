// The statuses of cases in words, and whether a case's times are disturbed.
#include <fmt/ranges.h>

#include <array>
#include <set>

#include "reports/record.h"

namespace ecmv::reports {
namespace {

constexpr std::array kStatuses = {Status::ok,    Status::incorrect, Status::refused,      Status::unavailable,
                                  Status::error, Status::timed_out, Status::out_of_memory};
constexpr std::array<std::string_view, 7> kStatusNames = {"ok",    "incorrect", "refused",      "unavailable",
                                                          "error", "timed_out", "out_of_memory"};

bool beside_busy_programs(const CaseRecord& record) {
  return record.kernel.compute_units == 0 && !record.time.samples_s.empty() && record.host.other_cores > 0.25;
}

}  // namespace

std::span<const Status> all_statuses() { return kStatuses; }

std::string_view to_string(Status status) { return kStatusNames.at(static_cast<std::size_t>(status)); }

Status parse_status(std::string_view text) {
  for (Status status : kStatuses)
    if (to_string(status) == text) return status;
  throw ReportError(fmt::format("\"{}\" is not a status; the words are {}", text, fmt::join(kStatusNames, ", ")));
}

bool is_disturbed(const CaseRecord& record) {
  std::set<std::int64_t> marked(record.time.disturbed_samples.begin(), record.time.disturbed_samples.end());
  marked.insert(record.time.unsteady_samples.begin(), record.time.unsteady_samples.end());
  return 10 * marked.size() > record.time.samples_s.size() || beside_busy_programs(record);
}

void Disturbers::add(const CaseRecord& record) {
  programs = programs || beside_busy_programs(record) || !record.time.disturbed_samples.empty();
  cores = cores || !record.time.unsteady_samples.empty();
}

std::string Disturbers::text() const {
  if (programs && cores) return "other programs and unsteady cores";
  return programs ? "other programs" : cores ? "unsteady cores" : "";
}

}  // namespace ecmv::reports

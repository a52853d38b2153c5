// The statuses of cases in words, and whether a case's times are disturbed.
#include <fmt/ranges.h>

#include <array>
#include <set>
#include <tuple>

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

Disturbance disturbance_of(const CaseRecord& record) {
  constexpr double kRuined = 0.2;
  if (!is_disturbed(record)) return Disturbance::none;
  const auto& [time, host] = std::tie(record.time, record.host);
  const bool ruined = time.p90_s - time.p10_s > kRuined * time.median_s || host.waiting_share > kRuined ||
                      host.clock_share < 1 - kRuined || host.throughput_share < 1 - kRuined;
  return ruined ? Disturbance::ruined : Disturbance::slight;
}

std::string_view to_string(Disturbance disturbance) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "slight", "ruined"};
  return kNames.at(static_cast<std::size_t>(disturbance));
}

std::string_view mark_of(Disturbance disturbance) {
  return disturbance == Disturbance::ruined ? " !!" : disturbance == Disturbance::slight ? " !" : "";
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

// See recorder.h.
#include "experiments/run/recorder.h"

#include <fmt/format.h>

namespace ecmv::experiments {

using reports::Status;

std::vector<const Case*> Recorder::left(std::span<const Case> cases) {
  std::vector<const Case*> left;
  for (const Case& one : cases)
    if (!options_.done.contains(one.key())) left.push_back(&one);
  summary.skipped += static_cast<int>(cases.size() - left.size());
  progress.skip(cases.size() - left.size());
  return left;
}

void Recorder::finish(const Case& one, reports::CaseRecord record, const Outcome& outcome) {
  record.status = outcome.status;
  record.reason = outcome.reason;
  ++summary.counts[outcome.status];
  if (outcome.status == Status::refused || outcome.status == Status::unavailable)
    ++summary.refusals[outcome.reason];
  else if (!outcome.fine())
    summary.failures.emplace_back(one.short_name(),
                                  fmt::format("{}: {}", reports::to_string(outcome.status), outcome.reason));
  if (outcome.fine() && reports::is_disturbed(record)) {
    ++summary.disturbed;
    summary.disturbers.add(record);
  }
  if (options_.on_case) options_.on_case(record);
  progress.over(one, record);
}

void Recorder::note(const std::string& what, const Outcome& outcome) {
  if (!outcome.fine()) progress.note(what + ": " + outcome.reason);
}

int RunSummary::exit_code() const {
  const auto count = [&](Status status) {
    const auto it = counts.find(status);
    return it == counts.end() ? 0 : it->second;
  };
  if (interrupted) return 130;
  if (count(Status::incorrect) > 0) return 3;
  if (count(Status::error) + count(Status::timed_out) + count(Status::out_of_memory) > 0) return 5;
  if (count(Status::ok) + skipped == 0) return 6;
  return 0;
}

}  // namespace ecmv::experiments

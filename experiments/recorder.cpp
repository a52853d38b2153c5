// See recorder.h.
#include "experiments/recorder.h"

#include <fmt/format.h>

#include "reports/metrics.h"

namespace ecmv::experiments {

using reports::Status;

std::vector<const Case*> Recorder::left(std::span<const Case> cases) {
  std::vector<const Case*> left;
  for (const Case& one : cases)
    if (!options_.done.contains(one.key())) left.push_back(&one);
  summary.skipped += static_cast<int>(cases.size() - left.size());
  return left;
}

void Recorder::finish(const Case& one, reports::CaseRecord record, const Outcome& outcome) {
  record.status = outcome.status;
  record.reason = outcome.reason;
  ++summary.counts[outcome.status];
  if (outcome.fine() && reports::is_disturbed(record)) ++summary.disturbed;
  ++finished_;
  if (options_.on_case) options_.on_case(record);
  if (options_.progress != nullptr) show(one, record);
}

void Recorder::note(const std::string& what, const Outcome& outcome) {
  if (!outcome.fine() && options_.progress != nullptr) *options_.progress << what << ": " << outcome.reason << "\n";
}

void Recorder::show(const Case& one, const reports::CaseRecord& record) {
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const size_t total = experiment_.cases.size(), over = finished_ + static_cast<size_t>(summary.skipped);
  const double left = elapsed / static_cast<double>(finished_) * static_cast<double>(total - over);
  std::string result(reports::to_string(record.status));
  if (record.status == Status::ok && record.time.median_s > 0)
    result = fmt::format("{:.2f} G elements/s, {:.3f} bits", record.time.elements / record.time.median_s * 1e-9,
                         record.size.bits_per_element) +
             (reports::is_disturbed(record) ? ", disturbed" : "") +
             (reports::stores_below_entropy(record) ? ", fewer bits than the entropy of independent elements" : "");
  else if (record.status == Status::ok && record.kernel.op == "size")
    result = fmt::format("{:.4f} bits, {}", record.size.bits_per_element, record.check.decode);
  else if (!record.reason.empty())
    result += ": " + record.reason;
  *options_.progress << fmt::format("[{}/{}] {}: {} (elapsed {:.0f} s, about {:.0f} s left)\n", over, total, one.name(),
                                    result, elapsed, left);
  options_.progress->flush();
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

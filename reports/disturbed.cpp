// When the times of a case are to be believed with care, and why.
#include <set>

#include "reports/record.h"

namespace ecmv::reports {
namespace {

bool beside_busy_programs(const CaseRecord& record) {
  return record.kernel.compute_units == 0 && !record.time.samples_s.empty() && record.host.other_cores > 0.25;
}

}  // namespace

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

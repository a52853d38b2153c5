// Team, with OpenMP.
#include "backends/cpu/team.h"

#include <omp.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ecmv::backends::cpu {

void Team::run(const std::function<void(int)>& body) const {
  // Without this the runtime may hand out fewer threads than asked for and rows would stay undone.
  omp_set_dynamic(0);
  int granted = threads_;
#pragma omp parallel num_threads(threads_)
  {
    // The same on every thread; a limit (OMP_THREAD_LIMIT, a parallel region around this one) still applies.
    if (omp_get_num_threads() == threads_) {
      body(omp_get_thread_num());
    } else if (omp_get_thread_num() == 0) {
      granted = omp_get_num_threads();
    }
  }
  if (granted != threads_)
    throw std::runtime_error("OpenMP grants " + std::to_string(granted) + " of " + std::to_string(threads_) +
                             " threads: OMP_THREAD_LIMIT, or a parallel region around this one, is in the way.");
}

int Team::available_threads() { return std::min(omp_get_max_threads(), omp_get_thread_limit()); }

std::vector<int> Team::cores_of(int thread, int threads) {
  const int places = omp_get_num_places();
  if (omp_get_proc_bind() == omp_proc_bind_false || places == 0) return {};
  // Close together while there are places enough, spread over all of them where the bind says so.
  const bool spread = omp_get_proc_bind() == omp_proc_bind_spread;
  const int place = threads > places || spread ? static_cast<int>(int64_t{thread} * places / threads) : thread;
  std::vector<int> cores(static_cast<size_t>(omp_get_place_num_procs(place)));
  omp_get_place_proc_ids(place, cores.data());
  return cores;
}

}  // namespace ecmv::backends::cpu

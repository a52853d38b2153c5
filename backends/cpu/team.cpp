// Team, with OpenMP.
#include "backends/cpu/team.h"

#include <omp.h>

namespace ecmv::backends::cpu {

void Team::run(const std::function<void(int)>& body) const {
  // Without this the runtime may hand out fewer threads than asked for and rows would stay undone.
  omp_set_dynamic(0);
#pragma omp parallel num_threads(threads_)
  body(omp_get_thread_num());
}

void Team::barrier() {
#pragma omp barrier
}

int Team::available_threads() { return omp_get_max_threads(); }

}  // namespace ecmv::backends::cpu

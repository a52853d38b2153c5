// See in_parts.h.
#include "backends/pass/in_parts.h"

#include <algorithm>
#include <numeric>

#include "backends/exact_product.h"

namespace ecmv::backends {
namespace {

struct InParts {
  const BoundKernel *whole, *rest;
  int most, batch;

  void operator()(void* stream, const MatmulArgs& args) const {
    for (int first = 0; first < batch; first += most) {
      MatmulArgs part = args;
      if (part.x != nullptr) part.x += first * args.x_stride;
      if (part.x_bf16 != nullptr) part.x_bf16 += first * args.x_stride;
      part.y += first * args.y_stride;
      (batch - first >= most ? whole : rest)->enqueue(stream, part);
    }
  }
};

}  // namespace

BoundKernel in_parts(const BoundKernel& whole, const BoundKernel& rest, int most, int batch) {
  KernelFacts facts = whole.facts;
  if (batch % most != 0) {
    facts.rows_per_block = std::lcm(facts.rows_per_block, rest.facts.rows_per_block);
    facts.scratch_bytes = std::max(facts.scratch_bytes, rest.facts.scratch_bytes);
    facts.rounding = looser_of(facts.rounding, rest.facts.rounding);
    facts.capturable = facts.capturable && rest.facts.capturable;
  }
  return {InParts{&whole, &rest, most, batch}, facts};
}

}  // namespace ecmv::backends

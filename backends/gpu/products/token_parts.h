// A batch that is multiplied in parts. All parts but the last have equally many tokens, so a batch needs two plans, and
// both are made when the kernel is bound. A call with fewer tokens uses the same plans. Host code.
#pragma once

#include <algorithm>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

template <typename Plan>
struct TokenParts {
  int batch = 0, most = 0;
  Plan whole{}, rest{};  // the plan for `most` tokens, and the one for the remaining tokens
  // Calls launch(first, tokens, planned tokens, plan) for every part that has tokens.
  template <typename Launch>
  void each(const MatmulArgs& args, Launch launch) const {
    const int all = args.tokens > 0 ? args.tokens : batch;
    for (int first = 0; first < all; first += most) {
      const int planned = std::min(most, batch - first);
      launch(first, std::min(planned, all - first), planned, planned == most ? whole : rest);
    }
  }
};

template <typename PlanOf>
auto token_parts(int batch, int most, PlanOf plan_of) -> TokenParts<decltype(plan_of(batch))> {
  TokenParts<decltype(plan_of(batch))> parts{batch, most, plan_of(std::min(most, batch))};
  if (batch % most != 0) parts.rest = plan_of(batch % most);
  return parts;
}

// Halves a batch that does not fit until it does. A plan for too many tokens has no bytes; one token fits.
template <typename PlanOf>
auto halved_token_parts(int batch, PlanOf plan_of) {
  int most = batch;
  while (plan_of(most).bytes == 0) most = (most + 1) / 2;
  return token_parts(batch, most, plan_of);
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

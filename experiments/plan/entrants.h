// How much of each codec takes part in a run. A codec beats "the best uncompressed kernel" only where all of those ran,
// and one with eight settings is not compared evenly with one that had a single one.
#pragma once

#include <map>
#include <span>
#include <string>

#include "codecs/registry.h"
#include "experiments/config/case.h"
#include "reports/record.h"

namespace ecmv::experiments {

class Entrants {
 public:
  // `cases`: all that the run tries on one dataset, those that are refused included.
  Entrants(std::span<const Case> cases, std::span<const codecs::CodecEntry> codecs);
  // For the case's codec, op, backend, tokens and threads; nothing for `size`.
  reports::CaseRecord::Entrants of(const Case& one) const;

 private:
  std::map<std::string, reports::CaseRecord::Entrants> found_;  // by all of these
};

}  // namespace ecmv::experiments

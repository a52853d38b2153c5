// Shards of a sweep: several processes on several machines run one config, each with its own datasets.
#pragma once

#include <optional>
#include <string>

#include "experiments/config/case.h"

namespace ecmv::experiments {

// Parses "3/8", 0-based. Throws UsageError with a sentence; `what` names where the text came from.
Shard parse_shard(const std::string& text, const std::string& what);

// The shard that a job array of Slurm (SLURM_ARRAY_TASK_ID and its companions) or a test runner (TEST_SHARD_INDEX and
// TEST_TOTAL_SHARDS) asks for; nullopt if neither does. Throws UsageError if the variables make no sense.
std::optional<Shard> shard_of_environment();

// Keeps every count-th dataset with all of its cases, so that compared cases stay together. All shards together have
// every case once. Returns a sentence about the remaining cases.
std::string keep_shard(Experiment& experiment, const Shard& shard);

}  // namespace ecmv::experiments

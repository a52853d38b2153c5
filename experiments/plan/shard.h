// Shards of a sweep: one config, run as several processes on several machines, each with its own datasets.
#pragma once

#include <optional>
#include <string>

#include "experiments/config/case.h"

namespace ecmv::experiments {

// "3/8": 0-based. Throws UsageError with a sentence that names `what` the text is the value of.
Shard parse_shard(const std::string& text, const std::string& what);

// What a job array of Slurm (SLURM_ARRAY_TASK_ID and its companions) or a test runner (TEST_SHARD_INDEX and
// TEST_TOTAL_SHARDS) asks for; nullopt where neither does. Throws UsageError where the variables make no sense.
std::optional<Shard> shard_of_environment();

// Keeps every count-th dataset with all of its cases, so that cases that are compared stay together. All shards
// together have the cases of the experiment, each once. Returns a sentence about the cases that are left.
std::string keep_shard(Experiment& experiment, const Shard& shard);

}  // namespace ecmv::experiments

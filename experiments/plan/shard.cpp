// See shard.h.
#include "experiments/plan/shard.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "experiments/command/command.h"

namespace ecmv::experiments {
namespace {

// The number, if the text is all digits.
std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '-') return std::nullopt;
  return number;
}

// nullopt if the variable is not set.
std::optional<int64_t> variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::optional<int64_t> number = number_of(text);
  if (!number) throw UsageError(fmt::format("{}={}: a shard needs a number.", name, text));
  return number;
}

Shard checked(int64_t index, int64_t count, const std::string& what) {
  if (count < 1) throw UsageError(fmt::format("{}: an experiment has at least one shard.", what));
  if (index >= count)
    throw UsageError(fmt::format("{}: of {} shards there {} {}.", what, count, count == 1 ? "is only" : "are only",
                                 count == 1 ? "0" : fmt::format("0 to {}", count - 1)));
  return {index, count};
}

// The numbers of an array may begin anywhere and have gaps, as long as the gaps are equal.
std::optional<Shard> shard_of_slurm() {
  const auto id = variable("SLURM_ARRAY_TASK_ID");
  if (!id) return std::nullopt;
  const auto count = variable("SLURM_ARRAY_TASK_COUNT");
  if (!count)
    throw UsageError("SLURM_ARRAY_TASK_ID is set and SLURM_ARRAY_TASK_COUNT is not: say which shard it is (--shard).");
  const int64_t first = variable("SLURM_ARRAY_TASK_MIN").value_or(0);
  const int64_t step = std::max<int64_t>(1, variable("SLURM_ARRAY_TASK_STEP").value_or(1));
  const int64_t last = variable("SLURM_ARRAY_TASK_MAX").value_or(first + (*count - 1) * step);
  if (*id < first || (*id - first) % step != 0 || (last - first) / step + 1 != *count)
    throw UsageError(
        fmt::format("Task {} of {} of this array of Slurm has no place in a row from {} to {}, so its shard is not "
                    "known: say which it is (--shard).",
                    *id, *count, first, last));
  return checked((*id - first) / step, *count, fmt::format("SLURM_ARRAY_TASK_ID={}", *id));
}

std::optional<Shard> shard_of_test_runner() {
  const auto index = variable("TEST_SHARD_INDEX"), count = variable("TEST_TOTAL_SHARDS");
  if (!index && !count) return std::nullopt;
  if (!index || !count) throw UsageError("One of TEST_SHARD_INDEX and TEST_TOTAL_SHARDS is set and the other is not.");
  return checked(*index, *count, fmt::format("TEST_SHARD_INDEX={}", *index));
}

}  // namespace

Shard parse_shard(const std::string& text, const std::string& what) {
  const size_t slash = text.find('/');
  const auto index = number_of(text.substr(0, slash));
  const auto count = slash == std::string::npos ? std::nullopt : number_of(text.substr(slash + 1));
  if (!index || !count) throw UsageError(fmt::format("{} takes I/N, as in 0/4 to 3/4, not '{}'.", what, text));
  return checked(*index, *count, fmt::format("{} {}", what, text));
}

std::optional<Shard> shard_of_environment() {
  const std::optional<Shard> slurm = shard_of_slurm();
  return slurm ? slurm : shard_of_test_runner();
}

std::string keep_shard(Experiment& experiment, const Shard& shard) {
  std::vector<Case> kept;
  const size_t all = experiment.cases.size();
  int64_t datasets = 0, kept_datasets = 0;
  for (size_t i = 0; i < all; ++i) {
    const bool is_new = i == 0 || experiment.cases[i].data != experiment.cases[i - 1].data;
    datasets += is_new;
    if ((datasets - 1) % shard.count != shard.index) continue;
    kept_datasets += is_new;
    kept.push_back(experiment.cases[i]);
  }
  experiment.cases = std::move(kept);
  experiment.shard = shard;
  return fmt::format("Shard {}: {} of {} datasets, {} of {} cases.", shard.name(), kept_datasets, datasets,
                     experiment.cases.size(), all);
}

}  // namespace ecmv::experiments

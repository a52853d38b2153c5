// See plan.h.
#include "experiments/plan/plan.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "backends/cpu/memory_limits.h"
#include "experiments/check/chain.h"
#include "experiments/check/outcome.h"
#include "experiments/check/products.h"
#include "experiments/config/mix.h"
#include "experiments/plan/device_pool.h"
#include "experiments/plan/split.h"
#include "experiments/run/loaded_dataset.h"
#include "reports/fields.h"

namespace ecmv::experiments {
namespace {

std::string gib(int64_t bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (int64_t{1} << 30)); }

// Codecs are asked with a sample: the layers of a model alone would take half a minute to draw.
void first_rows_only(DataSpec& data) {
  constexpr double kRows = 16;
  const datasets::DataSource* source = datasets::find_source(data.source);
  if (source == nullptr ||
      std::ranges::find(source->parameters, "rows", &datasets::ParameterInfo::name) == source->parameters.end())
    return;
  const auto rows = data.numbers.find("rows");
  data.numbers["rows"] = rows == data.numbers.end() ? kRows : std::min(rows->second, kRows);
}

class Plan {
 public:
  Plan(std::span<const codecs::CodecEntry> codecs, std::ostream& out) : codecs_(codecs), out_(out) {}

  // Why this case will not run, as far as is known; else "".
  std::string obstacle(const Case& one) {
    std::string reason;
    const Outcome asked = guarded([&] { reason = known_obstacle(one); });
    return asked.fine() ? reason : fmt::format("{}: {}", reports::to_string(asked.status), asked.reason);
  }

 private:
  std::string known_obstacle(const Case& one) {
    if (!known_ || *known_ != one.data) open(one.data);
    if (!opened_.fine()) return fmt::format("{}: {}", reports::to_string(opened_.status), opened_.reason);
    if (!one.unavailable.empty()) return "unavailable: " + one.unavailable;
    if (const std::string reason = why_no_pairs(one.kernel); !reason.empty()) return "refused: " + reason;
    if (one.kernel.task != Task::size && devices_.find(one.kernel) == nullptr)
      return "unavailable: " + devices_.reason(one.kernel);
    std::string missing;
    const auto choice = choice_of(one.codec, codecs_, missing);
    if (!choice) return "error: there is no such codec in this build";
    if (one.kernel.task == Task::matvec)
      if (const std::string reason = why_no_product(first_); !reason.empty()) return "refused: " + reason;
    if (one.kernel.takes_tokens())
      if (const std::string reason = why_no_float_product(first_.layers); !reason.empty()) return "refused: " + reason;
    for (const datasets::Matrix& matrix : first_.layers)
      if (const CodecChoice* codec = choice->of(matrix); codec != nullptr)
        if (const std::string reason = codec->entry->codec->refuses(matrix.view(), codec->settings); !reason.empty())
          return "refused: " + reason;
    return {};
  }
  void open(const DataSpec& data) {
    known_ = data;
    first_ = {};
    opened_ = guarded([&]() -> Outcome {
      if (const std::string reason = lacks_memory(data); !reason.empty())
        return {reports::Status::out_of_memory, reason};
      DataSpec first = data;
      first.layers = std::min(data.layers, 1);
      first_rows_only(first);
      first_ = load_dataset(first);
      return {};
    });
    const int64_t raw = memory_needed_bytes(data) / 4;
    if (raw > 0)
      out_ << fmt::format("{}: {} of matrices, about {} of memory\n", data.short_name(),
                          reports::bytes_text(static_cast<double>(raw)),
                          reports::bytes_text(static_cast<double>(memory_needed_bytes(data))));
    else
      out_ << data.short_name() << "\n";
  }

  std::span<const codecs::CodecEntry> codecs_;
  std::ostream& out_;
  DevicePool devices_;
  std::optional<DataSpec> known_;
  Outcome opened_;           // of the current dataset
  datasets::Dataset first_;  // its first layer; for a file, the first rows of all layers
};

}  // namespace

int64_t memory_needed_bytes(const DataSpec& data) {
  const datasets::DataSource* source = datasets::find_source(data.source);
  if (source != nullptr && source->check != nullptr) {
    try {
      return 4 * source->check({data.shape, data.layers, data.seed, data.numbers, data.texts}).bytes;
    } catch (const datasets::DatasetError&) {
      return 0;  // loading reports the error
    }
  }
  int64_t needed = 4 * (source == nullptr ? 1 : source->element_bytes);
  for (const int64_t factor : {data.shape.rows, data.shape.cols, int64_t{data.layers}})
    if (__builtin_mul_overflow(needed, factor, &needed)) return INT64_MAX;
  return needed;
}

std::string lacks_memory(const DataSpec& data, int copies) {
  const int64_t once = memory_needed_bytes(data), matrices = once / 4;
  const int64_t available = backends::cpu::available_memory_bytes();
  int64_t needed = 0;
  if (__builtin_mul_overflow(matrices, int64_t{copies} - 1, &needed) || __builtin_add_overflow(needed, once, &needed))
    needed = INT64_MAX;
  if (available <= 0 || needed <= available) return {};
  return fmt::format(
      "The case needs about {} ({} of matrices, and as much each encoded, uploaded{} and decoded), {} are "
      "available.",
      gib(needed), gib(matrices), copies > 1 ? fmt::format(" {} times", copies) : "", gib(available));
}

int print_plan(const Experiment& experiment, std::span<const codecs::CodecEntry> codecs, std::ostream& out) {
  Plan plan(codecs, out);
  int tried = 0, timed = 0;
  std::set<std::tuple<std::string, int, int>> places;  // memories with their numbers of threads
  for (const Case& one : experiment.cases) {
    const std::string obstacle = plan.obstacle(one);
    out << fmt::format("  {}/{}{}\n", one.codec.short_name(), one.kernel.short_name(),
                       obstacle.empty() ? "" : "  -> " + obstacle);
    tried += obstacle.empty();
    if (!obstacle.empty() || one.kernel.task == Task::size) continue;
    ++timed;
    if (one.kernel.ranks == 1)
      places.insert({on_host(one.kernel.backend) ? "host" : one.kernel.backend, one.kernel.threads, one.kernel.device});
  }
  const MeasureSpec& measure = experiment.measure;
  out << fmt::format("{} cases, {} of them known not to run.", experiment.cases.size(),
                     static_cast<int>(experiment.cases.size()) - tried);
  if (timed > 0 && !is_single_pass(measure))
    out << fmt::format(
        " Measuring takes at least {:.0f} s ({} samples of {} s a case, none beyond {} s); loading, encoding and "
        "checking come on top.",
        timed * std::min(measure.max_seconds, measure.repetitions * measure.min_time_s), measure.repetitions,
        measure.min_time_s, measure.max_seconds);
  if (!places.empty() && measure.bandwidth && !is_single_pass(measure))
    out << fmt::format(" Where cases are streamed, measuring {} adds about 10 s{}.",
                       places.size() == 1 ? "the read bandwidth" : fmt::format("{} read bandwidths", places.size()),
                       places.size() == 1 ? "" : " each");
  out << "\n";
  return tried;
}

}  // namespace ecmv::experiments

// The axes of a config's `kernels`, one row of a table each. The table gives the keys of configs and of `exclude`, the
// flags of a run without a config and their help, the defaults, the names of cases, the fields of records, and the part
// of config.schema.json that a test compares with it. To add an axis: a row in axes.cpp, a list in KernelChoice, a
// field in KernelSpec, and its effect in expand.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "experiments/config/case.h"
#include "reports/record.h"

namespace ecmv::experiments {

// The kernels that a block asks for: a list for every axis.
struct KernelChoice {
  // Backend ids, or "best": `simd` where the codec has a SIMD kernel for the op, otherwise `scalar`.
  std::vector<std::string> backends = {"best"};
  std::vector<std::string> simd_targets = {"best"};  // names of instruction sets, "best", or "all" of this CPU
  std::vector<int64_t> threads = {0};                // CPUs; 0: all that the process may use
  std::vector<int64_t> ranks = {0};                  // CPUs; 0: all that a launcher started
  std::vector<int64_t> shared_devices = {0};  // GPUs; 0: all that a launcher started, without one a single device
  std::vector<std::string> engines = {"all"};
  std::vector<std::string> splits = {"rows"};
  std::vector<int64_t> devices = {-1};  // GPUs: numbers in the backend's list; -1: the first that fits
  std::vector<Task> tasks = {Task::matvec};
  std::vector<int64_t> batches = {1};
  std::vector<backends::Activations> activations = {backends::Activations::f32};
  std::vector<int64_t> repeats = {1};
  std::string unfused = "auto";
  std::vector<std::string> variants = {"all"};  // names, "first" or "all"
  std::vector<std::string> policies = {"all"};  // names, "first", "all", or "auto": the kernel's own choice
  std::vector<std::string> launches = {"graph"};

  bool asks_for(Task task) const;
};

// Where the reader puts an axis's values: words, numbers, or a list of an enum whose values are in the order of the
// words.
using KernelChoiceField = std::variant<std::vector<std::string> KernelChoice::*, std::vector<int64_t> KernelChoice::*,
                                       std::string KernelChoice::*, std::vector<Task> KernelChoice::*,
                                       std::vector<backends::Activations> KernelChoice::*>;

struct KernelAxis {
  std::string_view key;       // in configs; the flag is --key with '-' for '_'
  std::string_view help;      // for --help and the schema
  std::string_view fallback;  // the value if a config names none
  KernelChoiceField field;
  // For words: the known ones; empty: names that depend on the machine or the build. For numbers: the only word that
  // stands for a number, or none.
  std::vector<std::string_view> words = {};
  // Further valid names, if the reader can check them; they may depend on the chosen backends.
  std::vector<std::string> (*names)(const KernelChoice&) = nullptr;
  int64_t word_number = 0, least = 1, most = 1;  // numbers: the word's number, and the range of the others
  // The tasks that have the axis (empty: all), and why others lack it: "'batch' counts the tokens of ...".
  std::vector<Task> tasks = {};
  std::string_view of_tasks = {};
  // The axis's part of a case's name, "" for a default that is left out. Parts follow the order of the table.
  std::string (*name_part)(const KernelSpec&) = nullptr;
  // The value that a rule of `exclude` compares, "" if the case lacks the axis; null: rules cannot name it.
  std::string (*value)(const KernelSpec&) = nullptr;
  void (*record)(const KernelSpec&, reports::CaseRecord&) = nullptr;  // null: the run fills it in
  std::string_view old_key = {};                                      // still read
};

std::span<const KernelAxis> kernel_axes();
// Finds an axis by its key or its old key; null: there is none.
const KernelAxis* find_kernel_axis(std::string_view key);
std::string flag_of(const KernelAxis& axis);  // "--simd-target"

}  // namespace ecmv::experiments

// The axes of a config's `kernels`, one row of a table each. From the table come the keys of configs and of `exclude`,
// the flags of a run without a config and their help, the defaults, the names of cases, the fields of records, and the
// part of config.schema.json that a test compares with it. To add an axis: a list in KernelChoice and a field in
// KernelSpec (both in case.h), a row in axes.cpp, and what it does in expand.cpp.
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

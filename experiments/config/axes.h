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
  std::string_view fallback;  // the value where a config names none
  KernelChoiceField field;
  // Words: the ones it knows; without any, names that the machine or the build gives. Numbers: the one word that stands
  // for a number, or none.
  std::vector<std::string_view> words = {};
  // Names beside the words, where the reader can check them; they may depend on the backends chosen.
  std::vector<std::string> (*names)(const KernelChoice&) = nullptr;
  int64_t word_number = 0, least = 1, most = 1;  // numbers: what the word stands for, and the range of the others
  // The tasks that have the axis (none: all), and why others lack it: "'batch' counts the tokens of ...".
  std::vector<Task> tasks = {};
  std::string_view of_tasks = {};
  // The part of a case's name, "" for a default that is left out. Parts follow each other in the order of the table.
  std::string (*name_part)(const KernelSpec&) = nullptr;
  // What a rule of `exclude` compares, "" where the case lacks the axis; null: rules cannot name it.
  std::string (*value)(const KernelSpec&) = nullptr;
  void (*record)(const KernelSpec&, reports::CaseRecord&) = nullptr;  // null: filled in by what runs
  std::string_view old_key = {};                                      // still read
};

std::span<const KernelAxis> kernel_axes();
// By its key or its old key; null: there is none.
const KernelAxis* find_kernel_axis(std::string_view key);
std::string flag_of(const KernelAxis& axis);  // "--simd-target"

}  // namespace ecmv::experiments

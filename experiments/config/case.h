// A fully resolved experiment: a flat list of cases, each one dataset x codec with settings x kernel on a backend.
// experiment.h makes it from YAML or from the command line, and run.h runs it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backends/compressed_matrix.h"
#include "backends/pass.h"
#include "datasets/quantisers/quantisers.h"

namespace ecmv::codecs {
struct CodecEntry;
}

namespace ecmv::experiments {

struct DataSpec {
  std::string source;     // id of a data source
  datasets::Shape shape;  // {0, 0} for sources that read files
  int layers = 10;
  uint64_t seed = 1;
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  datasets::QuantiserChoice quantiser = {};  // for the source's floats; without an id they are kept
  std::string content = {};                  // of a file: what keys say in place of its path (content_name)
  std::string name() const;                  // "gaussian[entropy_bits=5]/4096x4096x10/seed1"
  std::string key_name() const;              // the part of case keys: content in place of a path
  std::string short_name() const;            // for people: without the seed if it is 1
  friend bool operator==(const DataSpec&, const DataSpec&) = default;
};

// Settings that a file of `ecmv tune` has for matrices of a type and shape.
struct TunedSettings {
  std::string type;
  datasets::Shape shape;
  backends::Settings settings;
  bool fits(datasets::ElementType matrix_type, const datasets::Shape& matrix_shape) const {
    return datasets::element_type_name(matrix_type) == type && matrix_shape == shape;
  }
  friend bool operator==(const TunedSettings&, const TunedSettings&) = default;
};

struct CodecSpec {
  std::string id;
  backends::Settings settings;  // resolved: every setting has its value
  uint32_t format_version = 1;
  std::vector<std::string> non_default = {};  // names of the settings that differ from their defaults
  // A mix, whose id is kMix: words for kinds of layers (mix.h), and the codec of each.
  std::vector<std::string> kinds = {};
  std::vector<CodecSpec> of_kinds = {};
  // In place of `settings` for the matrices that they fit (tune/take_tuned.h).
  std::vector<TunedSettings> tuned = {};
  bool is_mix() const { return !kinds.empty(); }
  // "rans[lanes=32,prob_bits=12]": every setting. "rans[...,tuned=1f0c...]": and a hash of tuned ones.
  std::string name() const;
  std::string short_name() const;  // "rans[lanes=32]": settings that differ from their defaults; "rans[lanes=32,tuned]"
  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};
CodecSpec make_codec_spec(const codecs::CodecEntry& entry, backends::Settings settings);

// What a case does. `step`: a decoding step, the matmul of every layer of a model, each by its best kernel
// (plan/step.h). `size`: nothing runs, and the record has the stored bytes.
enum class Task : uint8_t { decode, matvec, matmul, step, size };
// The tasks in the order of the enum, each with its name and the op of its passes; `size` has no pass.
struct TaskEntry {
  std::string_view name;
  std::optional<backends::Op> op;
};
inline constexpr TaskEntry kTasks[] = {{"decode", backends::Op::decode},
                                       {"matvec", backends::Op::matvec},
                                       {"matmul", backends::Op::matmul},
                                       {"step", backends::Op::matmul},
                                       {"size", {}}};
constexpr std::string_view task_name(Task task) { return kTasks[static_cast<size_t>(task)].name; }

// `scalar` and `simd`, which have the axis `threads`. The others are GPUs, with the axes `device` and `launch`.
bool on_host(std::string_view backend);

// The variant of cases whose kernels are those that the library would take (backends/kernel_order.h), and the policy of
// those whose kernel chooses its policy: for matrix, device and batch.
inline constexpr std::string_view kAuto = "auto";

// A point on the axes of axes.h. For the task `size` everything else is empty.
struct KernelSpec {
  Task task = Task::matvec;
  std::string backend = {};
  std::string simd_target = {};  // "": the best of the machine
  int threads = 0;               // 0: all that the process may use
  int ranks = 1;                 // CPUs: processes that share a product, each with `threads` threads. GPUs: devices
  std::string engine = {};       // GPUs that share: "nccl", "rccl" or "peer"
  bool pairs = false;            // with several ranks: layers are split in pairs (plan/split.h), not by rows alone
  int device = -1;               // GPUs: number in the backend's list; -1: the first that fits
  int batch = 1;                 // tokens
  backends::Activations activations = backends::Activations::f32;
  int repeat = 1;        // step: copies of each block in memory
  bool unfused = false;  // a product by a decode kernel and the harness's dense product
  // The names of `chosen`, or the variant "reference", or kAuto. In a step they limit the choice: names, "first", or
  // "best" of all.
  std::string variant = {}, policy = {};
  std::string launch = {};  // GPUs: "graph": a pass replays one captured graph; "plain": a launch a kernel; else ""
  // Resolved by expand.h; empty for the reference decoder, kAuto, a step and `size`. Without a policy the kernel
  // chooses one.
  backends::ChosenKernel chosen = {};

  bool automatic() const { return variant == kAuto; }
  bool takes_tokens() const { return task == Task::matmul || task == Task::step; }
  backends::Op op() const;   // of its passes; throws std::logic_error for `size`
  std::string name() const;  // "simd:AVX2:t1/matvec/rows/rows4", "cuda/matmul:b16/tuned/rows2", "cuda/step:b1:x16/best"
  std::string short_name() const;  // for people: without a default policy
};

// Which kernels a block of a config asks for: a list for every axis of axes.h.
struct KernelChoice {
  // Backend ids, or "best": `simd` where the codec has a SIMD kernel for the op, otherwise `scalar`.
  std::vector<std::string> backends = {"best"};
  std::vector<std::string> simd_targets = {"best"};  // names of instruction sets, "best", or "all" that this CPU has
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
  std::vector<std::string> variants = {"all"};  // names, "first", "all", or "auto", a case of its own
  std::vector<std::string> policies = {"all"};  // names, "first", "all", or "auto": the kernel's own choice
  std::vector<std::string> launches = {"graph"};

  bool asks_for(Task task) const;
};

struct Case {
  DataSpec data;
  CodecSpec codec;
  KernelSpec kernel;
  // Why this case cannot be tried ("backend x is unavailable: ..."); normally empty.
  std::string unavailable;
  std::string name() const;        // data/codec/kernel
  std::string short_name() const;  // the short names, for people
  std::string key() const;         // 16 hexadecimal digits, a hash of name() and the format version
  // What a rule of `exclude`, or of --filter and --exclude, compares: an axis of data or kernels, a parameter of the
  // source, "codec", or a setting. Nothing if the case has no such key.
  std::optional<std::string> value_of(std::string_view key) const;
};

// One rule: every key has one of its values.
using CaseRule = std::map<std::string, std::vector<std::string>>;
bool matches(const Case& one, const CaseRule& rule);  // "32" is 32.0

// How long and how often to measure. One sample is the mean of as many passes as fill min_time_s.
struct MeasureSpec {
  int repetitions = 9;
  double min_time_s = 0.1;
  double max_seconds = 20;  // for one case: takes fewer repetitions rather than more time
  int warm_up = 1;          // passes before each sample
  // Above 0: stops before `repetitions` where the 95 % interval of the median is narrower than this part of it.
  double until_noise = 0;
  bool bandwidth = true;  // the read bandwidth is measured where a streamed case needs it
};

// Each sample is one pass: then nothing is estimated beforehand either.
inline bool is_single_pass(const MeasureSpec& spec) {
  return spec.repetitions == 1 && spec.warm_up == 0 && spec.min_time_s < 1e-6;
}

// One of several processes that share an experiment (shard.h).
struct Shard {
  int64_t index = 0, count = 1;
  std::string name() const { return std::to_string(index) + "/" + std::to_string(count); }
};

struct Experiment {
  std::string name, question;
  std::string config_name;  // file, or "" for a run from the command line
  std::string config_text;  // resolved YAML, stored beside the records
  MeasureSpec measure;
  bool verify_each = true;                // tier 2b in full after every sample; false: once at the end
  std::vector<Case> cases;                // sorted by data, then by codec
  std::optional<Shard> shard;             // the part of the config's cases in `cases`
  std::set<std::string> backends = {};    // that the blocks name, "best" too
  std::vector<std::string> remarks = {};  // what data lack or leave out: sentences for whoever runs it
};

}  // namespace ecmv::experiments

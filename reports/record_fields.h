// Records: one struct a kind (case, run, bandwidth), and below them every field by name, once, in the order in which it
// is written. Reader, writer and the test of the documentation walk over the functions there: to add a field, declare
// it in its struct, name it in the function of that struct, and say in README.md what it means, with its unit.
//
// Numbers that are not known are NaN here and null in the file. Nothing derived that a later reader can compute is
// stored, so a new metric needs no new run.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ecmv::reports {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

enum class Status { ok, incorrect, refused, unavailable, error, timed_out, out_of_memory };

// A setting of a codec or a parameter of a data source.
using Value = std::variant<bool, std::int64_t, double, std::string>;
using Values = std::map<std::string, Value>;

struct CaseRecord {
  Status status = Status::error;
  std::string reason;      // empty when ok, else one sentence
  std::string case_key;    // JSON "case": the hash that names the case in every run of it
  std::string run;         // id of the run record
  std::string experiment;  // name of the experiment

  struct Data {
    std::string source;               // name of the data source
    std::int64_t rows = 0, cols = 0;  // of one matrix, the first where `shapes` says that they differ
    std::string type;                 // element type, "i8"; "i8, u8" where layers differ
    double sigma = kUnknown;          // standard deviation of the elements
    std::int64_t layers = 1;          // matrices in the chain
    std::uint64_t seed = 0;
    std::string hash;
    Values parameters;  // further settings of the source
    struct Shape {
      std::int64_t rows = 0, cols = 0, layers = 0;
      bool operator==(const Shape&) const = default;
    };
    std::vector<Shape> shapes = {};            // every shape in the order of first appearance; empty where there is one
    bool operator==(const Data& other) const;  // unknown sigmas are equal
  } data;

  struct Codec {
    std::string id;
    std::int64_t format_version = 0;
    Values settings;
    // For a codec from a shared object, JSON "library": the file and the hash of its content. Empty for codecs of the
    // build.
    std::string library_path = {}, library_hash = {};
    // Names of the settings whose values are not the codec's defaults; unknown in older records.
    std::optional<std::vector<std::string>> non_default = {};
    bool tuned = false;  // settings of some layers came from a file of `ecmv tune`
  } codec;

  struct Size {                     // of all layers together
    std::int64_t stored_bytes = 0;  // every byte that a kernel may read
    std::int64_t payload_bytes = 0, table_bytes = 0, index_bytes = 0, scale_bytes = 0;  // JSON "by_role"
    std::int64_t padding_bits = 0;  // of stored_bytes, already contained in the roles
    double bits_per_element = kUnknown;
    double entropy_bits_per_element =
        kUnknown;  // of the elements' order-0 histogram; unknown for types wider than 16 bits
    double ideal_bits_per_element =
        kUnknown;  // of an ideal entropy coder for the codec's own symbols, where it knows them
  } size;

  // Quantised data and lossy codecs: how far the numbers lie from the source's floats, over all layers. Unknown
  // elsewhere.
  struct Distortion {
    double snr_db = kUnknown;  // 10 log10(sum of squares / sum of squared errors); unknown where there is no error
    double largest_error = kUnknown;
  } distortion;

  // Codecs of memory blocks: what all blocks of all layers take under one rule of counting.
  struct Blocks {
    std::string accounting;        // the rule's name
    std::int64_t block_bytes = 0;  // of the source
    std::int64_t blocks = 0;
    std::int64_t bits = 0;            // of the coded blocks
    std::int64_t side_bits = 0;       // tables and models that the blocks share, not in `bits`
    std::int64_t link_bytes = 0;      // on a packet link: blocks with their tags, and headers
    std::int64_t raw_link_bytes = 0;  // the same for blocks that are not coded
  };
  std::vector<Blocks> blocks;  // empty for other codecs and ops

  // How much of this codec was in the run, with this data, op, backend, tokens and threads; 0 in older records.
  struct Entrants {
    std::int64_t kernels = 0, known_kernels = 0;  // with their policies: in the run, and in the build
    std::int64_t settings = 0;                    // of the codec
  } entrants;

  // Op `step`: the layers that a step walks over; all stand in memory.
  struct Step {
    std::int64_t blocks = 0;          // of the decoder, in memory
    std::int64_t encoded_blocks = 0;  // different ones; the others are copies of them, each with memory of its own
    struct Part {                     // layers of one kind, shape, codec and kernel
      std::string kind, codec, kernel;
      std::int64_t layers = 0, rows = 0, cols = 0;
      std::int64_t stored_bytes = 0;  // of all of them, scales included
      double layer_s = kUnknown;      // seconds of one of them by that kernel, in a pass of such layers alone
    };
    std::vector<Part> parts = {};
  } step;

  struct Kernel {
    std::string backend, op, variant, policy, simd_target;
    std::int64_t threads = 0;
    std::string device;               // as in the bandwidth record
    bool unfused = false;             // decoded to memory first, then multiplied by the harness
    std::int64_t batch = 1;           // tokens of a matmul or a step
    std::string activations = "f32";  // what they are: "f32", "bf16"
    std::string chosen = {};          // where variant or policy are "auto": "slabs tokens128"; of several layers a list
    // GPUs only.
    std::string launch = {};             // "graph": the pass replays one captured graph; "plain": a launch a kernel
    std::int64_t compute_units = 0;      // streaming multiprocessors
    double highest_clock_hz = kUnknown;  // that the compute units may reach
  } kernel;

  struct Time {
    std::vector<double> samples_s;  // seconds of one pass, every repetition kept
    double median_s = kUnknown, p10_s = kUnknown, p90_s = kUnknown;
    std::int64_t elements = 0;               // of one pass, all layers
    std::string cache;                       // "resident" or "streamed"
    std::string device_clock;                // which clock: "host" or the device's
    std::int64_t iterations_per_sample = 1;  // passes that one sample is the mean of
    // GPUs: the compute units' clock before and after the batch that this case was measured in, and what was then true.
    double clock_before_hz = kUnknown, clock_after_hz = kUnknown, memory_clock_hz = kUnknown;
    double power_w = kUnknown, temperature_c = kUnknown;
    std::string throttle_reasons = {};  // "none", or "power cap, ..."; "": unknown
    double energy_j = kUnknown;         // of one pass, by the energy counter of the CPU packages or the GPU
    // Samples during which threads of the run had to wait for a core, and those next to which the cores were faster or
    // slower than at the start of the run, by number; kept like the others.
    std::vector<std::int64_t> disturbed_samples = {}, unsteady_samples = {};
  } time;

  // Processes that shared a product; `count` 1 where one did it alone.
  struct Ranks {
    std::int64_t count = 1;
    std::int64_t hosts = 1;
    std::string engine = {};                     // GPUs: "nccl", "rccl" or "peer"; "" on CPUs
    std::string library = {};                    // what they exchange vectors with: name and version
    std::string connected_by = {};               // the processes: MPI and its version, or "sockets"
    std::vector<std::string> devices = {};       // GPUs: of each rank
    std::string links = {};                      // GPUs: what links them, where something tells
    bool bound = false;                          // every thread of every rank had a core of its own
    std::string split = {};                      // "rows", or "pairs" of layers by rows and by columns; "" of one
    double gathered_bytes_per_layer = kUnknown;  // of the vector that all ranks gather after a layer, on the average
    double reduced_bytes_per_layer = kUnknown;   // of the vector that they add up; unknown in older records
    std::int64_t exchanges = 0;                  // of a pass; 0: unknown
    std::vector<double> exchange_samples_s = {}, product_samples_s = {};  // of one pass, each alone
  } ranks;

  // GPUs: the memory of a device, of several the one with most weights; `device_bytes` 0: unknown.
  struct Memory {
    std::int64_t weight_bytes = 0;  // stored bytes of the case's layers there
    std::int64_t device_bytes = 0;  // in all
    std::int64_t free_bytes = 0;    // once the pass stood there, beside other cases' layers if the run kept any
    std::int64_t peak_bytes = 0;    // ops generate and prompt: the most that the program held at once; 0: unknown
  } memory;

  // What else the machine did while the batch of this case was measured, and how fast its cores were next to the
  // samples of this case; unknown in older records.
  struct Host {
    double other_cores = kUnknown;    // that other programs kept busy
    double stolen_share = kUnknown;   // of the cores, taken by the host of a virtual machine
    double waiting_share = kUnknown;  // of the time that threads of the run waited for a core, all together
    std::int64_t involuntary_switches = 0;
    // The slowest core's speed in calibrated loops over that at the start of the run, where it was farthest from it: in
    // dependent operations, which follow the clock, and in independent ones, which a busy sibling makes slower, too.
    double clock_share = kUnknown, throughput_share = kUnknown;
    double dependent_ops_per_s = kUnknown;             // of the slowest core
    double clock_hz = kUnknown;                        // the lowest that the kernel told
    std::optional<std::int64_t> throttle_events = {};  // that the kernel counted
  } host;

  // Not in files: the seeds that this case is made of (tables/seeds.h), and the ends of their stored bits.
  struct Pooled {
    std::vector<std::uint64_t> seeds = {};
    double least_bits = kUnknown, most_bits = kUnknown;
  } pooled;

  struct Check {
    std::string decode, outputs, guards;  // "exact", "intact", ... or what was wrong
  } check;
};

// A GPU as the driver describes it; 0 and "" where it does not tell.
struct GpuRecord {
  std::string id;  // "cuda:0"
  std::string name = {}, architecture = {}, driver = {};
  std::int64_t compute_units = 0, wave_size = 0;
  std::int64_t memory_bytes = 0, l2_bytes = 0, shared_bytes = 0;  // shared: that a thread block may have
  double highest_clock_hz = kUnknown, memory_clock_hz = kUnknown;
  bool operator==(const GpuRecord&) const = default;
};

struct RunRecord {
  std::string run, experiment, question, date;  // date: UTC, ISO 8601
  std::string git_revision;
  bool git_dirty = false;
  std::string compiler, compiler_flags, build_type;
  std::map<std::string, std::string> libraries;  // name -> version
  std::string cpu_model, os, governor;           // governor: empty when not readable
  std::int64_t cores = 0, threads = 0;           // physical cores, threads used at most
  std::int64_t l1d_bytes = 0, l2_bytes = 0, llc_bytes = 0, memory_bytes = 0;
  std::vector<std::string> simd_targets;
  std::vector<GpuRecord> gpus;
  std::string host;                                // its name
  std::int64_t allowed_cores = 0;                  // by affinity and the quota of the control group
  double cpu_quota_cores = kUnknown;               // of the control group
  std::map<std::string, std::string> environment;  // OMP_*, GOMP_*, CUDA_VISIBLE_DEVICES and the like, where set
  std::string config_name, config_hash, config_text;
  std::uint64_t seed = 0;
  std::vector<std::string> arguments;
  std::string shard;  // "3/8": the fourth of eight processes that shared the cases; empty where one ran them all
};

struct BandwidthRecord {
  std::string run, backend, device;
  std::int64_t threads = 0;
  std::int64_t bytes = 0;  // read by one sample
  std::vector<double> samples_s;
  double read_bytes_per_s = kUnknown;  // bytes / median sample
  std::string cache = "streamed";
};

// Whether it multiplies a batch of tokens: ops matmul and step, and those of whole models.
bool has_tokens(const CaseRecord& record);
// Whether it is a whole model in a program: ops generate and prompt.
bool is_of_program(const CaseRecord& record);
// Whether the numbers stand for floats that they are not: of quantised data and of lossy codecs.
bool has_distortion(const CaseRecord& record);

// --- the fields by name ---------------------------------------------------------------------------------------------
// A visitor has
//   field(name, value)            a text, number, truth, list of them, or values by name
//   field(name, value, older)     the same; older records call it `older`
//   count(name, value, bits)      a whole number from 0 to below 2^bits
//   object(name, fields)          fields() visits the fields of the object
//   list(name, entries, fields)   fields(entry) visits one entry
//   has(condition)                whether to visit the next fields: the condition for the writer, always for the reader

template <class Visitor, class Data>
void visit_data(Visitor& v, Data& data) {
  v.field("source", data.source);
  v.count("rows", data.rows, 40);
  v.count("cols", data.cols, 40);
  v.field("type", data.type);
  v.field("sigma", data.sigma);
  v.count("layers", data.layers, 31);
  v.field("seed", data.seed);
  v.field("hash", data.hash);
  v.field("parameters", data.parameters);
  if (v.has(!data.shapes.empty()))
    v.list("shapes", data.shapes, [&](auto& shape) {
      v.field("rows", shape.rows);
      v.field("cols", shape.cols);
      v.field("layers", shape.layers);
    });
}

template <class Visitor, class Codec>
void visit_codec(Visitor& v, Codec& codec) {
  v.field("id", codec.id);
  v.field("format_version", codec.format_version);
  v.field("settings", codec.settings);
  if (v.has(!codec.library_path.empty()))
    v.object("library", [&] {
      v.field("path", codec.library_path);
      v.field("hash", codec.library_hash);
    });
  if (v.has(codec.non_default.has_value())) v.field("non_default", codec.non_default);
  if (v.has(codec.tuned)) v.field("tuned", codec.tuned);
}

template <class Visitor, class Size>
void visit_size(Visitor& v, Size& size) {
  v.count("stored_bytes", size.stored_bytes, 56);
  v.object("by_role", [&] {
    v.count("payload", size.payload_bytes, 56);
    v.count("table", size.table_bytes, 56);
    v.count("index", size.index_bytes, 56);
    v.count("scale", size.scale_bytes, 56);
  });
  v.count("padding_bits", size.padding_bits, 56);
  v.field("bits_per_element", size.bits_per_element);
  v.field("entropy_bits_per_element", size.entropy_bits_per_element);
  if (v.has(std::isfinite(size.ideal_bits_per_element))) v.field("ideal_bits_per_element", size.ideal_bits_per_element);
}

template <class Visitor, class Blocks>
void visit_blocks(Visitor& v, Blocks& blocks) {
  v.field("accounting", blocks.accounting);
  v.count("block_bytes", blocks.block_bytes, 56);
  v.count("blocks", blocks.blocks, 56);
  v.count("bits", blocks.bits, 56);
  v.count("side_bits", blocks.side_bits, 56);
  v.count("link_bytes", blocks.link_bytes, 56);
  v.count("raw_link_bytes", blocks.raw_link_bytes, 56);
}

template <class Visitor, class Kernel>
void visit_kernel(Visitor& v, Kernel& kernel, bool has_tokens) {
  v.field("backend", kernel.backend);
  v.field("op", kernel.op);
  v.field("variant", kernel.variant);
  v.field("policy", kernel.policy, "tuning");
  v.field("simd_target", kernel.simd_target);
  v.count("threads", kernel.threads, 31);
  v.field("device", kernel.device);
  if (v.has(!kernel.chosen.empty())) v.field("chosen", kernel.chosen);
  v.field("unfused", kernel.unfused);
  if (v.has(has_tokens)) {
    v.count("batch", kernel.batch, 31);
    v.field("activations", kernel.activations);
  }
  if (v.has(kernel.compute_units > 0)) {
    v.field("launch", kernel.launch);
    v.field("compute_units", kernel.compute_units);
    v.field("highest_clock_hz", kernel.highest_clock_hz);
  }
}

template <class Visitor, class Step>
void visit_step(Visitor& v, Step& step) {
  v.count("blocks", step.blocks, 31);
  v.count("encoded_blocks", step.encoded_blocks, 31);
  v.list("parts", step.parts, [&](auto& part) {
    v.field("kind", part.kind);
    v.field("codec", part.codec);
    v.field("kernel", part.kernel);
    v.count("layers", part.layers, 56);
    v.count("rows", part.rows, 56);
    v.count("cols", part.cols, 56);
    v.count("stored_bytes", part.stored_bytes, 56);
    v.field("layer_s", part.layer_s);
  });
}

// A run that watched its host has numbers of disturbed samples; one that also watched its cores has numbers of unsteady
// samples.
template <class Visitor, class Time>
void visit_time(Visitor& v, Time& time, bool watched_host, bool watched_cores) {
  v.field("samples_s", time.samples_s);
  v.field("median_s", time.median_s);
  v.field("p10_s", time.p10_s);
  v.field("p90_s", time.p90_s);
  v.count("elements", time.elements, 56);
  v.field("cache", time.cache);
  v.field("device_clock", time.device_clock);
  v.count("iterations_per_sample", time.iterations_per_sample, 56);
  if (v.has(std::isfinite(time.clock_after_hz))) {
    v.field("clock_before_hz", time.clock_before_hz);
    v.field("clock_after_hz", time.clock_after_hz);
    v.field("memory_clock_hz", time.memory_clock_hz);
    v.field("power_w", time.power_w);
    v.field("temperature_c", time.temperature_c);
    v.field("throttle_reasons", time.throttle_reasons);
  }
  if (v.has(std::isfinite(time.energy_j))) v.field("energy_j", time.energy_j);
  if (v.has(watched_host)) v.field("disturbed_samples", time.disturbed_samples);
  if (v.has(watched_cores)) v.field("unsteady_samples", time.unsteady_samples);
}

template <class Visitor, class Host>
void visit_host(Visitor& v, Host& host) {
  if (v.has(std::isfinite(host.other_cores))) {
    v.field("other_cores", host.other_cores);
    v.field("stolen_share", host.stolen_share);
    v.field("waiting_share", host.waiting_share);
    v.field("involuntary_switches", host.involuntary_switches);
  }
  if (v.has(std::isfinite(host.clock_share))) {
    v.field("clock_share", host.clock_share);
    v.field("throughput_share", host.throughput_share);
    v.field("dependent_ops_per_s", host.dependent_ops_per_s);
    v.field("clock_hz", host.clock_hz);
    v.field("throttle_events", host.throttle_events);
  }
}

template <class Visitor, class Memory>
void visit_memory(Visitor& v, Memory& memory) {
  v.count("weight_bytes", memory.weight_bytes, 56);
  v.count("device_bytes", memory.device_bytes, 56);
  v.count("free_bytes", memory.free_bytes, 56);
  if (v.has(memory.peak_bytes > 0)) v.count("peak_bytes", memory.peak_bytes, 56);
}

template <class Visitor, class Ranks>
void visit_ranks(Visitor& v, Ranks& ranks) {
  v.field("count", ranks.count);
  v.field("hosts", ranks.hosts);
  v.field("engine", ranks.engine);
  v.field("library", ranks.library);
  v.field("connected_by", ranks.connected_by);
  v.field("devices", ranks.devices);
  v.field("links", ranks.links);
  v.field("bound", ranks.bound);
  v.field("split", ranks.split);
  v.field("gathered_bytes_per_layer", ranks.gathered_bytes_per_layer);
  v.field("reduced_bytes_per_layer", ranks.reduced_bytes_per_layer);
  v.field("exchanges", ranks.exchanges);
  v.field("exchange_samples_s", ranks.exchange_samples_s);
  v.field("product_samples_s", ranks.product_samples_s);
}

// `Record` is CaseRecord, const where the visitor only looks.
template <class Visitor, class Record>
void visit_case(Visitor& v, Record& r) {
  v.field("status", r.status);
  v.field("reason", r.reason);
  v.field("case", r.case_key);
  v.field("run", r.run);
  v.field("experiment", r.experiment);
  v.object("data", [&] { visit_data(v, r.data); });
  v.object("codec", [&] { visit_codec(v, r.codec); });
  v.object("size", [&] { visit_size(v, r.size); });
  if (v.has(has_distortion(r)))
    v.object("distortion", [&] {
      v.field("snr_db", r.distortion.snr_db);
      v.field("largest_error", r.distortion.largest_error);
    });
  if (v.has(!r.blocks.empty())) v.list("blocks", r.blocks, [&](auto& blocks) { visit_blocks(v, blocks); });
  v.object("kernel", [&] { visit_kernel(v, r.kernel, has_tokens(r)); });
  if (v.has(r.entrants.known_kernels > 0))
    v.object("entrants", [&] {
      v.count("kernels", r.entrants.kernels, 31);
      v.count("known_kernels", r.entrants.known_kernels, 31);
      v.count("settings", r.entrants.settings, 31);
    });
  if (v.has(r.kernel.op == "step")) v.object("step", [&] { visit_step(v, r.step); });
  const bool watched_host = std::isfinite(r.host.other_cores), watched_cores = std::isfinite(r.host.clock_share);
  v.object("time", [&] { visit_time(v, r.time, watched_host, watched_cores); });
  if (v.has(watched_host || watched_cores)) v.object("host", [&] { visit_host(v, r.host); });
  if (v.has(r.ranks.count > 1)) v.object("ranks", [&] { visit_ranks(v, r.ranks); });
  if (v.has(r.memory.device_bytes > 0)) v.object("memory", [&] { visit_memory(v, r.memory); });
  v.object("check", [&] {
    v.field("decode", r.check.decode);
    v.field("outputs", r.check.outputs);
    v.field("guards", r.check.guards);
  });
}

template <class Visitor, class Gpu>
void visit_gpu(Visitor& v, Gpu& gpu) {
  v.field("id", gpu.id);
  v.field("name", gpu.name);
  v.field("architecture", gpu.architecture);
  v.field("driver", gpu.driver);
  v.field("compute_units", gpu.compute_units);
  v.field("wave_size", gpu.wave_size);
  v.field("memory_bytes", gpu.memory_bytes);
  v.field("l2_bytes", gpu.l2_bytes);
  v.field("shared_bytes", gpu.shared_bytes);
  v.field("highest_clock_hz", gpu.highest_clock_hz);
  v.field("memory_clock_hz", gpu.memory_clock_hz);
}

template <class Visitor, class Record>
void visit_machine(Visitor& v, Record& r) {
  v.field("cpu_model", r.cpu_model);
  v.field("os", r.os);
  v.field("governor", r.governor);
  v.field("cores", r.cores);
  v.field("threads", r.threads);
  v.field("l1d_bytes", r.l1d_bytes);
  v.field("l2_bytes", r.l2_bytes);
  v.field("llc_bytes", r.llc_bytes);
  v.field("memory_bytes", r.memory_bytes);
  v.field("simd_targets", r.simd_targets);
  v.list("gpus", r.gpus, [&](auto& gpu) { visit_gpu(v, gpu); });
  if (v.has(!r.host.empty())) {
    v.field("host", r.host);
    v.field("allowed_cores", r.allowed_cores);
    v.field("cpu_quota_cores", r.cpu_quota_cores);
    v.field("environment", r.environment);
  }
}

// `Record` is RunRecord, const where the visitor only looks.
template <class Visitor, class Record>
void visit_run(Visitor& v, Record& r) {
  v.field("run", r.run);
  v.field("experiment", r.experiment);
  v.field("question", r.question);
  v.field("date", r.date);
  v.field("seed", r.seed);
  v.field("arguments", r.arguments);
  if (v.has(!r.shard.empty())) v.field("shard", r.shard);
  v.object("build", [&] {
    v.field("git_revision", r.git_revision);
    v.field("git_dirty", r.git_dirty);
    v.field("compiler", r.compiler);
    v.field("compiler_flags", r.compiler_flags);
    v.field("build_type", r.build_type);
    v.field("libraries", r.libraries);
  });
  v.object("machine", [&] { visit_machine(v, r); });
  v.object("config", [&] {
    v.field("name", r.config_name);
    v.field("hash", r.config_hash);
    v.field("text", r.config_text);
  });
}

// `Record` is BandwidthRecord, const where the visitor only looks.
template <class Visitor, class Record>
void visit_bandwidth(Visitor& v, Record& r) {
  v.field("run", r.run);
  v.field("backend", r.backend);
  v.field("device", r.device);
  v.field("threads", r.threads);
  v.field("bytes", r.bytes);
  v.field("samples_s", r.samples_s);
  v.field("read_bytes_per_s", r.read_bytes_per_s);
  v.field("cache", r.cache);
}

}  // namespace ecmv::reports

// The interface of `reports`: the records that a run leaves. It has one struct for each kind of record (case, run,
// bandwidth), the JSON Lines writer that loses nothing when a run is killed, and the reader that merges any number of
// files. Field names, units and meanings: reports/README.md. Unknown numbers are NaN here and null in the file. Nothing
// that a reader can derive is stored, so a new metric needs no new run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ecmv::reports {

// Any error of this room, as a full sentence.
class ReportError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr int kRecordSchema = 1;
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

enum class Status { ok, incorrect, refused, unavailable, error, timed_out, out_of_memory };
std::span<const Status> all_statuses();
std::string_view to_string(Status status);
Status parse_status(std::string_view text);  // throws ReportError for any other word

// A setting of a codec or a parameter of a data source.
using Value = std::variant<bool, std::int64_t, double, std::string>;
using Values = std::map<std::string, Value>;
std::string to_string(const Value& value);  // shortest text that reads back as the same value

struct CaseRecord {
  Status status = Status::error;
  std::string reason;      // empty when ok, else one sentence
  std::string case_key;    // JSON "case": the hash that names the case in every run of it
  std::string run;         // id of the run record
  std::string experiment;  // name of the experiment

  struct Data {
    std::string source;               // name of the data source
    std::int64_t rows = 0, cols = 0;  // of one matrix; of the first if `shapes` has several
    std::string type;                 // element type, "i8"; "i8, u8" if layers differ
    double sigma = kUnknown;          // standard deviation of the elements
    std::int64_t layers = 1;          // matrices in the chain
    std::uint64_t seed = 0;
    std::string hash;
    Values parameters;  // further settings of the source
    struct Shape {
      std::int64_t rows = 0, cols = 0, layers = 0;
      bool operator==(const Shape&) const = default;
    };
    std::vector<Shape> shapes = {};            // every shape in order of appearance; empty if there is only one
    bool operator==(const Data& other) const;  // unknown sigmas are equal
  } data;

  struct Codec {
    std::string id;
    std::int64_t format_version = 0;
    Values settings;
    // For a codec from a shared object, JSON "library": the file and the hash of its content. Empty for codecs of the
    // build.
    std::string library_path = {}, library_hash = {};
    // Names of the settings that differ from the codec's defaults; unknown in older records.
    std::optional<std::vector<std::string>> non_default = {};
  } codec;

  struct Size {                     // of all layers together
    std::int64_t stored_bytes = 0;  // every byte that a kernel may read
    std::int64_t payload_bytes = 0, table_bytes = 0, index_bytes = 0, scale_bytes = 0;  // JSON "by_role"
    std::int64_t padding_bits = 0;  // part of stored_bytes, included in the roles
    double bits_per_element = kUnknown;
    double entropy_bits_per_element =
        kUnknown;  // of the elements' order-0 histogram; unknown for types wider than 16 bits
    double ideal_bits_per_element =
        kUnknown;  // of an ideal entropy coder for the codec's own symbols, where it knows them
  } size;

  // For quantised data and lossy codecs: how far the numbers lie from the source's floats, over all layers. Otherwise
  // unknown.
  struct Distortion {
    double snr_db = kUnknown;  // 10 log10(sum of squares / sum of squared errors); unknown without errors
    double largest_error = kUnknown;
  } distortion;

  // For codecs of memory blocks: the size of all blocks of all layers under one rule of counting.
  struct Blocks {
    std::string accounting;        // the rule's name
    std::int64_t block_bytes = 0;  // before coding
    std::int64_t blocks = 0;
    std::int64_t bits = 0;            // of the coded blocks
    std::int64_t side_bits = 0;       // tables and models that the blocks share, not in `bits`
    std::int64_t link_bytes = 0;      // on a packet link: blocks with their tags, and headers
    std::int64_t raw_link_bytes = 0;  // the same for uncoded blocks
  };
  std::vector<Blocks> blocks;  // empty for other codecs and ops

  // Op `step`: the layers of a step, all in memory.
  struct Step {
    std::int64_t blocks = 0;          // of the decoder, in memory
    std::int64_t encoded_blocks = 0;  // different ones; the others are copies, each with its own memory
    struct Part {                     // layers of one kind, shape, codec and kernel
      std::string kind, codec, kernel;
      std::int64_t layers = 0, rows = 0, cols = 0;
      std::int64_t stored_bytes = 0;  // of all of them, scales included
      double layer_s = kUnknown;      // seconds of one such layer by that kernel, in a pass of such layers alone
    };
    std::vector<Part> parts = {};
  } step;

  struct Kernel {
    std::string backend, op, variant, policy, simd_target;
    std::int64_t threads = 0;
    std::string device;               // as in the bandwidth record
    bool unfused = false;             // decoded to memory first, then multiplied by the harness
    std::int64_t batch = 1;           // tokens of a matmul or a step
    std::string activations = "f32";  // the tokens' type: "f32", "bf16"
    // GPUs only.
    std::string launch = {};             // "graph": the pass replays one captured graph; "plain": a launch a kernel
    std::int64_t compute_units = 0;      // streaming multiprocessors
    double highest_clock_hz = kUnknown;  // the compute units' limit
  } kernel;

  struct Time {
    std::vector<double> samples_s;  // seconds of one pass, every repetition kept
    double median_s = kUnknown, p10_s = kUnknown, p90_s = kUnknown;
    std::int64_t elements = 0;               // of one pass, all layers
    std::string cache;                       // "resident" or "streamed"
    std::string device_clock;                // which clock: "host" or the device's
    std::int64_t iterations_per_sample = 1;  // passes in one sample, which is their mean
    // GPUs: the compute units' clock before and after this case's batch, and the device's state then.
    double clock_before_hz = kUnknown, clock_after_hz = kUnknown, memory_clock_hz = kUnknown;
    double power_w = kUnknown, temperature_c = kUnknown;
    std::string throttle_reasons = {};  // "none", or "power cap, ..."; "": unknown
    // By number: samples during which threads of the run had to wait for a core, and samples next to which the cores
    // were faster or slower than at the start of the run. They are kept like the others.
    std::vector<std::int64_t> disturbed_samples = {}, unsteady_samples = {};
  } time;

  // The processes that shared a product; `count` is 1 if one did it alone.
  struct Ranks {
    std::int64_t count = 1;
    std::int64_t hosts = 1;
    std::string engine = {};                     // GPUs: "nccl", "rccl" or "peer"; "" on CPUs
    std::string library = {};                    // exchanges the vectors: name and version
    std::string connected_by = {};               // connects the processes: MPI and its version, or "sockets"
    std::vector<std::string> devices = {};       // GPUs: of each rank
    std::string links = {};                      // GPUs: the links between them, if known
    bool bound = false;                          // every thread of every rank had a core of its own
    std::string split = {};                      // "rows", or "pairs" of layers by rows and by columns; "" for one rank
    double gathered_bytes_per_layer = kUnknown;  // of the vector that all ranks gather after a layer, on average
    double reduced_bytes_per_layer = kUnknown;   // of the vector that they add up; unknown in older records
    std::int64_t exchanges = 0;                  // of a pass; 0: unknown
    std::vector<double> exchange_samples_s = {}, product_samples_s = {};  // of one pass, each alone
  } ranks;

  // The machine's other load during the measurement of this case's batch, and the speed of its cores next to the
  // samples of this case; unknown in older records.
  struct Host {
    double other_cores = kUnknown;    // cores that other programs kept busy
    double stolen_share = kUnknown;   // share of the cores that the host of a virtual machine took
    double waiting_share = kUnknown;  // share of the time that threads of the run waited for a core, all together
    std::int64_t involuntary_switches = 0;
    // The slowest core's speed in calibrated loops relative to the start of the run, where it was farthest from it: in
    // dependent operations, which follow the clock, and in independent ones, which a busy sibling slows, too.
    double clock_share = kUnknown, throughput_share = kUnknown;
    double dependent_ops_per_s = kUnknown;             // of the slowest core
    double clock_hz = kUnknown;                        // the lowest that the kernel reported
    std::optional<std::int64_t> throttle_events = {};  // events that the kernel counted
  } host;

  struct Check {
    std::string decode, outputs, guards;  // "exact", "intact", ... or the error
  } check;
};

// Whether to distrust its times: more than a tenth of the samples were disturbed or unsteady, or, on a CPU, other
// programs kept more than a quarter of a core busy.
bool is_disturbed(const CaseRecord& record);

// The causes of disturbed cases.
struct Disturbers {
  bool programs = false, cores = false;
  void add(const CaseRecord& record);
  std::string text() const;  // "other programs", "unsteady cores", or both with "and" between
};

// A GPU as the driver describes it; 0 and "" if unknown.
struct GpuRecord {
  std::string id;  // "cuda:0"
  std::string name = {}, architecture = {}, driver = {};
  std::int64_t compute_units = 0, wave_size = 0;
  std::int64_t memory_bytes = 0, l2_bytes = 0, shared_bytes = 0;  // shared: the most for a thread block
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
  std::map<std::string, std::string> environment;  // OMP_*, GOMP_*, CUDA_VISIBLE_DEVICES and the like, if set
  std::string config_name, config_hash, config_text;
  std::uint64_t seed = 0;
  std::vector<std::string> arguments;
  std::string shard;  // "3/8": the fourth of eight processes that shared the cases; empty if one ran them all
};

struct BandwidthRecord {
  std::string run, backend, device;
  std::int64_t threads = 0;
  std::int64_t bytes = 0;  // read by one sample
  std::vector<double> samples_s;
  double read_bytes_per_s = kUnknown;  // bytes / median sample
  std::string cache = "streamed";
};

// One line of JSON without the newline, for read_records.
std::string to_json_line(const CaseRecord& record);
std::string to_json_line(const RunRecord& record);
std::string to_json_line(const BandwidthRecord& record);

// Parses one line. Throws ReportError for a field of the wrong type or a missing kind, NewerSchema for a record of a
// newer build.
class NewerSchema : public ReportError {
 public:
  using ReportError::ReportError;
};
struct Incomplete {};  // not valid JSON: the line was cut
struct UnknownKind {
  std::string kind;
};
using AnyRecord = std::variant<Incomplete, UnknownKind, CaseRecord, RunRecord, BandwidthRecord>;
AnyRecord parse_record(std::string_view line);

// What to do with existing records when a file is opened for writing.
enum class Existing { append, replace, set_aside };

// Renames a file to NAME.1.EXT, the first free number, and returns the new name. Throws ReportError.
std::filesystem::path set_aside(const std::filesystem::path& path);

// Writes records to the end of a file, each with one write call, so a killed run loses at most the line being written;
// a write that fails half-way is undone. Opening a file cuts off a last line that a killed run left incomplete, and
// completes one that lacks only its newline. The file is locked while the writer lives: a second writer is refused,
// even one that would replace the file or set it aside. A file with anything but records is refused, too. A pipe, a
// device or any other stdout gets the lines only. Throws ReportError.
class RecordWriter {
 public:
  explicit RecordWriter(std::filesystem::path path, Existing existing = Existing::append);
  ~RecordWriter();  // fsync, close
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  template <class Record>
  void write(const Record& record) {
    write_line(to_json_line(record));
  }
  // Throws if the records have not been written completely.
  void sync() const;
  // True if it is not a file: then there is nothing to continue, replace or read again.
  bool is_stream() const { return is_stream_; }
  std::int64_t cut_bytes() const { return cut_bytes_; }
  // Sentences for the user about changes that opening made to the file.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void open_stream();
  bool open_file(Existing existing);
  bool lock();
  void expect_records() const;
  void repair_last_line();
  void write_line(std::string line);
  [[noreturn]] void fail(const std::string& what, int error) const;
  std::filesystem::path path_;
  int file_ = -1;
  bool is_stream_ = false;
  std::int64_t cut_bytes_ = 0;
  std::vector<std::string> notes_;
};

struct RecordSet {
  std::vector<CaseRecord> cases;
  std::vector<RunRecord> runs;
  std::vector<BandwidthRecord> bandwidths;
  std::vector<std::string> notes;  // broken lines and unknown kinds, as sentences

  void append(RecordSet other);
  const RunRecord* find_run(std::string_view id) const;  // nullptr if there is none
};

// Reads JSON Lines. Unknown kinds and fields are ignored (kinds are noted). A broken line, the last of a killed run or
// any other, is left out and noted with its number. A file without one good line and a file of a newer schema throw
// ReportError "name:line: ...".
RecordSet read_records(const std::filesystem::path& path);
RecordSet read_records(std::istream& stream, const std::string& name);

}  // namespace ecmv::reports

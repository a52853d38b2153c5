// The interface of `reports`: what a run leaves. The records themselves are in record_fields.h; here are the JSON Lines
// writer, which loses nothing when a run is killed, and the reader, which merges any number of files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reports/record_fields.h"

namespace ecmv::reports {

// Any error of this room, as a full sentence.
class ReportError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr int kRecordSchema = 1;

std::span<const Status> all_statuses();
std::string_view to_string(Status status);
Status parse_status(std::string_view text);  // throws ReportError for any other word
std::string to_string(const Value& value);   // shortest text that reads back as the same value

// Whether to distrust its times: more than a tenth of the samples were disturbed or unsteady, or, on a CPU, other
// programs kept more than a quarter of a core busy.
bool is_disturbed(const CaseRecord& record);
// How far: `ruined` where the samples of a disturbed case scatter by a fifth of their median (10th to 90th percentile),
// where its threads waited for a fifth of the time, or where a core was a fifth slower.
enum class Disturbance : std::uint8_t { none, slight, ruined };
Disturbance disturbance_of(const CaseRecord& record);
std::string_view to_string(Disturbance disturbance);  // "none", "slight", "ruined"
// What stands after each number that comes from such times: "", " !" or " !!".
std::string_view mark_of(Disturbance disturbance);

// The causes of disturbed cases.
struct Disturbers {
  bool programs = false, cores = false;
  void add(const CaseRecord& record);
  std::string text() const;  // "other programs", "unsteady cores", or both with "and" between
};

// One line of JSON without the newline. Read back by read_records.
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

// Reads JSON Lines, also of a .gz file. Unknown kinds and fields are ignored (kinds are noted). A broken line, the last
// of a killed run or any other, is left out and noted with its number. A file without one good line and a file of a
// newer schema throw ReportError "name:line: ...".
RecordSet read_records(const std::filesystem::path& path);
RecordSet read_records(std::istream& stream, const std::string& name);

}  // namespace ecmv::reports

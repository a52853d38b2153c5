// The files of a run: its records, new or continued, with the resolved config beside them, and the tables made from
// them.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <set>
#include <string>
#include <vector>

#include "experiments/config/case.h"
#include "reports/record.h"

namespace ecmv::experiments {

enum class WhenThere { set_aside, resume, replace };

class ResultFile {
 public:
  // An existing file is set aside as NAME.1.jsonl (the first free number), continued or replaced; refused while another
  // run writes to it. Writes the run record, unless a resumed run is the same run: same config, build and machine. Also
  // writes the config beside the file, and sets an old one with another content aside. Messages go to `messages`.
  ResultFile(std::filesystem::path path, const Experiment& experiment, const std::vector<std::string>& arguments,
             WhenThere when, std::ostream& messages);

  const std::filesystem::path& path() const { return path_; }
  const std::string& run_id() const { return run_id_; }
  // Keys of the ok cases in the resumed file, and their backends.
  const std::set<std::string>& done() const { return done_; }
  const std::set<std::string>& done_backends() const { return done_backends_; }
  template <class Record>
  void write(const Record& record) {
    writer_.write(record);
  }
  // Throws if the records have not been written completely.
  void sync() const { writer_.sync(); }
  // Records go to a pipe or a device, so there is no file to make tables from.
  bool is_stream() const { return writer_.is_stream(); }

 private:
  void read_existing(std::ostream& messages);
  void write_config(const Experiment& experiment, std::ostream& messages) const;
  std::filesystem::path path_;
  reports::RecordWriter writer_;
  reports::RecordSet existing_;
  std::string run_id_;
  std::set<std::string> done_, done_backends_;
};

struct TableFiles {
  std::string json, csv, markdown;   // a file, "-" for stdout, "" for none
  std::vector<std::string> columns;  // of the CSV, and of one Markdown table of all cases; empty: all, and tables
};
// Throws UsageError if two files of a run would be the same, if one of them is the config, or if a table's folder is
// missing.
void check_places(const std::filesystem::path& records, const Experiment& experiment, const TableFiles& files);
// Writes tables of this experiment's cases in the record file. `text` (may be null) gets the fastest kernel of each
// codec.
void write_tables(const std::filesystem::path& records, const Experiment& experiment, const TableFiles& files,
                  std::ostream* text);

// The baseline codecs, uncompressed, of the types that products have.
inline constexpr std::string_view kDefaultBaseline = "raw_int8,raw_bf16,raw_f8";

}  // namespace ecmv::experiments

// Where a run's records go: opened anew or continued, with the resolved config beside them; and the tables made of
// them.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <set>
#include <string>

#include "experiments/config/case.h"
#include "reports/record.h"

namespace ecmv::experiments {

enum class WhenThere { set_aside, resume, replace };

class ResultFile {
 public:
  // An existing file is set aside as NAME.1.jsonl (the first free number), continued or replaced; refused while another
  // run writes to it. Writes the run record, unless a resumed run is the same run: same config, build and machine; and
  // the config beside the file, an old one with another content being set aside. Messages go to `messages`.
  ResultFile(std::filesystem::path path, const Experiment& experiment, const std::vector<std::string>& arguments,
             WhenThere when, std::ostream& messages);

  const std::filesystem::path& path() const { return path_; }
  const std::string& run_id() const { return run_id_; }
  // Keys of cases that are ok in the file that is resumed, and the backends they ran on.
  const std::set<std::string>& done() const { return done_; }
  const std::set<std::string>& done_backends() const { return done_backends_; }
  template <class Record>
  void write(const Record& record) {
    writer_.write(record);
  }
  // Throws where the records have not reached their place.
  void sync() const { writer_.sync(); }
  // Records go to a pipe or a device, so that there is no file to make tables of.
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
  std::string json, csv, markdown;  // a file, "-" for stdout, "" for none
};
// Throws UsageError where two of the files of a run would be one, or one of them the config, or a table's folder is
// missing.
void check_places(const std::filesystem::path& records, const Experiment& experiment, const TableFiles& files);
// Tables of the cases of this experiment in the record file. `text` (may be null) gets the fastest kernel of each
// codec.
void write_tables(const std::filesystem::path& records, const Experiment& experiment, const TableFiles& files,
                  std::ostream* text);

// The codecs that every other one is compared with: uncompressed, of the types that products have.
inline constexpr std::string_view kDefaultBaseline = "raw_int8,raw_bf16,raw_f8";

}  // namespace ecmv::experiments

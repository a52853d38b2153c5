// Files of records: the writer that a kill cannot corrupt and the reader that merges. Each record is one
// write(2) to a file opened for appending, so lines never interleave and at most the last one is incomplete;
// opening the file again (a resumed run) removes such a line, since text appended to it would be a broken
// line in the middle.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "reports/record.h"

namespace ecmv::reports {

RecordWriter::RecordWriter(std::filesystem::path path) : path_(std::move(path)) {
  if (path_.has_parent_path()) {
    std::error_code failure;
    std::filesystem::create_directories(path_.parent_path(), failure);
  }
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) throw ReportError(fmt::format("cannot open {} for writing: {}", path_.string(), std::strerror(errno)));

  std::ifstream existing(path_, std::ios::binary);
  std::string last_line;
  for (std::string line; std::getline(existing, line);) last_line = existing.eof() ? line : "";
  if (last_line.empty()) return;
  const bool complete = [&] {
    try {
      return !std::holds_alternative<Incomplete>(parse_record(last_line));
    } catch (const ReportError&) {
      return true;  // JSON, though no record of ours: not the writer's business
    }
  }();
  if (complete) {
    if (::write(file_, "\n", 1) == 1) return;
  } else {
    cut_bytes_ = static_cast<std::int64_t>(last_line.size());
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path_));
    if (::ftruncate(file_, size - cut_bytes_) == 0) return;
  }
  const std::string why = std::strerror(errno);
  ::close(file_);
  throw ReportError(fmt::format("cannot repair the incomplete last line of {}: {}", path_.string(), why));
}

RecordWriter::~RecordWriter() {
  if (file_ < 0) return;
  ::fsync(file_);
  ::close(file_);
}

void RecordWriter::write_line(std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw ReportError(fmt::format("cannot write a record to {}: {}", path_.string(), std::strerror(errno)));
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void RecordSet::append(RecordSet other) {
  auto move_all = [](auto& from, auto& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move_all(other.cases, cases);
  move_all(other.runs, runs);
  move_all(other.bandwidths, bandwidths);
  move_all(other.notes, notes);
}

const RunRecord* RecordSet::find_run(std::string_view id) const {
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->run == id) return &*run;
  }
  return nullptr;
}

RecordSet read_records(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream || std::filesystem::is_directory(path)) {
    throw ReportError(fmt::format("cannot read the record file {}", path.string()));
  }
  return read_records(stream, path.string());
}

RecordSet read_records(std::istream& stream, const std::string& name) {
  RecordSet records;
  std::set<std::string> unknown_kinds;
  std::int64_t line_number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++line_number;
    const bool has_newline = !stream.eof();
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      AnyRecord record = parse_record(line);
      if (auto* one_case = std::get_if<CaseRecord>(&record))
        records.cases.push_back(std::move(*one_case));
      else if (auto* run = std::get_if<RunRecord>(&record))
        records.runs.push_back(std::move(*run));
      else if (auto* bandwidth = std::get_if<BandwidthRecord>(&record))
        records.bandwidths.push_back(*bandwidth);
      else if (auto* unknown = std::get_if<UnknownKind>(&record))
        unknown_kinds.insert(unknown->kind);
      else if (has_newline)
        throw ReportError("broken record: the line is not valid JSON");
      else {
        records.notes.push_back(
            fmt::format("{}:{}: the last line is incomplete ({} bytes; the run was killed while writing it) "
                        "and was left out",
                        name, line_number, line.size()));
      }
    } catch (const ReportError& broken) {
      throw ReportError(fmt::format("{}:{}: {}", name, line_number, broken.what()));
    }
  }
  for (const std::string& kind : unknown_kinds) {
    records.notes.push_back(fmt::format("{}: records of the unknown kind \"{}\" were ignored", name, kind));
  }
  return records;
}

}  // namespace ecmv::reports

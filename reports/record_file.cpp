// Sets of records, and the reader that merges files. A broken line costs only that line.
#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <streambuf>

#include <fmt/format.h>
#if defined(ECMV_WITH_ZLIB)
#include <zlib.h>
#endif

#include "reports/record.h"

namespace ecmv::reports {
namespace {

constexpr std::size_t kMostOfALine = 64 << 20;

#if defined(ECMV_WITH_ZLIB)
// The text of a file that gzip has compressed; text that is not compressed is read as it is.
class GzipBuffer final : public std::streambuf {
 public:
  explicit GzipBuffer(const std::filesystem::path& path) : file_(gzopen(path.c_str(), "rb")) {}
  ~GzipBuffer() override {
    if (file_ != nullptr) gzclose(file_);
  }
  GzipBuffer(const GzipBuffer&) = delete;
  GzipBuffer& operator=(const GzipBuffer&) = delete;
  bool is_open() const { return file_ != nullptr; }

 protected:
  // A stream whose buffer throws becomes bad.
  int_type underflow() override {
    const int count = gzread(file_, part_.data(), static_cast<unsigned>(part_.size()));
    int status = Z_OK;
    gzerror(file_, &status);
    if (count < 0 || (count == 0 && status != Z_OK)) throw ReportError("the file is damaged or was cut");
    setg(part_.data(), part_.data(), part_.data() + count);
    return count == 0 ? traits_type::eof() : traits_type::to_int_type(part_.front());
  }

 private:
  gzFile file_;
  std::array<char, 1 << 16> part_;
};
#endif

// The lines left out, with reasons.
class BrokenLines {
 public:
  explicit BrokenLines(const std::string& name) : name_(name) {}
  void add(std::int64_t line, const std::string& reason) {
    last_ = line;
    if (++count_ <= kNamed) messages_.push_back(fmt::format("{}:{}: {}", name_, line, reason));
  }
  // Reports them as notes if the file also has good lines, else as its error.
  void tell(std::vector<std::string>& notes, bool any_good) const {
    if (count_ == 0) return;
    if (!any_good) throw ReportError(messages_.front());
    for (const std::string& message : messages_) notes.push_back(message + "; the line was left out");
    if (count_ > kNamed)
      notes.push_back(fmt::format("{}: {} more broken lines were left out, the last of them is line {}", name_,
                                  count_ - kNamed, last_));
  }

 private:
  static constexpr std::int64_t kNamed = 5;
  std::string name_;
  std::int64_t count_ = 0, last_ = 0;
  std::vector<std::string> messages_;
};

// The next line, without its newline. False at the end, or for a line longer than any record: then `name` is no file of
// records, and may never end.
bool read_line(std::istream& stream, std::string& line, const std::string& name, std::int64_t number) {
  line.clear();
  std::array<char, 1 << 16> part;
  while (stream.getline(part.data(), part.size()) || stream.gcount() > 0) {
    line.append(part.data(), static_cast<std::size_t>(stream.gcount()) - (!stream.fail() && !stream.eof() ? 1 : 0));
    if (!stream.fail()) return true;
    if (line.size() > kMostOfALine)
      throw ReportError(fmt::format("{}:{}: a line of more than {} bytes is no record", name, number, kMostOfALine));
    stream.clear(stream.rdstate() & ~std::ios::failbit);
  }
  return !line.empty();
}

}  // namespace

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
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure))
    throw ReportError(fmt::format("cannot read the record file {}: it is a folder", path.string()));
  const auto cannot = [&](const char* why) {
    return ReportError(fmt::format("cannot read the record file {}{}", path.string(), why));
  };
  if (path.extension() == ".gz") {
#if defined(ECMV_WITH_ZLIB)
    GzipBuffer buffer(path);
    std::istream unpacked(&buffer);
    if (!buffer.is_open()) throw cannot("");
    return read_records(unpacked, path.string());
#else
    throw cannot(": this build has no zlib (package zlib1g-dev)");
#endif
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw cannot("");
  return read_records(stream, path.string());
}

RecordSet read_records(std::istream& stream, const std::string& name) {
  RecordSet records;
  std::set<std::string> unknown_kinds;
  BrokenLines broken(name);
  std::int64_t line_number = 0;
  bool any_good = false;
  for (std::string line; read_line(stream, line, name, line_number + 1);) {
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
        records.bandwidths.push_back(std::move(*bandwidth));
      else if (auto* unknown = std::get_if<UnknownKind>(&record))
        unknown_kinds.insert(unknown->kind);
      else if (has_newline)
        throw ReportError("broken record: the line is not valid JSON");
      else {
        records.notes.push_back(
            fmt::format("{}:{}: the last line is incomplete ({} bytes; the run was killed while writing it) "
                        "and was left out",
                        name, line_number, line.size()));
        continue;
      }
      any_good = true;
    } catch (const NewerSchema& newer) {
      throw ReportError(fmt::format("{}:{}: {}", name, line_number, newer.what()));
    } catch (const ReportError& reason) {
      broken.add(line_number, reason.what());
    }
  }
  if (stream.bad()) throw ReportError(fmt::format("cannot read the record file {} to its end", name));
  broken.tell(records.notes, any_good);
  for (const std::string& kind : unknown_kinds) {
    records.notes.push_back(fmt::format("{}: records of the unknown kind \"{}\" were ignored", name, kind));
  }
  return records;
}

}  // namespace ecmv::reports

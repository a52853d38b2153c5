// Writes files of records so that no kill, full disk or second run corrupts them. Each record is one write(2) to a file
// opened for appending, so at most the last line is ever incomplete. It is removed at once if the write failed, and, if
// the process was killed, when the file is opened again (a resumed run).
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "reports/record.h"

namespace ecmv::reports {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPiece = 1 << 16, kLongestLine = 1 << 26;

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// The bytes of a file from `begin` up to `end`.
std::string text_at(int file, std::int64_t begin, std::int64_t end) {
  std::string text(static_cast<std::size_t>(std::max<std::int64_t>(0, end - begin)), '\0');
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t got = ::pread(file, text.data() + done, text.size() - done, begin + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text.substr(0, done);
    done += static_cast<std::size_t>(got);
  }
  return text;
}

std::int64_t size_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 ? status.st_size : 0;
}

// Whether the line is complete, though perhaps no record of ours.
bool is_json(const std::string& line) {
  try {
    return !std::holds_alternative<Incomplete>(parse_record(line));
  } catch (const ReportError&) {
    return true;
  }
}

bool is_record(const std::string& line) {
  try {
    return !std::holds_alternative<Incomplete>(parse_record(line));
  } catch (const NewerSchema&) {
    return true;
  } catch (const ReportError&) {
    return false;
  }
}

}  // namespace

fs::path set_aside(const fs::path& path) {
  std::error_code failure;
  for (int i = 1;; ++i) {
    fs::path candidate = path;
    candidate.replace_extension(fmt::format("{}{}", i, path.extension().string()));
    if (fs::exists(fs::symlink_status(candidate, failure))) continue;
    fs::rename(path, candidate, failure);
    if (!failure) return candidate;
    throw ReportError(fmt::format("cannot rename {} to {}: {}", path.string(), candidate.string(), failure.message()));
  }
}

RecordWriter::RecordWriter(fs::path path, Existing existing) : path_(std::move(path)) {
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0) {
    // The process's stdout and stderr must be neither replaced nor renamed, nor any other file that it has open.
    int numbered = -1;
    if (path_.parent_path() == "/dev/fd") std::sscanf(path_.filename().c_str(), "%d", &numbered);
    for (const int standard : {STDOUT_FILENO, STDERR_FILENO, numbered})
      if (struct stat other{}; file_ < 0 && ::fstat(standard, &other) == 0 && same_file(status, other))
        file_ = ::fcntl(standard, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    is_stream_ = file_ >= 0 || !S_ISREG(status.st_mode);
  }
  try {
    if (is_stream_) {
      open_stream();
    } else {
      if (path_.has_parent_path()) {
        std::error_code failure;
        fs::create_directories(path_.parent_path(), failure);
        if (failure)
          throw ReportError(
              fmt::format("cannot create the folder {}: {}", path_.parent_path().string(), failure.message()));
      }
      while (!open_file(existing)) {
      }
    }
  } catch (...) {
    if (file_ >= 0) ::close(file_);
    throw;
  }
}

void RecordWriter::fail(const std::string& what, int error) const {
  throw ReportError(fmt::format("cannot {} {}: {}", what, path_.string(), std::strerror(error)));
}

void RecordWriter::open_stream() {
  if (file_ >= 0) return;
  // Opening a pipe without a reader would block for ever.
  file_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file_ < 0 && errno == ENXIO) throw ReportError(fmt::format("nothing reads the pipe {}", path_.string()));
  if (file_ < 0) fail("write to", errno);
  ::fcntl(file_, F_SETFL, ::fcntl(file_, F_GETFL) & ~O_NONBLOCK);
}

// True once the file at path_ is open, locked and ready for the first record; false: try again.
bool RecordWriter::open_file(Existing existing) {
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
  if (file_ < 0) throw ReportError(fmt::format("cannot open {} for writing: {}", path_.string(), std::strerror(errno)));
  struct stat here {
  }, there{};
  if (lock() && ::fstat(file_, &here) == 0 && ::stat(path_.c_str(), &there) == 0 && same_file(here, there)) {
    if (here.st_size == 0) return true;
    expect_records();
    if (existing == Existing::append) return repair_last_line(), true;
    if (existing == Existing::replace) {
      if (::ftruncate(file_, 0) != 0) fail("empty", errno);
      return true;
    }
    notes_.push_back(
        fmt::format("the records that were in {} are now in {}", path_.string(), reports::set_aside(path_).string()));
  }
  // The name now leads to another file: another process, or the line above, has renamed this one.
  ::close(std::exchange(file_, -1));
  return false;
}

// True with the lock, or if the file system has no locks. It ends with the writer, or with its process.
bool RecordWriter::lock() {
  while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK)
      throw ReportError(fmt::format(
          "another run is writing to {}; wait until it has ended, or name another file with -o", path_.string()));
    notes_.push_back(fmt::format("{} cannot be locked ({}): a second run with the same file would not be noticed",
                                 path_.string(), std::strerror(errno)));
    break;
  }
  return true;
}

// Throws unless the file begins with a record, or with the part of one that a killed run left.
void RecordWriter::expect_records() const {
  constexpr std::string_view kBegin = "{\"schema\"";
  std::string line = text_at(file_, 0, kPiece);
  const std::size_t begin = line.find_first_not_of(" \t\r\n");
  line.erase(0, begin);
  if (begin == std::string::npos || line.starts_with(kBegin) || kBegin.starts_with(line)) return;
  for (std::int64_t end = 2 * kPiece; line.find('\n') == std::string::npos && end <= kLongestLine; end *= 2)
    line = text_at(file_, static_cast<std::int64_t>(begin), end);
  if (!is_record(line.substr(0, line.find('\n'))))
    throw ReportError(
        fmt::format("{} holds something else than records; it is left as it is, and the records need another name",
                    path_.string()));
}

void RecordWriter::repair_last_line() {
  const std::int64_t size = size_of(file_);
  std::int64_t begin = size;  // of the last line
  for (bool found = false; begin > 0 && !found;) {
    const std::int64_t from = std::max<std::int64_t>(0, begin - kPiece);
    const std::size_t newline = text_at(file_, from, begin).rfind('\n');
    found = newline != std::string::npos;
    begin = found ? from + static_cast<std::int64_t>(newline) + 1 : from;
  }
  if (begin == size) return;
  if (is_json(text_at(file_, begin, size))) {
    if (::write(file_, "\n", 1) != 1) fail("complete the last line of", errno);
    return;
  }
  if (::ftruncate(file_, begin) != 0) fail("cut the incomplete last line off", errno);
  cut_bytes_ = size - begin;
  notes_.push_back(fmt::format("{} bytes of an incomplete last line were cut off {}", cut_bytes_, path_.string()));
}

RecordWriter::~RecordWriter() {
  if (file_ < 0) return;
  ::fsync(file_);
  ::close(file_);
}

void RecordWriter::sync() const {
  if (::fsync(file_) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) fail("write records to", errno);
}

void RecordWriter::write_line(std::string line) {
  line += '\n';
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      // Half a record would join the next one in one line.
      const auto half = static_cast<std::int64_t>(line.size() - rest.size()), size = size_of(file_);
      if (half > 0 && !is_stream_ && (size < half || ::ftruncate(file_, size - half) != 0))
        throw ReportError(fmt::format("cannot write a record to {}: {}; half of it could not be removed again",
                                      path_.string(), std::strerror(error)));
      fail("write a record to", error);
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace ecmv::reports

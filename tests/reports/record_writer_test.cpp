// Claims about disturbances while files of records are written: full disks, second runs, files that hold something
// else, pipes.
#include "reports/record.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>
#include <fstream>
#include <memory>

#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

CaseRecord record_of(const std::string& key, const std::string& reason = "") {
  CaseRecord record;
  record.case_key = key;
  record.reason = reason;
  return record;
}

// Limits the files of this process to this many bytes: a write that crosses the limit is cut short, the next one fails.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("a record that is written half is taken back, so that the next one is whole") {
  const ScratchFolder folder;
  const auto path = folder.path / "records.jsonl";
  RecordWriter writer(path);
  writer.write(record_of("one"));
  const std::string whole = file_text(path);
  std::string failure;
  {
    const FileSizeLimit limit(whole.size() + 100);
    try {
      writer.write(record_of("two"));
    } catch (const ReportError& error) {
      failure = error.what();
    }
  }
  CHECK_THAT(failure, ContainsSubstring("cannot write a record to " + path.string()));
  CHECK(file_text(path) == whole);
  writer.write(record_of("three"));
  const RecordSet back = read_records(path);
  REQUIRE(back.cases.size() == 2);
  CHECK(back.cases[1].case_key == "three");
  CHECK(back.notes.empty());
}

TEST_CASE("a second writer is refused while the first one lives, whatever it would do with the file") {
  const ScratchFolder folder;
  const auto path = folder.path / "records.jsonl";
  auto first = std::make_unique<RecordWriter>(path);
  first->write(record_of("one"));
  for (const Existing existing : {Existing::append, Existing::replace, Existing::set_aside})
    CHECK_THROWS_MATCHES(RecordWriter(path, existing), ReportError,
                         MessageMatches(ContainsSubstring("another run is writing to " + path.string())));
  first->write(record_of("two"));
  CHECK(read_records(path).cases.size() == 2);
  first.reset();
  { RecordWriter(path).write(record_of("three")); }
  CHECK(read_records(path).cases.size() == 3);
}

TEST_CASE("records that are there are continued, replaced or set aside") {
  const ScratchFolder folder;
  const auto path = folder.path / "records.jsonl", aside = folder.path / "records.1.jsonl";
  for (const Existing existing : {Existing::set_aside, Existing::append, Existing::set_aside, Existing::replace})
    RecordWriter(path, existing).write(record_of("key"));
  CHECK(read_records(path).cases.size() == 1);
  CHECK(read_records(aside).cases.size() == 2);
  RecordWriter writer(path, Existing::set_aside);
  REQUIRE(writer.notes().size() == 1);
  CHECK_THAT(writer.notes()[0], ContainsSubstring("are now in " + (folder.path / "records.2.jsonl").string()));
}

TEST_CASE("a file that holds no records is left alone") {
  const ScratchFolder folder;
  const auto path = folder.path / "config.yaml";
  for (const std::string& text : {std::string("schema: 1\nname: x\n"), std::string("{\"a\": 1}\n"),
                                  std::string(200'000, 'x'), std::string("[1]"), std::string("\0\0\0", 3)}) {
    std::ofstream(path, std::ios::binary) << text;
    for (const Existing existing : {Existing::append, Existing::replace, Existing::set_aside})
      CHECK_THROWS_MATCHES(RecordWriter(path, existing), ReportError,
                           MessageMatches(ContainsSubstring("holds something else than records")));
    CHECK(file_text(path) == text);
  }
  // The rest of a killed run's first record, and records of another program.
  for (const std::string& text : {std::string("{\"sche"), std::string("{\"schema\":1,\"kind\":\"run\",\"conf"),
                                  "\n{\"kind\": \"case\", \"reason\": \"" + std::string(100'000, 'x') +
                                      "\", \"status\": \"ok\", \"schema\": 1}\n"}) {
    std::ofstream(path, std::ios::binary) << text;
    { RecordWriter(path).write(record_of("one")); }
    CHECK(read_records(path).cases.size() == (text.size() > 1000 ? 2 : 1));
  }
}

TEST_CASE("an incomplete last line of any length is cut off") {
  const ScratchFolder folder;
  const auto path = folder.path / "records.jsonl";
  { RecordWriter(path).write(record_of("one")); }
  for (const size_t bytes : {1, 65'535, 65'536, 65'537, 300'000}) {
    std::ofstream(path, std::ios::app | std::ios::binary) << '{' << std::string(bytes - 1, ' ');
    const RecordWriter writer(path);
    CHECK(writer.cut_bytes() == static_cast<std::int64_t>(bytes));
  }
  CHECK(read_records(path).cases.size() == 1);
}

TEST_CASE("a pipe gets records where something reads it, and is refused where nothing does") {
  const ScratchFolder folder;
  const auto path = folder.path / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_MATCHES(RecordWriter(path), ReportError, MessageMatches(ContainsSubstring("nothing reads the pipe")));
  std::fstream reader(path, std::ios::in | std::ios::out);  // opening does not wait
  RecordWriter writer(path, Existing::set_aside);
  CHECK(writer.is_stream());
  writer.write(record_of("one"));
  writer.sync();
  std::string line;
  std::getline(reader, line);
  CHECK(line == to_json_line(record_of("one")));
}

TEST_CASE("a full device is said") {
  RecordWriter writer("/dev/full");
  CHECK_THROWS_MATCHES(writer.write(record_of("one")), ReportError,
                       MessageMatches(ContainsSubstring("cannot write a record to /dev/full")));
}

// Claims about records that no run has written: reading and reporting them ends, within bounds, and reports what it
// can.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <sstream>

#include "reports/figures/figure.h"
#include "reports/figures/gnuplot.h"
#include "reports/report.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string nested(const std::string& open, const std::string& close, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += open;
  text += "1";
  for (int i = 0; i < times; ++i) text += close;
  return text;
}

// Reads a good record beside one with this text in it.
RecordSet read_beside_good(const std::string& text) {
  std::istringstream stream(to_json_line(CaseRecord{}) + "\n" + text + "\n");
  return read_records(stream, "file");
}

// Two sizes of two codecs, one the baseline, with a bandwidth.
RecordSet small_set() {
  RecordSet records;
  for (const char* codec : {"raw_int8", "coder"})
    for (const std::int64_t d : {1024, 2048}) {
      CaseRecord& r = records.cases.emplace_back();
      r.status = Status::ok;
      r.case_key = std::string(codec) + std::to_string(d);
      r.run = "r";
      r.data = {"gaussian", d, d, "i8", 4, 1, 1, "h", {}};
      r.codec.id = codec;
      r.size.stored_bytes = r.size.payload_bytes = d * d / (r.codec.id == "coder" ? 2 : 1);
      r.size.bits_per_element = r.codec.id == "coder" ? 4 : 8;
      r.size.entropy_bits_per_element = 4;
      r.kernel.backend = "simd";
      r.kernel.op = "matvec";
      r.kernel.threads = 1;
      r.kernel.device = "cpu";
      r.time.elements = d * d;
      r.time.cache = "streamed";
      r.time.samples_s = {1e-3, 1.1e-3, 1.2e-3};
      r.time.median_s = 1.1e-3, r.time.p10_s = 1e-3, r.time.p90_s = 1.2e-3;
      r.check = {"exact", "exact", "intact"};
    }
  BandwidthRecord& bandwidth = records.bandwidths.emplace_back();
  bandwidth = {"r", "simd", "cpu", 1, 1 << 30, {0.1}, 1e10, "streamed"};
  return records;
}

void report_of(const RecordSet& records) {
  const ScratchFolder folder;
  ReportOptions options;
  options.gnuplot = "no such program";
  CHECK(write_report(records, options, folder.path).files.size() >= 5);
}

}  // namespace

TEST_CASE("a record that is nested deeply is a broken line, whatever the nesting stands in") {
  for (const std::string& value :
       {nested("[", "]", 500'000), nested("{\"a\":", "}", 300'000), std::string(500'000, '[')})
    for (const char* field :
         {"\"status\"", "\"data\"", "\"codec\":{\"settings\"", "\"time\":{\"samples_s\"", "\"x\""}) {
      const RecordSet records =
          read_beside_good(std::string("{\"schema\":1,\"kind\":\"case\",") + field + ":" + value + "}");
      CHECK(records.cases.size() == 1);
      REQUIRE(records.notes.size() == 1);
      CHECK_THAT(records.notes[0], ContainsSubstring("file:2: broken record"));
    }
  // Brackets in texts are no nesting.
  CaseRecord record;
  record.reason = std::string(1000, '[') + "\\\"" + std::string(1000, '{');
  CHECK(read_beside_good(to_json_line(record)).cases.size() == 2);
}

TEST_CASE("numbers that nothing measures make a broken line") {
  for (const char* text :
       {"\"data\":{\"rows\":-1}", "\"data\":{\"rows\":4611686018427387904,\"cols\":2}",
        "\"size\":{\"stored_bytes\":-8}", "\"size\":{\"stored_bytes\":18446744073709551615}",
        "\"time\":{\"elements\":-5}", "\"time\":{\"median_s\":5e-324}", "\"time\":{\"p90_s\":1e308}",
        "\"time\":{\"samples_s\":[1,0]}", "\"time\":{\"samples_s\":[1e-320]}", "\"time\":{\"samples_s\":[-1]}",
        "\"data\":{\"sigma\":1e300}", "\"kernel\":{\"batch\":-2}", "\"blocks\":[{\"bits\":-1}]"}) {
    INFO(text);
    const RecordSet records =
        read_beside_good(std::string("{\"schema\":1,\"kind\":\"case\",\"status\":\"ok\",") + text + "}");
    CHECK(records.cases.size() == 1);
    CHECK(records.notes.size() == 1);
  }
  const RecordSet bandwidth = read_beside_good(R"({"schema":1,"kind":"bandwidth","read_bytes_per_s":1e308})");
  CHECK(bandwidth.bandwidths.empty());
}

TEST_CASE("axes have a few ticks whatever they span") {
  const double numbers[] = {-1e308, -1,        -5e-324, 0,     5e-324, 1e-300,   1e-30,
                            1,      1 + 1e-15, 1e30,    1e300, 1e308,  INFINITY, NAN};
  for (const bool log : {false, true})
    for (const bool from_zero : {false, true})
      for (const double low : numbers)
        for (const double high : numbers) {
          INFO(low << " to " << high << (log ? " log" : ""));
          PlotAxis axis;
          axis.log = log;
          axis.from_zero = from_zero;
          choose_ticks(axis, low, high);
          CHECK(axis.ticks.size() <= 40);
          CHECK(std::isfinite(axis.min));
          CHECK(std::isfinite(axis.max));
          CHECK(axis.max > axis.min);
          for (const Tick& tick : axis.ticks) CHECK(std::isfinite(tick.at));
        }
  PlotAxis plain;
  choose_ticks(plain, 0, 10);
  CHECK(plain.ticks.size() == 6);
}

TEST_CASE("a report of more cases than a page can hold is refused with the numbers") {
  RecordSet records;
  records.cases.resize(30'001);
  const ScratchFolder folder;
  CHECK_THROWS_WITH(write_report(records, {}, folder.path), ContainsSubstring("have 30001 cases"));
}

TEST_CASE("cases without elements, bytes or time are reported without figures of them") {
  report_of(small_set());
  using Change = void (*)(CaseRecord&);
  const Change changes[] = {
      [](CaseRecord& r) { r.time.elements = 0, r.data.rows = 0; },
      [](CaseRecord& r) { r.time.elements = -5; },
      [](CaseRecord& r) { r.data.rows = r.data.cols = -1024; },
      [](CaseRecord& r) { r.data.rows = r.data.cols = std::int64_t{1} << 40, r.time.elements = 0; },
      [](CaseRecord& r) { r.size.stored_bytes = 0; },
      [](CaseRecord& r) { r.size.entropy_bits_per_element = 0; },
      [](CaseRecord& r) { r.time.median_s = 1e308; },
      [](CaseRecord& r) { r.time.median_s = 5e-324; },
      [](CaseRecord& r) { r.time.p10_s = r.time.p90_s = 0; },
      [](CaseRecord& r) { r.data.sigma = 1e308; },
      [](CaseRecord& r) { r.kernel.batch = 0; },
  };
  for (size_t i = 0; i < std::size(changes); ++i)
    for (const bool all : {false, true}) {
      INFO("change " << i << (all ? " of all" : " of the first"));
      RecordSet records = small_set();
      for (CaseRecord& record : records.cases)
        if (all || &record == &records.cases.front()) changes[i](record);
      report_of(records);
    }
  for (const double bandwidth : {5e-324, 1e308, -1.0, 0.0}) {
    RecordSet records = small_set();
    records.bandwidths[0].read_bytes_per_s = bandwidth;
    report_of(records);
  }
}

TEST_CASE("a file without an end, and a line longer than any record, are no records") {
  CHECK_THROWS_WITH(read_records("/dev/zero"), Catch::Matchers::ContainsSubstring("/dev/zero:1: a line of more than"));
  // Lines of the length of the reader's buffer, one less and one more, are whole.
  const std::string record = to_json_line(fixture("sweep.jsonl").cases.front());
  for (const std::size_t size : {65534u, 65535u, 65536u, 65537u, 131070u}) {
    std::string line = record;
    line.insert(1, std::string(size - record.size(), ' '));
    for (const char* end : {"", "\n", "\n\n"}) {
      std::istringstream stream(line + end);
      CHECK(read_records(stream, "long").cases.size() == 1);
    }
  }
}

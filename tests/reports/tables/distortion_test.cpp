// Claims about quantised data and lossy codecs in reports: their distance stands beside every size and speed, nothing
// lossy ranks above anything lossless, and the figure of bits and distance has one point a quantiser and codec.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <sstream>

#include "reports/fields.h"
#include "reports/figures/figures.h"
#include "reports/tables/answer.h"
#include "reports/tables/tables.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

// A million elements in `bits` bits, multiplied in `seconds`.
CaseRecord record_of(const std::string& codec, const std::string& quantiser, double bits, double snr_db,
                     double seconds) {
  CaseRecord r;
  r.status = Status::ok;
  r.case_key = codec + quantiser;
  r.run = "r";
  r.data.source = "llm_like";
  r.data.rows = r.data.cols = 1000;
  r.data.type = "i8";
  r.data.sigma = 0.02;
  if (!quantiser.empty()) r.data.parameters["quantise"] = quantiser;
  r.codec.id = codec;
  r.size.stored_bytes = r.size.payload_bytes = static_cast<std::int64_t>(bits * 125000);
  r.size.bits_per_element = bits;
  r.size.entropy_bits_per_element = 4;
  r.distortion.snr_db = snr_db;
  if (std::isfinite(snr_db)) r.distortion.largest_error = 0.0123456;
  r.kernel.backend = "simd";
  r.kernel.op = "matmul";
  r.kernel.threads = 2;
  r.kernel.device = "Test CPU";
  for (int i = 0; i < 10; ++i) r.time.samples_s.push_back(seconds * (1 + 0.001 * (i - 4.5)));
  r.time.median_s = seconds;
  r.time.p10_s = r.time.samples_s.front(), r.time.p90_s = r.time.samples_s.back();
  r.time.elements = 1'000'000;
  r.time.cache = "streamed";
  r.check.decode = "exact";
  return r;
}

CaseRecord size_of(CaseRecord r) {
  r.kernel = {};
  r.kernel.op = "size";
  r.time = {};
  return r;
}

CaseRecord lossy(CaseRecord r) {
  r.check.decode = "within its bound, relative 0.1 or absolute 0";
  return r;
}

RecordSet set_of(std::vector<CaseRecord> cases) {
  RecordSet records;
  records.cases = std::move(cases);
  return records;
}

RecordSet quantised() {
  CaseRecord unsuited = record_of("coder", "absmax[bits=4]", 7, 18, 1e-3);
  unsuited.codec.settings["lanes"] = std::int64_t{64};
  unsuited.codec.non_default = {"lanes"};
  return set_of({unsuited, record_of("plain", "absmax[bits=8]", 8, 40, 2e-3),
                 record_of("coder", "absmax[bits=8]", 6.5, 40, 1e-3), record_of("plain", "absmax[bits=4]", 8, 18, 2e-3),
                 record_of("coder", "absmax[bits=4]", 3, 18, 1e-3),
                 record_of("coder", "uniform[entropy=4]", 4.125, 22, 1e-3)});
}

std::string text_of(const Table& table) { return to_markdown(table); }

}  // namespace

TEST_CASE("a record keeps the distance from the floats, and one without it has none") {
  std::istringstream lines(to_json_line(record_of("a", "fp8", 8, 31.5, 1)) + "\n" +
                           to_json_line(record_of("b", "", 8, kUnknown, 1)) + "\n");
  const RecordSet records = read_records(lines, "test");
  REQUIRE(records.cases.size() == 2);
  CHECK(records.cases[0].distortion.snr_db == 31.5);
  CHECK(records.cases[0].distortion.largest_error == 0.0123456);
  CHECK(has_distortion(records.cases[0]));
  CHECK_FALSE(has_distortion(records.cases[1]));
  CHECK(to_json_line(records.cases[1]).find("distortion") == std::string::npos);
}

TEST_CASE("tables show SNR and largest error where something is lossy, and nowhere else") {
  const RecordSet records = quantised(), plain = set_of({record_of("plain", "", 8, kUnknown, 1e-3)});
  for (const RecordSet* sizes : {&records, &plain}) {
    RecordSet with_sizes = *sizes;
    for (const CaseRecord& one : sizes->cases) with_sizes.cases.push_back(size_of(one));
    const bool shown = sizes == &records;
    for (const auto& tables : {results_tables(with_sizes, Contexts(with_sizes, "plain")),
                               fastest_tables(with_sizes, Contexts(with_sizes, "plain"))}) {
      REQUIRE(tables.size() == 2);
      for (const Table& table : tables) {
        CHECK((text_of(table).find("SNR") != std::string::npos) == shown);
        CHECK((text_of(table).find("0.0123") != std::string::npos) == shown);
      }
    }
  }
}

TEST_CASE("a lossy codec stands below every lossless one, however small or fast it is") {
  const RecordSet records =
      set_of({lossy(record_of("small", "", 2, 10, 1e-4)), record_of("plain", "", 16, kUnknown, 2e-3),
              record_of("coder", "", 11, kUnknown, 1e-3)});
  const auto tables = results_tables(records, Contexts(records, "plain"));
  REQUIRE(tables.size() == 1);
  REQUIRE(tables[0].rows.size() == 3);
  CHECK(tables[0].rows[0][0].text == "coder");
  CHECK(tables[0].rows[2][0].text == "small");
  CHECK_THAT(answer(records, Contexts(records, "plain")).sentence, ContainsSubstring("**coder** beats **plain**"));
}

TEST_CASE("the answer prefers weights that were not quantised, and otherwise says how near they are") {
  RecordSet records = quantised();
  CHECK_THAT(answer(records, Contexts(records, "plain")).sentence,
             ContainsSubstring("dB SNR") && ContainsSubstring("quantise=absmax"));
  records.cases.push_back(record_of("plain", "", 16, kUnknown, 2e-3));
  records.cases.push_back(record_of("coder", "", 11, kUnknown, 3e-3));
  CHECK_THAT(answer(records, Contexts(records, "plain")).sentence,
             ContainsSubstring("nothing beats **plain**") && !ContainsSubstring("quantise"));
}

TEST_CASE("a size of quantised data is not said to be without loss") {
  const RecordSet records =
      set_of({size_of(record_of("plain", "fp8", 8, 31, 1)), size_of(record_of("a", "fp8", 7, 31, 1))});
  const std::string sentence = answer(records, Contexts(records, "plain")).sentence;
  CHECK_THAT(sentence, ContainsSubstring("stores the fewest bits:") && ContainsSubstring("31.0 dB"));
}

TEST_CASE("the figure of bits and distance has the smallest of every quantiser and codec, and the front of them") {
  const RecordSet records = quantised();
  const Contexts contexts(records, "plain");
  const auto figures = FigureMaker(records, contexts).rate_distortion();
  REQUIRE(figures.size() == 1);
  CHECK(figures[0].id.starts_with("rate_distortion"));
  const XyPlot& plot = std::get<XyPlot>(figures[0].plot);
  size_t points = 0;
  for (const Series& series : plot.series) {
    if (series.style == Series::Style::points) points += series.points.size();
    if (series.label != "front") continue;
    REQUIRE(series.points.size() == 3);  // 3 bits 18 dB, 4.125 bits 22 dB, 6.5 bits 40 dB
    CHECK((series.points[0].x == 3 && series.points[0].y == 18));
    CHECK((series.points[1].x == 4.125 && series.points[1].y == 22));
    CHECK((series.points[2].x == 6.5 && series.points[2].y == 40));
  }
  CHECK(points == 5);
  const auto& notes = plot.legend_notes;
  CHECK(std::ranges::find(notes, "b  uniform[entropy=4] · coder") != notes.end());
  const auto bound = std::ranges::find(plot.series, "Gaussian bound", &Series::label);
  REQUIRE(bound != plot.series.end());
  CHECK(std::abs(bound->points[0].y / bound->points[0].x - 6.0206) < 1e-4);
}

TEST_CASE("one distance alone makes no such figure, and other weights make one of their own") {
  RecordSet one = set_of({record_of("plain", "fp8", 8, 31, 1), record_of("coder", "fp8", 7, 31, 1)});
  CHECK(FigureMaker(one, Contexts(one, "plain")).rate_distortion().empty());
  RecordSet two = quantised();
  for (CaseRecord record : quantised().cases) {
    record.data.sigma = 0.03;
    two.cases.push_back(record);
  }
  CHECK(FigureMaker(two, Contexts(two, "plain")).rate_distortion().size() == 2);
}

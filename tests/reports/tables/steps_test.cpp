// Claims about decoding steps in records and tables.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

#include "reports/fields.h"
#include "reports/metrics.h"
#include "reports/tables/tables.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

namespace {

// 8 blocks of one layer [100, 50] and a head [200, 50], 16 and 8 bits an element, 2 tokens in 1 ms.
CaseRecord step_record() {
  CaseRecord r;
  r.status = Status::ok;
  r.case_key = "step";
  r.data = {.source = "model", .rows = 100, .cols = 50, .type = "bf16", .layers = 9};
  r.data.shapes = {{100, 50, 8}, {200, 50, 1}};
  r.codec = {.id = "coder"};
  r.size = {.stored_bytes = 90000, .payload_bytes = 90000, .bits_per_element = 14.4, .entropy_bits_per_element = 10};
  r.step = {.blocks = 8,
            .encoded_blocks = 2,
            .parts = {{"q", "coder", "rows", 8, 100, 50, 80000, 1e-4},
                      {"lm_head", "coder", "rows", 1, 200, 50, 10000, kUnknown}}};
  r.kernel = {.backend = "simd", .op = "step", .variant = "best", .policy = "best", .threads = 2, .batch = 2};
  r.time.samples_s = {0.001, 0.001, 0.001};
  r.time.median_s = r.time.p10_s = r.time.p90_s = 0.001;
  r.time.elements = 50000;
  r.time.cache = "streamed";
  r.check = {"exact", "exact", "intact"};
  return r;
}

CaseRecord read_back(const CaseRecord& record) { return std::get<CaseRecord>(parse_record(to_json_line(record))); }

}  // namespace

TEST_CASE("a step's record keeps its tokens, its blocks and its layers by kind") {
  const CaseRecord r = read_back(step_record());
  CHECK(r.kernel.batch == 2);
  CHECK(r.step.blocks == 8);
  CHECK(r.step.encoded_blocks == 2);
  REQUIRE(r.step.parts.size() == 2);
  CHECK(r.step.parts[0].kind == "q");
  CHECK(r.step.parts[0].layers == 8);
  CHECK(r.step.parts[0].layer_s == 1e-4);
  CHECK(r.step.parts[1].stored_bytes == 10000);
  CHECK(std::isnan(r.step.parts[1].layer_s));
  CHECK(to_json_line(r) == to_json_line(step_record()));
}

TEST_CASE("a table of steps shows tokens a second, the time of a step and the bytes in memory") {
  RecordSet records;
  records.cases = {step_record()};
  const Contexts contexts(records, "raw");
  CHECK_THAT(number_of(records.cases[0], {}, "tokens_per_s"), WithinRel(2000, 1e-12));
  CHECK_THAT(number_of(records.cases[0], {}, "us_per_pass"), WithinRel(1000, 1e-12));
  const auto tables = results_tables(records, contexts);
  REQUIRE(tables.size() == 1);
  CHECK(tables[0].id == "results_step_streamed");
  const std::string text = to_markdown(tables[0]);
  CHECK_THAT(text, ContainsSubstring("2 tokens · 8 blocks in memory, copies of 2 that were encoded"));
  CHECK_THAT(text, ContainsSubstring("tokens/s") && ContainsSubstring("2000.0") && ContainsSubstring("1000.0"));
}

TEST_CASE("a table shows what a step's weights leave of a device's memory") {
  RecordSet records;
  records.cases = {step_record(), step_record()};
  records.cases[0].memory = {.weight_bytes = 90'000'000'000, .device_bytes = 150'000'000'000, .free_bytes = 59'000};
  const CaseRecord r = read_back(records.cases[0]);
  CHECK(r.memory.weight_bytes == 90'000'000'000);
  CHECK(r.memory.device_bytes == 150'000'000'000);
  CHECK(r.memory.free_bytes == 59'000);
  CHECK(to_json_line(r) == to_json_line(records.cases[0]));
  const Table table = step_memory_table(records);
  REQUIRE(table.rows.size() == 1);  // the second has a memory that is not known
  CHECK(table.rows[0][3].text == "2000.0");
  CHECK(table.rows[0][4].text == "90.00");
  CHECK(table.rows[0][6].text == "60.00");
}

TEST_CASE("the layers of a step stand in a table by kind, with the bits of each") {
  RecordSet records;
  records.cases = {step_record()};
  const Table table = steps_table(records);
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0][0].text == "q");
  CHECK(table.rows[0][3].text == "100 × 50");
  CHECK(table.rows[0][5].text == "16.000");
  CHECK(table.rows[0][6].text == "100.00");
  CHECK(table.rows[1][0].text == "lm_head");
  CHECK(table.rows[1][5].text == "8.000");
}

TEST_CASE("kinds of layers that do not add up to what is stored are a contradiction") {
  RecordSet records;
  records.cases = {step_record()};
  CHECK(contradictions(records).empty());
  records.cases[0].step.parts[0].stored_bytes += 1;
  REQUIRE(contradictions(records).size() == 1);
  CHECK_THAT(contradictions(records)[0], ContainsSubstring("the kinds of layers add up to 90001 bytes, but 90000"));
}

// Claims about the tables of memory compression, on records small enough to work out by hand.
#include "reports/tables/block_tables.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <sstream>

using namespace ecmv::reports;
using Catch::Matchers::WithinRel;

namespace {

// `blocks` blocks of 32 bytes that a codec makes `ratio` times smaller; the stored size is 32 bytes more.
CaseRecord record_of(const std::string& workload, const std::string& part, const std::string& type,
                     const std::string& codec, std::int64_t blocks, std::int64_t ratio) {
  CaseRecord record;
  record.status = Status::ok;
  record.data.source = "workload";
  record.data.type = type;
  record.data.parameters = {{"workload", workload}, {"part", part}, {"type", type}};
  record.codec.id = codec;
  record.codec.settings = {{"block_bytes", std::string("32")}};
  record.case_key = workload + part + type + codec;
  record.kernel.op = "size";
  record.size.stored_bytes = 32 * blocks / ratio + 32;
  record.blocks = {{"stream", 32, blocks, 256 * blocks / ratio, 0, 40 * blocks / ratio, 40 * blocks}};
  return record;
}

RecordSet small_set() {
  RecordSet records;
  // Workload a: f32 100 blocks at 2, i32 300 blocks at 4: pooled 400 / (50 + 75) = 3.2. b, unseen: i32 100 blocks at 1.
  // Codec y: all at 2.
  records.cases = {record_of("a", "test", "f32", "x", 100, 2),   record_of("a", "test", "i32", "x", 300, 4),
                   record_of("b", "unseen", "i32", "x", 100, 1), record_of("a", "test", "f32", "y", 100, 2),
                   record_of("a", "test", "i32", "y", 300, 2),   record_of("b", "unseen", "i32", "y", 100, 2)};
  return records;
}

const Table& table_of(const std::vector<Table>& tables, const std::string& id) {
  for (const Table& table : tables)
    if (table.id == id) return table;
  FAIL("no table " << id);
  return tables.front();
}

const std::vector<Cell>& row_of(const Table& table, const std::string& name, const std::string& group) {
  for (const std::vector<Cell>& row : table.rows)
    if (row[0].text == name && row[1].text == group) return row;
  FAIL("no row " << name << " " << group);
  return table.rows.front();
}

double number(const Cell& cell) { return std::get<double>(cell.value); }

}  // namespace

TEST_CASE("ratios are pooled over types and types over workloads, and means are over workloads") {
  const std::vector<Table> tables = block_tables(small_set());
  const Table& table = table_of(tables, "blocks_32_stream");
  REQUIRE(table.columns.size() == 5);
  CHECK(table.columns[2].name == "x");
  CHECK(table.columns[3].name == "y");
  CHECK_THAT(number(row_of(table, "a", "seen")[2]), WithinRel(3.2, 1e-12));
  CHECK(row_of(table, "a", "seen")[4].text == "x");
  CHECK(row_of(table, "b", "unseen")[4].text == "y");
  CHECK_THAT(number(row_of(table, "pooled i32", "all")[2]), WithinRel(400.0 / 175, 1e-12));
  CHECK_THAT(number(row_of(table, "pooled integers", "all")[2]), WithinRel(400.0 / 175, 1e-12));
  CHECK_THAT(number(row_of(table, "pooled floating point", "all")[2]), WithinRel(2.0, 1e-12));
  CHECK_THAT(number(row_of(table, "pooled", "seen")[2]), WithinRel(3.2, 1e-12));
  CHECK_THAT(number(row_of(table, "pooled", "unseen")[2]), WithinRel(1.0, 1e-12));
  CHECK_THAT(number(row_of(table, "pooled", "all")[2]), WithinRel(500.0 / 225, 1e-12));
  CHECK_THAT(number(row_of(table, "arithmetic mean", "all")[2]), WithinRel(2.1, 1e-12));
  CHECK_THAT(number(row_of(table, "geometric mean", "all")[2]), WithinRel(std::sqrt(3.2), 1e-12));
  CHECK_THAT(number(row_of(table, "arithmetic mean", "all")[3]), WithinRel(2.0, 1e-12));
}

TEST_CASE("everything stored has a table of its own") {
  const std::vector<Table> tables = block_tables(small_set());
  const Table& table = table_of(tables, "blocks_32_stored");
  // 12800 bytes of a in 1600 + 32 and 2400 + 32.
  CHECK_THAT(number(row_of(table, "a", "seen")[2]), WithinRel(12800.0 / 4064, 1e-12));
}

TEST_CASE("the link table gives the time of all bytes at an eighth of the bandwidth") {
  const std::vector<Table> tables = block_tables(small_set());
  const Table& table = table_of(tables, "blocks_32_link");
  const std::vector<Cell>& row = row_of(table, "a", "seen");
  CHECK_THAT(number(row[2]), WithinRel(16000 / 637.5e9 * 1e6, 1e-12));
  CHECK_THAT(number(row[3]), WithinRel(16000 / 637.5e9 * 8e6, 1e-12));
  CHECK_THAT(number(row[4]), WithinRel(5000 / 637.5e9 * 8e6, 1e-12));
  CHECK(row[6].text == "x");
  CHECK_THAT(number(row_of(table, "together", "all")[4]), WithinRel(9000 / 637.5e9 * 8e6, 1e-12));
}

TEST_CASE("codecs are named by the settings in which they differ, and a repeated case counts once") {
  RecordSet records = small_set();
  records.cases.push_back(records.cases[0]);
  CaseRecord other = records.cases[0];
  records.cases[0].codec.settings["widths"] = std::string("scaled");
  other.codec.settings["widths"] = std::string("literal");
  other.case_key = "another";
  records.cases = {records.cases[0], other};
  const std::vector<Table> tables = block_tables(records);
  const Table& table = table_of(tables, "blocks_32_stream");
  REQUIRE(table.columns.size() == 5);
  CHECK(table.columns[2].name == "x literal");
  CHECK(table.columns[3].name == "x scaled");
  RecordSet twice = small_set();
  twice.cases.insert(twice.cases.end(), twice.cases.begin(), twice.cases.end());
  const std::vector<Table> doubled = block_tables(twice), once = block_tables(small_set());
  CHECK(to_markdown(table_of(doubled, "blocks_32_link")) == to_markdown(table_of(once, "blocks_32_link")));
}

TEST_CASE("the map of ratios has a row a workload and a column a codec, and no means") {
  const std::vector<Figure> figures = block_figures(small_set());
  REQUIRE(figures.size() == 1);
  CHECK(figures[0].id == "blocks_32_stream");
  const HeatMap& map = std::get<HeatMap>(figures[0].plot);
  CHECK(map.x_names == std::vector<std::string>{"x", "y"});
  CHECK(map.y_names == std::vector<std::string>{"a, seen", "b, unseen"});
  REQUIRE(map.values.size() == 2);
  CHECK_THAT(map.values[0][0], WithinRel(3.2, 1e-12));
  CHECK_THAT(map.values[1][1], WithinRel(2.0, 1e-12));
  CHECK(block_figures({}).empty());
}

TEST_CASE("records without blocks give no tables, and blocks survive writing and reading") {
  CaseRecord plain;
  plain.status = Status::ok;
  RecordSet records;
  records.cases = {plain};
  CHECK(block_tables(records).empty());
  CHECK(to_json_line(plain).find("\"blocks\"") == std::string::npos);
  CaseRecord counted = record_of("a", "test", "f32", "x", 100, 2);
  counted.blocks.push_back({"other", 32, 100, 5, 6, 7, 8});
  std::istringstream stream(to_json_line(counted) + "\n");
  const RecordSet back = read_records(stream, "memory");
  REQUIRE(back.cases.size() == 1);
  REQUIRE(back.cases[0].blocks.size() == 2);
  CHECK(back.cases[0].blocks[1].side_bits == 6);
  CHECK(to_json_line(back.cases[0]) == to_json_line(counted));
}

// Claims about the table and the map of gains over shapes.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>

#include "reports/figures/figures.h"
#include "reports/tables/tables.h"

using namespace ecmv::reports;
using Catch::Matchers::WithinRel;

namespace {

CaseRecord record(const char* codec, std::int64_t rows, std::int64_t tokens, double seconds) {
  CaseRecord r;
  r.status = Status::ok;
  r.run = "run";
  r.case_key = std::string(codec) + std::to_string(rows) + "/" + std::to_string(tokens);
  r.data = {.source = "llm_like", .rows = rows, .cols = 1000, .type = "bf16", .layers = 10};
  r.data.sigma = 1.0 / static_cast<double>(rows);  // measured, so it differs from shape to shape
  r.codec = {.id = codec};
  r.size = {.stored_bytes = 20000 * rows, .payload_bytes = 20000 * rows, .bits_per_element = 10 + 1e-3 * rows};
  r.kernel = {.backend = "cuda", .op = "matmul", .variant = "rows", .policy = "default", .threads = 1};
  r.kernel.batch = tokens, r.kernel.activations = "bf16", r.kernel.device = "GPU", r.kernel.compute_units = 100;
  r.time.samples_s = {seconds, seconds, seconds, seconds};
  r.time.median_s = r.time.p10_s = r.time.p90_s = seconds;
  r.time.elements = 10000 * rows;
  r.time.cache = rows < 2000 ? "resident" : "streamed";
  r.check = {"exact", "exact", "intact"};
  return r;
}

RecordSet records() {
  RecordSet all;
  for (const std::int64_t tokens : {1, 16})
    for (const std::int64_t rows : {1000, 2000, 4000}) {
      all.cases.push_back(record("plain", rows, tokens, 1e-3));
      all.cases.push_back(record("coder", rows, tokens, rows == 1000 ? 2e-3 : rows == 2000 ? 1e-3 : 0.25e-3));
      CaseRecord slower = record("coder", rows, tokens, 9e-3);
      slower.kernel.variant = "slow", slower.case_key += "slow";
      all.cases.push_back(slower);
    }
  return all;
}

const Cell& cell(const Table& table, std::size_t row, std::string_view column) {
  const auto found = std::ranges::find(table.columns, column, &Column::id);
  REQUIRE(found != table.columns.end());
  return table.rows.at(row)[static_cast<std::size_t>(found - table.columns.begin())];
}

}  // namespace

TEST_CASE("gains over shapes are geometric means of the fastest kernels, with the least and the most") {
  const RecordSet all = records();
  const Table table = shapes_table(all, Contexts(all, "plain"));
  REQUIRE(table.rows.size() == 2);  // 1 and 16 tokens
  REQUIRE(table.groups.size() == 2);
  CHECK(table.groups[0].heading == "matmul of 1 token of bf16 · llm_like, bf16 · GPU");
  CHECK_THAT(std::get<double>(cell(table, 0, "mean_speedup_vs_raw").value), WithinRel(1.259921, 1e-6));  // 2^(1/3)
  CHECK(std::get<double>(cell(table, 0, "least_speedup_vs_raw").value) == 0.5);
  CHECK(cell(table, 0, "least_shape").text == "1000 × 1000 (10 layers)");
  CHECK(std::get<double>(cell(table, 0, "most_speedup_vs_raw").value) == 4);
  CHECK(std::get<double>(cell(table, 0, "most_bits_per_element").value) == 14);
  CHECK(cell(table, 0, "shapes").text == "3, 1 in a cache");
}

TEST_CASE("a disturbed case marks the numbers over shapes, and two shapes make no row") {
  RecordSet all = records();
  for (CaseRecord& r : all.cases)
    if (r.data.rows == 4000 && r.kernel.batch == 16) r.time.disturbed_samples = {0, 1, 2, 3};
  const Table table = shapes_table(all, Contexts(all, "plain"));
  CHECK(!cell(table, 0, "mean_speedup_vs_raw").text.ends_with("!"));
  CHECK(cell(table, 1, "mean_speedup_vs_raw").text.ends_with("!"));
  std::erase_if(all.cases, [](const CaseRecord& r) { return r.data.rows == 4000; });
  CHECK(shapes_table(all, Contexts(all, "plain")).rows.empty());
}

TEST_CASE("a map shows the gain for each shape and number of tokens") {
  const RecordSet all = records();
  const Contexts contexts(all, "plain");
  const std::vector<Figure> figures = FigureMaker(all, contexts).tokens_map();
  REQUIRE(figures.size() == 1);
  const auto& map = std::get<HeatMap>(figures[0].plot);
  CHECK(map.x_names == std::vector<std::string>{"1", "16"});
  CHECK(map.y_names == std::vector<std::string>{"1000 × 1000", "2000 × 1000", "4000 × 1000"});
  CHECK(map.values == std::vector<std::vector<double>>{{0.5, 0.5}, {1, 1}, {4, 4}});
}

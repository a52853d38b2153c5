// Claims about records and tables of products that several ranks or devices share.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>

#include "reports/fields.h"
#include "reports/keys.h"
#include "reports/tables/tables.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::WithinRel;

namespace {

CaseRecord record(const char* codec, std::int64_t rows, std::int64_t devices, const char* engine, double seconds) {
  CaseRecord r;
  r.status = Status::ok;
  r.run = "run";
  r.case_key = std::string(codec) + std::to_string(rows) + engine + std::to_string(devices);
  r.data = {.source = "gaussian", .rows = rows, .cols = 1000, .type = "i8", .layers = 10};
  r.data.sigma = 4;
  r.codec = {.id = codec};
  r.size = {.stored_bytes = 10000 * rows, .payload_bytes = 10000 * rows, .bits_per_element = 8};
  r.kernel = {.backend = "cuda", .op = "matvec", .variant = "rows", .policy = "default", .threads = 1};
  r.kernel.device = devices == 1 ? "GPU" : std::to_string(devices) + " devices, GPU";
  r.kernel.compute_units = 100 * devices;
  r.time.samples_s = {seconds, seconds, seconds, seconds};
  r.time.median_s = r.time.p10_s = r.time.p90_s = seconds;
  r.time.elements = 10000 * rows;
  r.time.cache = "streamed";
  r.check = {"exact", "exact", "intact"};
  if (devices > 1)
    r.ranks = {.count = devices,
               .engine = engine,
               .library = "Library 1.2",
               .connected_by = "sockets",
               .devices = std::vector<std::string>(static_cast<size_t>(devices), "GPU"),
               .links = "Wires",
               .split = "rows",
               .gathered_bytes_per_layer = static_cast<double>(rows),
               .reduced_bytes_per_layer = 0,
               .exchanges = 10,
               .exchange_samples_s = {seconds / 4, seconds / 4, seconds / 4},
               .product_samples_s = {seconds / 2, seconds / 2, seconds / 2}};
  return r;
}

double number(const Table& table, size_t row, const std::string& column) {
  for (size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].id == column) {
      const auto* known = std::get_if<double>(&table.rows.at(row)[i].value);
      return known == nullptr ? kUnknown : *known;
    }
  throw ReportError("no column " + column);
}
std::string text(const Table& table, size_t row, const std::string& column) {
  for (size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].id == column) return table.rows.at(row)[i].text;
  throw ReportError("no column " + column);
}

RecordSet records() {
  RecordSet all;
  all.cases = {record("plain", 1000, 1, "", 8e-4),     record("plain", 1000, 2, "library", 5e-4),
               record("plain", 1000, 2, "peer", 4e-4), record("plain", 2000, 2, "peer", 1e-3),
               record("coder", 1000, 1, "", 6e-4),     record("coder", 1000, 2, "peer", 3.2e-4)};
  return all;
}

}  // namespace

TEST_CASE("a record keeps which devices shared a product and by what, and names tell engines apart") {
  const CaseRecord one = record("plain", 1000, 2, "peer", 4e-4);
  const auto read = std::get<CaseRecord>(parse_record(to_json_line(one)));
  CHECK(to_json_line(read) == to_json_line(one));
  CHECK(read.ranks.engine == "peer");
  CHECK(read.ranks.devices == std::vector<std::string>{"GPU", "GPU"});
  CHECK(read.ranks.links == "Wires");
  CHECK(read.ranks.connected_by == "sockets");
  CHECK(field_text(read, "engine") == "peer");
  CHECK(kernel_label(read) != kernel_label(record("plain", 1000, 2, "library", 5e-4)));
}

TEST_CASE("strong scaling: speed-up over one device, efficiency, exchange, and uncompressed with as many devices") {
  const RecordSet all = records();
  const Contexts contexts(all, "plain");
  const Table table = strong_scaling_table(all, contexts);
  // There is no case of one device with 2000 rows.
  std::map<std::string, size_t> row;
  for (size_t i = 0; i < table.rows.size(); ++i)
    row[text(table, i, "codec") + " " + text(table, i, "ranks") + " " + text(table, i, "us_per_pass")] = i;
  REQUIRE(table.rows.size() == 6);
  const size_t plain = row.at("plain 2 devices by peer 400.0"), coder = row.at("coder 2 devices by peer 320.0");
  CHECK_THAT(number(table, plain, "speedup_over_one"), WithinRel(2.0, 1e-12));
  CHECK_THAT(number(table, plain, "efficiency"), WithinRel(1.0, 1e-12));
  CHECK_THAT(number(table, coder, "speedup_over_one"), WithinRel(6 / 3.2, 1e-12));
  CHECK_THAT(number(table, coder, "efficiency"), WithinRel(3 / 3.2, 1e-12));
  CHECK_THAT(number(table, coder, "exchange_share"), WithinRel(0.25, 1e-12));
  CHECK_THAT(number(table, coder, "exchange_us_per_layer"), WithinRel(8e-6, 1e-12));
  CHECK_THAT(number(table, coder, "product_us"), WithinRel(1.6e-4, 1e-12));
  // Compared with the fastest uncompressed case of two devices, with any engine.
  CHECK_THAT(number(table, coder, "speedup_vs_raw"), WithinRel(4 / 3.2, 1e-12));
  CHECK_THAT(number(table, row.at("plain 2 devices by library 500.0"), "efficiency"), WithinRel(0.8, 1e-12));
  CHECK(std::isnan(number(table, row.at("plain 2 devices by peer 1000.0"), "speedup_over_one")));
}

TEST_CASE("weak scaling: one device beside several with as many elements each") {
  const Table table = weak_scaling_table(records());
  REQUIRE(table.rows.size() == 2);
  CHECK(text(table, 0, "ranks") == "1 device");
  CHECK_THAT(number(table, 0, "efficiency"), WithinRel(1.0, 1e-12));
  CHECK_THAT(number(table, 1, "efficiency"), WithinRel(0.8, 1e-12));
  CHECK_THAT(number(table, 1, "elements_of_each"), WithinRel(1e7, 1e-12));
}

TEST_CASE("a forecast for four and eight devices follows from one and two, beside what four took") {
  RecordSet all;
  all.cases = {record("plain", 1000, 1, "", 8e-4), record("plain", 1000, 2, "peer", 5.2e-4),
               record("plain", 1000, 4, "peer", 4e-4), record("plain", 1000, 2, "library", 5e-4)};
  // Two take 500 us of product, hence 200 that stay and 600 that are shared, and 20 us of exchange.
  all.cases[1].ranks.product_samples_s = {5e-4, 5e-4, 5e-4};
  all.cases[3].ranks.product_samples_s = {};
  const Table table = forecast_table(all);
  REQUIRE(table.rows.size() == 2);  // none without the product alone
  CHECK(text(table, 0, "ranks") == "4 devices by peer");
  CHECK_THAT(number(table, 0, "predicted_us"), WithinRel(2e-4 + 6e-4 / 4 + 2e-5 * 2 * 3 / 4, 1e-12));
  CHECK_THAT(number(table, 0, "measured_us"), WithinRel(4e-4, 1e-12));
  CHECK_THAT(number(table, 0, "error"), WithinRel(3.8 / 4 - 1, 1e-9));
  CHECK_THAT(number(table, 0, "predicted_over_one"), WithinRel(8 / 3.8, 1e-12));
  CHECK_THAT(number(table, 0, "measured_over_one"), WithinRel(2.0, 1e-12));
  CHECK(text(table, 1, "ranks") == "8 devices by peer");
  CHECK_THAT(number(table, 1, "predicted_us"), WithinRel(2e-4 + 6e-4 / 8 + 2e-5 * 2 * 7 / 8, 1e-12));
  CHECK(std::isnan(number(table, 1, "measured_us")));
  CHECK(std::isnan(number(table, 1, "error")));
}

TEST_CASE("a product that two devices more than halve is forecast to be shared in full") {
  RecordSet all;
  all.cases = {record("plain", 1000, 1, "", 8e-4), record("plain", 1000, 2, "peer", 3.6e-4)};
  all.cases[1].ranks.product_samples_s = {3.4e-4, 3.4e-4, 3.4e-4};
  const Table table = forecast_table(all);
  REQUIRE(table.rows.size() == 2);
  CHECK_THAT(number(table, 0, "predicted_us"), WithinRel(3.4e-4 / 2 + 2e-5 * 1.5, 1e-12));
}

TEST_CASE("what is shared in pairs has names and rows of its own") {
  CaseRecord pairs = record("plain", 1000, 2, "peer", 3e-4);
  pairs.ranks.split = "pairs";
  pairs.ranks.gathered_bytes_per_layer = 0;
  pairs.ranks.reduced_bytes_per_layer = 2000;
  pairs.ranks.exchanges = 5;
  const auto read = std::get<CaseRecord>(parse_record(to_json_line(pairs)));
  CHECK(to_json_line(read) == to_json_line(pairs));
  CHECK(read.ranks.reduced_bytes_per_layer == 2000);
  CHECK(read.ranks.exchanges == 5);
  CHECK(field_text(read, "split") == "pairs");
  const CaseRecord by_rows = record("plain", 1000, 2, "peer", 4e-4);
  CHECK(kernel_label(read) == kernel_label(by_rows) + " pairs");
  CHECK(full_name(read) != full_name(by_rows));
  // Records from before there were pairs are by rows.
  std::string older = to_json_line(by_rows);
  const std::string field = "\"split\":\"rows\"";
  REQUIRE(older.find(field) != std::string::npos);
  older.replace(older.find(field), field.size(), "\"kind_of_old\":0");
  CHECK(std::get<CaseRecord>(parse_record(older)).ranks.split == "rows");

  RecordSet all = records();
  all.cases.push_back(pairs);
  const Table table = strong_scaling_table(all, Contexts(all, "plain"));
  std::map<std::string, size_t> row;
  for (size_t i = 0; i < table.rows.size(); ++i)
    row[text(table, i, "codec") + " " + text(table, i, "ranks") + " " + text(table, i, "us_per_pass")] = i;
  REQUIRE(table.rows.size() == 7);
  CHECK_THAT(number(table, row.at("plain 2 devices by peer, in pairs 300.0"), "speedup_over_one"),
             WithinRel(8 / 3.0, 1e-12));
  CHECK_THAT(number(table, row.at("plain 2 devices by peer 400.0"), "speedup_over_one"), WithinRel(2.0, 1e-12));
}

TEST_CASE("without ranks there are no tables of scaling") {
  RecordSet all;
  all.cases = {record("plain", 1000, 1, "", 8e-4), record("coder", 1000, 1, "", 6e-4)};
  CHECK(strong_scaling_table(all, Contexts(all, "plain")).rows.empty());
  CHECK(weak_scaling_table(all).rows.empty());
  CHECK(forecast_table(all).rows.empty());
}

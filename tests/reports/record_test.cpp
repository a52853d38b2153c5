// Claims about records: round trips, truncation, merging, and the messages about broken files.
#include "reports/record.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <sstream>

#include "reports/fields.h"
#include "reports/record_fields.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

// A visitor that collects the names of all fields, as README.md writes them.
struct FieldNames {
  std::vector<std::string> names;
  static bool has(bool) { return true; }
  template <class T>
  void field(const char* name, const T&, const char* = nullptr) {
    names.emplace_back(name);
  }
  template <class T>
  void count(const char* name, const T&, int) {
    names.emplace_back(name);
  }
  template <class Fields>
  void object(const char*, const Fields& fields) {
    fields();
  }
  template <class Entry, class Fields>
  void list(const char* name, const std::vector<Entry>&, const Fields& fields) {
    names.emplace_back(name);
    const Entry entry;
    fields(entry);
  }
};

}  // namespace

TEST_CASE("README.md says what every field of a record means") {
  FieldNames fields;
  const CaseRecord one_case;
  const RunRecord run;
  const BandwidthRecord bandwidth;
  visit_case(fields, one_case);
  visit_run(fields, run);
  visit_bandwidth(fields, bandwidth);
  CHECK(fields.names.size() > 150);
  const std::string text = file_text(std::string(ECMV_SOURCE_DIR) + "/reports/README.md");
  for (const std::string& name : fields.names) {
    INFO(name);
    CHECK((text.find("`" + name + "`") != std::string::npos || text.find("." + name + "`") != std::string::npos));
  }
}

TEST_CASE("the policy of a kernel is read from records that call it tuning, and both names select it") {
  std::istringstream older(R"({"schema":1,"kind":"case","status":"ok","kernel":{"tuning":"rows4"}})");
  const CaseRecord back = read_records(older, "memory").cases.at(0);
  CHECK(back.kernel.policy == "rows4");
  CHECK_THAT(to_json_line(back), ContainsSubstring(R"("policy":"rows4")"));
  CHECK_THAT(to_json_line(back), !ContainsSubstring("tuning"));
  CHECK(field_text(back, "policy") == "rows4");
  CHECK(field_text(back, "tuning") == "rows4");
  CHECK(is_field("tuning"));
}

TEST_CASE("a case record survives writing and reading, with every field") {
  CaseRecord r;
  r.status = Status::timed_out;
  r.reason = "took \"too\" long\nσ";
  r.case_key = "8f3a1c0e";
  r.run = "run1";
  r.experiment = "sizes";
  r.data = {"gaussian",
            8192,
            4096,
            "i8",
            7.74,
            10,
            18446744073709551615ull,
            "hash",
            {{"entropy_bits", 5.25}, {"name", std::string("x")}}};
  r.codec = {"coder", 3, {{"lanes", std::int64_t{32}}, {"pairs", true}}};
  r.size = {1'000'000'000'000, 1, 2, 3, 4, 5, 6.5, 6.25};
  r.kernel = {"simd", "matvec", "hwy", "rows4", "AVX3", 2, "cpu0", true};
  r.time = {{0.1, 0.2}, 0.15, 0.1, 0.2, 12345678901234, "streamed", "host", 7};
  r.check = {"exact", "exact", "intact"};

  std::istringstream stream(to_json_line(r) + "\n");
  const RecordSet read = read_records(stream, "memory");
  REQUIRE(read.cases.size() == 1);
  const CaseRecord& back = read.cases[0];
  CHECK(to_json_line(back) == to_json_line(r));
  CHECK(back.data == r.data);
  CHECK(back.status == Status::timed_out);
  CHECK(back.time.samples_s == r.time.samples_s);
  CHECK(back.codec.settings == r.codec.settings);
  CHECK(back.kernel.unfused);
  CHECK(to_json_line(r).find("\"batch\"") == std::string::npos);
  r.kernel.op = "matmul";
  r.kernel.batch = 16;
  std::istringstream products(to_json_line(r) + "\n");
  CHECK(read_records(products, "memory").cases.at(0).kernel.batch == 16);
}

TEST_CASE("a whole model in a program survives writing and reading, with its tokens and the memory that it took") {
  CaseRecord r;
  r.kernel.op = "generate";
  r.kernel.batch = 4;
  r.kernel.activations = "bf16";
  r.memory = {100, 1000, 300, 0};
  CHECK(to_json_line(r).find("peak_bytes") == std::string::npos);
  r.memory.peak_bytes = 170;
  std::istringstream stream(to_json_line(r) + "\n");
  const CaseRecord back = read_records(stream, "memory").cases.at(0);
  CHECK(back.kernel.batch == 4);
  CHECK(back.kernel.activations == "bf16");
  CHECK(back.memory.peak_bytes == 170);
  CHECK(is_of_program(back));
  CHECK(has_tokens(back));
}

TEST_CASE("the file of a codec from a shared object survives writing and reading, and is left out of other records") {
  CaseRecord r;
  CHECK(to_json_line(r).find("library") == std::string::npos);
  r.codec = {"coder", 3, {}, "/home/me/libcoder.so", "ab12"};
  CHECK(to_json_line(r).find(R"("library":{"path":"/home/me/libcoder.so","hash":"ab12"})") != std::string::npos);
  std::istringstream stream(to_json_line(r) + "\n");
  const RecordSet read = read_records(stream, "memory");
  CHECK(read.cases.at(0).codec.library_path == r.codec.library_path);
  CHECK(read.cases.at(0).codec.library_hash == r.codec.library_hash);
}

TEST_CASE("which settings are not the default survives writing and reading, and is unknown in older records") {
  CaseRecord r;
  r.codec = {"coder", 3, {{"lanes", std::int64_t{32}}, {"pairs", true}}};
  const auto back = [&] {
    std::istringstream stream(to_json_line(r) + "\n");
    return read_records(stream, "memory").cases.at(0).codec.non_default;
  };
  CHECK(to_json_line(r).find("non_default") == std::string::npos);
  CHECK_FALSE(back().has_value());
  r.codec.non_default = {"lanes"};
  CHECK(to_json_line(r).find(R"("non_default":["lanes"])") != std::string::npos);
  CHECK(back() == std::vector<std::string>{"lanes"});
  r.codec.non_default->clear();
  CHECK(back() == std::vector<std::string>{});
}

TEST_CASE("layers of several shapes and types are all named, in records and labels") {
  CaseRecord r;
  r.data.rows = 512;
  r.data.cols = 256;
  r.data.layers = 3;
  CHECK(to_json_line(r).find("shapes") == std::string::npos);
  CHECK(shape_label(r) == "512 × 256 (3 layers)");
  r.data.shapes = {{512, 256, 2}, {64, 512, 1}};
  r.data.type = "i8, u8";
  std::istringstream stream(to_json_line(r) + "\n");
  const CaseRecord back = read_records(stream, "memory").cases.at(0);
  CHECK(back.data == r.data);
  CHECK(back.data.shapes.at(1).rows == 64);
  CHECK(shape_label(back) == "512 × 256 (2 layers), 64 × 512 (1 layer)");
  CHECK(elements_of(back) == 2 * 512 * 256 + 64 * 512);
  CHECK(std::isnan(dimension_of(back)));
  CHECK(field_text(back, "dimension").empty());
  CHECK_FALSE(is_square(back));
  CHECK(type_bits("i8, u8") == 8);
  CHECK(std::isnan(type_bits("i8, bf16")));
  r.data.shapes = {{64, 64, 1}, {32, 32, 2}};
  CHECK_FALSE(is_square(r));
  std::istringstream broken(R"({"schema":1,"kind":"case","status":"ok","data":{"shapes":3}})"
                            "\n");
  CHECK_THROWS_MATCHES(read_records(broken, "memory"), ReportError,
                       MessageMatches(ContainsSubstring("\"shapes\" is not a list")));
}

TEST_CASE("what only GPUs have survives writing and reading, and is left out of the records of CPUs") {
  CaseRecord r;
  CHECK(to_json_line(r).find("compute_units") == std::string::npos);
  r.kernel.launch = "plain";
  r.kernel.compute_units = 132;
  r.kernel.highest_clock_hz = 1.98e9;
  r.time.clock_after_hz = 1.5e9;
  RunRecord run;
  run.gpus = {{"cuda:0", "GPU", "sm_90", "driver 1", 132, 32, 1 << 30, 1 << 20, 1 << 10, 1.98e9, 3.2e9},
              {.id = "cuda:1"}};
  std::istringstream stream(to_json_line(r) + "\n" + to_json_line(run) + "\n");
  const RecordSet back = read_records(stream, "memory");
  CHECK(to_json_line(back.cases.at(0)) == to_json_line(r));
  CHECK(back.cases.at(0).kernel.compute_units == 132);
  REQUIRE(back.runs.at(0).gpus.size() == 2);
  CHECK(back.runs.at(0).gpus[0] == run.gpus[0]);
  CHECK(back.runs.at(0).gpus[1].id == "cuda:1");
  CHECK(std::isnan(back.runs.at(0).gpus[1].highest_clock_hz));
}

TEST_CASE("run and bandwidth records survive writing and reading") {
  const RecordSet records = fixture("mixed.jsonl");
  REQUIRE(records.runs.size() == 1);
  REQUIRE(records.bandwidths.size() == 1);
  CHECK(records.runs[0].seed == 18446744073709551615ull);
  CHECK(records.runs[0].llc_bytes == 1000000);
  std::istringstream stream(to_json_line(records.runs[0]) + "\n" + to_json_line(records.bandwidths[0]) + "\n");
  const RecordSet back = read_records(stream, "memory");
  CHECK(to_json_line(back.runs.at(0)) == to_json_line(records.runs[0]));
  CHECK(to_json_line(back.bandwidths.at(0)) == to_json_line(records.bandwidths[0]));
}

TEST_CASE("numbers that are not finite are written as null and read as unknown") {
  CaseRecord r;
  r.time.median_s = INFINITY;
  r.time.samples_s = {1.0, NAN};
  r.data.parameters["x"] = NAN;
  const std::string line = to_json_line(r);
  CHECK(line.find("inf") == std::string::npos);
  CHECK(line.find("nan") == std::string::npos);
  std::istringstream stream(line);
  const RecordSet back = read_records(stream, "memory");
  CHECK(std::isnan(back.cases.at(0).time.median_s));
  CHECK(std::isnan(back.cases.at(0).time.samples_s.at(1)));
}

TEST_CASE("text that is not UTF-8 does not stop a record from being written") {
  CaseRecord r;
  r.reason = "bad \xff byte";
  CHECK_THAT(to_json_line(r), ContainsSubstring("bad "));
}

TEST_CASE("every status has its word and no other word is a status") {
  for (Status status : all_statuses()) CHECK(parse_status(to_string(status)) == status);
  CHECK(all_statuses().size() == 7);
  CHECK_THROWS_AS(parse_status("fine"), ReportError);
}

TEST_CASE("a truncated last line is left out and noted, unknown kinds and fields are ignored") {
  const RecordSet records = fixture("mixed.jsonl");
  CHECK(records.cases.size() == 9);
  REQUIRE(records.notes.size() == 2);
  CHECK_THAT(records.notes[0], ContainsSubstring("mixed.jsonl:13") && ContainsSubstring("incomplete"));
  CHECK_THAT(records.notes[1], ContainsSubstring("weather"));
}

TEST_CASE("records that gzip has compressed are read as they are, and a cut file is an error") {
  const auto lines = [](const RecordSet& records) {
    std::string all;
    for (const CaseRecord& one : records.cases) all += to_json_line(one) + "\n";
    return all;
  };
  CHECK(lines(fixture("sweep.jsonl.gz")) == lines(fixture("sweep.jsonl")));
  const ScratchFolder folder;
  const std::string whole = file_text(fixture_path("sweep.jsonl.gz"));
  for (const size_t bytes : {whole.size() - 1, whole.size() / 2, size_t{5}}) {
    const auto path = folder.path / "cut.jsonl.gz";
    std::ofstream(path, std::ios::binary) << whole.substr(0, bytes);
    CHECK_THROWS_AS(read_records(path), ReportError);
  }
  CHECK_THROWS_AS(read_records(folder.path / "none.jsonl.gz"), ReportError);
}

TEST_CASE("a broken line in the middle costs that line, which is named") {
  const RecordSet records = fixture("broken_middle.jsonl");
  CHECK(records.runs.size() == 1);
  CHECK(records.cases.size() == 1);
  REQUIRE(records.notes.size() == 1);
  CHECK_THAT(records.notes[0], ContainsSubstring("broken_middle.jsonl:2: broken") && ContainsSubstring("left out"));
  // The first of many are named.
  const std::string good = to_json_line(CaseRecord{}) + "\n";
  std::string text = good;
  for (int i = 0; i < 100; ++i) text += "{\"half\n";
  std::istringstream stream(text + "[1]\n{\"schema\":1}\n" + good);
  const RecordSet many = read_records(stream, "many");
  CHECK(many.cases.size() == 2);
  REQUIRE(many.notes.size() == 6);
  CHECK_THAT(many.notes[4], ContainsSubstring("many:6: "));
  CHECK_THAT(many.notes[5], ContainsSubstring("97 more broken lines") && ContainsSubstring("line 103"));
}

TEST_CASE("a file without one good line, or of a newer schema, is an error with the line") {
  for (const char* text : {"{\"schema\":1,\"kind\":\"case\",\"status\":\"ok\",\"data\":{\"rows\":\"many\"}}\n",
                           "{\"schema\":99,\"kind\":\"case\"}\n", "{\"schema\":1}\n", "[1]\n",
                           "{\"schema\":1,\"kind\":\"case\",\"status\":\"splendid\"}\n"}) {
    std::istringstream stream(text);
    CHECK_THROWS_MATCHES(read_records(stream, "file"), ReportError, MessageMatches(ContainsSubstring("file:1: ")));
  }
  std::istringstream newer(to_json_line(CaseRecord{}) + "\n{\"schema\":99,\"kind\":\"case\"}\n");
  CHECK_THROWS_MATCHES(read_records(newer, "file"), ReportError,
                       MessageMatches(ContainsSubstring("file:2: schema 99")));
}

TEST_CASE("a file that is not there is an error") {
  CHECK_THROWS_AS(read_records(fixture_path("nothing")), ReportError);
}

TEST_CASE("record files merge by concatenation") {
  const std::string sweep = file_text(fixture_path("sweep.jsonl"));
  std::istringstream both(sweep + file_text(fixture_path("mixed.jsonl")));
  CHECK(read_records(both, "both").cases.size() == 12 + 9);
  RecordSet merged = fixture("sweep.jsonl");
  merged.append(fixture("mixed.jsonl"));
  CHECK(merged.cases.size() == 12 + 9);
  CHECK(merged.runs.size() == 2);
}

TEST_CASE("the writer appends, and cuts off what a killed run left of its last line") {
  const ScratchFolder folder;
  const auto path = folder.path / "deep" / "records.jsonl";
  CaseRecord r;
  r.case_key = "one";
  { RecordWriter(path).write(r); }
  const std::string whole = file_text(path);
  std::ofstream(path, std::ios::app | std::ios::binary) << whole.substr(0, whole.size() / 2);
  {
    RecordWriter writer(path);
    CHECK(writer.cut_bytes() == static_cast<std::int64_t>(whole.size() / 2));
    r.case_key = "two";
    writer.write(r);
    CHECK(read_records(path).cases.size() == 2);  // flushed before the writer is gone
  }
  const RecordSet back = read_records(path);
  CHECK(back.cases.at(1).case_key == "two");
  CHECK(back.notes.empty());
}

TEST_CASE("the writer keeps a complete last line that only lacks its newline") {
  const ScratchFolder folder;
  const auto path = folder.path / "records.jsonl";
  CaseRecord r;
  std::ofstream(path, std::ios::binary) << to_json_line(r);
  { RecordWriter(path).write(r); }
  CHECK(read_records(path).cases.size() == 2);
}

TEST_CASE("a writer that cannot open its file says so") {
  CHECK_THROWS_AS(RecordWriter("/proc/no/such/file"), ReportError);
}

// Claims about metrics, with values computed by hand from tests/reports/fixtures/mixed.jsonl.
#include "reports/metrics.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <set>

#include "reports/fields.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

TEST_CASE("every metric has the value worked out by hand") {
  const RecordSet records = fixture("mixed.jsonl");
  const Contexts contexts(records, "plain");
  // 4e6 elements, 2.5e6 bytes, 1.6 ms, against 2 ms raw and 2.5e9 B/s; as if ten compute units had run at 1 GHz.
  CaseRecord coded = case_of(records, "aaaa0003");
  coded.kernel.compute_units = 10;
  coded.kernel.highest_clock_hz = 2e9;
  coded.time.clock_before_hz = 1.5e9;
  coded.time.clock_after_hz = 1e9;
  coded.size.ideal_bits_per_element = 4.5;
  coded.time.energy_j = 0.5;
  coded.distortion = {31.5, 0.02};
  coded.ranks = {.count = 2, .exchange_samples_s = {3e-4, 1e-4, 1.6e-4}, .product_samples_s = {1.5e-3}};
  const std::map<std::string, double> expected = {
      {"elements_per_s", 2.5e9},
      {"elements_per_s_p10", 2e9},
      {"elements_per_s_p90", 4e6 / 0.0015},
      {"macs_per_s", 2.5e9},
      {"compute_fraction", kUnknown},  // of an int8 product; a test below has the rest
      {"tokens_per_s", 625},
      {"us_per_pass", 1600},
      {"weight_bytes_per_token", 2.5e6},
      {"ns_per_element", 0.4},
      {"stored_bytes_per_s", 1.5625e9},
      {"bits_per_element", 5},
      {"payload_bits_per_element", 4.8},
      {"table_bits_per_element", 0.008},
      {"index_bits_per_element", 0.192},
      {"scale_bits_per_element", 0},
      {"padding_bits_per_element", 0.008},
      {"entropy_bits_per_element", 4.8},
      {"excess_over_entropy_percent", 100 * (5 / 4.8 - 1)},
      {"ideal_bits_per_element", 4.5},
      {"excess_over_ideal_bits", 0.5},
      {"compression_ratio", 1.6},
      {"snr_db", 31.5},
      {"largest_error", 0.02},
      {"speedup_vs_raw", 1.25},  // against the faster of the two raw kernels
      {"roof_speedup", 1.6},
      {"bandwidth_fraction", 0.625},
      {"roof_elements_per_s", 4e9},
      {"predicted_s", 1e-3},
      {"measured_over_predicted", 1.6},
      {"break_even_bandwidth_bytes_per_s", 2.5e9},
      {"elements_per_clock_and_unit", 0.25},
      {"exchange_share", 0.1},
      {"min_s", 0.0015},
      {"p99_s", 0.001992},
      {"variation_percent", 100 * std::sqrt(7e-8) / 0.0017},
      {"joules_per_pass", 0.5},
      {"joules_per_element", 1.25e-7},
      {"product_alone_s", 1.5e-3}};
  REQUIRE(expected.size() == all_metrics().size());
  for (const Metric& metric : all_metrics()) {
    INFO(metric.id);
    const double value = metric.value(coded, contexts.of(coded)), wanted = expected.at(std::string(metric.id));
    if (std::isnan(wanted))
      CHECK(std::isnan(value));
    else
      CHECK_THAT(value, WithinRel(wanted, 1e-12));
  }
}

TEST_CASE("a batch counts for what each token does, and is compared with the same batch of any baseline codec") {
  RecordSet records = fixture("mixed.jsonl");
  const auto set_op = [&](const char* key, const char* op, std::int64_t batch) {
    for (CaseRecord& record : records.cases)
      if (record.case_key == key) record.kernel.op = op, record.kernel.batch = batch;
  };
  set_op("aaaa0003", "matmul", 16);  // 4e6 elements, 2.5e6 bytes, 1.6 ms
  const CaseRecord& coded = case_of(records, "aaaa0003");
  {
    const Contexts contexts(records, "plain");
    const Context context = contexts.of(coded);
    CHECK_THAT(find_metric("macs_per_s").value(coded, context), WithinRel(4e10, 1e-12));
    CHECK_THAT(find_metric("elements_per_s").value(coded, context), WithinRel(2.5e9, 1e-12));
    CHECK_THAT(find_metric("tokens_per_s").value(coded, context), WithinRel(1e4, 1e-12));
    CHECK_THAT(find_metric("weight_bytes_per_token").value(coded, context), WithinRel(156250.0, 1e-12));
    CHECK_THAT(find_metric("measured_over_predicted").value(coded, context), WithinRel(1.6, 1e-12));
    CHECK(number_of(coded, context, "batch") == 16);
    CHECK(context.baseline == nullptr);
    CHECK(field_text(coded, "batch") == "16");
  }
  set_op("aaaa0001", "matmul", 8);
  CHECK(Contexts(records, "other,plain").of(coded).baseline == nullptr);
  set_op("aaaa0001", "matmul", 16);
  CHECK(Contexts(records, "other,plain").of(coded).baseline != nullptr);
  CHECK(Contexts(records, "plai,other").of(coded).baseline == nullptr);
  for (const char* op : {"generate", "prompt"}) {  // whole models count their tokens likewise
    CaseRecord of_model = coded;
    of_model.kernel.op = op;
    CHECK_THAT(find_metric("tokens_per_s").value(of_model, {}), WithinRel(1e4, 1e-12));
    CHECK(field_text(of_model, "batch") == "16");
  }
  CaseRecord decoded = coded;
  decoded.kernel.op = "decode";
  for (const char* metric : {"macs_per_s", "tokens_per_s", "weight_bytes_per_token"})
    CHECK(std::isnan(find_metric(metric).value(decoded, {})));
  CHECK(field_text(decoded, "batch") == "");
}

TEST_CASE("tokens of bf16 say how much of the matrix units they use, where these are known") {
  const RecordSet records = fixture("mixed.jsonl");
  CaseRecord coded = case_of(records, "aaaa0003");  // 2.5e9 elements/s
  coded.kernel.op = "matmul";
  coded.kernel.batch = 2048;
  coded.kernel.activations = "bf16";
  coded.kernel.simd_target = "sm_90";
  coded.kernel.compute_units = 100;
  coded.kernel.highest_clock_hz = 1e9;
  const Metric& share = find_metric("compute_fraction");
  CHECK_THAT(share.value(coded, {}), WithinRel(2.5e9 * 2048 / (2048 * 1e11), 1e-12));
  coded.kernel.simd_target = "sm_80";
  CHECK_THAT(share.value(coded, {}), WithinRel(2.5e9 * 2048 / (1024 * 1e11), 1e-12));
  coded.kernel.simd_target = "sm_70";
  CHECK(std::isnan(share.value(coded, {})));
  coded.kernel.simd_target = "sm_90";
  coded.kernel.activations = "f32";
  CHECK(std::isnan(share.value(coded, {})));
}

TEST_CASE("sizes without a time have every metric of sizes, none of speeds, and do not contradict themselves") {
  const RecordSet records = fixture("mixed.jsonl");
  CaseRecord coded = case_of(records, "aaaa0003");
  coded.kernel = {};
  coded.kernel.op = "size";
  coded.time = {};
  coded.data.type = "bf16";
  coded.check = {"exact", "", ""};
  const auto value = [&](const char* metric) { return find_metric(metric).value(coded, {}); };
  CHECK(value("bits_per_element") == 5);
  CHECK_THAT(value("compression_ratio"), WithinRel(3.2, 1e-12));
  CHECK_THAT(value("roof_speedup"), WithinRel(3.2, 1e-12));
  for (const char* metric : {"elements_per_s", "ns_per_element", "stored_bytes_per_s", "speedup_vs_raw",
                             "ideal_bits_per_element", "excess_over_ideal_bits"})
    CHECK(std::isnan(value(metric)));
  RecordSet alone;
  alone.cases = {coded};
  CHECK(contradictions(alone).empty());
  alone.cases[0].check.decode = "";
  CHECK(contradictions(alone).size() == 1);
  CHECK(std::isfinite(value("excess_over_entropy_percent")));
  coded.check.decode = "within its bound, relative 0.1 or absolute 0; the largest error is 0.5 of it";
  CHECK(std::isnan(value("excess_over_entropy_percent")));
  CHECK(type_bits("f8_e4m3") == 8);
  CHECK(type_bits("u64") == 64);
}

TEST_CASE(
    "the decode rate takes the clock after the batch, else the one before, else the highest, and needs compute units") {
  const RecordSet records = fixture("mixed.jsonl");
  CaseRecord coded = case_of(records, "aaaa0003");  // 2.5e9 elements/s
  const Metric& rate = find_metric("elements_per_clock_and_unit");
  CHECK(std::isnan(rate.value(coded, {})));
  coded.kernel.compute_units = 10;
  CHECK(std::isnan(rate.value(coded, {})));
  coded.kernel.highest_clock_hz = 2e9;
  CHECK_THAT(rate.value(coded, {}), WithinRel(0.125));
  coded.time.clock_before_hz = 1.25e9;
  CHECK_THAT(rate.value(coded, {}), WithinRel(0.2));
  coded.time.clock_after_hz = 1e9;
  CHECK_THAT(rate.value(coded, {}), WithinRel(0.25));
}

TEST_CASE("metrics that a case cannot have are NaN, not zero") {
  const RecordSet records = fixture("mixed.jsonl");
  const Contexts contexts(records, "plain");
  const CaseRecord& refused = case_of(records, "aaaa0006");
  for (const Metric& metric : all_metrics()) {
    if (metric.id == "entropy_bits_per_element") continue;
    INFO(metric.id);
    CHECK(std::isnan(metric.value(refused, contexts.of(refused))));
  }
  const CaseRecord& incorrect = case_of(records, "aaaa0008");
  CHECK(std::isnan(find_metric("elements_per_s").value(incorrect, {})));
}

TEST_CASE("resident and streamed cases are not compared") {
  const RecordSet records = fixture("mixed.jsonl");
  const Contexts contexts(records, "plain");
  const Context context = contexts.of(case_of(records, "aaaa0004"));
  CHECK(context.baseline == nullptr);
  CHECK(context.bandwidth == nullptr);
  CHECK_THAT(context.why_no_baseline, ContainsSubstring("another cache class"));
}

TEST_CASE("a missing baseline gives no speed-up and a reason") {
  const RecordSet records = fixture("no_baseline.jsonl");
  const Contexts contexts(records, "plain");
  const CaseRecord& coded = case_of(records, "aaaa0003");
  const Context context = contexts.of(coded);
  CHECK(std::isnan(find_metric("speedup_vs_raw").value(coded, context)));
  CHECK_THAT(context.why_no_baseline, ContainsSubstring("did not run"));
}

TEST_CASE("an incorrect baseline is no baseline") {
  RecordSet records = fixture("mixed.jsonl");
  for (CaseRecord& record : records.cases) {
    if (record.codec.id == "plain") record.status = Status::incorrect;
  }
  const Context context = Contexts(records, "plain").of(case_of(records, "aaaa0003"));
  CHECK(context.baseline == nullptr);
  CHECK_THAT(context.why_no_baseline, ContainsSubstring("not ok"));
}

TEST_CASE("another run, thread count or op is not a baseline") {
  for (int change = 0; change < 4; ++change) {
    RecordSet records = fixture("mixed.jsonl");
    for (CaseRecord& record : records.cases) {
      if (record.codec.id != "plain") continue;
      if (change == 0) record.run = "r2";
      if (change == 1) record.kernel.threads = 1;
      if (change == 2) record.kernel.op = "decode";
      if (change == 3) record.data.hash = "other";
    }
    CHECK(Contexts(records, "plain").of(case_of(records, "aaaa0003")).baseline == nullptr);
  }
}

TEST_CASE("break-even exists only below eight bits") {
  const RecordSet records = fixture("mixed.jsonl");
  CHECK(std::isnan(find_metric("break_even_bandwidth_bytes_per_s").value(case_of(records, "aaaa0001"), {})));
}

TEST_CASE("metric ids are unique, explained, and unknown names are errors that list the known") {
  std::set<std::string_view> ids;
  for (const Metric& metric : all_metrics()) {
    CHECK(ids.insert(metric.id).second);
    CHECK(!metric.meaning.empty());
    CHECK(!metric.formula.empty());
  }
  CHECK_THROWS_AS(find_metric("gigabytes"), ReportError);
  CHECK_THROWS_AS(number_of(CaseRecord{}, {}, "gigabytes"), ReportError);
  CHECK_THROWS_AS(field_text(CaseRecord{}, "gigabytes"), ReportError);
}

TEST_CASE("records that contradict themselves are told of") {
  RecordSet records = fixture("mixed.jsonl");
  CHECK(contradictions(records).empty());
  auto count_after = [&](auto change) {
    RecordSet changed = records;
    change(changed.cases[2]);
    return contradictions(changed).size();
  };
  CHECK(count_after([](CaseRecord& r) { r.size.table_bytes += 1; }) == 1);
  CHECK(count_after([](CaseRecord& r) { r.size.bits_per_element = 4; }) == 1);
  CHECK(count_after([](CaseRecord& r) { r.time.median_s = 1; }) == 1);
  CHECK(count_after([](CaseRecord& r) { r.time.samples_s.clear(); }) == 1);
  CHECK(count_after([](CaseRecord& r) { r.time.cache = "warm"; }) == 1);
  CHECK(count_after([](CaseRecord& r) { r.check = {}; }) == 1);
}

TEST_CASE("labels leave out settings that are switched off and name the kernel fully") {
  const RecordSet records = fixture("mixed.jsonl");
  const CaseRecord& coded = case_of(records, "aaaa0003");
  CHECK(codec_label(coded) == "coder[bits=12,lanes=32]");
  CHECK(kernel_label(coded) == "simd rows AVX2 ×2");
  CHECK(field_text(coded, "data") == "gaussian σ=4, 1000 × 1000 (4 layers)");
  CHECK(si_text(2.5e9) == "2.50 G");
  CHECK(si_text(999.6e6) == "1.00 G");
  CHECK(si_text(0) == "0.00");
  CHECK(si_text(0.4644) == "0.464");  // not "464 m"
  CHECK(si_text(3.2e-7) == "3.2e-07");
  CHECK(si_text(NAN) == "–");
  CHECK(slug("matvec σ=7.74 4096 × 4096") == "matvec_sigma_7p74_4096_4096");
}

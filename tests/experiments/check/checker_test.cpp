// The checker must catch: every codec and kernel here breaks one promise, and the run must say which.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "experiments/check/check.h"
#include "experiments/check/corrupt.h"
#include "experiments/config/experiment.h"
#include "experiments/run/run.h"
#include "tests/experiments/test_codecs.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using reports::Status;

namespace {

struct Outcome {
  std::vector<reports::CaseRecord> records;
  experiments::RunSummary summary;
};

// Runs one codec named "test" with the given kernels on the backend `scalar`, one thread.
Outcome run(const codecs::Codec& codec, const std::vector<backends::Kernel>& kernels, const std::string& op,
            bool time = true, const std::string& verify = "once") {
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, kernels, {}}};
  const std::string config = "schema: 1\nname: checker\nverify: " + verify +
                             "\nmeasure: {repetitions: 2, min_time: 0.0001, warm_up: 1}\nexperiments:\n"
                             "  - data: {source: gaussian, sigma: 4, d: 33, layers: 3}\n    codecs: test\n    kernels: "
                             "{backend: scalar, threads: 1, op: " +
                             op + "}\n";
  const experiments::Experiment experiment = experiments::parse_experiment(config, "checker", {}, codecs);
  Outcome outcome;
  experiments::RunOptions options;
  options.codecs = codecs;
  options.time = time;
  options.on_case = [&](const reports::CaseRecord& record) { outcome.records.push_back(record); };
  outcome.summary = experiments::run_experiment(experiment, options);
  REQUIRE(outcome.records.size() == 1);
  return outcome;
}

void expect(const Outcome& outcome, Status status, const std::string& reason, int exit_code) {
  CHECK(outcome.records[0].status == status);
  CHECK_THAT(outcome.records[0].reason, ContainsSubstring(reason));
  CHECK(outcome.summary.exit_code() == exit_code);
  if (status != Status::ok) CHECK(outcome.records[0].time.samples_s.empty());  // an unverified number is not kept
}

}  // namespace

TEST_CASE("codecs that are encoded together keep their own layers, refusals, errors and differences") {
  const codecs::Codec right = make_codec();
  codecs::Codec refusing = right, throwing = right, wrong = right;
  refusing.refuses = rejects;
  throwing.encode = throw_on_encode;
  wrong.decode = restore_wrongly;
  const std::vector<codecs::CodecEntry> entries = {{"right", &right, {}, {}},
                                                   {"refusing", &refusing, {}, {}},
                                                   {"throwing", &throwing, {}, {}},
                                                   {"wrong", &wrong, {}, {}}};
  std::vector<experiments::CodecChoice> choices;
  for (const codecs::CodecEntry& entry : entries) choices.push_back({&entry, {}});
  const std::vector<datasets::Matrix> matrices = {gaussian_matrix({9, 7}, 4, 1), gaussian_matrix({5, 6}, 4, 2),
                                                  gaussian_matrix({3, 3}, 4, 3)};
  const auto encoded = experiments::encode_and_check(choices, matrices);
  REQUIRE(encoded.size() == 4);
  for (size_t layer = 0; layer < matrices.size(); ++layer) {
    CHECK(encoded[0].layers[layer].shape == matrices[layer].shape);
    CHECK(encoded[0].layers[layer].stored_bytes() == matrices[layer].shape.elements());
  }
  CHECK(encoded[0].outcome.fine());
  CHECK(encoded[1].outcome.status == Status::refused);
  CHECK(encoded[1].outcome.reason == "This codec refuses every matrix.");
  CHECK(encoded[2].outcome.status == Status::error);
  CHECK(encoded[2].outcome.reason == "layer 0: The encoder gave up.");
  CHECK(encoded[3].outcome.status == Status::incorrect);
  CHECK_THAT(encoded[3].outcome.reason, ContainsSubstring("layer 0: the reference decode differs"));
  CHECK(experiments::encode_and_check({}, matrices).empty());
}

TEST_CASE("a right codec with right kernels is ok, measured and counted") {
  for (const auto& [op, kernel] :
       {std::pair{"decode", make_kernel<tests::decode>()}, std::pair{"matvec", make_kernel<multiply>()}}) {
    const Outcome outcome = run(make_codec(), {kernel}, op);
    expect(outcome, Status::ok, "", 0);
    const reports::CaseRecord& record = outcome.records[0];
    CHECK(record.check.decode == "exact");
    CHECK(record.check.outputs == "exact");
    CHECK(record.check.guards == "intact");
    CHECK(record.time.samples_s.size() == 2);
    CHECK(record.time.elements == 3 * 33 * 33);
    CHECK(record.size.stored_bytes == 3 * 33 * 33);
    CHECK(record.size.bits_per_element == 8.0);
    CHECK(record.time.median_s > 0);
    CHECK(record.time.cache == "resident");
    CHECK_FALSE(record.kernel.unfused);
  }
}

TEST_CASE("a codec without kernels is decoded by its reference and multiplied by the harness") {
  const Outcome outcome = run(make_codec(), {}, "matvec");
  expect(outcome, Status::ok, "", 0);
  CHECK(outcome.records[0].kernel.variant == "reference");
  CHECK(outcome.records[0].kernel.unfused);
}

TEST_CASE("a decode kernel serves an unfused product") {
  const Outcome outcome = run(make_codec(), {make_kernel<tests::decode>()}, "matvec");
  expect(outcome, Status::ok, "", 0);
  CHECK(outcome.records[0].kernel.unfused);
  expect(run(make_codec(), {make_kernel<decode_wrongly>()}, "matvec"), Status::incorrect, "W x differs", 3);
}

TEST_CASE("a codec that decodes wrongly is incorrect") {
  codecs::Codec codec = make_codec();
  codec.decode = restore_wrongly;
  expect(run(codec, {make_kernel<multiply>()}, "matvec"), Status::incorrect,
         "the reference decode differs at row 32, column 32", 3);
}

TEST_CASE("a codec that stores more than it declares is incorrect") {
  codecs::Codec codec = make_codec();
  codec.max_stored_bytes = broken_bound;
  expect(run(codec, {}, "decode"), Status::incorrect, "more than the declared bound", 3);
}

TEST_CASE("sizes are checked by the reference decoder, need no kernel and no time") {
  codecs::Codec codec = make_codec();
  codec.ideal_bits_per_element = three_bits;
  const Outcome outcome = run(codec, {make_kernel<decode_wrongly>()}, "size");
  expect(outcome, Status::ok, "", 0);
  const reports::CaseRecord& record = outcome.records[0];
  CHECK(record.kernel.op == "size");
  CHECK(record.kernel.backend == "");
  CHECK(record.check.decode == "exact");
  CHECK(record.check.outputs == "");
  CHECK(record.size.bits_per_element == 8.0);
  CHECK(record.size.ideal_bits_per_element == 3.0);
  CHECK(record.time.samples_s.empty());
  CHECK(record.time.elements == 3 * 33 * 33);
  codec.decode = restore_wrongly;
  expect(run(codec, {}, "size"), Status::incorrect, "the reference decode differs", 3);
  codec.refuses = rejects;
  expect(run(codec, {}, "size"), Status::refused, "This codec refuses every matrix.", 6);
}

TEST_CASE("a lossy codec is held to its bound, its kernels to its reference decoder") {
  codecs::Codec codec = make_codec();
  codec.lossless = false;
  codec.encode = store_even;
  codec.error_bound = within_one;
  const Outcome size = run(codec, {}, "size");
  expect(size, Status::ok, "", 0);
  CHECK(size.records[0].check.decode == "within its bound, relative 0 or absolute 1; the largest error is 1 of it");
  expect(run(codec, {make_kernel<tests::decode>()}, "decode"), Status::ok, "", 0);
  expect(run(codec, {make_kernel<decode_wrongly>()}, "decode"), Status::incorrect, "the decoded matrix differs", 3);
  expect(run(codec, {make_kernel<multiply>()}, "matvec"), Status::refused, "a lossy codec does not keep", 6);
  codec.error_bound = within_a_tenth;
  expect(run(codec, {}, "size"), Status::incorrect, "more than 0.1 beside it", 3);
  codec.error_bound = no_error;
  expect(run(codec, {}, "size"), Status::incorrect, "the reference decode differs", 3);
  codec.error_bound = nullptr;  // lossy without a bound: all elements must agree
  expect(run(codec, {}, "size"), Status::incorrect, "the reference decode differs", 3);
}

TEST_CASE("a codec that throws is an error with its own words") {
  codecs::Codec encoder = make_codec(), decoder = make_codec();
  encoder.encode = throw_on_encode;
  decoder.decode = throw_on_decode;
  expect(run(encoder, {}, "decode"), Status::error, "The encoder gave up.", 5);
  expect(run(decoder, {}, "decode"), Status::error, "The decoder gave up.", 5);
}

TEST_CASE("a codec or kernel that refuses is refused with the reason, and nothing else ran") {
  codecs::Codec codec = make_codec();
  codec.refuses = rejects;
  expect(run(codec, {}, "decode"), Status::refused, "This codec refuses every matrix.", 6);
  backends::Kernel kernel = make_kernel<multiply>();
  kernel.refuses = kernel_rejects;
  expect(run(make_codec(), {kernel}, "matvec"), Status::refused, "This kernel refuses every matrix.", 6);
}

TEST_CASE("a kernel that writes out of bounds breaks a guard") {
#if defined(__SANITIZE_ADDRESS__)
  SKIP("the address sanitizer ends the process at the write itself");
#endif
  const Outcome decoded = run(make_codec(), {make_kernel<decode_beyond_the_end>()}, "decode");
  expect(decoded, Status::incorrect, "outside", 3);
  CHECK(decoded.records[0].check.guards != "intact");
  const Outcome product = run(make_codec(), {make_kernel<multiply_beyond_the_end>()}, "matvec");
  expect(product, Status::incorrect, "outside the accumulators", 3);
  CHECK(product.records[0].check.guards != "intact");
  expect(run(make_codec(), {make_kernel<scribble_on_x>()}, "matvec"), Status::incorrect, "vector", 3);
}

TEST_CASE("a kernel that leaves an element unwritten is incorrect") {
  expect(run(make_codec(), {make_kernel<decode_all_but_one>()}, "decode"), Status::incorrect,
         "differs at row 32, column 32", 3);
  expect(run(make_codec(), {make_kernel<multiply_all_but_one>()}, "matvec"), Status::incorrect, "W x differs at row 0",
         3);
}

TEST_CASE("a kernel that computes wrongly is incorrect, timed or not") {
  for (const bool time : {true, false}) {
    expect(run(make_codec(), {make_kernel<multiply_wrongly>()}, "matvec", time), Status::incorrect,
           "layer 0: W x differs at row 0", 3);
    expect(run(make_codec(), {make_kernel<decode_wrongly>()}, "decode", time), Status::incorrect,
           "the decoded matrix differs at row 0, column 0", 3);
  }
}

TEST_CASE("a kernel that is right at first and wrong or idle later is incorrect") {
  for (const backends::Kernel& kernel : {make_kernel<multiply_wrongly_later>(), make_kernel<multiply_lazily_later>()})
    for (const char* verify : {"once", "each"}) {
      calls_made = 0;
      right_calls = 4;  // 3 layers of tier 2a and the first of the estimate
      const Outcome outcome = run(make_codec(), {kernel}, "matvec", true, verify);
      expect(outcome, Status::incorrect, "W x differs at row 0", 3);
      CHECK(calls_made > right_calls);
    }
}

TEST_CASE("a codec whose decoder throws only while it is measured is an error") {
  codecs::Codec codec = make_codec();
  calls_made = 0;
  right_calls = 9;  // tier 1 and 2a and the estimate, 3 layers each
  codec.decode = throw_later;
  const Outcome outcome = run(codec, {}, "decode");
  expect(outcome, Status::error, "too often", 5);
}

TEST_CASE("damaged streams are counted, and other exceptions than MalformedStream are found") {
  const datasets::Matrix matrix = gaussian_matrix({16, 16}, 4);
  const auto never = [] { return false; };
  codecs::Codec right = make_codec(), wrong = make_codec();
  wrong.decode = throw_something_else;
  const codecs::CodecEntry good{"good", &right, {}, {}}, bad{"bad", &wrong, {}, {}};
  const experiments::CorruptionResult fine = experiments::decode_damaged_streams(good, matrix, {}, 10, never);
  CHECK(fine.fine());
  CHECK(fine.threw == 8);      // 6 cuts, one longer, one missing
  CHECK(fine.returned == 10);  // flipped bytes are other elements
  const experiments::CorruptionResult found = experiments::decode_damaged_streams(bad, matrix, {}, 10, never);
  CHECK_FALSE(found.fine());
  CHECK(found.other == 18);
  CHECK_THAT(found.first_other, ContainsSubstring("range_check"));
}

// Claims about the sentence at the top of a report: it names a winner only if that is decided.
#include "reports/tables/answer.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

// Ten samples around `seconds` for a million elements in `bits` bits.
CaseRecord timed(const std::string& codec, double seconds, double bits, double spread = 0.001) {
  CaseRecord r;
  r.status = Status::ok;
  r.case_key = codec;
  r.run = "r";
  r.data.source = "gaussian";
  r.data.rows = r.data.cols = 1000;
  r.data.type = "i8";
  r.data.sigma = 4;
  r.codec.id = codec;
  r.size.stored_bytes = r.size.payload_bytes = static_cast<std::int64_t>(bits * 125000);
  r.size.bits_per_element = bits;
  r.size.entropy_bits_per_element = 4;
  r.kernel.backend = "simd";
  r.kernel.op = "matvec";
  r.kernel.threads = 2;
  r.kernel.device = "Test CPU";
  for (int i = 0; i < 10; ++i) r.time.samples_s.push_back(seconds * (1 + spread * (i - 4.5)));
  r.time.median_s = seconds;
  r.time.p10_s = r.time.samples_s.front(), r.time.p90_s = r.time.samples_s.back();
  r.time.elements = 1'000'000;
  r.time.cache = "streamed";
  return r;
}

Answer answer_of(std::vector<CaseRecord> cases, const std::string& baseline = "plain") {
  static RecordSet records;  // the answer points into it
  records = {};
  records.cases = std::move(cases);
  return answer(records, Contexts(records, baseline));
}

}  // namespace

TEST_CASE("the answer names winner, ratio, interval, bits, entropy, device and data") {
  const Answer found = answer_of({timed("plain", 2e-3, 8), timed("fast", 1e-3, 5), timed("slow", 4e-3, 4.2)});
  CHECK(found.sentence ==
        "On Test CPU, 2 threads, **fast** beats **plain**: **2.00 times** its speed (95 % interval 1.99 to 2.01) with "
        "5.000 stored bits an element, 25.0 % above the entropy of 4.000, in matvec of gaussian σ=4, 1000 × 1000, "
        "streamed.");
  REQUIRE(found.subject != nullptr);
  CHECK(found.subject->codec.id == "fast");
  CHECK(found.more.empty());
}

TEST_CASE("of several that beat the baseline the answer also names the smallest") {
  const Answer found = answer_of({timed("plain", 2e-3, 8), timed("fast", 1e-3, 5), timed("small", 1.5e-3, 4.2)});
  CHECK_THAT(found.sentence, ContainsSubstring("**fast** beats"));
  CHECK_THAT(found.more, ContainsSubstring("small stores the fewest bits: 1.33 times its speed") &&
                             ContainsSubstring("5.0 % above the entropy"));
}

TEST_CASE("where nothing beats the baseline the answer says so") {
  const Answer slower = answer_of({timed("plain", 1e-3, 8), timed("coder", 2e-3, 5)});
  CHECK_THAT(slower.sentence, ContainsSubstring("nothing beats **plain**: the fastest other codec, **coder**, runs at "
                                                "**0.50 times** its speed"));
  const Answer level = answer_of({timed("plain", 1e-3, 8), timed("coder", 1.001e-3, 5)});
  CHECK_THAT(level.sentence, ContainsSubstring("nothing beats **plain**") && ContainsSubstring("ties at"));
}

TEST_CASE("an undecided comparison has no winner") {
  const Answer wide = answer_of({timed("plain", 1e-3, 8, 0.05), timed("coder", 0.97e-3, 5, 0.05)});
  CHECK_THAT(wide.sentence, ContainsSubstring("undecided") && !ContainsSubstring("beats"));
  std::vector<CaseRecord> cases = {timed("plain", 2e-3, 8), timed("coder", 1e-3, 5)};
  cases[1].host.other_cores = 2;
  const Answer disturbed = answer_of(cases);
  CHECK_THAT(disturbed.sentence,
             ContainsSubstring("undecided because other programs were in the way") && !ContainsSubstring("beats"));
  for (CaseRecord& r : cases) r.time.samples_s.resize(2), r.host.other_cores = 0;
  CHECK_THAT(answer_of(cases).sentence,
             ContainsSubstring("undecided") && ContainsSubstring("too few samples for an interval"));
}

TEST_CASE("without a baseline, a time or a result the answer claims no more than there is") {
  CHECK_THAT(answer_of({timed("coder", 1e-3, 5)}).sentence,
             ContainsSubstring("is the fastest: 1.00 G elements/s") && ContainsSubstring("no uncompressed codec"));
  CHECK_THAT(answer_of({timed("plain", 1e-3, 8)}).sentence, ContainsSubstring("only the uncompressed **plain**"));
  CaseRecord size = timed("coder", 1e-3, 5);
  size.kernel = {};
  size.kernel.op = "size";
  size.time = {};
  CHECK_THAT(answer_of({size}).sentence,
             ContainsSubstring("**coder** stores the fewest bits") && ContainsSubstring("nothing was timed"));
  CaseRecord failed = timed("coder", 1e-3, 5);
  failed.status = Status::incorrect;
  const Answer none = answer_of({failed});
  CHECK_THAT(none.sentence, ContainsSubstring("Nothing was verified"));
  CHECK(none.subject == nullptr);
}

TEST_CASE("the answer is about the largest streamed product, and counts the others") {
  std::vector<CaseRecord> cases = {timed("plain", 2e-3, 8), timed("coder", 1e-3, 5)};
  for (std::size_t i = 0; i < 2; ++i) {
    CaseRecord large = cases[i], resident = cases[i], decode = cases[i];
    large.data.rows = large.data.cols = 2000;
    large.time.elements = 4'000'000;
    if (i == 1)
      for (double& sample : large.time.samples_s) sample *= 4;
    if (i == 1) large.time.median_s *= 4;
    resident.time.cache = "resident";
    resident.data.rows = resident.data.cols = 4000;
    resident.time.elements = 16'000'000;
    decode.kernel.op = "decode";
    cases.insert(cases.end(), {large, resident, decode});
  }
  const Answer found = answer_of(cases);
  CHECK_THAT(found.sentence, ContainsSubstring("2000 × 2000, streamed") && ContainsSubstring("nothing beats"));
  CHECK_THAT(found.more,
             ContainsSubstring("The fastest codec beats the uncompressed one in 3 of 4 combinations of data, "
                               "batch and device, is slower in 1."));
}

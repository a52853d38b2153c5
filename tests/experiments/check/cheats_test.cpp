// Claims about kernels that are right when they are checked and wrong when they are timed. Nobody cheats on purpose,
// but a stale cache, a race and a forgotten layer look exactly like this. None of them may print a number.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "datasets/files/safetensors.h"
#include "experiments/config/experiment.h"
#include "experiments/run/measure.h"
#include "experiments/run/run.h"
#include "tests/datasets/temporary_file.h"
#include "tests/experiments/check/measured.h"
#include "tests/experiments/test_codecs.h"

using namespace ecmv;
using namespace ecmv::experiments;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using reports::Status;

namespace {

bool first_rows(const backends::Rows& rows) { return rows.begin == 0; }

void decode_only_the_last_layer(const Stored& stored, const DecodeArgs& args) {
  if (memory.timed() && stored.elements != memory.last_matrix) return;
  memory.last_matrix = stored.elements;
  decode(stored, args);
}
void decode_every_other_time(const Stored& stored, const DecodeArgs& args) {
  if (!memory.timed() || memory.calls % 2 == 0) decode(stored, args);
}
void decode_wrongly_now_and_then(const Stored& stored, const DecodeArgs& args) {
  decode(stored, args);
  if (memory.timed() && memory.calls % 997 == 0) args.out[0] ^= std::byte{4};
}
void multiply_wrongly_now_and_then(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  if (first_rows(args.rows) && memory.timed() && memory.calls % 997 == 0) args.y[0] += 1000;
}
// The same where the machine held up the pass by which the number of passes is chosen, one time.
bool held_up = false;
void multiply_wrongly_on_a_busy_machine(const Stored& stored, const MatvecArgs& args) {
  multiply_wrongly_now_and_then(stored, args);
  if (memory.calls == kCallsBefore && !std::exchange(held_up, true))
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}
void multiply_unless_y_is_right(const Stored& stored, const MatvecArgs& args) {
  std::vector<int32_t>& known = memory.results[stored.elements];
  if (!known.empty() && std::equal(known.begin(), known.end(), args.y)) return;
  ++memory.calls;
  multiply(stored, args);
  known.assign(args.y, args.y + stored.shape.rows);
}
void multiply_once(const Stored& stored, const MatvecArgs& args) {
  std::vector<int32_t>& known = memory.results[stored.elements];
  if (known.empty()) {
    multiply(stored, args);
    known.assign(args.y, args.y + stored.shape.rows);
  }
  std::copy(known.begin(), known.end(), args.y);
}
// Keeps a result in the stream, over an element of the row that gave it.
void multiply_and_keep_it_in_the_stream(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  if (memory.timed()) const_cast<int8_t*>(stored.elements)[1] = static_cast<int8_t>(args.y[0] | 1);
}
// Counts the inputs of the first layer that it sees.
void note_input(const Stored& stored, const void* x, size_t bytes) {
  if (memory.last_matrix == nullptr) memory.last_matrix = stored.elements;
  if (memory.last_matrix == stored.elements) memory.inputs.emplace(static_cast<const char*>(x), bytes);
}
void multiply_and_count(const Stored& stored, const MatvecArgs& args) {
  note_input(stored, args.x, static_cast<size_t>(stored.shape.cols));
  multiply(stored, args);
}
void multiply_tokens_and_count(const Stored& stored, const MatmulArgs& args, int batch) {
  note_input(stored, args.x, static_cast<size_t>(stored.shape.cols) * sizeof(float));
  multiply_tokens(stored, args, batch);
}
// Requantises ties away from zero.
void multiply_and_round_ties_away(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  for (int64_t row = args.rows.begin; row < args.rows.end; ++row)
    args.v[row] =
        static_cast<int8_t>(std::clamp(std::round(static_cast<float>(args.y[row]) * args.scale), -128.f, 127.f));
}
// Rounds a product of more digits than float32 has.
void multiply_and_round_once(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  for (int64_t row = args.rows.begin; row < args.rows.end; ++row)
    args.v[row] =
        static_cast<int8_t>(std::clamp(std::nearbyint(args.y[row] * static_cast<double>(args.scale)), -128., 127.));
}
void multiply_but_the_last_odd_column(const Stored& stored, const MatvecArgs& args) {
  std::vector<int8_t> x(args.x, args.x + stored.shape.cols);
  if (stored.shape.cols % 2 != 0) x.back() = 0;
  MatvecArgs with = args;
  with.x = x.data();
  multiply(stored, with);
}
void multiply_and_wrap(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  for (int64_t row = args.rows.begin; row < args.rows.end; ++row)
    args.v[row] = static_cast<int8_t>(static_cast<int>(std::nearbyint(static_cast<float>(args.y[row]) * args.scale)));
}
template <auto kRun>
backends::BoundKernel bind_requantising(const backends::Policy& policy, backends::Layers layers, int batch,
                                        backends::Place& place) {
  backends::BoundKernel bound = bind<kRun>(policy, layers, batch, place);
  bound.facts.requantises = true;
  return bound;
}
// Leaves out the last of an odd number of columns where random data may not show it.
void multiply_pairs_of_columns(const Stored& stored, const MatvecArgs& args) {
  for (int64_t row = args.rows.begin; row < args.rows.end; ++row) {
    int32_t sum = 0;
    for (int64_t c = 0; c + 1 < stored.shape.cols; c += 2)
      sum += std::clamp(stored.row(row)[c] * args.x[c] + stored.row(row)[c + 1] * args.x[c + 1], -32768, 32767);
    if (stored.shape.cols % 2 != 0) sum += stored.row(row)[stored.shape.cols - 1] * args.x[stored.shape.cols - 1];
    args.y[row] = sum;
  }
}
// Takes -128 for -127, as a product of saturating pairs may.
void multiply_without_the_least(const Stored& stored, const MatvecArgs& args) {
  std::vector<int8_t> x(args.x, args.x + stored.shape.cols);
  for (int8_t& number : x) number = std::max<int8_t>(number, -127);
  MatvecArgs with = args;
  with.x = x.data();
  multiply(stored, with);
}
void multiply_tokens_once(const Stored& stored, const MatmulArgs& args, int batch) {
  static std::map<const int8_t*, std::vector<float>> results;
  if (memory.calls == 0) results.clear();
  memory.calls++;
  std::vector<float>& known = results[stored.elements];
  const auto count = static_cast<std::ptrdiff_t>(batch * args.y_stride);
  if (known.empty()) {
    multiply_tokens(stored, args, batch);
    known.assign(args.y, args.y + count);
  }
  std::copy(known.begin(), known.end(), args.y);
}
// AddressSanitizer would end the test for this.
#if defined(__GNUC__)
__attribute__((no_sanitize("address")))
#endif
void set_to_zero(volatile std::byte* bytes, int count) {
  for (int i = 0; i < count; ++i) bytes[i] = std::byte{0};
}
void decode_a_thousand_bytes_more(const Stored& stored, const DecodeArgs& args) {
  decode(stored, args);
  if (args.rows.end == stored.shape.rows) set_to_zero(args.out + args.rows.count() * stored.shape.cols + 300, 1000);
}

void multiply_and_write_to_the_stream(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  if (first_rows(args.rows)) const_cast<int8_t*>(stored.elements)[5] ^= 1;
}
backends::CompressedMatrix store_and_clear(datasets::MatrixView matrix, const backends::Settings& settings) {
  std::memset(const_cast<std::byte*>(matrix.elements.data()), 0, matrix.elements.size());
  return store(matrix, settings);
}
double clear_and_estimate(datasets::MatrixView matrix, const backends::Settings&) {
  const_cast<std::byte*>(matrix.elements.data())[0] ^= std::byte{1};
  return 8;
}

// Every case of several codecs with kernels.
std::vector<reports::CaseRecord> all_measured(const std::vector<codecs::CodecEntry>& codecs, const std::string& op) {
  static const auto unknown_flags = initialise_timing({});
  memory = {};
  std::string ids;
  for (const codecs::CodecEntry& codec : codecs) ids += (ids.empty() ? "" : ", ") + std::string(codec.id);
  const Experiment experiment = parse_experiment(
      "schema: 1\nname: cheats\nmeasure: {repetitions: 5, min_time: 0.002, max_seconds: 5}\nexperiments:\n  - data: "
      "{source: gaussian, sigma: 4, d: 64, layers: 2}\n    codecs: [" +
          ids + "]\n    kernels: {backend: scalar, threads: 1, op: " + op + "}\n",
      "cheats", {}, codecs);
  std::vector<reports::CaseRecord> found;
  RunOptions options;
  options.codecs = codecs;
  options.on_case = [&](const reports::CaseRecord& record) { found.push_back(record); };
  run_experiment(experiment, options);
  return found;
}

// Copies of what was stored: made by bind, or at the first call.
std::map<const int8_t*, std::vector<int8_t>> kept;
Stored copy_of(const Stored& stored) {
  std::vector<int8_t>& copy = kept[stored.elements];
  if (copy.empty()) copy.assign(stored.elements, stored.elements + stored.shape.elements());
  return {copy.data(), stored.shape};
}
void decode_a_copy(const Stored& stored, const DecodeArgs& args) { decode(copy_of(stored), args); }
void multiply_a_copy(const Stored& stored, const MatvecArgs& args) { multiply(copy_of(stored), args); }
void multiply_tokens_by_a_copy(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(copy_of(stored), args, batch);
}
void multiply_most_of_a_copy(const Stored& stored, const MatvecArgs& args) {
  multiply(copy_of(stored), args);
  MatvecArgs one = args;
  one.rows.end = std::min(args.rows.end, args.rows.begin + 1);
  multiply(stored, one);
}
// Decodes the first 64 of each 4,096 bytes of the last layer, once the whole was there.
void decode_the_usual_marks(const Stored& stored, const DecodeArgs& args) {
  if (!memory.timed()) return decode(stored, args);
  if (memory.calls % 50 == 0) return decode(stored, args);
  for (int64_t at = 0; at < args.rows.count() * stored.shape.cols; at += 4096)
    std::memcpy(args.out + at, stored.elements + at, 64);
}
// Keeps results in the scratch from one pass to the next.
void multiply_from_scratch(const Stored& stored, const MatvecArgs& args) {
  int64_t* const head = reinterpret_cast<int64_t*>(args.scratch);
  int8_t* const copy = reinterpret_cast<int8_t*>(args.scratch) + 64;
  if (*head == 0x5EED) {
    ++memory.calls;
    return multiply({copy, stored.shape}, args);
  }
  std::memcpy(copy, stored.elements, static_cast<size_t>(stored.shape.elements()));
  *head = 0x5EED;
  multiply(stored, args);
}
backends::BoundKernel bind_with_scratch(const backends::Policy& policy, backends::Layers layers, int batch,
                                        backends::Place& place) {
  backends::BoundKernel bound = bind<multiply_from_scratch>(policy, layers, batch, place);
  bound.facts.scratch_bytes = 64 + layers[0].matrix->shape.elements();
  return bound;
}
// A thread works, too, as long as nobody stops it.
std::atomic<bool> helps = false;
void multiply_with_help(const Stored& stored, const MatvecArgs& args) {
  if (memory.timed() && !helps.exchange(true))
    std::thread([] {
      while (helps) continue;
    }).detach();
  multiply(stored, args);
}
void multiply_and_round_upward(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  std::fesetround(FE_UPWARD);
}

}  // namespace

TEST_CASE("honest kernels are measured by the same checks") {
  CHECK(measured(make_kernel<decode>()).status == Status::ok);
  CHECK(measured(make_kernel<multiply>()).status == Status::ok);
  CHECK(measured(make_kernel<multiply_tokens>()).status == Status::ok);
}

TEST_CASE("a layer that is no longer decoded once it is timed is found out") {
  expect_caught(make_kernel<decode_only_the_last_layer>("only the last layer"), "the decoded matrix");
}

TEST_CASE("calls that do nothing, or something wrong now and then, are found out") {
  expect_caught(make_kernel<decode_every_other_time>("every other time"), "the decoded matrix");
  expect_caught(make_kernel<decode_wrongly_now_and_then>("1 of 997 decodes"), "the decoded matrix");
  expect_caught(make_kernel<multiply_wrongly_now_and_then>("1 of 997 products"), "differs");
  expect_caught(make_kernel<multiply_wrongly_on_a_busy_machine>("1 of 997, held up"), "differs");
}

TEST_CASE("results of earlier passes do not pass for new ones") {
  expect_caught(make_kernel<multiply_once>("cached"), "");
  expect_caught(make_kernel<multiply_tokens_once>("cached, tokens"), "");
  expect_caught(make_kernel<multiply_and_keep_it_in_the_stream>("cached in the stream"), "");
}

TEST_CASE("a codec that changes what it encodes is an error, and others encode the matrix as it was") {
  codecs::Codec clearing = make_codec(), honest = make_codec(), later = make_codec();
  clearing.encode = store_and_clear;
  later.ideal_bits_per_element = clear_and_estimate;
  const std::vector<backends::Kernel> kernels = {make_kernel<decode>()};
  const auto records = all_measured(
      {{"clearing", &clearing, kernels, {}}, {"later", &later, kernels, {}}, {"honest", &honest, kernels, {}}},
      "decode");
  REQUIRE(records.size() == 3);
  for (const reports::CaseRecord& record : records) {
    INFO(record.codec.id << ": " << record.reason);
    CHECK(record.status == (record.codec.id == "honest" ? Status::ok : Status::error));
    if (record.codec.id == "clearing")
      CHECK_THAT(record.reason, ContainsSubstring("The codec 'clearing' changed the matrix that it was to encode."));
    if (record.codec.id == "later")
      CHECK_THAT(record.reason, ContainsSubstring("the codec 'later' changed the matrix that it was asked about"));
  }
}

#if !defined(__SANITIZE_ADDRESS__)  // which leaves sections writable; the hash of the sections finds it there
TEST_CASE("a kernel that writes to its stream is incorrect, and the codec's other kernels are not") {
  const codecs::Codec codec = make_codec();
  const std::vector<backends::Kernel> kernels = {
      make_kernel<multiply>("before"), make_kernel<multiply_and_write_to_the_stream>("writes"),
      make_kernel<multiply_and_keep_it_in_the_stream>("writes later"), make_kernel<multiply>("after")};
  const auto records = all_measured({{"test", &codec, kernels, {}}}, "matvec");
  REQUIRE(records.size() == 4);
  for (const reports::CaseRecord& record : records) {
    INFO(record.kernel.variant << ": " << record.reason);
    const bool writes = record.kernel.variant.starts_with("writes");
    CHECK(record.status == (writes ? Status::incorrect : Status::ok));
    if (record.kernel.variant == "writes")
      CHECK_THAT(record.reason, ContainsSubstring("The kernel wrote to the section 'elements'."));
  }
}
#endif

TEST_CASE("a kernel that keeps a decoded copy is found out, whenever it made it") {
  for (const auto& kernel :
       {make_kernel<decode_a_copy>("decode"), make_kernel<multiply_a_copy>("matvec"),
        make_kernel<multiply_tokens_by_a_copy>("matmul"), make_kernel<multiply_most_of_a_copy>("most of it")}) {
    kept.clear();
    expect_caught(kernel, "does not read what was stored, but keeps a copy");
  }
}

TEST_CASE("a chain that ends in zeros is nobody's cheat, whichever of its layers is asked") {
  std::mt19937 random(1);
  std::vector<std::vector<std::byte>> layers(20, std::vector<std::byte>(16 * 16));  // the first stays zeros
  for (auto layer = layers.begin() + 1; layer != layers.end(); ++layer)
    for (std::byte& element : *layer) element = static_cast<std::byte>(random() % 9 - 4);
  std::vector<datasets::TensorView> tensors;
  for (size_t at = 0; at < layers.size(); ++at)
    tensors.push_back({std::to_string(100 + at), "I8", {16, 16}, layers[at]});
  const TemporaryFile file(datasets::write_safetensors(tensors));
  for (int attempt = 0; attempt < 5; ++attempt) {
    const reports::CaseRecord record =
        measured(make_kernel<multiply>(), make_codec(), "{source: safetensors, file: " + file.path() + "}");
    INFO(record.reason);
    CHECK(record.data.layers == 20);
    CHECK(record.status == Status::ok);
  }
}

TEST_CASE("every sample has inputs that no kernel has seen") {
  for (const auto& kernel : {make_kernel<multiply_and_count>(), make_kernel<multiply_tokens_and_count>()}) {
    const reports::CaseRecord record = measured(kernel);
    CHECK(record.status == Status::ok);
    CHECK(memory.inputs.size() > record.time.samples_s.size());  // and that of the check before
  }
  expect_caught(make_kernel<multiply_without_the_least>("-127"), "W x differs");
}

TEST_CASE("ties, saturation and extremes are tried before anything is timed") {
  backends::Kernel ties = make_kernel<multiply_and_round_ties_away>("ties"),
                   wrap = make_kernel<multiply_and_wrap>("wrap"), once = make_kernel<multiply_and_round_once>("once");
  ties.bind = bind_requantising<multiply_and_round_ties_away>;
  wrap.bind = bind_requantising<multiply_and_wrap>;
  once.bind = bind_requantising<multiply_and_round_once>;
  for (const backends::Kernel& kernel : {ties, wrap, once, make_kernel<multiply_without_the_least>(),
                                         make_kernel<multiply_but_the_last_odd_column>("odd")}) {
    INFO(kernel.variant);
    const reports::CaseRecord record =
        measured(kernel, make_codec(), "{source: gaussian, sigma: 4, shapes: [[301, 33]], layers: 2}");
    CHECK(record.status == Status::incorrect);
    const bool natural = kernel.variant == "once" || kernel.variant == "odd";  // other inputs may show it, too
    if (!natural) CHECK_THAT(record.reason, ContainsSubstring("extreme inputs, layer"));
  }
  CHECK(measured(make_kernel<multiply_pairs_of_columns>(), make_codec(),
                 "{source: uniform, shapes: [[99, 33]], layers: 2, low: -128, high: -127}")
            .status == Status::incorrect);
}

TEST_CASE("what a kernel leaves in the scratch is gone in the next pass") {
  backends::Kernel kernel = make_kernel<multiply_from_scratch>();
  kernel.bind = bind_with_scratch;
  const reports::CaseRecord record = measured(kernel, make_codec(), "{source: gaussian, sigma: 4, d: 64, layers: 1}");
  CHECK(record.status == Status::ok);
  // Warm-up passes and those between samples, which are not timed.
  CHECK(memory.calls < record.time.iterations_per_sample * static_cast<int64_t>(record.time.samples_s.size()) / 4);
}

TEST_CASE("a second thread that works beside the one that is counted is found out") {
  const std::string data = "{source: gaussian, sigma: 4, d: 64, layers: 5}";
  CHECK(measured(make_kernel<multiply>(), make_codec(), data, "each", "0.06").status == Status::ok);
  // Beside other programs the thread may get no core for the time of a case.
  reports::CaseRecord record;
  for (int attempt = 0; attempt < 5 && record.status != Status::incorrect; ++attempt) {
    record = measured(make_kernel<multiply_with_help>(), make_codec(), data, "each", "0.06");
    helps = false;
  }
  CHECK(record.status == Status::incorrect);
  CHECK_THAT(record.reason, ContainsSubstring("other threads than the case's 1 worked for"));
}

TEST_CASE("decoding the marked bytes alone is found out") {
  expect_caught(make_kernel<decode_the_usual_marks>("marks"), "the decoded matrix");
}

TEST_CASE("a rounding mode that a kernel leaves behind changes nothing for other kernels") {
  const codecs::Codec codec = make_codec();
  const std::vector<backends::Kernel> kernels = {make_kernel<multiply_and_round_upward>("upward"),
                                                 make_kernel<multiply_tokens>("after")};
  const auto records = all_measured({{"test", &codec, kernels, {}}}, "matmul");
  REQUIRE(records.size() == 2);
  for (const reports::CaseRecord& record : records) CHECK(record.status == Status::ok);
  CHECK(std::fegetround() == FE_TONEAREST);
}

TEST_CASE("a kernel that returns where y already holds its results computes in every timed pass") {
  const reports::CaseRecord record = measured(make_kernel<multiply_unless_y_is_right>());
  CHECK(record.status == Status::ok);
  CHECK(memory.calls >=
        kLayers * record.time.iterations_per_sample * static_cast<int64_t>(record.time.samples_s.size()));
}

TEST_CASE("writing far past the end is found out") {
  expect_caught(make_kernel<decode_a_thousand_bytes_more>("a thousand bytes more"), "outside the decoded matrix");
}

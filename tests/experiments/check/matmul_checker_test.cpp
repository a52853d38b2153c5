// The check of float products must catch kernels that get one result wrong, skip one, write beyond the end or scribble
// on the tokens. Also lossy codecs, elements without products, and batches of several sizes.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "experiments/check/products.h"
#include "experiments/config/experiment.h"
#include "experiments/run/run.h"
#include "tests/experiments/test_codecs.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using reports::Status;

namespace {

// Each kernel makes one mistake.
void tokens_wrongly(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  if (args.rows.begin == 0) args.y[(batch - 1) * args.y_stride + 2] += 1;
}
void tokens_all_but_one(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch - 1);
}
void tokens_beyond_the_end(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  if (args.rows.end == stored.shape.rows) args.y[batch * args.y_stride] = 1;
}
void scribble_on_tokens(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  const_cast<float*>(args.x)[0] = 0.5f;
}
void scribble_past_tokens(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  const_cast<float*>(args.x)[args.x_stride - 1] = 0.5f;
}
void tokens_wrongly_later(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  if (args.rows.begin == 0 && ++calls_made > right_calls) args.y[0] += 1;
}
void tokens_rounded(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  for (int64_t i = 0; i < batch * args.y_stride; ++i) args.y[i] *= 1.0001f;
}
void one_weight_wrongly(const Stored& stored, const MatmulArgs& args, int batch) {  // by 1, in row 2
  multiply_tokens(stored, args, batch);
  for (int token = 0; token < batch && args.rows.begin == 0; ++token)
    args.y[token * args.y_stride + 2] += args.x[token * args.x_stride + 77];
}
backends::BoundKernel bind_rounding_much(const backends::Policy& policy, backends::Layers layers, int batch,
                                         backends::Place& place) {
  backends::BoundKernel bound = bind<tokens_rounded>(policy, layers, batch, place);
  bound.facts.rounding.narrowing = 1e-4;
  return bound;
}

void no_tokens(const Stored& stored, const MatmulArgs& args, int batch) {
  for (int token = 0; token < batch; ++token)
    std::fill(args.y + token * args.y_stride + args.rows.begin, args.y + token * args.y_stride + args.rows.end, 0.0f);
  (void)stored;
}
void tokens_of_half_the_columns(const Stored& stored, const MatmulArgs& args, int batch) {
  for (int64_t row = args.rows.begin; row < args.rows.end; ++row)
    for (int token = 0; token < batch; ++token) {
      float sum = 0;
      for (int64_t c = 0; c < stored.shape.cols; c += 2)
        sum += static_cast<float>(stored.row(row)[c]) * args.x[token * args.x_stride + c];
      args.y[token * args.y_stride + row] = sum;
    }
}
// Rounds the tokens to 11 bits, and says nothing of it.
void short_tokens(const Stored& stored, const MatmulArgs& args, int batch) {
  std::vector<float> rounded(args.x, args.x + batch * args.x_stride);
  for (float& x : rounded) {
    int exponent = 0;
    const float mantissa = std::frexp(x, &exponent);
    x = std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
  }
  MatmulArgs with = args;
  with.x = rounded.data();
  multiply_tokens(stored, with, batch);
}
backends::ProductRounding stated;
template <auto kRun>
backends::BoundKernel bind_as_stated(const backends::Policy& policy, backends::Layers layers, int batch,
                                     backends::Place& place) {
  backends::BoundKernel bound = bind<kRun>(policy, layers, batch, place);
  bound.facts.rounding = stated;
  return bound;
}
template <auto kRun>
backends::Kernel kernel_that_states(const backends::ProductRounding& rounding) {
  stated = rounding;
  backends::Kernel kernel = make_kernel<kRun>();
  kernel.bind = bind_as_stated<kRun>;
  return kernel;
}

const std::string kInt8 = "{source: gaussian, sigma: 4, d: 33, layers: 3}";
const std::string kFloats = "{source: llm_like, d: 32, layers: 2}";

struct Outcome {
  std::vector<reports::CaseRecord> records;
  experiments::RunSummary summary;
};

Outcome run(const codecs::Codec& codec, const std::vector<backends::Kernel>& kernels, const std::string& data = kInt8,
            const std::string& batches = "5") {
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, kernels, {}}};
  const std::string config =
      "schema: 1\nname: checker\nmeasure: {repetitions: 2, min_time: 0.0001}\nexperiments:\n  - data: " + data +
      "\n    codecs: test\n    kernels: {backend: scalar, threads: 1, op: matmul, batch: " + batches + "}\n";
  const experiments::Experiment experiment = experiments::parse_experiment(config, "checker", {}, codecs);
  Outcome outcome;
  experiments::RunOptions options;
  options.codecs = codecs;
  options.on_case = [&](const reports::CaseRecord& record) { outcome.records.push_back(record); };
  outcome.summary = experiments::run_experiment(experiment, options);
  REQUIRE(!outcome.records.empty());
  return outcome;
}

void expect(const Outcome& outcome, Status status, const std::string& reason) {
  for (const reports::CaseRecord& record : outcome.records) {
    CHECK(record.status == status);
    CHECK_THAT(record.reason, ContainsSubstring(reason));
    if (status != Status::ok) CHECK(record.time.samples_s.empty());  // an unverified number is not kept
  }
}

}  // namespace

TEST_CASE("right float products of every batch are ok, timed and say how much of the bound they used") {
  const Outcome outcome = run(make_codec(), {make_kernel<multiply_tokens>()}, kInt8, "[1, 5, 64]");
  expect(outcome, Status::ok, "");
  REQUIRE(outcome.records.size() == 3);
  for (const reports::CaseRecord& record : outcome.records) {
    CHECK_THAT(record.check.outputs, StartsWith("within the bound of float32 sums, the largest error is "));
    CHECK(record.check.guards == "intact");
    CHECK(record.time.samples_s.size() == 2);
    CHECK(record.time.elements == 3 * 33 * 33);
    CHECK(record.kernel.op == "matmul");
    CHECK_FALSE(record.kernel.unfused);
  }
  CHECK(outcome.records[0].kernel.batch == 1);
  CHECK(outcome.records[2].kernel.batch == 64);
}

TEST_CASE("float products that break a promise are incorrect, with row, token and bound") {
  expect(run(make_codec(), {make_kernel<tokens_wrongly>()}), Status::incorrect, "layer 0: row 2, token 4 is ");
  expect(run(make_codec(), {make_kernel<tokens_wrongly>()}), Status::incorrect, "further away than the bound");
  expect(run(make_codec(), {make_kernel<tokens_all_but_one>()}), Status::incorrect, "nan instead of");
  expect(run(make_codec(), {make_kernel<scribble_on_tokens>()}), Status::incorrect, "");
  calls_made = 0;
  right_calls = 4;  // tier 2a, with the layer of subnormal tokens
  expect(run(make_codec(), {make_kernel<tokens_wrongly_later>()}), Status::incorrect, "layer 0: row 0, token 0");
#if !defined(__SANITIZE_ADDRESS__)  // which ends the process at the write itself
  expect(run(make_codec(), {make_kernel<tokens_beyond_the_end>()}), Status::incorrect,
         "wrote outside the products of layer 0");
#endif
  expect(run(make_codec(), {make_kernel<scribble_past_tokens>()}), Status::incorrect,
         "wrote to the tokens of layer 0, past them or outside them");
}

TEST_CASE("one wrong weight that hides in the bound of long rows shows with sparse tokens or in all results together") {
  const std::string data = "{source: gaussian, sigma: 4, shapes: [[33, 4096]], layers: 1}";
  for (const char* batch : {"1", "3", "16"}) {
    expect(run(make_codec(), {make_kernel<multiply_tokens>()}, data, batch), Status::ok, "");
    expect(run(make_codec(), {make_kernel<one_weight_wrongly>()}, data, batch), Status::incorrect,
           "together they are off by");
  }
}

TEST_CASE("a kernel is held to the bound that it states, and no other") {
  backends::Kernel kernel = make_kernel<tokens_rounded>();
  expect(run(make_codec(), {kernel}), Status::incorrect, "further away than the bound");
  kernel.bind = bind_rounding_much;
  expect(run(make_codec(), {kernel}), Status::ok, "");
}

TEST_CASE("how far products may be off is not the kernel's word alone") {
  using Rounding = backends::ProductRounding;
  // Beyond what there is a reason for.
  for (const auto& [rounding, reason] : std::initializer_list<std::pair<Rounding, std::string>>{
           {{.narrowing = 1}, "The kernel states a narrowing of 1 of products of i8 elements and f32 tokens"},
           {{.narrowing = 0x1p-7}, "at most 0.00391 is allowed."},
           {{.narrowing = std::nan("")}, "states a narrowing of nan"},
           {{.offset = 1e300}, "The kernel states an offset of 1e+300"},
           {{.offset = -1}, "at most 1.02e+03 is allowed."},
           {{.more_roundings = 8'000'000}, "The kernel states 8000000 more roundings"},
           {{.more_roundings = -5}, "at most 97 are allowed."}})
    expect(run(make_codec(), {kernel_that_states<no_tokens>(rounding)}), Status::refused, reason);
  // Within it, zeros and products of half the columns still do not pass.
  for (const Rounding& rounding : {Rounding{},
                                   {.narrowing = 0x1p-8},
                                   {.more_roundings = 97, .offset = 1024},
                                   {.more_roundings = 9000, .offset = 1024, .unit_cols = 8, .chain_cols = 1 << 20}}) {
    expect(run(make_codec(), {kernel_that_states<no_tokens>(rounding)}), Status::incorrect, "layer 0: ");
    expect(run(make_codec(), {kernel_that_states<tokens_of_half_the_columns>(rounding)}), Status::incorrect,
           "layer 0: ");
  }
  // An honest kernel that states much is right, and its record says what it states.
  const Outcome honest = run(make_codec(), {kernel_that_states<multiply_tokens>({.offset = 4, .narrowing = 0x1p-8})});
  expect(honest, Status::ok, "");
  CHECK_THAT(honest.records[0].check.outputs,
             StartsWith("within the bound of float32 sums that the kernel widens (narrowing 0.00391, offset 4), "));
}

TEST_CASE("tokens that lose bits without a word are found out by the error of all results together") {
  const std::string data = "{source: gaussian, sigma: 4, shapes: [[64, 4096]], layers: 1}";
  expect(run(make_codec(), {make_kernel<short_tokens>()}, data), Status::incorrect,
         "each result keeps its bound, but together they are off by");
  expect(run(make_codec(), {make_kernel<multiply_tokens>()}, data), Status::ok, "");
}

TEST_CASE(
    "unfused float products are made by the reference decoder or a decode kernel, of floats and of lossy codecs too") {
  const Outcome outcome = run(make_codec(), {}, kFloats);
  expect(outcome, Status::ok, "");
  CHECK(outcome.records[0].kernel.variant == "reference");
  CHECK(outcome.records[0].kernel.unfused);
  expect(run(make_codec(), {make_kernel<tests::decode>()}), Status::ok, "");
  expect(run(make_codec(), {make_kernel<decode_all_but_one>()}), Status::incorrect, "layer 0: row 32, token 0");
  codecs::Codec lossy = make_codec();
  lossy.lossless = false;
  lossy.encode = store_even;
  lossy.error_bound = within_one;
  expect(run(lossy, {make_kernel<multiply_tokens>()}), Status::ok, "");  // compared with the reference decoder's output
  expect(run(lossy, {make_kernel<tokens_wrongly>()}), Status::incorrect, "layer 0: row 2, token 4");
}

TEST_CASE("elements that float32 does not hold have no products") {
  expect(run(make_codec(), {make_kernel<multiply_tokens>()}, "{source: workload, workload: union_find, type: i32}"),
         Status::refused, "float32 holds exactly");
}

TEST_CASE("tokens depend on seed, layer, token and column alone") {
  const std::vector<datasets::Matrix> matrices = {gaussian_matrix({2, 7}, 4), gaussian_matrix({3, 40}, 4)};
  const auto large = experiments::compute_reference_products(matrices, 1, 64),
             small = experiments::compute_reference_products(std::span(matrices).first(1), 1, 3);
  CHECK(small.tokens[0] == large.first_tokens(3)[0]);
  CHECK(experiments::compute_reference_products(matrices, 2, 1).tokens[0] != large.first_tokens(1)[0]);
  CHECK(std::equal(small.layers[0].sums.begin(), small.layers[0].sums.end(), large.layers[0].sums.begin()));
  double sum = 0, squares = 0;
  for (const float x : large.tokens[1]) sum += x, squares += x * x;
  CHECK(std::fabs(sum / 2560) < 0.1);
  CHECK(std::fabs(squares / 2560 - 1) < 0.1);
}

TEST_CASE("references of many tokens are those of the tokens, all of which differ") {
  const std::vector<datasets::Matrix> matrices = {gaussian_matrix({5, 70}, 4)};
  constexpr int kTokens = 200;
  for (const auto activations : {backends::Activations::f32, backends::Activations::bf16}) {
    const auto many = experiments::compute_reference_products(matrices, 1, kTokens, {}, activations);
    const auto few = experiments::compute_reference_products(matrices, 1, 64, {}, activations);
    REQUIRE(many.batch == kTokens);
    REQUIRE(many.tokens[0].size() == size_t{kTokens} * 70);
    CHECK(many.first_tokens(64)[0] == few.tokens[0]);
    const backends::ExactProduct direct = backends::exact_product(matrices[0].view(), many.tokens[0], kTokens),
                                 &exact = many.layers[0];
    CHECK(exact.batch == kTokens);
    CHECK(exact.sums == direct.sums);
    CHECK(exact.magnitudes == direct.magnitudes);
    CHECK(exact.norms == direct.norms);
    CHECK(exact.x_magnitudes == direct.x_magnitudes);
    CHECK(exact.w_magnitudes == direct.w_magnitudes);
    std::set<std::vector<float>> different;
    for (auto token = many.tokens[0].begin(); token != many.tokens[0].end(); token += 70) {
      different.emplace(token, token + 70);
      if (activations == backends::Activations::bf16)
        CHECK(std::all_of(token, token + 70, [](float x) { return experiments::rounded_to_bf16(x) == x; }));
    }
    CHECK(different.size() == kTokens);
  }
}

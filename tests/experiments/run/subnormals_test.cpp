// Claims about kernels that take subnormal numbers as zero: `ecmv verify` finds them in every type of floats, and only
// products whose rounding says so may do it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "datasets/numbers.h"
#include "experiments/config/experiment.h"
#include "experiments/run/run.h"
#include "tests/experiments/test_codecs.h"
#include "tests/run_command.h"

using namespace ecmv;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using reports::Status;

namespace {

// Exponent and fraction of a type's elements.
struct Fields {
  int64_t bytes;
  uint64_t exponent, fraction;
};
Fields fields_of(datasets::ElementType type) {
  using enum datasets::ElementType;
  switch (type) {
    case bf16: return {2, 0x7F80, 0x7F};
    case f16: return {2, 0x7C00, 0x3FF};
    case f32: return {4, 0x7F800000, 0x7FFFFF};
    case f64: return {8, 0x7FF0000000000000, 0xFFFFFFFFFFFFF};
    case f8_e5m2: return {1, 0x7C, 3};
    case f8_e4m3: return {1, 0x78, 7};
    default: return {datasets::element_bytes(type), 0, 0};
  }
}

void flush(std::byte* elements, int64_t count, datasets::ElementType type) {
  const Fields of = fields_of(type);
  for (int64_t i = 0; of.fraction != 0 && i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, elements + i * of.bytes, static_cast<size_t>(of.bytes));
    if ((bits & of.exponent) == 0) bits &= ~of.fraction;
    std::memcpy(elements + i * of.bytes, &bits, static_cast<size_t>(of.bytes));
  }
}

struct Decoding {
  const std::byte* elements;
  datasets::Shape shape;
  datasets::ElementType type;
  bool flushes;
  void operator()(void*, const DecodeArgs& args) const {
    const int64_t row_bytes = shape.cols * datasets::element_bytes(type);
    std::memcpy(args.out, elements + args.rows.begin * row_bytes, static_cast<size_t>(args.rows.count() * row_bytes));
    if (flushes) flush(args.out, args.rows.count() * shape.cols, type);
  }
};

enum class Flushed { nothing, elements, tokens };
struct Multiplying {
  const std::byte* elements;
  datasets::Shape shape;
  datasets::ElementType type;
  int batch;
  Flushed flushed;
  void operator()(void*, const MatmulArgs& args) const {
    const int64_t row_bytes = shape.cols * datasets::element_bytes(type);
    std::vector<double> row(static_cast<size_t>(shape.cols));
    for (int64_t r = args.rows.begin; r < args.rows.end; ++r) {
      std::vector<std::byte> bytes(elements + r * row_bytes, elements + (r + 1) * row_bytes);
      if (flushed == Flushed::elements) flush(bytes.data(), shape.cols, type);
      datasets::read_numbers({{1, shape.cols}, type, bytes}, 0, row);
      for (int token = 0; token < batch; ++token) {
        double sum = 0;
        for (int64_t c = 0; c < shape.cols; ++c) {
          const float x = args.x[token * args.x_stride + c];
          const bool zero = flushed == Flushed::tokens && std::fabs(x) < 0x1p-126f;
          sum += row[static_cast<size_t>(c)] * (zero ? 0 : double{x});
        }
        args.y[token * args.y_stride + r] = static_cast<float>(sum);
      }
    }
  }
};

template <bool kFlushes>
backends::BoundKernel bind_decoding(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  return Decoding{matrix.sections[0].bytes.data(), matrix.shape, matrix.type, kFlushes};
}
template <Flushed kFlushed, bool kSaysSo = false>
backends::BoundKernel bind_multiplying(const backends::Policy&, backends::Layers layers, int batch, backends::Place&) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  return {Multiplying{matrix.sections[0].bytes.data(), matrix.shape, matrix.type, batch, kFlushed},
          {.rounding = {.flushes_subnormals = kSaysSo}}};
}

int64_t wide_bound(datasets::Shape shape, const backends::Settings&) { return 8 * shape.elements(); }

// The records of the config's cases with these kernels, as `ecmv verify` checks them.
std::vector<reports::CaseRecord> verified(const std::string& config, const std::vector<backends::Kernel>& kernels) {
  codecs::Codec codec = make_codec();
  codec.max_stored_bytes = wide_bound;
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, kernels, {}}};
  experiments::Experiment experiment = experiments::parse_experiment(config, "subnormal", {}, codecs);
  experiments::shrink_to_smoke(experiment);
  experiments::filter_cases(experiment, {"backend=scalar"}, {});
  std::vector<reports::CaseRecord> found;
  experiments::RunOptions options;
  options.codecs = codecs;
  options.time = false;
  options.on_case = [&](const reports::CaseRecord& record) { found.push_back(record); };
  experiments::run_experiment(experiment, options);
  return found;
}

// The types of floats for which a variant had this status.
std::set<std::string> types(const std::vector<reports::CaseRecord>& records, const std::string& variant,
                            Status status) {
  std::set<std::string> of;
  for (const reports::CaseRecord& record : records)
    if (record.kernel.variant == variant && record.status == status) of.insert(record.data.type);
  return of;
}

}  // namespace

TEST_CASE("verify finds kernels that take subnormal elements as zero, in every type of floats") {
  const auto records =
      verified(text_of(ECMV_SOURCE_DIR "/experiments/configs/smoke.yaml"),
               {{.op = Op::decode, .variant = "keeps", .bind = bind_decoding<false>},
                {.op = Op::decode, .variant = "flushes", .bind = bind_decoding<true>},
                {.op = Op::matmul, .variant = "multiplies", .bind = bind_multiplying<Flushed::nothing>},
                {.op = Op::matmul, .variant = "flushes elements", .bind = bind_multiplying<Flushed::elements>}});
  const std::set<std::string> floats = {"bf16", "f16", "f32", "f8_e4m3", "f8_e5m2"};
  std::set<std::string> decoded = floats;
  decoded.insert("f64");  // float products take no elements that float32 does not hold
  CHECK(types(records, "flushes", Status::incorrect) == decoded);
  CHECK(types(records, "flushes elements", Status::incorrect) == floats);
  for (const char* honest : {"keeps", "multiplies"}) CHECK(types(records, honest, Status::incorrect).empty());
  CHECK(types(records, "multiplies", Status::ok).size() > floats.size());
}

TEST_CASE("a kernel that takes subnormal tokens as zero is found out, unless its rounding says so") {
  const std::string config =
      "schema: 1\nname: tokens\nexperiments:\n"
      "  - data: {source: llm_like, shapes: [[67, 203], [9, 2050]], layers: 2}\n    codecs: test\n"
      "    kernels: {backend: scalar, op: matmul, batch: [1, 3]}\n"
      "  - data: {source: gaussian, sigma: 4, shapes: [[67, 203]], layers: 1}\n    codecs: test\n"
      "    kernels: {backend: scalar, op: matmul, batch: 3}\n";
  const auto records =
      verified(config, {{.op = Op::matmul, .variant = "keeps", .bind = bind_multiplying<Flushed::nothing>},
                        {.op = Op::matmul, .variant = "flushes", .bind = bind_multiplying<Flushed::tokens>},
                        {.op = Op::matmul, .variant = "says so", .bind = bind_multiplying<Flushed::tokens, true>}});
  REQUIRE(records.size() == 15);
  for (const reports::CaseRecord& record : records) {
    INFO(record.kernel.variant << ": " << record.reason);
    CHECK(record.status == (record.kernel.variant == "flushes" ? Status::incorrect : Status::ok));
    if (record.kernel.variant == "flushes") CHECK_THAT(record.reason, ContainsSubstring(", subnormal tokens: row"));
  }
}

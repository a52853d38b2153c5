// Products where elements or tokens are NaN, infinite, -0 or subnormal, by class: a result is NaN, infinite or finite
// exactly where sums in double precision are, and what one row or token holds does not reach another.
#include <bit>
#include <cmath>
#include <limits>

#include "datasets/numbers.h"
#include "tests/kernels/products/products.h"
#include "tests/test_settings.h"

using namespace ecmv;
using namespace ecmv::tests;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// The bit patterns of a type's special numbers; infinity is 0 where it has none.
struct Patterns {
  uint64_t nan, infinity, sign, least;  // the sign alone is -0; `least` is the least subnormal number
};

Patterns patterns_of(datasets::ElementType type) {
  using enum datasets::ElementType;
  switch (type) {
    case bf16: return {0x7FC1, 0x7F80, 0x8000, 1};
    case f16: return {0x7E01, 0x7C00, 0x8000, 1};
    case f8_e5m2: return {0x7E, 0x7C, 0x80, 1};
    case f8_e4m3: return {0x7F, 0, 0x80, 1};
    default: return {0x7FC00001, 0x7F800000, 0x80000000, 1};
  }
}

// Rows in turn: NaN, one infinity, -infinity, both, only -0, only subnormal numbers, and three of ordinary weights.
datasets::Matrix special_matrix(datasets::ElementType type, datasets::Shape shape) {
  const Patterns of = patterns_of(type);
  datasets::Matrix matrix = weights(type, shape);
  const int64_t bytes = datasets::element_bytes(type);
  const auto set = [&](int64_t row, int64_t col, uint64_t pattern) {
    for (int64_t i = 0; i < bytes; ++i)
      matrix.elements[static_cast<size_t>((row * shape.cols + col) * bytes + i)] =
          static_cast<std::byte>(pattern >> 8 * i);
  };
  for (int64_t row = 0; row < shape.rows; ++row) {
    const int64_t col = row * 7 % shape.cols, other = (col + shape.cols / 2) % shape.cols;
    switch (row % 9) {
      case 0: set(row, col, of.nan); break;
      case 1: set(row, col, of.infinity); break;
      case 2: set(row, col, of.infinity == 0 ? of.nan | of.sign : of.infinity | of.sign); break;
      case 3: set(row, col, of.infinity), set(row, other, of.infinity | of.sign); break;
      case 4:
        for (int64_t c = 0; c < shape.cols; ++c) set(row, c, of.sign);
        break;
      case 5:
        for (int64_t c = 0; c < shape.cols; ++c) set(row, c, of.least + static_cast<uint64_t>(c % 3));
        break;
      default: break;
    }
  }
  matrix.content_hash = datasets::content_hash(matrix.view());
  return matrix;
}

// Three ordinary tokens, the first with a zero, then one with NaN, one with infinity, one of -0, one of subnormals, and
// ordinary ones again.
std::vector<float> special_tokens(int64_t cols, int batch) {
  std::vector<float> tokens = draw_tokens(cols, batch);
  for (float& token : tokens)
    token = std::bit_cast<float>(uint32_t{datasets::nearest_bf16(token == 0 ? 1 : token)} << 16);
  const auto at = [&](int token, int64_t col) -> float& { return tokens[static_cast<size_t>(token * cols + col)]; };
  at(0, 0) = 0;
  at(3, cols / 3) = kNan;
  at(4, cols - 1) = -kInfinity;
  for (int64_t c = 0; c < cols; ++c) {
    at(5, c) = -0.0f;
    at(6, c) = std::bit_cast<float>(static_cast<uint32_t>(1 + c % 5) << 16);
  }
  return tokens;
}

std::string class_of(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "infinity" : "-infinity";
  return "finite";
}

struct Sums {
  std::vector<double> sums, magnitudes, w_magnitudes, x_magnitudes;  // [batch, rows], as in ExactProduct
};

// How a kernel may take factors: subnormal ones as zero, whose product with infinity is NaN, and e4m3's NaN, which has
// the bits of a next number, as 480.
struct Taken {
  bool flushes = false, nan_is_480 = false;
  double operator()(double factor) const { return flushes && std::fabs(factor) < 0x1p-126 ? 0 : factor; }
};

Sums sums_of(const datasets::Matrix& matrix, std::span<const float> tokens, int batch, Taken taken) {
  Sums of;
  const auto [rows, cols] = matrix.shape;
  std::vector<double> elements(static_cast<size_t>(matrix.shape.elements()));
  datasets::read_numbers(matrix.view(), 0, elements);
  if (taken.nan_is_480)
    for (size_t i = 0; i < elements.size(); ++i)
      if (std::isnan(elements[i])) elements[i] = matrix.elements[i] == std::byte{0x7F} ? 480 : -480;
  for (int token = 0; token < batch; ++token)
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0, magnitude = 0, w_magnitude = 0, x_magnitude = 0;
      for (int64_t col = 0; col < cols; ++col) {
        const double w = elements[static_cast<size_t>(row * cols + col)],
                     x = tokens[static_cast<size_t>(token * cols + col)];
        sum += taken(w) * taken(x);
        magnitude += std::fabs(w * x);
        w_magnitude += std::fabs(w);
        x_magnitude += std::fabs(x);
      }
      of.sums.push_back(sum);
      of.magnitudes.push_back(magnitude);
      of.w_magnitudes.push_back(w_magnitude);
      of.x_magnitudes.push_back(x_magnitude);
    }
  return of;
}

// "" or the first result that is of another class than its sum, or too far from it. Kernels of GPUs that add what a
// patch differs, or cut tokens into digits, may make NaN of an infinite token's infinity.
std::string wrong_class(std::span<const float> got, const Sums& of, datasets::Shape shape,
                        const backends::ProductRounding& rounding, bool on_gpu, std::span<const float> tokens) {
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t token = i / static_cast<size_t>(shape.rows), cols = static_cast<size_t>(shape.cols);
    const std::string expected = class_of(of.sums[i]), found = class_of(got[i]);
    bool right = expected == found;
    if (expected == "finite")
      right = std::fabs(got[i] - of.sums[i]) <= backends::product_bound(rounding, shape.cols, of.magnitudes[i],
                                                                        of.x_magnitudes[i], 1, of.w_magnitudes[i]);
    else if (on_gpu && found == "NaN")
      right =
          right || !std::ranges::all_of(tokens.subspan(token * cols, cols), [](float x) { return std::isfinite(x); });
    if (!right)
      return "row " + std::to_string(i % static_cast<size_t>(shape.rows)) + " of token " + std::to_string(token) +
             " is " + std::to_string(got[i]) + " instead of " + std::to_string(of.sums[i]);
  }
  return {};
}

int run_special(const codecs::CodecEntry& entry, const datasets::Matrix& matrix, const backends::Settings& settings,
                Devices& devices) {
  if (!entry.codec->lossless || !entry.codec->refuses(matrix.view(), settings).empty()) return 0;
  const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
  const std::vector<float> tokens = special_tokens(matrix.shape.cols, backends::kMaxBatch);
  int ran = 0;
  for (auto& device : devices) {
    const auto uploaded = device->upload(compressed);
    const bool nan_is_480 = device->info().wave_size > 0 && matrix.type == datasets::ElementType::f8_e4m3;
    const Sums sums = sums_of(matrix, tokens, backends::kMaxBatch, {false, nan_is_480}),
               flushed = sums_of(matrix, tokens, backends::kMaxBatch, {true, nan_is_480});
    bool decoded = false;
    for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
      for (const backends::Policy& policy : kernel.policies) {
        device->select();
        if (kernel.op == backends::Op::matvec || (kernel.op == backends::Op::decode && decoded)) continue;
        if (kernel.group_cols != 0) continue;  // these need scales
        if (!kernel.refuses(uploaded->view(), device->info(), policy).empty()) continue;
        decoded |= kernel.op == backends::Op::decode;
        for (const int batch : {1, 5, 9, 24}) {
          INFO(entry.id << " [" << settings.to_string() << "] " << kernel.variant << "/" << policy.name << " on "
                        << device->info().backend << " " << device->info().simd_target << ", " << describe(matrix)
                        << ", batch " << batch);
          backends::PassPlan plan;
          plan.kernel = &kernel;
          plan.op = backends::Op::matmul;
          plan.policy = &policy;
          plan.layers = {uploaded.get()};
          plan.chained = false;
          plan.batch = batch;
          plan.activations = kernel.op == backends::Op::decode ? backends::Activations::f32 : kernel.activations;
          plan.tokens = {{tokens.begin(), tokens.begin() + batch * matrix.shape.cols}};
          const auto pass = prepare_in_any_form(*device, plan);
          pass->poison_outputs(0);
          pass->run();
          const backends::ProductRounding rounding = pass->rounding(0);
          CHECK(wrong_class(pass->products(0), rounding.flushes_subnormals ? flushed : sums, matrix.shape, rounding,
                            device->info().wave_size > 0, tokens) == "");
          CHECK(pass->broken_guards() == "");
          ++ran;
        }
      }
  }
  return ran;
}

void run_every_type(const codecs::CodecEntry& entry, Devices devices) {
  using enum datasets::ElementType;
  int ran = 0;
  bool fused = false;
  for (auto& device : devices)
    for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
      fused |= kernel.op == backends::Op::matmul && kernel.group_cols == 0;
  for (const backends::Settings& settings : settings_to_test(*entry.codec)) {
    for (const auto type : {bf16, f16, f32, f8_e5m2, f8_e4m3})
      for (const datasets::Shape shape : {datasets::Shape{29, 71}, {36, 512}})
        ran += run_special(entry, special_matrix(type, shape), settings, devices);
    ran += run_special(entry, gaussian_matrix({29, 71}, 4), settings, devices);  // integers by such tokens
    if (!fused) break;  // whatever the settings, the backend multiplies
  }
  INFO(entry.id);
  CHECK((ran > 0 || !fused || !entry.codec->lossless));
}

}  // namespace

TEST_CASE("products of NaN, infinities, -0 and subnormal numbers have their class, on CPUs") {
  run_every_type(each_codec(), devices(Place::cpu, 1));
}
TEST_CASE("products of NaN, infinities, -0 and subnormal numbers have their class, in the emulator", "[emulator]") {
  run_every_type(each_codec(), devices_or_skip(Place::emulator));
}
TEST_CASE("products of NaN, infinities, -0 and subnormal numbers have their class, on this machine's GPUs", "[gpu]") {
  run_every_type(each_codec(), devices_or_skip(Place::gpu));
}

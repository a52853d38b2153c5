// Products on memory of the caller, through the C interface alone: on CPUs, on the emulator, and on GPUs that there
// are.
#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include "tests/library/library_handles.h"

using namespace ecmv::tests;

namespace {

struct End {
  void operator()(ecmv_product* product) const { ecmv_free_product(product); }
  void operator()(ecmv_buffer* buffer) const { ecmv_free_buffer(buffer); }
};
using Product = std::unique_ptr<ecmv_product, End>;
using Memory = std::unique_ptr<ecmv_buffer, End>;

Memory memory_of(const Context& context, size_t bytes, int fill = 0) {
  ecmv_buffer* buffer = nullptr;
  REQUIRE(error_of(ecmv_allocate(context.get(), bytes, &buffer)) == "");
  const std::vector<char> bytes_of(bytes, static_cast<char>(fill));
  REQUIRE(error_of(ecmv_write(buffer, 0, bytes_of.data(), bytes)) == "");
  return Memory(buffer);
}

uint16_t nearest_bf16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
float bf16_number(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Numbers as they lie in memory.
struct Numbers {
  std::string type;
  int64_t bytes() const { return type == "bf16" ? 2 : 4; }
  void write(std::vector<char>& all, size_t i, float number) const {
    const uint16_t half = nearest_bf16(number);
    if (type == "bf16")
      std::memcpy(all.data() + 2 * i, &half, 2);
    else
      std::memcpy(all.data() + 4 * i, &number, 4);
  }
  float read(const std::vector<char>& all, size_t i) const {
    uint16_t half = 0;
    float number = 0;
    if (type == "bf16") return std::memcpy(&half, all.data() + 2 * i, 2), bf16_number(half);
    return std::memcpy(&number, all.data() + 4 * i, 4), number;
  }
};

ecmv_product_options options_of(int64_t max_tokens, const char* x = "f32", const char* y = "f32") {
  ecmv_product_options options = {};
  options.struct_bytes = sizeof(options);
  options.max_tokens = max_tokens;
  options.x_type = x;
  options.y_type = y;
  return options;
}

Product bind(const Context& context, const Matrix& matrix, const ecmv_product_options& options) {
  ecmv_product* product = nullptr;
  const ecmv_status status = ecmv_bind_product(context.get(), matrix.get(), &options, &product);
  INFO(error_of(status));
  REQUIRE(status == ECMV_OK);
  return Product(product);
}

// A matrix with its numbers.
struct Weights {
  Matrix matrix;
  std::vector<float> numbers;
  int64_t rows, cols;
};

Weights some_weights(const char* codec, const char* type, int64_t rows, int64_t cols, const char* settings = nullptr) {
  const std::vector<int8_t> elements = some_numbers(rows * cols, 7);
  const std::vector<uint16_t> halves = as_bf16(elements);
  const bool is_i8 = type == std::string("i8");
  return {encode(codec, type, is_i8 ? static_cast<const void*>(elements.data()) : halves.data(), rows, cols, settings),
          {elements.begin(), elements.end()},
          rows,
          cols};
}

// Multiplies `tokens` tokens and compares with sums in double precision. Nothing else may be written. `gap`: elements
// between a token and the next; those of x are NaN.
void check_enqueue(const Context& context, const Product& product, const Weights& w, Numbers x_type, Numbers y_type,
                   const std::vector<float>& bias, int64_t tokens, uint32_t seed, int64_t gap = 5) {
  const int64_t x_stride = w.cols + gap, y_stride = w.rows + gap;
  INFO(ecmv_product_kernel(product.get(), tokens)
       << ", " << x_type.type << " to " << y_type.type << ", " << tokens << " tokens of " << w.rows << " x " << w.cols);
  std::vector<char> x(static_cast<size_t>((tokens * x_stride - gap) * x_type.bytes()), '\xFF'),
      y(static_cast<size_t>((tokens * y_stride - gap) * y_type.bytes()), '\xA5');
  const std::vector<int8_t> numbers = some_numbers(tokens * w.cols, seed);
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t col = 0; col < w.cols; ++col)
      x_type.write(x, static_cast<size_t>(token * x_stride + col),
                   0.01f * static_cast<float>(numbers[static_cast<size_t>(token * w.cols + col)]));
  const Memory x_memory = memory_of(context, x.size()), y_memory = memory_of(context, y.size(), 0xA5);
  REQUIRE(error_of(ecmv_write(x_memory.get(), 0, x.data(), x.size())) == "");
  REQUIRE(error_of(ecmv_enqueue_product(product.get(), nullptr, ecmv_place(x_memory.get()), x_stride, tokens,
                                        ecmv_place(y_memory.get()), y_stride)) == "");
  REQUIRE(error_of(ecmv_synchronize(context.get())) == "");
  REQUIRE(error_of(ecmv_read(y_memory.get(), 0, y.data(), y.size())) == "");
  int wrong = 0, written = 0;
  constexpr int64_t kAll = 72, kEvery = 29;  // of many tokens some are compared
  for (int64_t token = 0; token < tokens; ++token) {
    const bool compared = tokens <= kAll || token % kEvery == 0 || token + 1 == tokens;
    for (int64_t row = 0; compared && row < w.rows; ++row) {
      double sum = bias.empty() ? 0 : double{bias[static_cast<size_t>(row)]}, magnitude = std::fabs(sum);
      for (int64_t col = 0; col < w.cols; ++col) {
        const double product_of = double{x_type.read(x, static_cast<size_t>(token * x_stride + col))} *
                                  double{w.numbers[static_cast<size_t>(row * w.cols + col)]};
        sum += product_of;
        magnitude += std::fabs(product_of);
      }
      const double got = double{y_type.read(y, static_cast<size_t>(token * y_stride + row))};
      const double rounding = y_type.type == "bf16" ? std::fabs(sum) / 256 : 0;
      wrong += !(std::fabs(got - sum) <= 1e-2 * magnitude + rounding);
    }
    if (token + 1 < tokens)
      for (int64_t at = (token * y_stride + w.rows) * y_type.bytes(); at < (token + 1) * y_stride * y_type.bytes();
           ++at)
        written += y[static_cast<size_t>(at)] != '\xA5';
  }
  CHECK(wrong == 0);
  CHECK(written == 0);
}

// The matrix's sections in the memory of the context, as a caller holds them.
struct HeldSections {
  HeldSections(const Context& context, const Matrix& matrix) {
    description.struct_bytes = sizeof(description);
    REQUIRE(ecmv_describe(matrix.get(), &description) == ECMV_OK);
    for (size_t i = 0; i < ecmv_section_count(matrix.get()); ++i) {
      ecmv_stored_section section = {};
      section.struct_bytes = sizeof(section);
      REQUIRE(ecmv_section_of(matrix.get(), i, &section) == ECMV_OK);
      memory.push_back(memory_of(context, section.bytes));
      REQUIRE(ecmv_write(memory.back().get(), 0, section.place, section.bytes) == ECMV_OK);
      spans.push_back({ecmv_place(memory.back().get()), section.bytes});
      stored.push_back(section);
      stored.back().place = spans.back().place;
    }
  }
  // A product of these sections alone, by their hash.
  ecmv_status bind_known(const Context& context, const ecmv_product_options& options, ecmv_product** product) const {
    return ecmv_bind_known_product(context.get(), &description, stored.data(), stored.size(), &options, product);
  }
  std::vector<Memory> memory;
  std::vector<ecmv_span> spans;
  ecmv_description description = {};  // its texts are the matrix's
  std::vector<ecmv_stored_section> stored;
};

Product bind_known(const Context& context, const HeldSections& held, const ecmv_product_options& options) {
  ecmv_product* product = nullptr;
  const ecmv_status status = held.bind_known(context, options, &product);
  INFO(ecmv_last_error());
  REQUIRE(status == ECMV_OK);
  return Product(product);
}

// Every type in and out, with and without bias, on the library's sections and the caller's, known by their hash or
// compared with the matrix.
void check_products(const Context& context, const Weights& w, const std::vector<int64_t>& counts, int measure = 0) {
  const HeldSections held(context, w.matrix);
  std::vector<float> bias(static_cast<size_t>(w.rows));
  for (size_t row = 0; row < bias.size(); ++row) bias[row] = static_cast<float>(row % 7) - 3;
  uint32_t seed = 11;
  for (const char* x : {"f32", "bf16"})
    for (const char* y : {"f32", "bf16"}) {
      const bool own = x == std::string(y);
      std::vector<char> stored(static_cast<size_t>(w.rows * Numbers{y}.bytes()));
      for (size_t row = 0; row < bias.size(); ++row) Numbers{y}.write(stored, row, bias[row]);
      const Memory bias_memory = memory_of(context, stored.size());
      REQUIRE(ecmv_write(bias_memory.get(), 0, stored.data(), stored.size()) == ECMV_OK);
      ecmv_product_options options = options_of(counts.back(), x, y);
      options.measure = measure;
      if (own) options.bias = ecmv_place(bias_memory.get());
      const bool known = !own && x == std::string("bf16");
      if (!own && !known) options.sections = held.spans.data(), options.section_count = held.spans.size();
      const Product product = known ? bind_known(context, held, options) : bind(context, w.matrix, options);
      CHECK(ecmv_product_scratch_bytes(product.get()) > 0);
      for (const int64_t tokens : counts)
        check_enqueue(context, product, w, {x}, {y}, own ? bias : std::vector<float>(), tokens, ++seed);
    }
}

Matrix any_matrix() {
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i)
    if (Matrix matrix = encode(ecmv_codec_id(i), "i8", weights().data())) return matrix;
  FAIL("There is no codec of int8 elements.");
  return {};
}

// Whether this codec stores these elements as they are.
bool keeps(const char* codec, const char* type) {
  return type == std::string("i8") || codec != std::string("tile_rans");  // it quantises floats
}

// The products of all codecs for these numbers of tokens.
void check_all_codecs(const Context& context, const std::vector<int64_t>& counts, int64_t rows, int64_t cols,
                      int measure = 0) {
  int products = 0;
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i)
    for (const char* type : {"i8", "bf16"}) {
      if (!keeps(ecmv_codec_id(i), type)) continue;
      const Weights w = some_weights(ecmv_codec_id(i), type, rows, cols);
      if (w.matrix == nullptr) continue;
      INFO(ecmv_codec_id(i) << " of " << type);
      ecmv_product* probe = nullptr;
      const ecmv_product_options options = options_of(1);
      const ecmv_status status = ecmv_bind_product(context.get(), w.matrix.get(), &options, &probe);
      ecmv_free_product(probe);
      if (status == ECMV_REFUSED) continue;  // without a kernel on a GPU
      check_products(context, w, counts, measure);
      ++products;
    }
  CHECK(products > 0);
}

// Sums of four uniform numbers as bf16, which quad_huffman codes.
Weights bell_weights(int64_t rows, int64_t cols, const char* settings) {
  Weights w{.matrix = nullptr, .numbers = {}, .rows = rows, .cols = cols};
  std::vector<uint16_t> halves;
  uint32_t seed = 3;
  for (int64_t i = 0; i < rows * cols; ++i) {
    float sum = -2;
    for (int term = 0; term < 4; ++term)
      sum += static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-24f;
    halves.push_back(nearest_bf16(sum));
    w.numbers.push_back(bf16_number(halves.back()));
  }
  w.matrix = encode("quad_huffman", "bf16", halves.data(), rows, cols, settings);
  return w;
}

// Tokens and products of bf16 without bias, with the strides with which kernels read and store them where the caller
// has them, and with others. The columns end within a unit of the kernels. `each_gap`: every number of tokens with all
// three distances between them, instead of one.
void check_in_place(const Context& context, const std::vector<int64_t>& counts, int64_t rows, bool each_gap) {
  const auto check = [&](const Weights& w, const std::string& kernel) {
    const Product product = bind(context, w.matrix, options_of(counts.back(), "bf16", "bf16"));
    INFO(ecmv_product_kernel(product.get(), 1));
    CHECK(std::string(ecmv_product_kernel(product.get(), 1)).find(kernel) != std::string::npos);
    uint32_t seed = 5;
    const int64_t gaps[] = {0, 8, 5};
    for (size_t i = 0; i < counts.size(); ++i)
      for (size_t k = 0; k < std::size(gaps); ++k)
        if (each_gap || k == i % std::size(gaps))
          check_enqueue(context, product, w, {"bf16"}, {"bf16"}, {}, counts[i], ++seed, gaps[k]);
  };
  for (const char* settings : {"symbol_cols=4,table_bits=10,layout=fragments,tile_cols=256",
                               "symbol_cols=8,table_bits=10,layout=fragments,tile_cols=256"})
    for (const int64_t cols : {1544, 1540}) {
      INFO(settings);
      check(bell_weights(rows, cols, settings), "/matmul/fragments/groups32");
    }
  need_codec("packed_exponents");
  check(some_weights("packed_exponents", "bf16", rows, 1544), "/matmul/tokens/");
}

Context open_or_skip(const char* backend) {
  ecmv_context* raw = nullptr;
  const ecmv_status status = ecmv_open(backend, 2, -1, &raw);
  if (status == ECMV_UNAVAILABLE) SKIP(ecmv_last_error());
  REQUIRE(error_of(status) == "");
  return Context(raw);
}

}  // namespace

TEST_CASE("products of every codec on a CPU are right for any number of tokens", "[alone]") {
  for (const char* backend : {"simd", "scalar"}) {
    const Context context = open(backend);
    check_all_codecs(context, {1, 2, 7, 64, 65}, 33, 331);
    check_all_codecs(context, {3, 9}, 64, 512);
    check_all_codecs(context, {130, 300}, 24, 136);
  }
}

TEST_CASE("products of the kernels that were the fastest are right, and one shape has the same ones") {
  for (const char* backend : {"simd", "scalar"}) check_all_codecs(open(backend), {1, 3, 64}, 48, 256, 1);
  const Context context = open("best");
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i) {
    const Weights w = some_weights(ecmv_codec_id(i), "bf16", 48, 256);
    if (w.matrix == nullptr) continue;
    INFO(ecmv_codec_id(i));
    ecmv_product_options options = options_of(64, "bf16", "bf16");
    options.measure = 1;
    const Product one = bind(context, w.matrix, options), other = bind(context, w.matrix, options);
    for (const int64_t tokens : {1, 2, 4, 8, 16, 32, 64})
      CHECK(ecmv_product_kernel(one.get(), tokens) == std::string(ecmv_product_kernel(other.get(), tokens)));
    // A caller of the first version has no such field, whatever stands behind his struct.
    options.struct_bytes = 64;
    const Product older = bind(context, w.matrix, options),
                  plain = bind(context, w.matrix, options_of(64, "bf16", "bf16"));
    for (const int64_t tokens : {1, 64})
      CHECK(ecmv_product_kernel(older.get(), tokens) == std::string(ecmv_product_kernel(plain.get(), tokens)));
  }
}

TEST_CASE("a product of many tokens takes no more memory than it may, and a kernel gets no more tokens than it takes") {
  need_codec("raw_bf16");
  for (const char* codec : {"raw_bf16", "rans"}) {
    const Weights w = some_weights(codec, "bf16", 24, 136);
    if (w.matrix == nullptr) continue;
    for (const char* backend : {"simd", "scalar"}) {
      INFO(codec << " on " << backend);
      const Context context = open(backend);
      const Product few = bind(context, w.matrix, options_of(64, "bf16", "bf16")),
                    many = bind(context, w.matrix, options_of(int64_t{1} << 31, "bf16", "bf16"));
      CHECK(ecmv_product_kernel(many.get(), 64) == std::string(ecmv_product_kernel(few.get(), 64)));
      CHECK(ecmv_product_kernel(many.get(), 1 << 30) != std::string());
      CHECK(ecmv_product_scratch_bytes(many.get()) < (size_t{1} << 30));
      check_enqueue(context, many, w, {"bf16"}, {"bf16"}, {}, 4200, 5);
    }
  }
}

TEST_CASE("times on the emulator choose no kernel", "[emulator]") {
  need_codec("quad_huffman");
  const Context context = open_or_skip("emulator");
  const Weights w = some_weights("quad_huffman", "bf16", 32, 512);
  ecmv_product_options options = options_of(2, "bf16", "bf16");
  const Product plain = bind(context, w.matrix, options);
  options.measure = 1;
  const Product measured = bind(context, w.matrix, options);
  CHECK(ecmv_product_kernel(plain.get(), 2) == std::string(ecmv_product_kernel(measured.get(), 2)));
}

TEST_CASE("products of every codec on the emulator are right for any number of tokens", "[emulator]") {
  const Context context = open_or_skip("emulator");
  check_all_codecs(context, {1, 3}, 32, 512);
  need_codec("quad_huffman");
  check_products(context, some_weights("quad_huffman", "bf16", 64, 512), {1, 2, 17, 64, 66});
}

TEST_CASE("with more tokens a product moves on to kernels that read the matrix less often", "[emulator]") {
  const Context context = open_or_skip("emulator");
  need_codec("quad_huffman");
  const Weights w =
      some_weights("quad_huffman", "bf16", 32, 512, "layout=fragments,symbol_cols=8,fallback=none,tile_cols=256");
  const Product product = bind(context, w.matrix, options_of(64, "bf16", "bf16"));
  for (const auto& [tokens, policy] : {std::pair{1, "groups32"},
                                       {8, "groups32"},
                                       {9, "warpgroup32"},
                                       {16, "warpgroup32"},
                                       {17, "warpgroup24"},
                                       {64, "warpgroup24"}})
    CHECK(ecmv_product_kernel(product.get(), tokens) == std::string("emulator/matmul/fragments/") + policy);
  // More than it multiplies at a time are for parts, whose sums take no more memory.
  const Product most = bind(context, w.matrix, options_of(128, "bf16", "bf16")),
                many = bind(context, w.matrix, options_of(512, "bf16", "bf16"));
  CHECK(ecmv_product_scratch_bytes(many.get()) == ecmv_product_scratch_bytes(most.get()));
  check_enqueue(context, many, w, {"bf16"}, {"bf16"}, {}, 300, 5);
}

TEST_CASE("products on the emulator read and store where the caller wants", "[emulator]") {
  need_codec("quad_huffman");
  check_in_place(open_or_skip("emulator"), {1, 2, 8, 13, 16, 17, 63, 64, 72, 130}, 80, false);
}

TEST_CASE("products on a GPU read and store where the caller wants", "[gpu]") {
  need_codec("quad_huffman");
  check_in_place(open_or_skip("cuda"), {1, 2, 8, 13, 16, 17, 63, 64, 72, 100, 128, 256, 300, 384, 512}, 1040, true);
}

TEST_CASE("products of every codec on a GPU are right for any number of tokens", "[gpu]") {
  int devices = 0;
  for (const char* backend : {"cuda", "hip"}) {
    ecmv_context* raw = nullptr;
    if (ecmv_open(backend, 0, -1, &raw) != ECMV_OK) continue;
    const Context context(raw);
    ++devices;
    check_all_codecs(context, {1, 2, 7, 64, 65, 200}, 256, 1024);
    check_all_codecs(context, {1, 9, 64}, 512, 1024, 1);
    for (const int measure : {0, 1}) check_all_codecs(context, {100, 300, 1100, 5000}, 256, 512, measure);
  }
  if (devices == 0) SKIP("There is no GPU here.");
}

TEST_CASE("results in bf16 are rounded to the nearest, of two equally near ones to the even one") {
  need_codec("raw_int8");
  // Each row picks one element of x.
  constexpr int64_t kSide = 64;
  std::vector<int8_t> picks(kSide * kSide);
  for (size_t i = 0; i < kSide; ++i) picks[i * kSide + i] = 1;
  for (const char* backend : {"simd", "scalar"}) {
    const Context context = open(backend);
    const Matrix matrix = encode("raw_int8", "i8", picks.data(), kSide, kSide);
    const Product product = bind(context, matrix, options_of(1, "f32", "bf16"));
    std::vector<float> x(kSide);
    for (size_t i = 0; i < kSide; ++i)
      x[i] = std::bit_cast<float>(uint32_t{0x3F800000} + static_cast<uint32_t>(i) * 0x4000);  // every fourth is a tie
    x[1] = std::bit_cast<float>(0x3F808001u);
    x[2] = std::numeric_limits<float>::max();
    x[3] = -std::bit_cast<float>(0x3F80FFFFu);
    std::vector<uint16_t> y(kSide);
    REQUIRE(ecmv_enqueue_product(product.get(), nullptr, x.data(), kSide, 1, y.data(), kSide) == ECMV_OK);
    for (size_t i = 0; i < kSide; ++i) {
      INFO("element " << i);
      CHECK(y[i] == nearest_bf16(x[i]));
    }
    CHECK(y[2] == 0x7F80);
    x[5] = std::numeric_limits<float>::quiet_NaN();
    REQUIRE(ecmv_enqueue_product(product.get(), nullptr, x.data(), kSide, 1, y.data(), kSide) == ECMV_OK);
    CHECK(std::isnan(bf16_number(y[5])));
  }
}

TEST_CASE("matrices without elements have products on the caller's memory too") {
  need_codec("raw_int8");
  const Context context = open("best");
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{0, 0}, {3, 0}, {0, 3}}) {
    const Matrix matrix = encode("raw_int8", "i8", nullptr, rows, cols);
    const std::vector<float> bias = {1, 2, 3}, x(6);
    std::vector<float> y(6, -1);
    ecmv_product_options options = options_of(2);
    options.bias = bias.data();
    const Product product = bind(context, matrix, options);
    REQUIRE(error_of(ecmv_enqueue_product(product.get(), nullptr, x.data(), cols, 2, y.data(), rows)) == "");
    CHECK(y == (rows == 3 ? std::vector<float>{1, 2, 3, 1, 2, 3} : std::vector<float>(6, -1)));
  }
}

TEST_CASE("a wrong binding of a product ends in a status and a sentence") {
  const Context context = open("best");
  const Matrix matrix = any_matrix();
  const auto binds = [&](const ecmv_product_options& options) {
    auto* product = reinterpret_cast<ecmv_product*>(const_cast<ecmv_product_options*>(&options));
    const ecmv_status status = ecmv_bind_product(context.get(), matrix.get(), &options, &product);
    CHECK(product == nullptr);
    return status;
  };
  expect(binds(options_of(0)), ECMV_INVALID_ARGUMENT, "A product takes 1 token or more at once, not 0.");
  expect(binds(options_of(1, "f16")), ECMV_INVALID_ARGUMENT, "is 'f16', not f32 or bf16.");
  expect(binds(options_of(1, "f32", nullptr)), ECMV_INVALID_ARGUMENT, "The argument 'options->y_type' is NULL.");
  ecmv_product_options options = options_of(1);
  options.struct_bytes = 8;
  expect(binds(options), ECMV_INVALID_ARGUMENT, "The field struct_bytes of the options is 8");
  options = options_of(1);
  const std::vector<float> bias(kRows + 1);
  options.bias = reinterpret_cast<const char*>(bias.data()) + 1;
  expect(binds(options), ECMV_INVALID_ARGUMENT, "The bias is not aligned to 4 bytes.");
  ecmv_product* product = nullptr;
  options = options_of(1);
  expect(ecmv_bind_product(nullptr, matrix.get(), &options, &product), ECMV_INVALID_ARGUMENT, "'context' is NULL.");
  expect(ecmv_bind_product(context.get(), nullptr, &options, &product), ECMV_INVALID_ARGUMENT, "'matrix' is NULL.");
  expect(ecmv_bind_product(context.get(), matrix.get(), nullptr, &product), ECMV_INVALID_ARGUMENT,
         "'options' is NULL.");
  expect(ecmv_bind_product(context.get(), matrix.get(), &options, nullptr), ECMV_INVALID_ARGUMENT,
         "'product' is NULL.");

  const HeldSections held(context, matrix);
  std::vector<ecmv_span> spans = held.spans;
  const auto with = [&](const std::vector<ecmv_span>& sections) {
    options = options_of(1);
    options.sections = sections.data();
    options.section_count = sections.size();
    return binds(options);
  };
  const size_t largest = static_cast<size_t>(std::ranges::max_element(spans, {}, &ecmv_span::bytes) - spans.begin());
  --spans[largest].bytes;
  expect(with(spans), ECMV_INVALID_ARGUMENT, " bytes, not ");
  spans = held.spans;
  spans[largest].place = static_cast<const char*>(spans[largest].place) + 1;
  expect(with(spans), ECMV_INVALID_ARGUMENT, "is not aligned to 64 bytes.");
  spans[largest].place = nullptr;
  expect(with(spans), ECMV_INVALID_ARGUMENT, "is at NULL.");
  const Memory zeros = memory_of(context, spans[largest].bytes);
  spans[largest].place = ecmv_place(zeros.get());
  expect(with(spans), ECMV_INVALID_ARGUMENT, "in the caller's memory has other bytes than the matrix.");
  spans = held.spans;
  spans.push_back(spans.back());
  expect(with(spans), ECMV_INVALID_ARGUMENT, "sections, not ");
}

TEST_CASE("a product of sections with another hash, or at places of no use, is refused") {
  for (const char* backend : {"best", "emulator"}) {
    ecmv_context* opened = nullptr;
    if (ecmv_open(backend, 0, -1, &opened) != ECMV_OK) continue;
    INFO(backend);
    const Context context(opened);
    const Matrix matrix = any_matrix();
    HeldSections held(context, matrix);
    ecmv_product_options options = options_of(1);
    const auto expect_status = [&](ecmv_status wanted, const char* sentence) {
      auto* product = reinterpret_cast<ecmv_product*>(&options);
      expect(held.bind_known(context, options, &product), wanted, sentence);
      CHECK(product == nullptr);
    };
    CHECK(bind_known(context, held, options) != nullptr);
    const auto compared = [&] {
      return ecmv_compare_with_hash(context.get(), nullptr, &held.description, held.stored.data(), held.stored.size());
    };
    CHECK(compared() == ECMV_OK);
    for (size_t i = 0; i < held.stored.size(); ++i) {
      if (held.spans[i].bytes == 0) continue;
      char byte = 0;
      const size_t at = held.spans[i].bytes - 1;
      REQUIRE(ecmv_read(held.memory[i].get(), at, &byte, 1) == ECMV_OK);
      const char changed = static_cast<char>(byte ^ 16);
      REQUIRE(ecmv_write(held.memory[i].get(), at, &changed, 1) == ECMV_OK);
      expect_status(ECMV_MALFORMED, "The sections are not those that the description's hash is of.");
      expect(compared(), ECMV_MALFORMED, "The sections are not those that the description's hash is of.");
      REQUIRE(ecmv_write(held.memory[i].get(), at, &byte, 1) == ECMV_OK);
    }
    --held.description.rows;
    expect_status(ECMV_MALFORMED, "The sections are not those that the description's hash is of.");
    ++held.description.rows;
    const void* const place = std::exchange(held.stored[0].place, static_cast<const char*>(held.stored[0].place) + 1);
    expect_status(ECMV_INVALID_ARGUMENT, "is not aligned to ");
    held.stored[0].place = place;
    options.sections = held.spans.data(), options.section_count = held.spans.size();
    expect_status(ECMV_INVALID_ARGUMENT, "The options have sections, which are given beside them already.");
    options = options_of(1);
    const uint64_t hash = std::exchange(held.description.hash, 0);
    expect_status(ECMV_INVALID_ARGUMENT, "The description has no hash, so nothing is known.");
    expect(compared(), ECMV_INVALID_ARGUMENT, "The description has no hash, so nothing is known.");
    held.description.hash = hash;
    const std::vector<ecmv_stored_section> all = std::exchange(held.stored, {});
    expect_status(ECMV_MALFORMED, "The sections are not those that the description's hash is of.");
    held.stored = all;
    CHECK(bind_known(context, held, options) != nullptr);
  }
}

TEST_CASE("a product of elements that float32 does not hold is refused") {
  const Context context = open("best");
  const std::vector<int32_t> integers(64);
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i) {
    const Matrix matrix = encode(ecmv_codec_id(i), "i32", integers.data(), 8, 8);
    if (matrix == nullptr) continue;
    const ecmv_product_options options = options_of(1);
    ecmv_product* product = nullptr;
    CHECK(ecmv_bind_product(context.get(), matrix.get(), &options, &product) == ECMV_REFUSED);
    CHECK(product == nullptr);
    return;
  }
  SKIP("There is no codec of int32 elements.");
}

TEST_CASE("a wrong call of a product ends in a status and a sentence") {
  const Context context = open("best");
  const Matrix matrix = any_matrix();
  Product product = bind(context, matrix, options_of(2));
  std::vector<float> x(2 * kCols + 1), y(2 * kRows + 1);
  ecmv_product* const raw = product.get();
  const auto call = [&](const void* from, int64_t x_stride, int64_t tokens, void* to, int64_t y_stride) {
    return ecmv_enqueue_product(raw, nullptr, from, x_stride, tokens, to, y_stride);
  };
  CHECK(call(x.data(), kCols, 2, y.data(), kRows) == ECMV_OK);
  for (const int64_t tokens : {int64_t{0}, int64_t{-1}, int64_t{3}, std::numeric_limits<int64_t>::max()})
    expect(call(x.data(), kCols, tokens, y.data(), kRows), ECMV_INVALID_ARGUMENT,
           "The product was bound for 1 to 2 tokens, not for ");
  expect(call(nullptr, kCols, 1, y.data(), kRows), ECMV_INVALID_ARGUMENT, "The argument 'x' is NULL.");
  expect(call(x.data(), kCols, 1, nullptr, kRows), ECMV_INVALID_ARGUMENT, "The argument 'y' is NULL.");
  expect(call(x.data(), kCols - 1, 1, y.data(), kRows), ECMV_INVALID_ARGUMENT, "The argument 'x' has a stride of 511");
  expect(call(x.data(), kCols, 1, y.data(), kRows - 1), ECMV_INVALID_ARGUMENT, "The argument 'y' has a stride of 63");
  expect(call(x.data(), std::numeric_limits<int64_t>::max(), 1, y.data(), kRows), ECMV_INVALID_ARGUMENT,
         "has a stride of ");
  expect(call(reinterpret_cast<char*>(x.data()) + 2, kCols, 1, y.data(), kRows), ECMV_INVALID_ARGUMENT,
         "The argument 'x' is not aligned to 4 bytes.");
  expect(call(x.data(), kCols, 1, x.data() + kCols - 1, kRows), ECMV_INVALID_ARGUMENT, "'x' and 'y' overlap.");
  expect(ecmv_enqueue_product(raw, &x, x.data(), kCols, 1, y.data(), kRows), ECMV_INVALID_ARGUMENT,
         "has no streams: the stream is NULL there.");
  expect(ecmv_enqueue_product(nullptr, nullptr, x.data(), kCols, 1, y.data(), kRows), ECMV_INVALID_ARGUMENT,
         "The argument 'product' is NULL.");
  CHECK_THAT(ecmv_product_kernel(raw, 2), Catch::Matchers::ContainsSubstring("/"));
  CHECK(ecmv_product_kernel(raw, 3) == std::string());
  product.reset();
  expect(call(x.data(), kCols, 1, y.data(), kRows), ECMV_INVALID_ARGUMENT, "There is no such product; was it freed?");
  CHECK(ecmv_product_kernel(raw, 1) == std::string());
  CHECK(ecmv_product_scratch_bytes(raw) == 0);
  ecmv_free_product(raw);
  ecmv_free_product(nullptr);

  const Memory memory = memory_of(context, 8);
  char bytes[16];
  expect(ecmv_read(memory.get(), 1, bytes, 8), ECMV_INVALID_ARGUMENT, "The buffer has 8 bytes");
  expect(ecmv_write(memory.get(), 0, bytes, 9), ECMV_INVALID_ARGUMENT, "The buffer has 8 bytes");
  expect(ecmv_write(memory.get(), 0, nullptr, 8), ECMV_INVALID_ARGUMENT, "The argument 'from' is NULL.");
  expect(ecmv_read(nullptr, 0, bytes, 8), ECMV_INVALID_ARGUMENT, "The argument 'buffer' is NULL.");
  CHECK(ecmv_place(nullptr) == nullptr);
}

TEST_CASE("the emulator knows its memory, and where it ends", "[emulator]") {
  const Context context = open_or_skip("emulator");
  need_codec("quad_huffman");
  const Weights w = some_weights("quad_huffman", "bf16", 64, 512);
  const Product product = bind(context, w.matrix, options_of(4, "bf16", "bf16"));
  const Memory x = memory_of(context, 4 * 2 * 512), y = memory_of(context, 4 * 2 * 64);
  const auto call = [&](void* stream, const void* from, int64_t tokens, void* to) {
    return ecmv_enqueue_product(product.get(), stream, from, 512, tokens, to, 64);
  };
  CHECK(error_of(call(nullptr, ecmv_place(x.get()), 4, ecmv_place(y.get()))) == "");
  std::vector<uint16_t> host(4 * 512);
  expect(call(nullptr, host.data(), 4, ecmv_place(y.get())), ECMV_INVALID_ARGUMENT,
         "The argument 'x' is no memory of the device.");
  expect(call(nullptr, ecmv_place(x.get()), 4, host.data()), ECMV_INVALID_ARGUMENT, "'y' is no memory of the device.");
  expect(call(nullptr, static_cast<char*>(ecmv_place(x.get())) + 2, 4, ecmv_place(y.get())), ECMV_INVALID_ARGUMENT,
         "The argument 'x' has 4094 bytes of the device there, and 4096 are needed.");
  expect(call(host.data(), ecmv_place(x.get()), 4, ecmv_place(y.get())), ECMV_INVALID_ARGUMENT, "has no streams");
  HeldSections held(context, w.matrix);
  ecmv_product_options options = options_of(1);
  options.sections = held.spans.data();
  options.section_count = held.spans.size();
  const auto large =
      static_cast<size_t>(std::ranges::max_element(held.spans, {}, &ecmv_span::bytes) - held.spans.begin());
  const std::vector<char> elsewhere(held.spans[large].bytes + 256);
  held.spans[large].place = elsewhere.data() + (256 - reinterpret_cast<uintptr_t>(elsewhere.data()) % 256) % 256;
  ecmv_product* none = nullptr;
  expect(ecmv_bind_product(context.get(), w.matrix.get(), &options, &none), ECMV_INVALID_ARGUMENT,
         "is no memory of the device.");
}

TEST_CASE("several threads enqueue one product and others, and one of them is freed meanwhile") {
  const Context context = open("best", 2);
  const Matrix matrix = any_matrix();
  const Product shared = bind(context, matrix, options_of(3));
  ecmv_product* const brief = bind(context, matrix, options_of(3)).release();
  const std::vector<int8_t> numbers = some_numbers(3 * kCols, 5);
  const std::vector<float> x(numbers.begin(), numbers.end());
  std::vector<float> expected(3 * kRows);
  REQUIRE(ecmv_enqueue_product(shared.get(), nullptr, x.data(), kCols, 3, expected.data(), kRows) == ECMV_OK);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t number = 0; number < wrong.size(); ++number)
    threads.emplace_back([&, number] {
      for (int round = 0; round < 50; ++round) {
        std::vector<float> y(3 * kRows);
        wrong[number] += ecmv_enqueue_product(shared.get(), nullptr, x.data(), kCols, 3, y.data(), kRows) != ECMV_OK;
        wrong[number] += y != expected;
        std::ranges::fill(y, -1.0f);
        const ecmv_status status = ecmv_enqueue_product(brief, nullptr, x.data(), kCols, 3, y.data(), kRows);
        wrong[number] += status == ECMV_OK ? y != expected : status != ECMV_INVALID_ARGUMENT;
        if (number == 0 && round == 20) ecmv_free_product(brief);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

// Two matrices of other shapes in one workspace: what one leaves there does not change what the other computes.
static void check_shared_workspace(const Context& context, const char* codec) {
  need_codec(codec);
  const Weights large = some_weights(codec, "bf16", 64, 1024), small = some_weights(codec, "bf16", 32, 512);
  ecmv_workspace* workspace = nullptr;
  REQUIRE(error_of(ecmv_make_workspace(context.get(), &workspace)) == "");
  CHECK(ecmv_workspace_bytes(workspace) == 0);
  ecmv_product_options options = options_of(9, "bf16", "f32");
  options.workspace = workspace;
  const Product first = bind(context, large.matrix, options);
  const size_t bytes = ecmv_workspace_bytes(workspace);
  CHECK(bytes == ecmv_product_scratch_bytes(first.get()));
  const Product second = bind(context, small.matrix, options);
  CHECK(ecmv_workspace_bytes(workspace) == bytes);
  CHECK(ecmv_product_scratch_bytes(second.get()) == bytes);
  ecmv_free_workspace(workspace);
  for (uint32_t round = 0; round < 3; ++round) {
    check_enqueue(context, first, large, {"bf16"}, {"f32"}, {}, 9, round);
    check_enqueue(context, second, small, {"bf16"}, {"f32"}, {}, 2 + round, round);
  }
}

TEST_CASE("products share a workspace") {
  for (const char* backend : {"simd", "scalar"}) check_shared_workspace(open(backend), "raw_bf16");
  const Context context = open("best"), other = open("best");
  ecmv_workspace* workspace = nullptr;
  REQUIRE(ecmv_make_workspace(other.get(), &workspace) == ECMV_OK);
  const Matrix matrix = any_matrix();
  ecmv_product_options options = options_of(1);
  options.workspace = workspace;
  ecmv_product* product = nullptr;
  expect(ecmv_bind_product(context.get(), matrix.get(), &options, &product), ECMV_INVALID_ARGUMENT,
         "The workspace is one of another context.");
  ecmv_free_workspace(workspace);
  ecmv_free_workspace(nullptr);
  CHECK(ecmv_workspace_bytes(nullptr) == 0);
  expect(ecmv_make_workspace(nullptr, &workspace), ECMV_INVALID_ARGUMENT, "The argument 'context' is NULL.");
}

TEST_CASE("products on the emulator share a workspace", "[emulator]") {
  check_shared_workspace(open_or_skip("emulator"), "quad_huffman");
}

TEST_CASE("products on a GPU share a workspace", "[gpu]") {
  check_shared_workspace(open_or_skip("cuda"), "quad_huffman");
}

// As ecmv.torch binds a model: several threads read the sections of their matrices at once.
void check_threads_that_bind(const Context& context, const char* codec) {
  need_codec(codec);
  constexpr int kThreads = 3, kRounds = 4;
  std::vector<Weights> weights;
  for (int i = 0; i < kThreads; ++i) weights.push_back(some_weights(codec, "bf16", 32 + 16 * i, 512));
  std::deque<HeldSections> held;
  for (const Weights& one : weights) held.emplace_back(context, one.matrix);
  ecmv_workspace* workspace = nullptr;
  REQUIRE(ecmv_make_workspace(context.get(), &workspace) == ECMV_OK);
  std::vector<std::string> errors(kThreads);
  std::vector<Product> products(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        ecmv_product_options options = options_of(2, "bf16", "f32");
        options.workspace = workspace;
        ecmv_product* product = nullptr;
        if (held[i].bind_known(context, options, &product) != ECMV_OK) errors[i] = ecmv_last_error();
        products[i] = Product(product);
      }
    });
  for (std::thread& thread : threads) thread.join();
  ecmv_free_workspace(workspace);
  for (size_t i = 0; i < kThreads; ++i) {
    CHECK(errors[i].empty());
    if (products[i] != nullptr) check_enqueue(context, products[i], weights[i], {"bf16"}, {"f32"}, {}, 2, 3);
  }
}

TEST_CASE("several threads bind products of sections with one workspace") {
  check_threads_that_bind(open("best"), "quad_huffman");
}

TEST_CASE("several threads bind products of sections on the emulator", "[emulator]") {
  check_threads_that_bind(open_or_skip("emulator"), "quad_huffman");
}

TEST_CASE("several threads bind products of sections on a GPU", "[gpu]") {
  check_threads_that_bind(open_or_skip("cuda"), "quad_huffman");
}

TEST_CASE("a product outlives its matrix, its context and its memory's handles") {
  Context context = open("best");
  Matrix matrix = any_matrix();
  const Product product = bind(context, matrix, options_of(1));
  context.reset();
  matrix.reset();
  const std::vector<int8_t> numbers = some_numbers(kCols, 5);
  const std::vector<float> x(numbers.begin(), numbers.end());
  std::vector<float> y(kRows);
  REQUIRE(ecmv_enqueue_product(product.get(), nullptr, x.data(), kCols, 1, y.data(), kRows) == ECMV_OK);
  for (size_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (size_t col = 0; col < kCols; ++col) sum += double{x[col]} * weights()[row * kCols + col];
    CHECK(double{y[row]} == sum);  // small integers
  }
}

// Runs a program with the arguments BACKEND and a file; it prints the kernel.
static void run_example(const char* program, const char* backend) {
  const File file;
  const std::string command =
      std::string(program) + " " + backend + " " + file.path + " >" + file.path + ".kernel 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream kernel(file.path + ".kernel");
  std::string text;
  std::getline(kernel, text);
  std::filesystem::remove(file.path + ".kernel");
  INFO(program << ": " << text);
  CHECK(status == 0);
  CHECK(text.starts_with(std::string(backend) + "/"));
}
static void run_examples(const char* backend) {
  need_codec("quad_huffman");
  need_codec("packed_exponents");
  run_example(ECMV_CALLER_MEMORY, backend);
  run_example(ECMV_CALLER_SECTIONS, backend);
}

TEST_CASE("the examples in C run on a CPU") {
  run_examples("simd");
  run_examples("scalar");
}

TEST_CASE("the examples in C run on the emulator", "[emulator]") {
  (void)open_or_skip("emulator");
  run_examples("emulator");
}

TEST_CASE("the examples in C run on a GPU", "[gpu]") {
  (void)open_or_skip("cuda");
  run_examples("cuda");
}

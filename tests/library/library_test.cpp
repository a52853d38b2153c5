// libecmv as a program sees it: only the shared library and its header.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "experiments/library/ecmv.h"
#include "tests/comma_locale.h"
#include "tests/library/library_handles.h"
// Both headers of the installed tree in one file.
#include "codecs/ecmv_codec.h"

using Catch::Matchers::ContainsSubstring;
using namespace ecmv::tests;

namespace {

// As the library names the CPU; "" where Linux does not tell it in this way.
std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  return {};
}

std::vector<int32_t> plain_matvec(const std::vector<int8_t>& w, const std::vector<int8_t>& x) {
  std::vector<int32_t> y(w.size() / x.size());
  for (size_t row = 0; row < y.size(); ++row)
    for (size_t col = 0; col < x.size(); ++col) y[row] += w[row * x.size() + col] * x[col];
  return y;
}

// A codec of int8 elements that every build with this many tests has; the first.
Matrix any_matrix() {
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i)
    if (Matrix matrix = encode(ecmv_codec_id(i), "i8", weights().data())) return matrix;
  FAIL("There is no codec of int8 elements.");
  return {};
}

Pass prepare_matvec(const Context& context, const Matrix& matrix) {
  ecmv_pass* pass = nullptr;
  const ecmv_status status = ecmv_prepare_matvec(context.get(), matrix.get(), &pass);
  INFO(error_of(status));
  REQUIRE(status == ECMV_OK);
  return Pass(pass);
}

std::vector<int32_t> run_matvec(const Pass& pass, const std::vector<int8_t>& x, int64_t rows = kRows) {
  std::vector<int32_t> y(static_cast<size_t>(rows), -1);
  const ecmv_status status = ecmv_run_matvec(pass.get(), x.data(), y.data());
  INFO(error_of(status));
  REQUIRE(status == ECMV_OK);
  return y;
}

void check_matmul(const Context& context, const Matrix& matrix, int batch) {
  ecmv_pass* raw = nullptr;
  const ecmv_status status = ecmv_prepare_matmul(context.get(), matrix.get(), batch, &raw);
  INFO(error_of(status));
  REQUIRE(status == ECMV_OK);
  const Pass pass(raw);
  INFO(ecmv_pass_kernel(raw) << ", batch " << batch);
  std::vector<float> x(static_cast<size_t>(batch * kCols)),
      y(static_cast<size_t>(batch * kRows), std::numeric_limits<float>::quiet_NaN());
  for (const float scale : {0.01f, -3.7f}) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = scale * static_cast<float>(i * 37 % 101);
    REQUIRE(ecmv_run_matmul(raw, x.data(), y.data()) == ECMV_OK);
    int wrong = 0;
    for (int token = 0; token < batch; ++token)
      for (int64_t row = 0; row < kRows; ++row) {
        double sum = 0, magnitude = 0;
        for (int64_t col = 0; col < kCols; ++col) {
          const double product =
              double{x[static_cast<size_t>(token * kCols + col)]} * weights()[static_cast<size_t>(row * kCols + col)];
          sum += product;
          magnitude += std::fabs(product);
        }
        // Kernels that round a factor to a narrower type declare it; a wrong element makes a far larger error than
        // this.
        wrong += !(std::fabs(y[static_cast<size_t>(token * kRows + row)] - sum) <= 1e-2 * magnitude);
      }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("the library knows its version and its codecs") {
  CHECK(std::string(ecmv_version()).find('.') != std::string::npos);
  ecmv_build build = {};
  CHECK(ecmv_describe_build(&build) == ECMV_INVALID_ARGUMENT);
  CHECK(ecmv_describe_build(nullptr) == ECMV_INVALID_ARGUMENT);
  build.struct_bytes = sizeof(build);
  REQUIRE(ecmv_describe_build(&build) == ECMV_OK);
  CHECK((build.git_revision[0] == 0 || std::strlen(build.git_revision) == 40));
  CHECK(std::strlen(build.compiler) > 3);
  REQUIRE(ecmv_codec_id(0) != nullptr);
  if (ecmv_codec_id(1) != nullptr) CHECK(std::string(ecmv_codec_id(0)) < ecmv_codec_id(1));
  CHECK(std::strlen(ecmv_codec_summary(0)) > 10);
  CHECK(ecmv_codec_id(0) == ecmv_codec_id(0));
  CHECK(ecmv_codec_id(100'000) == nullptr);
  CHECK(ecmv_codec_summary(100'000) == nullptr);
}

TEST_CASE("every codec encodes, counts, decodes and multiplies") {
  const auto bf16 = as_bf16(weights());
  int matrices = 0;
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i)
    for (const char* type : {"i8", "bf16"}) {
      const char* codec = ecmv_codec_id(i);
      INFO(codec << " of " << type);
      const bool is_i8 = type == std::string("i8");
      const void* elements = is_i8 ? static_cast<const void*>(weights().data()) : bf16.data();
      const size_t bytes = is_i8 ? weights().size() : 2 * bf16.size();
      if (!is_i8 && codec == std::string("tile_rans")) continue;  // it quantises floats
      const Matrix matrix = encode(codec, type, elements);
      if (matrix == nullptr) continue;
      ++matrices;

      ecmv_sizes sizes = {sizeof(sizes), -1, -1, -1, -1, -1, -1, -1};
      REQUIRE(ecmv_sizes_of(matrix.get(), &sizes) == ECMV_OK);
      CHECK(sizes.struct_bytes == sizeof(sizes));
      CHECK(sizes.payload > 0);
      CHECK(sizes.stored == sizes.payload + sizes.table + sizes.index + sizes.scale);
      CHECK((sizes.padding >= 0 && sizes.padding < sizes.stored));
      CHECK(sizes.bits_per_element == 8.0 * static_cast<double>(sizes.stored) / (kRows * kCols));

      std::vector<char> decoded(bytes, 'x');
      REQUIRE(ecmv_decode(matrix.get(), decoded.data(), bytes) == ECMV_OK);
      CHECK(std::memcmp(decoded.data(), elements, bytes) == 0);
      const Context best = open(nullptr), scalar = open("scalar");
      for (const Context* context : {&best, &scalar}) {
        ecmv_pass* decode = nullptr;
        REQUIRE(ecmv_prepare_decode(context->get(), matrix.get(), &decode) == ECMV_OK);
        const Pass owned(decode);
        std::fill(decoded.begin(), decoded.end(), 'x');
        REQUIRE(ecmv_run_decode(decode, decoded.data(), bytes) == ECMV_OK);
        CHECK(std::memcmp(decoded.data(), elements, bytes) == 0);
        for (const int batch : {1, 3}) check_matmul(*context, matrix, batch);
        if (!is_i8) continue;
        const Pass pass = prepare_matvec(*context, matrix);
        INFO(ecmv_pass_kernel(pass.get()));
        for (const uint32_t seed : {2u, 3u, 2u}) {
          const std::vector<int8_t> x = some_numbers(kCols, seed);
          CHECK(run_matvec(pass, x) == plain_matvec(weights(), x));
        }
      }
    }
  CHECK(matrices > 0);
}

TEST_CASE("a batch has any number of tokens, more than a kernel multiplies at a time among them") {
  for (const int batch : {64, 65, 200}) check_matmul(open("best"), any_matrix(), batch);
}

TEST_CASE("the kernel's name says backend, op and method") {
  const Pass pass = prepare_matvec(open("scalar"), any_matrix());
  CHECK_THAT(ecmv_pass_kernel(pass.get()), Catch::Matchers::StartsWith("scalar/"));
  CHECK(std::string(ecmv_pass_kernel(nullptr)).empty());
}

TEST_CASE("handles may be freed in any order, and stored bytes are shared") {
  Matrix matrix = any_matrix();
  Context context = open("best"), other = open("best", 1);
  const std::vector<int8_t> x = some_numbers(kCols, 5);
  Pass first = prepare_matvec(context, matrix);
  const Pass second = prepare_matvec(other, matrix);
  matrix.reset();
  context.reset();
  CHECK(run_matvec(first, x) == plain_matvec(weights(), x));
  first.reset();
  other.reset();
  CHECK(run_matvec(second, x) == plain_matvec(weights(), x));
  ecmv_free_matrix(nullptr);
  ecmv_close(nullptr);
  ecmv_free_pass(nullptr);
}

TEST_CASE("matrices without elements have products too") {
  const Context context = open("best");
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i)
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{0, 0}, {3, 0}, {0, 3}}) {
      INFO(ecmv_codec_id(i) << " " << rows << " x " << cols);
      const Matrix matrix = encode(ecmv_codec_id(i), "i8", nullptr, rows, cols);
      if (matrix == nullptr) continue;
      ecmv_sizes sizes = {sizeof(sizes), 0, 0, 0, 0, 0, 0, -1};
      CHECK(ecmv_sizes_of(matrix.get(), &sizes) == ECMV_OK);
      CHECK(sizes.bits_per_element == 0);
      CHECK(ecmv_decode(matrix.get(), nullptr, 0) == ECMV_OK);
      const Pass pass = prepare_matvec(context, matrix);
      CHECK(run_matvec(pass, some_numbers(cols, 1), rows) == std::vector<int32_t>(static_cast<size_t>(rows), 0));
    }
}

TEST_CASE("a wrong call of ecmv_encode comes as a status and a sentence") {
  const char* codec = ecmv_codec_id(0);
  const auto bf16 = as_bf16(weights());
  const auto encoding = [&](const char* id, const char* settings, const char* type, int64_t rows, int64_t cols,
                            const void* elements) {
    auto* made = reinterpret_cast<ecmv_compressed_matrix*>(&codec);
    const ecmv_status status = ecmv_encode(id, settings, type, rows, cols, elements, &made);
    CHECK(made == nullptr);
    return status;
  };
  const void* elements = weights().data();
  expect(encoding("no_such_codec", nullptr, "i8", kRows, kCols, elements), ECMV_INVALID_ARGUMENT,
         "There is no codec 'no_such_codec'.");
  expect(encoding(nullptr, nullptr, "i8", kRows, kCols, elements), ECMV_INVALID_ARGUMENT,
         "The argument 'codec' is NULL.");
  expect(encoding(codec, "no_such_setting=1", "i8", kRows, kCols, elements), ECMV_INVALID_ARGUMENT,
         "There is no setting 'no_such_setting'.");
  expect(encoding(codec, "a=1,a=2", "i8", kRows, kCols, elements), ECMV_INVALID_ARGUMENT,
         "The setting 'a' is given twice.");
  for (const char* settings : {"lanes", "=1", ","})
    expect(encoding(codec, settings, "i8", kRows, kCols, elements), ECMV_INVALID_ARGUMENT,
           "Settings are 'name=value,name=value'");
  expect(encoding(codec, nullptr, "int8", kRows, kCols, elements), ECMV_INVALID_ARGUMENT,
         "There is no element type 'int8'; there are: i8, u8,");
  expect(encoding(codec, nullptr, nullptr, kRows, kCols, elements), ECMV_INVALID_ARGUMENT,
         "The argument 'element_type' is NULL.");
  expect(encoding(codec, nullptr, "i8", -1, kCols, elements), ECMV_INVALID_ARGUMENT, "There is no matrix of -1 rows");
  expect(encoding(codec, nullptr, "f64", int64_t{1} << 30, int64_t{1} << 30, elements), ECMV_INVALID_ARGUMENT,
         "There is no matrix of");
  expect(encoding(codec, nullptr, "i8", kRows, kCols, nullptr), ECMV_INVALID_ARGUMENT,
         "The argument 'elements' is NULL.");
  expect(encoding(codec, nullptr, "bf16", 1, 2, reinterpret_cast<const char*>(bf16.data()) + 1), ECMV_INVALID_ARGUMENT,
         "not aligned to the 2 bytes");
  expect(ecmv_encode(codec, nullptr, "i8", kRows, kCols, elements, nullptr), ECMV_INVALID_ARGUMENT,
         "The argument 'matrix' is NULL.");
}

TEST_CASE("a wrong call with a matrix, a context or a pass comes as a status and a sentence") {
  const Context context = open("best");
  const Matrix matrix = any_matrix();
  const Pass matvec = prepare_matvec(context, matrix);
  const std::vector<float> x(kCols);
  std::vector<float> y(kRows);
  std::vector<int8_t> out(kRows * kCols);
  ecmv_sizes sizes = {};
  expect(ecmv_sizes_of(matrix.get(), &sizes), ECMV_INVALID_ARGUMENT, "not sizeof(ecmv_sizes).");
  expect(ecmv_sizes_of(matrix.get(), nullptr), ECMV_INVALID_ARGUMENT, "The argument 'sizes' is NULL.");
  expect(ecmv_sizes_of(nullptr, &sizes), ECMV_INVALID_ARGUMENT, "The argument 'matrix' is NULL.");
  expect(ecmv_decode(matrix.get(), out.data(), out.size() - 1), ECMV_INVALID_ARGUMENT,
         "The elements take 32768 bytes, not 32767.");
  expect(ecmv_decode(matrix.get(), nullptr, out.size()), ECMV_INVALID_ARGUMENT, "The argument 'out' is NULL.");

  ecmv_context* made = nullptr;
  expect(ecmv_open("simdd", 0, -1, &made), ECMV_INVALID_ARGUMENT, "There is no backend 'simdd'. Did you mean 'simd'?");
  expect(ecmv_open("simd", -1, -1, &made), ECMV_INVALID_ARGUMENT, "Threads are 1 to 1024, or 0 for all, not -1.");
  expect(ecmv_open("simd", 5000, -1, &made), ECMV_INVALID_ARGUMENT, "not 5000.");
  expect(ecmv_open("simd", 0, -1, nullptr), ECMV_INVALID_ARGUMENT, "The argument 'context' is NULL.");
  expect(ecmv_load_codec_library("/nowhere/lib.so"), ECMV_UNAVAILABLE, "There is no codec library '/nowhere/lib.so'.");

  ecmv_pass* pass = nullptr;
  expect(ecmv_prepare_matvec(nullptr, matrix.get(), &pass), ECMV_INVALID_ARGUMENT, "The argument 'context' is NULL.");
  expect(ecmv_prepare_matvec(context.get(), nullptr, &pass), ECMV_INVALID_ARGUMENT, "The argument 'matrix' is NULL.");
  expect(ecmv_prepare_matvec(context.get(), matrix.get(), nullptr), ECMV_INVALID_ARGUMENT,
         "The argument 'pass' is NULL.");
  for (const int batch : {0, -1, 4097})
    expect(ecmv_prepare_matmul(context.get(), matrix.get(), batch, &pass), ECMV_INVALID_ARGUMENT,
           "A batch has 1 to 4096 tokens");
  expect(ecmv_run_matmul(matvec.get(), x.data(), y.data()), ECMV_INVALID_ARGUMENT,
         "The pass was prepared for matvec, not for matmul.");
  expect(ecmv_run_decode(matvec.get(), out.data(), out.size()), ECMV_INVALID_ARGUMENT, "not for decode.");
  expect(ecmv_run_matvec(nullptr, out.data(), nullptr), ECMV_INVALID_ARGUMENT, "The argument 'pass' is NULL.");
  expect(ecmv_run_matvec(matvec.get(), nullptr, nullptr), ECMV_INVALID_ARGUMENT, "The argument 'x' is NULL.");
  expect(ecmv_run_matvec(matvec.get(), out.data(), nullptr), ECMV_INVALID_ARGUMENT, "The argument 'y' is NULL.");

  // The sentence stays while nothing fails, and another thread has its own.
  CHECK(ecmv_sizes_of(matrix.get(), (sizes.struct_bytes = sizeof(sizes), &sizes)) == ECMV_OK);
  CHECK_THAT(ecmv_last_error(), ContainsSubstring("The argument 'y' is NULL."));
  std::string elsewhere = "not read";
  std::thread([&] { elsewhere = ecmv_last_error(); }).join();
  CHECK(elsewhere.empty());
}

TEST_CASE("the locale of the program that uses the library changes no number and no sentence") {
  const auto answers = [] {
    std::vector<std::string> all;
    const char* codec = ecmv_codec_id(0);
    ecmv_compressed_matrix* made = nullptr;
    ecmv_encode(codec, nullptr, "f64", int64_t{1} << 30, int64_t{1} << 30, weights().data(), &made);
    all.emplace_back(ecmv_last_error());
    for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i) {
      const Matrix matrix = encode(ecmv_codec_id(i), "i8", weights().data());
      if (matrix == nullptr) continue;
      std::vector<int8_t> decoded(weights().size());
      CHECK(ecmv_decode(matrix.get(), decoded.data(), decoded.size()) == ECMV_OK);
      CHECK(decoded == weights());
      ecmv_sizes sizes = {sizeof(sizes), -1, -1, -1, -1, -1, -1, -1};
      REQUIRE(ecmv_sizes_of(matrix.get(), &sizes) == ECMV_OK);
      all.push_back(std::to_string(sizes.stored));
    }
    return all;
  };
  const std::vector<std::string> before = answers();
  const std::locale plain = std::locale::global(std::locale(std::locale::classic(), new ecmv::tests::CommaPoint));
  const std::vector<std::string> after = answers();
  std::locale::global(plain);
  CHECK(after == before);
}

TEST_CASE("products that there are not are refused with the reason") {
  const auto bf16 = as_bf16(weights());
  const Context context = open("best");
  int tried = 0;
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i) {
    ecmv_pass* pass = nullptr;
    if (const Matrix matrix = encode(ecmv_codec_id(i), "bf16", bf16.data())) {
      CHECK(ecmv_prepare_matvec(context.get(), matrix.get(), &pass) == ECMV_REFUSED);
      CHECK_THAT(ecmv_last_error(), ContainsSubstring("matvec is that of int8 matrices; the elements here are bf16"));
      ++tried;
    }
    const std::vector<int8_t> wide(131072);
    if (const Matrix matrix = encode(ecmv_codec_id(i), "i8", wide.data(), 1, 131072)) {
      CHECK(ecmv_prepare_matvec(context.get(), matrix.get(), &pass) == ECMV_REFUSED);
      CHECK_THAT(ecmv_last_error(), ContainsSubstring("could overflow int32; at most 131071"));
      ++tried;
    }
    const std::vector<int32_t> integers(64);
    if (const Matrix matrix = encode(ecmv_codec_id(i), "i32", integers.data(), 8, 8)) {
      CHECK(ecmv_prepare_matmul(context.get(), matrix.get(), 1, &pass) == ECMV_REFUSED);
      CHECK_THAT(ecmv_last_error(), ContainsSubstring("i32"));
      ++tried;
    }
    CHECK(pass == nullptr);
  }
  CHECK(tried > 0);
}

TEST_CASE("a caller with newer sizes finds zeros where the library knows nothing") {
  struct Newer {
    ecmv_sizes sizes;
    int64_t more;
  } newer = {{sizeof(Newer), 0, 0, 0, 0, 0, 0, 0}, -1};
  REQUIRE(ecmv_sizes_of(any_matrix().get(), &newer.sizes) == ECMV_OK);
  CHECK(newer.sizes.struct_bytes == sizeof(Newer));
  CHECK(newer.sizes.stored > 0);
  CHECK(newer.more == 0);
}

TEST_CASE("several threads multiply at once, by passes of their own and by a shared one") {
  const Matrix matrix = any_matrix();
  const Context best = open("best", 1), scalar = open("scalar", 2);
  const Pass shared = prepare_matvec(best, matrix);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t number = 0; number < wrong.size(); ++number)
    threads.emplace_back([&, number] {
      ecmv_pass* raw = nullptr;
      wrong[number] += ecmv_prepare_matvec((number % 2 == 0 ? best : scalar).get(), matrix.get(), &raw) != ECMV_OK;
      const Pass own(raw);
      std::vector<int32_t> y(kRows);
      for (uint32_t round = 0; round < 30; ++round) {
        const std::vector<int8_t> x = some_numbers(kCols, round * 7 + static_cast<uint32_t>(number));
        for (ecmv_pass* pass : {own.get(), shared.get()}) {
          wrong[number] += ecmv_run_matvec(pass, x.data(), y.data()) != ECMV_OK;
          wrong[number] += y != plain_matvec(weights(), x);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("a codec from a shared object is as good as one of the library, and held to its word") {
  size_t before = 0;
  while (ecmv_codec_id(before) != nullptr) ++before;
  REQUIRE(error_of(ecmv_load_codec_library(ECMV_EXAMPLE_LIBRARY)) == "");
  REQUIRE(error_of(ecmv_load_codec_library(ECMV_VARIANTS_LIBRARY)) == "");
  REQUIRE(ecmv_codec_id(before) != nullptr);
  CHECK(ecmv_codec_id(before) == std::string("example_codec"));
  const Matrix matrix = encode("example_codec", "i8", weights().data());
  const Context context = open("best");
  const Pass pass = prepare_matvec(context, matrix);
  const std::vector<int8_t> x = some_numbers(kCols, 9);
  CHECK(run_matvec(pass, x) == plain_matvec(weights(), x));

  ecmv_compressed_matrix* wrong = nullptr;
  setenv("ECMV_TEST_VARIANT", "decode_wrongly", 1);
  CHECK(ecmv_encode("variant_codec", nullptr, "i8", kRows, kCols, weights().data(), &wrong) == ECMV_INCORRECT);
  CHECK_THAT(ecmv_last_error(), ContainsSubstring("The codec 'variant_codec' does not reproduce this matrix: "
                                                  "The decoded element at row 0, column 0"));
  setenv("ECMV_TEST_VARIANT", "encode_error", 1);
  CHECK(ecmv_encode("variant_codec", nullptr, "i8", kRows, kCols, weights().data(), &wrong) == ECMV_FAILED);
  CHECK_THAT(ecmv_last_error(), ContainsSubstring("The encoder gave up."));
  unsetenv("ECMV_TEST_VARIANT");
  const Matrix variant = encode("variant_codec", "i8", weights().data());
  const Pass failing = prepare_matvec(context, variant);
  setenv("ECMV_TEST_VARIANT", "kernel_error", 1);
  std::vector<int32_t> y(kRows);
  CHECK(ecmv_run_matvec(failing.get(), x.data(), y.data()) == ECMV_FAILED);
  CHECK_THAT(ecmv_last_error(), ContainsSubstring("The kernel gave up."));
  unsetenv("ECMV_TEST_VARIANT");
  CHECK(run_matvec(failing, x) == plain_matvec(weights(), x));
}

TEST_CASE("the library reads what ecmv tune found") {
  ecmv_context* opened = nullptr;
  REQUIRE(ecmv_open("scalar", 1, -1, &opened) == ECMV_OK);
  const Context cpu(opened);
  need_codec("packed_outliers");
  const File file;
  const auto write = [&](const std::string& device, const std::string& schema = "1") {
    std::ofstream(file.path) << "{\"schema\": " << schema << R"(, "entries": [{"backend":"scalar","device":")" << device
                             << R"(","codec":"packed_outliers","format_version":1,"asked":{},"type":"i8","rows":64,)"
                             << R"("cols":512,"op":"matvec","found":{"bits":"5"},"model_off":1.5}]})";
  };
  const auto found = [&](const char* op, int64_t rows, const char* settings = nullptr, size_t bytes = 64) {
    char text[64] = "";
    const ecmv_status status = ecmv_tuned_settings(cpu.get(), file.path.c_str(), op, "packed_outliers", settings, "i8",
                                                   rows, 512, text, bytes);
    return status == ECMV_OK ? std::string(text) : "error: " + std::string(ecmv_last_error());
  };
  write("another device");
  CHECK(found("matvec", 64).empty());
  CHECK(found("matvec", 64, "bits=3") == "bits=3");
  if (const std::string device = cpu_model(); !device.empty()) {
    write(device);
    CHECK(found("matvec", 64) == "bits=5");
    CHECK(found("matvec", 64, "bits=0") == "bits=5");
    CHECK(found("matvec", 64, "bits=3") == "bits=3");
    CHECK(found("matvec", 65).empty());
    CHECK(found("decode", 64).empty());
    CHECK_THAT(found("matvec", 64, nullptr, 6), ContainsSubstring("The settings take 7 bytes."));
  }
  CHECK_THAT(found("product", 64), ContainsSubstring("There is no op 'product'"));
  write("a device", "2");
  CHECK_THAT(found("matvec", 64), ContainsSubstring("has another schema"));
  std::ofstream(file.path) << "schema: 1";
  CHECK_THAT(found("matvec", 64), ContainsSubstring("is not as ecmv tune writes it"));
  std::filesystem::remove(file.path);
  CHECK_THAT(found("matvec", 64), ContainsSubstring("cannot be read"));
  CHECK(ecmv_tuned_settings(nullptr, "x", "matvec", "packed_outliers", nullptr, "i8", 1, 1, nullptr, 0) ==
        ECMV_INVALID_ARGUMENT);
}

TEST_CASE("a GPU backend takes host memory, or says why there is none", "[emulator]") {
  ecmv_context* raw = nullptr;
  for (const char* backend : {"cuda", "hip"}) {
    const ecmv_status status = ecmv_open(backend, 0, -1, &raw);
    INFO(error_of(status));
    CHECK((status == ECMV_OK || status == ECMV_UNAVAILABLE));
    ecmv_close(raw);
  }
  if (ecmv_open("emulator", 0, -1, &raw) == ECMV_UNAVAILABLE) SKIP(ecmv_last_error());
  const Context context(raw);
  REQUIRE(context != nullptr);
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i) {
    const Matrix matrix = encode(ecmv_codec_id(i), "i8", weights().data());
    ecmv_pass* pass = nullptr;
    if (matrix == nullptr) continue;
    INFO(ecmv_codec_id(i));
    const ecmv_status status = ecmv_prepare_matvec(context.get(), matrix.get(), &pass);
    if (status == ECMV_REFUSED) {
      CHECK(std::string(ecmv_last_error()).ends_with("."));
      continue;
    }
    REQUIRE(status == ECMV_OK);
    const Pass owned(pass);
    CHECK_THAT(ecmv_pass_kernel(pass), Catch::Matchers::StartsWith("emulator/"));
    for (const uint32_t seed : {2u, 3u}) {
      const std::vector<int8_t> x = some_numbers(kCols, seed);
      CHECK(run_matvec(owned, x) == plain_matvec(weights(), x));
    }
    check_matmul(context, matrix, 2);
    return;  // one codec shows it
  }
}

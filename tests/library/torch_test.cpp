// The kernel of PyTorch's operator ecmv::linear, with a PyTorch of the test's own (fake/libtorch.c).
#include <dlfcn.h>

#include <stdexcept>

#include "tests/library/library_handles.h"

using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int32_t kFloat32 = 6, kBfloat16 = 15;

template <typename T>
T found(const char* name) {
  static void* const library = dlopen(ECMV_FAKE_LIBTORCH, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  void* symbol = dlsym(library, name);
  REQUIRE(symbol != nullptr);
  return reinterpret_cast<T>(symbol);
}

struct FakeTensor {
  void* data;
  int64_t dim, sizes[16], strides[16];
  int32_t dtype;
};

FakeTensor* tensor(void* data, std::vector<int64_t> sizes, std::vector<int64_t> strides, int32_t dtype = kFloat32) {
  const auto make = found<FakeTensor* (*)(void*, int64_t, const int64_t*, const int64_t*, int32_t)>("make_tensor");
  return make(data, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype);
}
void free_tensor(FakeTensor* one) { found<int32_t (*)(FakeTensor*)>("aoti_torch_delete_tensor_object")(one); }
int live_tensors() { return *found<int*>("live_tensors"); }

// A call as PyTorch's dispatcher makes it; the kernel owns its arguments.
FakeTensor* call(FakeTensor* x, FakeTensor* coded, FakeTensor* bias, int64_t rows) {
  uint64_t stack[] = {reinterpret_cast<uint64_t>(x), reinterpret_cast<uint64_t>(coded),
                      bias == nullptr ? 0 : reinterpret_cast<uint64_t>(new uint64_t(reinterpret_cast<uint64_t>(bias))),
                      static_cast<uint64_t>(rows)};
  (*found<void (**)(uint64_t*, uint64_t, uint64_t)>("registered_kernel"))(stack, 4, 1);
  return reinterpret_cast<FakeTensor*>(stack[0]);
}

int asked = 0;
void bind_nothing(const void*, const void*, char* sentence, size_t bytes) {
  ++asked;
  std::strncpy(sentence, "nothing is bound here.", bytes);
}

void register_kernels() { REQUIRE(error_of(ecmv_torch_register(ECMV_FAKE_LIBTORCH, nullptr, bind_nothing)) == ""); }

// A product of small integers, whose sums are exact.
struct Bound {
  explicit Bound(const float* bias) : matrix(encode("raw_int8", "i8", weights().data())), bias_place(bias) {
    ecmv_context* opened = nullptr;
    REQUIRE(error_of(ecmv_open("best", 1, -1, &opened)) == "");
    context.reset(opened);
    ecmv_product_options options = {};
    options.struct_bytes = sizeof(options);
    options.max_tokens = 100;
    options.x_type = options.y_type = "f32";
    options.bias = bias;
    REQUIRE(error_of(ecmv_bind_product(context.get(), matrix.get(), &options, &product)) == "");
    ecmv_torch_binding binding = {};
    binding.struct_bytes = sizeof(binding);
    binding.product = product;
    binding.bias = bias;
    binding.rows = kRows;
    binding.cols = kCols;
    binding.device = -1;
    REQUIRE(error_of(ecmv_torch_bind(&coded, &binding)) == "");
  }
  ~Bound() {
    ecmv_torch_unbind(&coded, bias_place, product);
    ecmv_free_product(product);
  }
  FakeTensor* coded_tensor() { return tensor(&coded, {1}, {1}); }

  Matrix matrix;
  Context context;
  ecmv_product* product = nullptr;
  const float* bias_place;
  char coded = 0;
};

std::vector<float> some_tokens(int64_t count) {
  std::vector<float> x;
  for (const int8_t number : some_numbers(count, 7)) x.push_back(number);
  return x;
}

float expected(int64_t row, const float* x, int64_t step) {
  float sum = 0;
  for (int64_t col = 0; col < kCols; ++col)
    sum += static_cast<float>(weights()[static_cast<size_t>(row * kCols + col)]) * x[col * step];
  return sum;
}

}  // namespace

TEST_CASE("PyTorch's operator multiplies tokens of every layout and adds the bias") {
  register_kernels();
  std::vector<float> x = some_tokens(6 * 5 * kCols * 2), bias(kRows, 3.0F);
  const int before = live_tensors();
  for (const bool with_bias : {false, true}) {
    Bound bound(with_bias ? bias.data() : nullptr);
    const struct {
      std::vector<int64_t> sizes, strides;
    } layouts[] = {{{kCols}, {1}},
                   {{kCols}, {2}},
                   {{3, kCols}, {kCols, 1}},
                   {{3, kCols}, {kCols + 5, 1}},
                   {{3, kCols}, {1, 3}},
                   {{2, 1, kCols}, {5 * kCols, kCols, 1}},
                   {{2, 4, kCols}, {5 * kCols, kCols, 1}},
                   {{4, 2, kCols}, {kCols, 5 * kCols, 1}},
                   {{2, 1, 1, kCols}, {3 * kCols, 7, 9, 1}},
                   {{3, kCols}, {0, 1}},
                   {{0, kCols}, {kCols, 1}}};
    for (const auto& [sizes, strides] : layouts) {
      FakeTensor* y = call(tensor(x.data(), sizes, strides), bound.coded_tensor(),
                           with_bias ? tensor(bias.data(), {kRows}, {1}) : nullptr, kRows);
      REQUIRE(y->dim == static_cast<int64_t>(sizes.size()));
      int64_t tokens = 1;
      for (size_t i = 0; i + 1 < sizes.size(); ++i) {
        CHECK(y->sizes[i] == sizes[i]);
        tokens *= sizes[i];
      }
      CHECK(y->sizes[sizes.size() - 1] == kRows);
      for (int64_t token = 0; token < tokens; ++token) {
        int64_t offset = 0, rest = token;
        for (size_t i = sizes.size() - 1; i-- > 0; rest /= sizes[i]) offset += rest % sizes[i] * strides[i];
        for (const int64_t row : {int64_t{0}, kRows - 1})
          CHECK(static_cast<const float*>(y->data)[token * kRows + row] ==
                expected(row, x.data() + offset, strides.back()) + (with_bias ? 3.0F : 0.0F));
      }
      free_tensor(y);
    }
  }
  CHECK(live_tensors() == before);
}

TEST_CASE("what PyTorch's operator cannot multiply ends in a sentence and leaves no tensor behind") {
  register_kernels();
  std::vector<float> x = some_tokens(4 * kCols);
  const int before = live_tensors();
  const auto error = [](auto what) -> std::string {
    try {
      what();
    } catch (const std::runtime_error& thrown) {
      return thrown.what();
    }
    return "";
  };
  {
    Bound bound(nullptr);
    const auto run = [&](FakeTensor* tokens, FakeTensor* bias, int64_t rows) {
      return error([&] { free_tensor(call(tokens, bound.coded_tensor(), bias, rows)); });
    };
    CHECK(run(tensor(x.data(), {2, kCols}, {kCols, 1}), nullptr, kRows) == "");
    CHECK_THAT(run(tensor(x.data(), {2, kCols - 1}, {kCols, 1}), nullptr, kRows),
               ContainsSubstring("which do not fit the last dimension of x"));
    CHECK_THAT(run(tensor(x.data(), {}, {}), nullptr, kRows), ContainsSubstring("which do not fit"));
    CHECK_THAT(run(tensor(x.data(), {2, kCols}, {kCols, 1}), nullptr, kRows - 1), ContainsSubstring("has 64 rows"));
    CHECK_THAT(run(tensor(x.data(), {2, kCols}, {kCols, 1}, kBfloat16), nullptr, kRows),
               ContainsSubstring("x is to have the dtype float32"));
    CHECK_THAT(run(tensor(x.data(), {101, kCols}, {0, 1}), nullptr, kRows), ContainsSubstring("1 to 100 tokens"));
    *found<int32_t*>("device_of_tensors") = 1;
    CHECK_THAT(run(tensor(x.data(), {2, kCols}, {kCols, 1}), nullptr, kRows),
               ContainsSubstring("the coded weights are on a CPU, and x is on GPU 0."));
    *found<int32_t*>("device_of_tensors") = 0;
    const int asked_before = asked;
    CHECK_THAT(run(tensor(x.data(), {2, kCols}, {kCols, 1}), tensor(x.data(), {kRows}, {1}), kRows),
               ContainsSubstring("nothing is bound here."));
    CHECK(asked == asked_before + 1);
    ecmv_torch_unbind(&bound.coded, nullptr, nullptr);  // another product's
    CHECK(run(tensor(x.data(), {2, kCols}, {kCols, 1}), nullptr, kRows) == "");
    ecmv_torch_unbind(&bound.coded, nullptr, bound.product);
    CHECK_THAT(run(tensor(x.data(), {2, kCols}, {kCols, 1}), nullptr, kRows),
               ContainsSubstring("nothing is bound here."));
  }
  CHECK(live_tensors() == before);
}

TEST_CASE("a PyTorch that lacks what is needed is told so") {
  CHECK_THAT(error_of(ecmv_torch_bind(nullptr, nullptr)), ContainsSubstring("'coded' is NULL"));
  CHECK_THAT(error_of(ecmv_torch_register(nullptr, nullptr, nullptr)), ContainsSubstring("'libtorch_cpu' is NULL"));
}

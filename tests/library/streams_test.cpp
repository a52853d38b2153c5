// Products on streams of CUDA, also under capture. The program that uses the library has the driver's own interface.
#include <dlfcn.h>

#include "tests/library/library_handles.h"

using namespace ecmv::tests;

namespace {

// The functions of libcuda.so.1 that a program with streams and graphs calls.
struct Driver {
  Driver() : library(dlopen("libcuda.so.1", RTLD_NOW)) {
    if (library == nullptr) return;
    take(stream_create, "cuStreamCreate");
    take(stream_synchronize, "cuStreamSynchronize");
    take(begin_capture, "cuStreamBeginCapture_v2");
    take(end_capture, "cuStreamEndCapture");
    take(instantiate, "cuGraphInstantiateWithFlags");
    take(launch, "cuGraphLaunch");
  }
  template <typename Function>
  void take(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    REQUIRE(function != nullptr);
  }
  void* library;
  int (*stream_create)(void**, unsigned) = nullptr;
  int (*stream_synchronize)(void*) = nullptr;
  int (*begin_capture)(void*, int) = nullptr;
  int (*end_capture)(void*, void**) = nullptr;
  int (*instantiate)(void**, void*, unsigned long long) = nullptr;
  int (*launch)(void*, void*) = nullptr;
};
constexpr unsigned kNonBlocking = 1;
constexpr int kGlobalCapture = 0;

struct On {
  ecmv_product* product = nullptr;
  ecmv_buffer *x = nullptr, *y = nullptr;
};

void write_x(const On& on, uint32_t seed, size_t tokens) {
  const std::vector<uint16_t> x = as_bf16(some_numbers(static_cast<int64_t>(tokens) * kCols, seed));
  REQUIRE(ecmv_write(on.x, 0, x.data(), 2 * x.size()) == ECMV_OK);
}
std::vector<float> read_y(const On& on, size_t tokens) {
  std::vector<float> y(tokens * kRows);
  REQUIRE(ecmv_read(on.y, 0, y.data(), 4 * y.size()) == ECMV_OK);
  return y;
}
std::string enqueue(const On& on, void* stream, int64_t tokens) {
  return error_of(ecmv_enqueue_product(on.product, stream, ecmv_place(on.x), kCols, tokens, ecmv_place(on.y), kRows));
}

}  // namespace

TEST_CASE("products run on several streams, change streams, and are replayed in a graph", "[gpu]") {
  ecmv_context* raw = nullptr;
  if (ecmv_open("cuda", 0, -1, &raw) != ECMV_OK) SKIP(ecmv_last_error());
  const Context context(raw);
  const Driver driver;
  REQUIRE(driver.library != nullptr);
  void* streams[2] = {};
  for (void*& stream : streams) REQUIRE(driver.stream_create(&stream, kNonBlocking) == 0);
  need_codec("quad_huffman");
  const auto halves = as_bf16(weights());
  const Matrix matrix = encode("quad_huffman", "bf16", halves.data());
  REQUIRE(matrix != nullptr);
  constexpr size_t kTokens = 70;  // more than one part
  ecmv_product_options options = {};
  options.struct_bytes = sizeof(options);
  options.max_tokens = kTokens;
  options.x_type = "bf16";
  options.y_type = "f32";
  On both[2];
  for (On& on : both) {
    REQUIRE(error_of(ecmv_bind_product(context.get(), matrix.get(), &options, &on.product)) == "");
    REQUIRE(ecmv_allocate(context.get(), 2 * kTokens * kCols, &on.x) == ECMV_OK);
    REQUIRE(ecmv_allocate(context.get(), 4 * kTokens * kRows, &on.y) == ECMV_OK);
  }
  const auto expected = [&](uint32_t seed) {
    write_x(both[0], seed, kTokens);
    REQUIRE(enqueue(both[0], nullptr, kTokens) == "");
    REQUIRE(error_of(ecmv_synchronize(context.get())) == "");
    return read_y(both[0], kTokens);
  };
  const std::vector<float> first = expected(3), second = expected(4);
  CHECK(first != second);

  for (size_t i = 0; i < 2; ++i) write_x(both[i], static_cast<uint32_t>(3 + i), kTokens);
  for (int round = 0; round < 20; ++round)
    for (size_t i = 0; i < 2; ++i)
      REQUIRE(enqueue(both[i], streams[(i + static_cast<size_t>(round)) % 2], kTokens) == "");
  for (void* stream : streams) REQUIRE(driver.stream_synchronize(stream) == 0);
  CHECK(read_y(both[0], kTokens) == first);
  CHECK(read_y(both[1], kTokens) == second);

  void *graph = nullptr, *executable = nullptr;
  REQUIRE(driver.begin_capture(streams[0], kGlobalCapture) == 0);
  const std::string captured = enqueue(both[0], streams[0], kTokens) + enqueue(both[1], streams[0], 1);
  REQUIRE(driver.end_capture(streams[0], &graph) == 0);
  REQUIRE(captured == "");
  REQUIRE(driver.instantiate(&executable, graph, 0) == 0);
  for (const uint32_t seed : {4u, 3u}) {
    write_x(both[0], seed, kTokens);
    REQUIRE(driver.launch(executable, streams[0]) == 0);
    REQUIRE(driver.stream_synchronize(streams[0]) == 0);
    CHECK(read_y(both[0], kTokens) == (seed == 3 ? first : second));
  }

  std::vector<uint16_t> host(kCols);
  expect(ecmv_enqueue_product(both[0].product, streams[0], host.data(), kCols, 1, ecmv_place(both[0].y), kRows),
         ECMV_INVALID_ARGUMENT, "The argument 'x' is no memory of the device.");
  REQUIRE(enqueue(both[0], streams[1], kTokens) == "");
  for (const On& on : both) {
    ecmv_free_product(on.product);  // waits
    ecmv_free_buffer(on.x);
    ecmv_free_buffer(on.y);
  }
}

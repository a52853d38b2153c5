// Products of segments with tokens of bf16 on GPUs, in the emulator.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/exact_product.h"
#include "backends/pass.h"
#include "codecs/compressed_matrix.h"
#include "codecs/huffman_exponents/tests/test_streams.h"
#include "datasets/numbers.h"
#include "tests/test_matrices.h"

namespace {

using namespace ecmv;
using namespace codecs::huffman_exponents::test_streams;
using backends::CompressedMatrix;

}  // namespace

// Segments that follow each other in a ring, also where one row's codes are far longer than another's; ends of rows
// inside a piece and a step, and parts of a block without columns.
TEST_CASE("huffman_exponents_products_with_tokens_of_bf16_keep_the_bound_across_segments", "[emulator]") {
  skip_without_emulator();
  tests::Random random{9};
  const auto uneven = [&](int64_t cols) {
    return bf16({64, cols}, [&, cols](int64_t i) {
      return (i / cols % 7 == 0 ? 120 : 90 + std::min(31, std::countr_zero(random.next() | 1u << 31))) << 7 |
             (random.next() & 0x807F);
    });
  };
  // f8 with every exponent, but without NaN.
  const auto f8 = [&](datasets::Shape shape) {
    Matrix matrix = f8_matrix(shape);
    for (std::byte& element : matrix.elements)
      if ((element & std::byte{0x7F}) == std::byte{0x7F}) element &= std::byte{0x80};
    return tests::make_typed_matrix("f8", ElementType::f8_e4m3, shape, [&](int64_t i) {
      return std::to_integer<uint64_t>(matrix.elements[static_cast<size_t>(i)]);
    });
  };
  const std::vector<Matrix> matrices = {uneven(2000),  uneven(528),  tests::bf16_matrix({32, 16}),  f8({96, 1248}),
                                        f8({64, 672}), f8({32, 32}), tests::bf16_matrix({96, 1104})};
  for (const backends::DeviceInfo& info : backends::find_backend("emulator")->devices())
    for (const Matrix& matrix : matrices)
      for (const char* cols : {"128", "512"})
        for (const int batch : {1, 5, 16, 33}) {
          const char* bits = batch == 5 ? "8" : "16";
          CAPTURE(info.simd_target, tests::describe(matrix), cols, bits, batch);
          const CompressedMatrix compressed =
              encode(matrix, {{"layout", "segments"}, {"segment_cols", cols}, {"code_bits", bits}});
          const auto device = backends::find_backend("emulator")->open({1, info.simd_target});
          const auto uploaded = device->upload(compressed);
          backends::PassPlan plan;
          plan.op = backends::Op::matmul;
          plan.layers = {uploaded.get()};
          plan.chained = false;
          plan.batch = batch;
          plan.activations = backends::Activations::bf16;
          plan.tokens.emplace_back();
          for (int64_t i = 0; i < batch * matrix.shape.cols; ++i)
            plan.tokens[0].push_back(std::bit_cast<float>(uint32_t{datasets::nearest_bf16(random.normal())} << 16));
          const backends::ExactProduct exact = backends::exact_product(matrix.view(), plan.tokens[0], batch);
          REQUIRE(exact.refused == "");
          int ran = 0;
          for (const backends::Kernel& kernel : entry().kernels("emulator"))
            for (const backends::Policy& policy : kernel.policies) {
              if (kernel.activations != backends::Activations::bf16 ||
                  !kernel.refuses(uploaded->view(), device->info(), policy).empty())
                continue;
              CAPTURE(policy.name);
              plan.kernel = &kernel;
              plan.policy = &policy;
              const auto pass = backends::prepare(*device, plan);
              pass->poison_outputs(0);
              pass->run();
              CHECK(backends::check_product(pass->products(0), exact, pass->rounding(0)).violation == "");
              CHECK(pass->broken_guards() == "");
              ++ran;
            }
          CHECK(ran >= 2);
        }
}

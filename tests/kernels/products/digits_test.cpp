// Products of bytes with the digits of tokens (backends/gpu/products/digit_units.h) are more exact than the common
// bound demands.
#include "tests/kernels/products/products.h"

using namespace ecmv;
using namespace ecmv::tests;

namespace {

// The bound allows for a number beside others that are 2^14 times as large. Numbers of a normal distribution differ
// less, so a token's digits lose next to nothing, and products are nearer to the exact ones. Without the lowest digit
// they are off by 2^-17 of the sum of magnitudes.
void digits_are_all_there(Devices devices) {
  const codecs::CodecEntry& entry = codec_or_skip("quad_huffman");
  backends::Settings settings = quads(entry, "fragments", 8);
  const Product product = multiply(gaussian_matrix({65, 700}, 4));
  constexpr int kTokens = 17;
  int ran = 0;
  for (const int raw_bits : {2, 4}) {
    settings.set("raw_bits", int64_t{raw_bits});
    const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, product.matrix.view(), settings);
    for (auto& device : devices) {
      const auto uploaded = device->upload(compressed);
      for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
        for (const backends::Policy& policy : kernel.policies) {
          if (policy.name != "digits24") continue;
          device->select();
          REQUIRE(kernel.refuses(uploaded->view(), device->info(), policy) == "");
          backends::PassPlan plan;
          plan.kernel = &kernel;
          plan.op = backends::Op::matmul;
          plan.policy = &policy;
          plan.layers = {uploaded.get()};
          plan.chained = false;
          plan.batch = kTokens;
          plan.activations = backends::Activations::bf16;
          const auto& [tokens, exact] = product.bf16;
          plan.tokens = {{tokens.begin(), tokens.begin() + kTokens * product.matrix.shape.cols}};
          const auto pass = backends::prepare(*device, plan);
          pass->run();
          const auto got = pass->products(0);
          REQUIRE(got.size() == static_cast<size_t>(kTokens * product.matrix.shape.rows));
          for (size_t i = 0; i < got.size(); ++i)
            CHECK(std::abs(got[i] - exact.sums[i]) < 0x1p-20 * exact.magnitudes[i]);
          ++ran;
        }
    }
  }
  CHECK(ran == 2 * static_cast<int>(devices.size()));
}

}  // namespace

TEST_CASE("products with tokens' digits have all of them, in the emulator", "[emulator]") {
  digits_are_all_there(devices_or_skip(Place::emulator));
}
TEST_CASE("products with tokens' digits have all of them, on this machine's GPUs", "[gpu]") {
  digits_are_all_there(devices_or_skip(Place::gpu));
}

// The kernel that is taken where nobody names one takes the matrix and is right, for every number of tokens.
#include "backends/kernel_order.h"

#include <cstdlib>
#include <set>

#include "tests/kernels/products/products.h"

using namespace ecmv;
using namespace ecmv::tests;
using backends::Activations;

namespace {

constexpr int kTokens = 96;

std::string name_of(const backends::ChosenKernel& chosen) {
  return std::string(backends::op_name(chosen.kernel->op)) + " " + std::string(chosen.kernel->variant) + " " +
         std::string(chosen.policy->name);
}

// The choice for each number of tokens from 1 on; none where all kernels refuse the matrix.
std::vector<std::string> run_choices(const codecs::CodecEntry& entry, backends::Device& device,
                                     const backends::CompressedMatrix& compressed, const Product& product,
                                     Activations tokens) {
  std::vector<std::string> names;
  const auto uploaded = device.upload(compressed);
  for (int batch = 1; batch <= kTokens; ++batch) {
    device.select();
    const backends::CompressedView matrix = compressed.view();
    const auto order = kernels_in_order(
        entry.kernels(device.info().backend), matrix, device.info(),
        {.batch = batch, .tokens = tokens, .blas = backends::multiplies_by_blas(device, matrix, false, tokens)});
    const auto chosen = std::ranges::find_if(order, [&](const backends::ChosenKernel& one) {
      return one.kernel->refuses(matrix, device.info(), *one.policy).empty();
    });
    if (chosen == order.end()) return {};
    INFO(entry.id << " by " << name_of(*chosen) << " on " << device.info().backend << " " << device.info().simd_target
                  << ", " << describe(product.matrix) << ", batch " << batch << " of "
                  << backends::activations_name(tokens));
    CHECK(product_is_right(device, *chosen->kernel, *chosen->policy, *uploaded, product, batch, tokens));
    names.push_back(name_of(*chosen));
  }
  return names;
}

// What was left is not taken again.
void check_moves_on(const std::vector<std::string>& names) {
  std::set<std::string> left;
  for (size_t i = 1; i < names.size(); ++i) {
    if (names[i] == names[i - 1]) continue;
    INFO(names[i] << ", batch " << i + 1);
    left.insert(names[i - 1]);
    CHECK(!left.contains(names[i]));
  }
}

void run_codec(const codecs::CodecEntry& entry, const Devices& devices) {
  for (const datasets::Matrix& matrix : {bf16_matrix({24, 136}), gaussian_matrix({24, 136}, 4)}) {
    const backends::Settings settings = codecs::default_settings(*entry.codec);
    if (!entry.codec->refuses(matrix.view(), settings).empty()) continue;
    const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
    const Product product =
        multiply(entry.codec->lossless ? matrix : decoded_by_reference(entry, compressed, matrix), kTokens);
    for (const auto& device : devices)
      for (const Activations tokens : {Activations::f32, Activations::bf16})
        check_moves_on(run_choices(entry, *device, compressed, product, tokens));
  }
}

}  // namespace

TEST_CASE("the kernel that is taken unnamed is right for every number of tokens") {
  run_codec(each_codec(), devices(Place::cpu, 1));
}

TEST_CASE("the kernel that is taken unnamed is right for every number of tokens on this machine's GPUs", "[gpu]") {
  run_codec(each_codec(), devices_or_skip(Place::gpu));
}

// Kernels for many tokens need more shared memory than the emulator has unless it is asked.
TEST_CASE("the kernel that is taken unnamed is right for every number of tokens in the emulator", "[emulator]") {
  REQUIRE(setenv("ECMV_EMULATED_SHARED_KIB", "227", 1) == 0);
  const Devices emulated = devices_or_skip(Place::emulator);
  const codecs::CodecEntry& entry = codec_or_skip("quad_huffman");
  const auto run = [&](const datasets::Matrix& matrix, const backends::Settings& settings) {
    const Product product = multiply(matrix, kTokens);
    return run_choices(entry, *emulated.front(), codecs::encode_matrix(entry, matrix.view(), settings), product,
                       Activations::bf16);
  };
  std::vector<std::string> expected(8, "matmul fragments groups32");
  expected.resize(16, "matmul fragments warpgroup32");
  expected.resize(64, "matmul fragments warpgroup24");
  expected.resize(kTokens, "matmul slabs tokens128");
  CHECK(run(bf16_matrix({17, 300}), float_eights(entry, "fragments")) == expected);
  CHECK(run(gaussian_matrix({17, 300}, 4), quads(entry, "fragments", 8)) ==
        std::vector<std::string>(kTokens, "matmul fragments digits24"));
}

TEST_CASE("no kernel says that it reads a matrix once for more tokens than it multiplies at a time") {
  for (const codecs::CodecEntry& entry : codecs::all_codecs())
    for (const backends::Backend& backend : backends::all_backends())
      for (const backends::Kernel& kernel : entry.kernels(backend.id)) {
        INFO(entry.id << " " << backend.id << " " << kernel.variant);
        CHECK(kernel.tokens_at_once <= kernel.most_tokens);
        CHECK((kernel.tokens_at_once == 0 || kernel.op == backends::Op::matmul));
      }
}

// Every float product: fused matmul kernels of every codec, and unfused ones over every element type, on batches of 1
// to 64 tokens. They are held to the bound of float32 sums, or of matrix units, around sums in double precision
// (backends/exact_product.h).
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "backends/cpu/products/copy_rows.h"
#include "tests/kernels/products/products.h"
#include "tests/test_settings.h"

using namespace ecmv;
using namespace ecmv::tests;

namespace {

constexpr int kBatches[] = {1, 2, 3, 5, 16, backends::kMaxBatch};

// Fused kernels with every policy and batch, the first decode kernel with one batch. Returns how many fused ones ran.
int run_all(const codecs::CodecEntry& entry, const datasets::Matrix& matrix, const backends::Settings& settings,
            std::span<const int> batches, Devices& devices) {
  if (!entry.codec->refuses(matrix.view(), settings).empty()) return 0;
  const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
  const Product product = multiply(entry.codec->lossless ? matrix : decoded_by_reference(entry, compressed, matrix),
                                   std::max(backends::kMaxBatch, std::ranges::max(batches)));
  REQUIRE(product.f32.exact.refused == "");
  int ran = 0;
  for (auto& device : devices) {
    const auto uploaded = device->upload(compressed);
    bool decoded = false;
    for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
      for (const backends::Policy& policy : kernel.policies) {
        if (kernel.op == backends::Op::decode && !decoded)
          decoded = product_is_right(*device, kernel, policy, *uploaded, product, 5) &&
                    product_is_right(*device, kernel, policy, *uploaded, product, 5, backends::Activations::bf16);
        if (kernel.op != backends::Op::matmul) continue;
        for (const int batch : batches) {
          INFO(entry.id << " [" << settings.to_string() << "] " << kernel.variant << "/" << policy.name << " on "
                        << device->info().backend << " " << device->info().simd_target << ", " << describe(matrix)
                        << ", batch " << batch);
          ran += product_is_right(*device, kernel, policy, *uploaded, product, batch);
        }
      }
  }
  return ran;
}

void run_every_width(const codecs::CodecEntry& entry, Devices devices) {
  const int batches[] = {3};
  for (int64_t cols = 1; cols <= 70; ++cols)
    for (const datasets::Matrix& matrix : nearly_constant({19, cols}))
      run_all(entry, matrix, codecs::default_settings(*entry.codec), batches, devices);
}

bool has_matmul(const codecs::CodecEntry& entry, const Devices& devices) {
  return std::ranges::any_of(devices, [&](const auto& device) {
    return std::ranges::any_of(entry.kernels(device->info().backend),
                               [](const backends::Kernel& kernel) { return kernel.op == backends::Op::matmul; });
  });
}

std::vector<datasets::Matrix> matrices(const std::vector<datasets::Shape>& shapes) {
  using enum datasets::ElementType;
  std::vector<datasets::Matrix> out;
  for (const datasets::Shape shape : shapes) {
    for (const auto type : {bf16, i8, f8_e4m3, f8_e5m2, f16}) out.push_back(weights(type, shape));
    // f8 that codes make smaller; weights() has all exponents equally often.
    out.push_back(f8_matrix(shape));
  }
  return out;
}

void run_every_shape(const codecs::CodecEntry& entry, Devices devices) {
  const bool fused = has_matmul(entry, devices);
  const bool emulated = std::ranges::any_of(devices, [](const auto& device) { return device->info().emulated; });
  const int few[] = {1, 16};  // the emulator takes microseconds where a device takes nanoseconds
  const auto run = [&](const std::vector<datasets::Shape>& shapes, std::span<const int> batches) {
    int ran = 0;
    for (const datasets::Matrix& matrix : matrices(shapes))
      ran += run_all(entry, matrix, codecs::default_settings(*entry.codec), batches, devices);
    return ran;
  };
  int ran = run({{67, 203}}, kBatches) + run({{64, 512}}, emulated ? std::span<const int>(few) : kBatches);
  if (fused) ran += run(odd_shapes(), few);
  INFO(entry.id);
  // If no product takes what the default settings store, run_every_setting still finds one.
  CHECK((ran == 0 || fused));
}

void run_every_setting(const codecs::CodecEntry& entry, Devices devices) {
  if (!has_matmul(entry, devices)) return;
  const int batches[] = {1, 3, 16};
  int ran = 0;
  for (const backends::Settings& settings : settings_to_test(*entry.codec))
    for (const datasets::Matrix& matrix : matrices({{67, 203}, {64, 512}}))
      ran += run_all(entry, matrix, settings, batches, devices);
  INFO(entry.id);
  CHECK(ran > 0);
}

backends::BoundKernel bind_copy(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  return backends::cpu::CopyRows{matrix.sections[0].bytes.data(),
                                 matrix.shape.cols * datasets::element_bytes(matrix.type)};
}
const backends::Kernel kCopy = {.op = backends::Op::decode, .variant = "copy", .bind = bind_copy};

// Tiles whose width is not a power of two, with a narrower last one.
void run_odd_tiles(Devices devices) {
  const codecs::CodecEntry& entry = codec_or_skip("quad_huffman");
  const int batches[] = {1, 17};
  int ran = 0;
  for (const char* layout : {"rows", "fragments"}) {
    for (const int symbol_cols : {4, 8}) {
      backends::Settings integers = quads(entry, layout, symbol_cols);
      integers.set("tile_cols", int64_t{symbol_cols == 4 ? 384 : 768});
      ran += run_all(entry, gaussian_matrix({65, 1900}, 4), integers, batches, devices);
    }
    backends::Settings floats = codecs::default_settings(*entry.codec);
    floats.set("layout", std::string(layout));
    floats.set("tile_cols", int64_t{384});
    backends::Settings eights = float_eights(entry, layout);
    eights.set("tile_cols", int64_t{768});
    for (const datasets::Matrix& matrix : {bf16_matrix({65, 1900}), f8_matrix({40, 1900})})
      ran += run_all(entry, matrix, floats, batches, devices) + run_all(entry, matrix, eights, batches, devices);
  }
  CHECK(ran > 0);
}

}  // namespace

TEST_CASE("matmul kernels keep the bound with tiles of any number of segments, in the emulator", "[emulator]") {
  run_odd_tiles(devices_or_skip(Place::emulator));
}

// Kernels for many tokens need more shared memory than the emulator has unless it is asked. Tests run in processes of
// their own, so the plugin has not been loaded yet.
TEST_CASE("products of slabs keep the bound in the emulator, for any number of tokens", "[emulator]") {
  REQUIRE(setenv("ECMV_EMULATED_SHARED_KIB", "227", 1) == 0);
  Devices emulated = devices_or_skip(Place::emulator);
  const codecs::CodecEntry& entry = codec_or_skip("quad_huffman");
  REQUIRE(emulated.front()->info().shared_bytes == int64_t{227} << 10);
  backends::Settings settings = float_eights(entry, "fragments");
  settings.set("tile_cols", int64_t{256});
  for (const datasets::Matrix& matrix : {bf16_matrix({150, 2500}), bf16_matrix({17, 500}), bf16_matrix({40, 1900})}) {
    const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
    const Product product = multiply(matrix, 150);
    int ran = 0;
    for (const backends::Kernel& kernel : entry.kernels("emulator"))
      if (kernel.variant == "slabs")
        for (const int batch : {1, 66, 128, 150}) {
          INFO(describe(matrix) << ", batch " << batch);
          ran += product_is_right(*emulated.front(), kernel, kernel.policies[0], *emulated.front()->upload(compressed),
                                  product, batch);
        }
    CHECK(ran == 4);
  }
}

// Multiplies the elements, of bf16, by 2^exponents. Zeros and subnormal numbers stay.
void raise(datasets::Matrix& matrix, int exponents) {
  for (size_t at = 0; at < matrix.elements.size(); at += sizeof(uint16_t)) {
    uint16_t element;
    std::memcpy(&element, matrix.elements.data() + at, sizeof element);
    if ((element & 0x7F80) != 0) element = static_cast<uint16_t>(element + (exponents << 7));
    std::memcpy(matrix.elements.data() + at, &element, sizeof element);
  }
  matrix.content_hash = datasets::content_hash(matrix.view());
}

// Rests of blocks, groups of columns and tiles, tiles that a block takes one after the other or shares with others,
// in clusters and not, and blocks of 16 rows with no record, with few, and with more than lanes hold. Lowest exponents
// are not multiples of 16.
TEST_CASE("products of a pipeline keep the bound in the emulator, for any number of tokens and records", "[emulator]") {
  REQUIRE(setenv("ECMV_EMULATED_SHARED_KIB", "227", 1) == 0);
  const Devices few = devices_or_skip(Place::emulator);
  REQUIRE(setenv("ECMV_EMULATED_UNITS", "11", 1) == 0);  // clusters of up to eight thread blocks
  const Devices more = devices_or_skip(Place::emulator);
  REQUIRE(unsetenv("ECMV_EMULATED_UNITS") == 0);
  const codecs::CodecEntry& entry = codec_or_skip("packed_exponents");
  int exponents = 0;
  for (const datasets::Shape shape :
       {datasets::Shape{260, 1096}, datasets::Shape{15, 320}, datasets::Shape{60, 2056}, datasets::Shape{60, 2048},
        datasets::Shape{250, 1000}, datasets::Shape{1100, 72}}) {
    for (const size_t every : {size_t{1} << 20, size_t{61}}) {
      backends::Device& device = *(every == 61 ? more : few).front();
      datasets::Matrix matrix = bf16_matrix(shape);
      raise(matrix, exponents++ * 5);
      for (size_t i = 0; 2 * i < matrix.elements.size(); i += every) {
        // 2^22 or so, 2^-116 or so, and a subnormal number
        const uint16_t outside = static_cast<uint16_t>(i % 3 == 0   ? 0x4A80 + i % 300
                                                       : i % 3 == 1 ? 0x0580 + i % 300
                                                                    : 9);
        std::memcpy(matrix.elements.data() + 2 * i, &outside, sizeof outside);
      }
      const backends::CompressedMatrix compressed =
          codecs::encode_matrix(entry, matrix.view(), codecs::default_settings(*entry.codec));
      const Product product = multiply(matrix, 270);
      int ran = 0;
      for (const backends::Kernel& kernel : entry.kernels("emulator"))
        if (kernel.variant == "pipeline")
          for (const backends::Policy& policy : kernel.policies) {
            // Each policy has each number of tokens with two matrices or three.
            const int most = policy.name == "tokens256" && shape.cols < 2056 ? 270 : 150,
                      batch = std::array{1, 66, most}[(exponents + ran) % 3];
            INFO(describe(matrix) << ", " << policy.name << ", batch " << batch);
            ran += product_is_right(device, kernel, policy, *device.upload(compressed), product, batch);
          }
      CHECK(ran == 4);
    }
  }
}

TEST_CASE("every matmul kernel keeps the bound of float32 sums, default settings") {
  run_every_shape(each_codec(), devices(Place::cpu, 1));
}

TEST_CASE("every matmul kernel keeps the bound at every width from 1 to 70, where one element is nearly everywhere") {
  run_every_width(each_codec(), devices(Place::cpu, 1));
}

TEST_CASE("every matmul kernel keeps the bound with every setting and three threads", "[alone]") {
  run_every_setting(each_codec(), devices(Place::cpu, 3));
}

TEST_CASE("matmul kernels keep the bound over several blocks of rows", "[alone]") {
  const codecs::CodecEntry& entry = each_codec();
  Devices all = devices(Place::cpu, 3);
  if (!has_matmul(entry, all)) return;
  const int batches[] = {1, 16};
  for (const datasets::Matrix& matrix :
       {bf16_matrix({384, 4096}), f8_matrix({384, 4096}), gaussian_matrix({384, 4096}, 4)})
    run_all(entry, matrix, codecs::default_settings(*entry.codec), batches, all);
}

// Kernels multiply them in parts of kMaxBatch, so the last part may have any number of them. Returns how many ran.
int run_many_tokens(const codecs::CodecEntry& entry, Devices devices) {
  const int batches[] = {65, 128, 150};
  int ran = 0;
  for (const datasets::Matrix& matrix : matrices({{67, 203}}))
    ran += run_all(entry, matrix, codecs::default_settings(*entry.codec), batches, devices);
  if (entry.id == "quad_huffman") {
    ran += run_all(entry, bf16_matrix({33, 300}), float_eights(entry, "fragments"), batches, devices);
    ran += run_all(entry, gaussian_matrix({33, 300}, 4), quads(entry, "fragments", 8), batches, devices);
  }
  return ran;
}

TEST_CASE("matmul kernels keep the bound with more tokens than they multiply at a time", "[alone]") {
  const codecs::CodecEntry& entry = each_codec();
  Devices all = devices(Place::cpu, 3);
  if (has_matmul(entry, all)) CHECK(run_many_tokens(entry, std::move(all)) > 0);
}

TEST_CASE("matmul kernels keep the bound with more tokens than they multiply at a time, in the emulator",
          "[emulator]") {
  Devices all = devices_or_skip(Place::emulator);
  const codecs::CodecEntry& entry = each_codec();
  if (entry.id != "quad_huffman" && entry.id != "raw_bf16") return;  // two show it
  CHECK(run_many_tokens(entry, std::move(all)) > 0);
}

TEST_CASE("matmul kernels keep the bound with more tokens than they multiply at a time, on this machine's GPUs",
          "[gpu]") {
  run_many_tokens(each_codec(), devices_or_skip(Place::gpu));
}

TEST_CASE("every matmul kernel keeps the bound in the emulator at both wave sizes, default settings", "[emulator]") {
  run_every_shape(each_codec(), devices_or_skip(Place::emulator));
}

TEST_CASE("every matmul kernel keeps the bound in the emulator with every setting", "[emulator]") {
  run_every_setting(each_codec(), devices_or_skip(Place::emulator));
}

// Kernels may scale tokens by their largest number; no other number may then overflow or vanish.
void run_every_scale(const codecs::CodecEntry& entry, const datasets::Matrix& matrix,
                     const backends::Settings& settings, Devices& devices) {
  if (!entry.codec->lossless || !entry.codec->refuses(matrix.view(), settings).empty()) return;
  Product product = multiply(matrix);
  for (TokenProducts* of : {&product.f32, &product.bf16}) {
    for (size_t i = 0; i < of->tokens.size(); ++i) {
      const int token = static_cast<int>(i / 512), col = static_cast<int>(i % 512);
      of->tokens[i] = std::ldexp(of->tokens[i], (token % 7 - 3) * 30 - col % 3 * 10);
    }
    of->exact = backends::exact_product(matrix.view(), of->tokens, backends::kMaxBatch);
    REQUIRE(of->exact.refused == "");
  }
  const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
  for (auto& device : devices) {
    const auto uploaded = device->upload(compressed);
    for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
      for (const backends::Policy& policy : kernel.policies) {
        if (kernel.op != backends::Op::matmul) continue;
        INFO(entry.id << " " << kernel.variant << "/" << policy.name << " on " << device->info().backend);
        for (const int batch : {1, 16}) product_is_right(*device, kernel, policy, *uploaded, product, batch);
      }
  }
}

void run_every_scale(const codecs::CodecEntry& entry, Devices devices) {
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  run_every_scale(entry, f8_matrix({64, 512}), settings, devices);
  if (entry.id != "quad_huffman") return;
  for (const char* layout : {"rows", "fragments"}) {
    for (const int symbol_cols : {4, 8})
      run_every_scale(entry, gaussian_matrix({64, 512}, 4), quads(entry, layout, symbol_cols), devices);
    for (const datasets::Matrix& matrix : {bf16_matrix({64, 512}), f8_matrix({64, 512})})
      run_every_scale(entry, matrix, float_eights(entry, layout), devices);
  }
}

TEST_CASE("matmul kernels keep the bound for tokens of any scale") {
  run_every_scale(each_codec(), devices(Place::cpu, 1));
}

TEST_CASE("matmul kernels keep the bound for tokens of any scale in the emulator", "[emulator]") {
  run_every_scale(each_codec(), devices_or_skip(Place::emulator));
}

TEST_CASE("matmul kernels keep the bound for tokens of any scale on this machine's GPUs", "[gpu]") {
  run_every_scale(each_codec(), devices_or_skip(Place::gpu));
}

TEST_CASE("every matmul kernel keeps the bound on this machine's GPUs, default settings", "[gpu]") {
  run_every_shape(each_codec(), devices_or_skip(Place::gpu));
}

TEST_CASE("matmul kernels keep the bound at every width from 1 to 70 on this machine's GPUs", "[gpu]") {
  run_every_width(each_codec(), devices_or_skip(Place::gpu));
}

TEST_CASE("every matmul kernel keeps the bound on this machine's GPUs with every setting", "[gpu]") {
  run_every_setting(each_codec(), devices_or_skip(Place::gpu));
}

// Here steps follow each other as fast as memory allows. Only then were registers once overwritten that matrix units
// still read.
TEST_CASE("matmul kernels keep the bound on this machine's GPUs with thousands of rows and columns", "[gpu]") {
  Devices all = devices_or_skip(Place::gpu);
  const codecs::CodecEntry& entry = each_codec();
  if (!has_matmul(entry, all)) return;
  const int batches[] = {1, 16, 64};
  for (const datasets::Matrix& matrix :
       {bf16_matrix({2048, 8192}), f8_matrix({2048, 8192}), gaussian_matrix({2048, 8192}, 4)})
    run_all(entry, matrix, codecs::default_settings(*entry.codec), batches, all);
}

TEST_CASE("unfused products take every element type that float32 holds") {
  using enum datasets::ElementType;
  for (const auto type : {i8, u8, i16, u16, bf16, f16, f32, f8_e5m2, f8_e4m3})
    for (const datasets::Shape shape :
         {datasets::Shape{67, 203}, datasets::Shape{9, 4099}, datasets::Shape{3, 0}, datasets::Shape{1, 1}}) {
      const Product product = multiply(weights(type, shape));
      REQUIRE(product.f32.exact.refused == "");
      backends::CompressedMatrix compressed;
      compressed.shape = shape;
      compressed.type = type;
      compressed.sections.push_back({"elements", backends::Role::payload, 64, product.matrix.elements});
      for (const int threads : {1, 3})
        for (auto& device : devices(Place::cpu, threads)) {
          const auto uploaded = device->upload(compressed);
          for (const int batch : kBatches) {
            INFO(device->info().backend << " " << device->info().simd_target << ", " << describe(product.matrix)
                                        << ", batch " << batch);
            for (const auto activations : {backends::Activations::f32, backends::Activations::bf16})
              CHECK(product_is_right(*device, kCopy, kCopy.policies[0], *uploaded, product, batch, activations));
          }
        }
    }
}

// Each product but the first is just below the last bit of the first, so a unit that cuts loses it. All errors have one
// direction and add up to nearly what the bound allows. float32 rounds each to 0 as well, and may.
void lose_all_products(Devices devices) {
  constexpr int64_t kRows = 32, kCols = 4096;
  const datasets::Matrix matrix = make_typed_matrix("ones", datasets::ElementType::bf16, {kRows, kCols},
                                                    [](int64_t) -> uint64_t { return 0x3F80; });
  std::vector<float> token(static_cast<size_t>(kCols), std::bit_cast<float>(0x33FF0000u));  // 1.99 * 2^-24
  token[0] = 1;
  const backends::ExactProduct exact = backends::exact_product(matrix.view(), token, 1);
  int ran = 0;
  for (const codecs::CodecEntry& entry : codecs::all_codecs()) {
    const backends::Settings settings = codecs::default_settings(*entry.codec);
    if (!entry.codec->lossless || !entry.codec->refuses(matrix.view(), settings).empty()) continue;
    const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
    for (auto& device : devices) {
      const auto uploaded = device->upload(compressed);
      for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
        for (const backends::Policy& policy : kernel.policies) {
          if (kernel.op != backends::Op::matmul || kernel.activations != backends::Activations::bf16 ||
              kernel.group_cols != 0 || !kernel.refuses(uploaded->view(), device->info(), policy).empty())
            continue;
          INFO(entry.id << " " << kernel.variant << "/" << policy.name << " on " << device->info().backend);
          backends::PassPlan plan;
          plan.kernel = &kernel;
          plan.op = backends::Op::matmul;
          plan.policy = &policy;
          plan.activations = kernel.activations;
          plan.layers = {uploaded.get()};
          plan.chained = false;
          plan.tokens = {token};
          const auto pass = backends::prepare(*device, plan);
          pass->run();
          CHECK(backends::check_product(pass->products(0), exact, pass->rounding(0)).violation == "");
          ++ran;
        }
    }
  }
  CHECK(ran > 0);
}

// Full, partial and single vectors of tokens; rows and columns around the sizes that are multiplied at once.
TEST_CASE("products in panels keep the bound for every number of tokens and at every edge") {
  const codecs::CodecEntry& entry = codec_or_skip("raw_bf16");
  std::vector<int> all;
  for (int batch = 1; batch <= backends::kMaxBatch; ++batch) all.push_back(batch);
  const int few[] = {7, 16};
  Devices places = devices(Place::cpu, 2);
  run_all(entry, weights(datasets::ElementType::bf16, {9, 37}), {}, all, places);
  for (const datasets::Shape shape :
       {datasets::Shape{31, 255}, {32, 256}, {33, 257}, {65, 511}, {8, 512}, {7, 513}, {1, 1025}})
    run_all(entry, weights(datasets::ElementType::bf16, shape), {}, few, places);
}

// Every second weight and token is below the normal numbers, which some instructions take as zero.
TEST_CASE("products keep the bound where factors are subnormal") {
  const codecs::CodecEntry& entry = codec_or_skip("raw_bf16");
  Product product;
  product.matrix = make_typed_matrix("subnormal", datasets::ElementType::bf16, {33, 130}, [](int64_t i) -> uint64_t {
    return static_cast<uint64_t>(i % 2 == 0 ? 0x3F80 + i % 64 : 1 + i % 0x7F);
  });
  for (int64_t i = 0; i < 130 * backends::kMaxBatch; ++i)
    product.bf16.tokens.push_back(
        std::bit_cast<float>(static_cast<uint32_t>(i % 3 == 0 ? 0x4000 : 3 + i % 0x70) << 16));
  product.f32.tokens = product.bf16.tokens;
  for (TokenProducts* of : {&product.f32, &product.bf16})
    of->exact = backends::exact_product(product.matrix.view(), of->tokens, backends::kMaxBatch);
  const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, product.matrix.view(), {});
  for (auto& device : devices(Place::cpu, 1)) {
    const auto uploaded = device->upload(compressed);
    for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
      for (const backends::Policy& policy : kernel.policies) {
        if (kernel.op != backends::Op::matmul) continue;
        INFO(kernel.variant << "/" << policy.name << " on " << device->info().simd_target);
        product_is_right(*device, kernel, policy, *uploaded, product, 16);
      }
  }
}

TEST_CASE("products with tokens of bf16 keep the bound where sums lose the most, on CPUs") {
  codec_or_skip("raw_bf16");
  lose_all_products(devices(Place::cpu, 1));
}
TEST_CASE("products with tokens of bf16 keep the bound where sums lose the most, in the emulator", "[emulator]") {
  lose_all_products(devices_or_skip(Place::emulator));
}
TEST_CASE("products with tokens of bf16 keep the bound where matrix units cut the most", "[gpu]") {
  lose_all_products(devices_or_skip(Place::gpu));
}

TEST_CASE("passes refuse batches without their tokens") {
  const Product product = multiply(weights(datasets::ElementType::i8, {3, 5}));
  backends::CompressedMatrix compressed;
  compressed.shape = product.matrix.shape;
  compressed.sections.push_back({"elements", backends::Role::payload, 64, product.matrix.elements});
  for (auto& device : devices(Place::cpu, 1)) {
    const auto uploaded = device->upload(compressed);
    backends::PassPlan plan;
    plan.kernel = &kCopy;
    plan.op = backends::Op::matmul;
    plan.layers = {uploaded.get()};
    for (const auto& [batch, numbers] : {std::pair{1, 0}, std::pair{2, 5}, std::pair{0, 0}, std::pair{4097, 20485}}) {
      plan.batch = batch;
      plan.tokens = {std::vector<float>(static_cast<size_t>(numbers))};
      CHECK_THROWS_AS(backends::prepare(*device, plan), std::invalid_argument);
    }
    plan.tokens.clear();
    plan.batch = 1;
    CHECK_THROWS_AS(backends::prepare(*device, plan), std::invalid_argument);
  }
}

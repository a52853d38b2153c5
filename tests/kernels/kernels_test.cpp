// Every kernel with every policy on every device that can run it: each instruction set of this CPU with one thread and
// with three, the emulator at both wave sizes, each GPU of this machine. Streams of the scalar encoder are compared
// with plain loops, in guarded memory with poisoned outputs.
#include <algorithm>
#include <cstdlib>

#include "backends/cpu/products/dense_matvec.h"
#include "tests/kernels/places.h"
#include "tests/test_matrices.h"
#include "tests/test_settings.h"

using namespace ecmv;
using namespace ecmv::tests;

namespace {

struct Expected {
  std::vector<int8_t> x, v;
  std::vector<int32_t> y;
  float scale = 0;
};

Expected multiply(const datasets::Matrix& matrix, std::vector<int8_t> x = {}) {
  Expected e;
  e.x = std::move(x);
  tests::Random random{11};
  while (static_cast<int64_t>(e.x.size()) < matrix.shape.cols)
    e.x.push_back(static_cast<int8_t>(random.next()));  // -128 included
  std::vector<int8_t> padded = e.x;
  padded.resize(e.x.size() + backends::kVectorPaddingBytes);
  e.y.resize(matrix.shape.rows);
  backends::cpu::dense_matvec_scalar(matrix.view().i8().data(), matrix.shape.rows, matrix.shape.cols, padded.data(),
                                     e.y.data());
  int64_t largest = 1;
  for (int32_t y : e.y) largest = std::max<int64_t>(largest, std::llabs(y));
  e.scale = 127.0f / static_cast<float>(largest);
  for (int32_t y : e.y) e.v.push_back(backends::requantise(y, e.scale));
  return e;
}

// Runs one kernel as decode, fused or unfused product and compares everything. Returns false if it refuses.
bool kernel_is_right(backends::Device& device, const backends::Kernel& kernel, const backends::Policy& policy,
                     backends::Op op, const backends::UploadedMatrix& uploaded, const datasets::Matrix& matrix,
                     const Expected& expected) {
  device.select();
  const std::string refused = kernel.refuses(uploaded.view(), device.info(), policy);
  if (!refused.empty()) {
    CHECK(refused.size() > 20);
    return false;
  }
  backends::PassPlan plan;
  plan.kernel = &kernel;
  plan.op = op;
  plan.policy = &policy;
  plan.layers = {&uploaded};
  plan.inputs = {expected.x};
  plan.scales = {expected.scale};
  const auto pass = prepare_in_any_form(device, plan);
  for (int round = 0; round < 2; ++round) {
    pass->poison_outputs(round);
    pass->run();
    if (op == backends::Op::decode) {
      const auto source = matrix.view().i8();
      CHECK(std::ranges::equal(pass->decoded(), source));
    } else {
      CHECK(std::ranges::equal(pass->accumulators(0), expected.y));
      CHECK(std::ranges::equal(pass->outputs(0), expected.v));
    }
    CHECK(pass->broken_guards() == "");
  }
  return true;
}

// Runs every kernel of a codec on one matrix; returns how many ran. Products need int8 matrices that are stored without
// loss.
int run_all(const codecs::CodecEntry& entry, const datasets::Matrix& matrix, const backends::Settings& settings,
            Devices& devices) {
  if (!entry.codec->refuses(matrix.view(), settings).empty()) return 0;
  const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
  const bool lossy = !entry.codec->lossless && !entry.codec->error_bound(matrix.view(), settings).exact();
  const bool multiplies = matrix.type == datasets::ElementType::i8 && !lossy;
  const Expected expected = multiplies ? multiply(matrix) : Expected{};
  const datasets::Matrix decoded = lossy ? decoded_by_reference(entry, compressed, matrix) : matrix;
  int ran = 0;
  for (auto& device : devices) {
    const auto uploaded = device->upload(compressed);
    for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
      for (const backends::Policy& policy : kernel.policies) {
        INFO(entry.id << " [" << settings.to_string() << "] " << kernel.variant << "/" << policy.name << " on "
                      << device->info().backend << " " << device->info().simd_target << ", "
                      << tests::describe(matrix));
        if (kernel.op == backends::Op::decode || (multiplies && kernel.op == backends::Op::matvec))
          ran += kernel_is_right(*device, kernel, policy, kernel.op, *uploaded, decoded, expected);
        if (multiplies && kernel.op == backends::Op::decode)
          kernel_is_right(*device, kernel, policy, backends::Op::matvec, *uploaded, matrix, expected);
      }
  }
  return ran;
}

// Runs a chain of layers of different shapes through every fused product of a codec: layer by layer, then twice as a
// whole, as a graph and as plain launches. Returns how many policies ran that take the whole chain.
int run_chain(const codecs::CodecEntry& entry, const backends::Settings& settings,
              const std::vector<datasets::Shape>& shapes, Devices& devices) {
  std::vector<backends::CompressedMatrix> compressed;
  std::vector<Expected> expected;
  backends::PassPlan plan;
  for (size_t i = 0; i < shapes.size(); ++i) {
    datasets::Matrix matrix = tests::gaussian_matrix(shapes[i], 4, i + 1);
    if (!entry.codec->refuses(matrix.view(), settings).empty()) matrix = tests::ternary_matrix(shapes[i]);
    if (!entry.codec->refuses(matrix.view(), settings).empty()) return 0;
    compressed.push_back(codecs::encode_matrix(entry, matrix.view(), settings));
    expected.push_back(i == 0 ? multiply(matrix) : multiply(matrix, expected.back().v));
    plan.scales.push_back(expected.back().scale);
  }
  plan.inputs = {expected.front().x};
  int ran = 0;
  for (auto& device : devices) {
    std::vector<std::unique_ptr<backends::UploadedMatrix>> uploaded;
    plan.layers.clear();
    for (const backends::CompressedMatrix& layer : compressed) {
      uploaded.push_back(device->upload(layer));
      plan.layers.push_back(uploaded.back().get());
    }
    for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
      for (const backends::Policy& policy : kernel.policies) {
        device->select();
        const auto refused = [&](const auto& layer) {
          return !kernel.refuses(layer->view(), device->info(), policy).empty();
        };
        if (kernel.op != backends::Op::matvec || std::ranges::any_of(uploaded, refused)) continue;
        INFO(entry.id << " [" << settings.to_string() << "] " << kernel.variant << "/" << policy.name << " on "
                      << device->info().backend << " " << device->info().simd_target << ", " << shapes.size()
                      << " layers, the first [" << shapes[0].rows << ", " << shapes[0].cols << "]");
        plan.kernel = &kernel;
        plan.policy = &policy;
        bool prepared = false;
        for (const bool graph : {true, false}) {
          if (graph && device->info().emulated) continue;  // the emulator has no graphs
          plan.graph = graph;
          std::unique_ptr<backends::Pass> pass;
          try {
            pass = backends::prepare(*device, plan);
          } catch (const backends::Refused& e) {  // one launch cannot take these layers together
            CHECK(kernel.whole_chain);
            CHECK(std::string(e.what()).size() > 20);
            continue;
          }
          prepared = true;
          for (int round = 0; round < 3; ++round) {
            pass->poison_outputs(round % 2);
            if (round == 0)
              for (size_t i = 0; i < shapes.size(); ++i) pass->run_layer(static_cast<int>(i));
            else
              pass->run();
            for (size_t i = 0; i < shapes.size(); ++i) {
              INFO("layer " << i << ", round " << round);
              CHECK(std::ranges::equal(pass->accumulators(static_cast<int>(i)), expected[i].y));
              CHECK(std::ranges::equal(pass->outputs(static_cast<int>(i)), expected[i].v));
            }
            CHECK(pass->broken_guards() == "");
          }
        }
        ran += kernel.whole_chain && prepared;
      }
  }
  return ran;
}

bool runs_chains(const codecs::CodecEntry& entry, std::string_view backend) {
  return std::ranges::any_of(entry.kernels(backend), [](const backends::Kernel& kernel) { return kernel.whole_chain; });
}

// Chains with rectangular layers, layers with fewer rows than thread blocks, and a last layer of any number of rows;
// one layer alone; and a small chain with every setting.
void run_chains(const codecs::CodecEntry& entry, Devices devices) {
  int ran = 0;
  if (std::ranges::any_of(devices, [&](const auto& device) { return runs_chains(entry, device->info().backend); }))
    for (const backends::Settings& settings : tests::settings_to_test(*entry.codec))
      ran += run_chain(entry, settings, {{128, 1008}, {100, 128}, {128, 100}, {37, 128}}, devices);
  for (const std::vector<datasets::Shape>& shapes :
       std::vector<std::vector<datasets::Shape>>{{{96, 512}, {64, 96}, {512, 64}, {16, 512}, {160, 16}, {37, 160}},
                                                 {{64, 512}},
                                                 {{128, 1536}, {512, 128}, {96, 512}}})
    ran += run_chain(entry, codecs::default_settings(*entry.codec), shapes, devices);
  INFO(entry.id);
  // The chain of quad_huffman needs several settings at once; another test has it.
  CHECK((ran > 0 || entry.id == "quad_huffman" || std::ranges::none_of(devices, [&](const auto& device) {
           return runs_chains(entry, device->info().backend);
         })));
}

// Where kernels refuse the default settings, as huffman_lut's on GPUs do, the first settings that one takes.
void run_default_settings(const codecs::CodecEntry& entry, const std::vector<datasets::Matrix>& matrices,
                          Devices devices) {
  int ran = 0;
  for (const backends::Settings& settings : tests::settings_to_test(*entry.codec)) {
    for (const datasets::Matrix& matrix : matrices) ran += run_all(entry, matrix, settings, devices);
    if (ran > 0) break;
  }
  INFO(entry.id);
  CHECK((ran > 0 || !has_kernels(entry, devices)));
}

void run_every_setting(const codecs::CodecEntry& entry, const std::vector<datasets::Matrix>& matrices,
                       Devices devices) {
  int ran = 0;
  for (const backends::Settings& settings : tests::settings_to_test(*entry.codec))
    for (const datasets::Matrix& matrix : matrices) ran += run_all(entry, matrix, settings, devices);
  INFO(entry.id);
  CHECK((ran > 0 || !has_kernels(entry, devices)));
}

std::vector<datasets::Matrix> matrices_for_settings() {
  return {tests::gaussian_matrix({96, 512}, 4),  tests::gaussian_matrix({67, 203}, 7.74),
          tests::distributions({35, 129})[5],    tests::bf16_matrix({67, 203}),
          tests::bf16_matrix({96, 512}),         tests::f8_matrix({67, 203}),
          tests::f8_matrix({96, 512}),           tests::ternary_matrix({64, 512}),
          tests::ternary_matrix({67, 203}, true)};
}

// The emulator takes microseconds where a device takes nanoseconds.
std::vector<datasets::Matrix> matrices_for_emulator() {
  std::vector<datasets::Matrix> out;
  for (const datasets::Shape shape : tests::odd_shapes()) out.push_back(tests::gaussian_matrix(shape, 4));
  out.push_back(tests::gaussian_matrix({64, 512}, 4));
  for (datasets::Matrix& matrix : tests::distributions({32, 512})) out.push_back(std::move(matrix));
  for (const datasets::Shape shape : {datasets::Shape{33, 331}, datasets::Shape{64, 512}})
    for (const auto& matrix : {tests::bf16_matrix(shape), tests::f8_matrix(shape)}) out.push_back(matrix);
  return out;
}

std::vector<datasets::Matrix> matrices_of_every_type() {
  std::vector<datasets::Matrix> out = tests::test_matrices();
  for (datasets::Matrix& matrix : tests::typed_matrices()) out.push_back(std::move(matrix));
  return out;
}

// 3 Mi elements: more than one block with every default.
std::vector<datasets::Matrix> several_blocks() {
  return {tests::gaussian_matrix({1536, 2048}, 4), tests::bf16_matrix({768, 2048}), tests::f8_matrix({1536, 2048}),
          tests::ternary_matrix({1536, 2048})};
}

// Every width around those of vectors, lane groups and tiles, by the first settings that a kernel takes. Some codecs
// take wide matrices alone.
void run_every_width(const codecs::CodecEntry& entry, Devices devices) {
  int ran = 0, taken = 0;
  for (const backends::Settings& settings : tests::settings_to_test(*entry.codec)) {
    for (int64_t cols = 1; cols <= 70; ++cols)
      for (const datasets::Matrix& matrix : tests::nearly_constant({67, cols})) {
        taken += entry.codec->refuses(matrix.view(), settings).empty();
        ran += run_all(entry, matrix, settings, devices);
      }
    if (ran > 0) break;
  }
  INFO(entry.id);
  CHECK((ran > 0 || taken == 0 || !has_kernels(entry, devices)));
}

}  // namespace

TEST_CASE("every kernel multiplies and decodes every matrix exactly, default settings") {
  run_default_settings(each_codec(), matrices_of_every_type(), devices(Place::cpu, 1));
}

TEST_CASE("every kernel is exact with every setting and three threads", "[alone]") {
  run_every_setting(each_codec(), matrices_for_settings(), devices(Place::cpu, 3));
}

TEST_CASE("kernels are exact over several blocks of rows, half of the codecs", "[alone]") {
  run_default_settings(every_second_codec(0), several_blocks(), devices(Place::cpu, 3));
}
TEST_CASE("kernels are exact over several blocks of rows, the other half", "[alone]") {
  run_default_settings(every_second_codec(1), several_blocks(), devices(Place::cpu, 3));
}

TEST_CASE("every kernel is exact at every width from 1 to 70, where one element is nearly everywhere") {
  run_every_width(each_codec(), devices(Place::cpu, 1));
}

TEST_CASE("every GPU kernel is exact in the emulator at both wave sizes, default settings", "[emulator]") {
  Devices emulators = devices_or_skip(Place::emulator);
  REQUIRE(emulators.size() == 2);
  run_default_settings(each_codec(), matrices_for_emulator(), std::move(emulators));
}

TEST_CASE("chains of different layers are exact in the emulator, layer by layer and in whole", "[emulator]") {
  run_chains(each_codec(), devices_or_skip(Place::emulator));
}

// In wide layers a lane group has several tiles of a row group; at 4096 columns all of them are in registers.
TEST_CASE("chains of quad_huffman are exact in the emulator", "[emulator]") {
  Devices emulators = devices_or_skip(Place::emulator);
  const codecs::CodecEntry& entry = codec_or_skip("quad_huffman");
  const int all = static_cast<int>(emulators.size());
  backends::Settings settings = codecs::default_settings(*entry.codec);
  settings.set("symbol_cols", int64_t{8});
  settings.set("tile_cols", int64_t{256});
  settings.set("fallback", std::string("none"));
  for (const int64_t raw_bits : {2, 3, 4, 5})
    for (const int64_t table_bits : {8, 10}) {
      settings.set("raw_bits", raw_bits);
      settings.set("table_bits", table_bits);
      settings.set("cells", std::string(raw_bits == 2 ? "contiguous" : "folded"));
      for (const std::vector<datasets::Shape>& shapes :
           std::vector<std::vector<datasets::Shape>>{{{96, 512}, {64, 96}, {512, 64}, {16, 512}, {160, 16}, {37, 160}},
                                                     {{64, 512}},
                                                     {{128, 1536}, {512, 128}, {96, 512}}})
        CHECK(run_chain(entry, settings, shapes, emulators) == all);
    }
  settings.set("raw_bits", int64_t{2});
  settings.set("table_bits", int64_t{8});
  settings.set("cells", std::string("contiguous"));
  CHECK(run_chain(entry, settings, {{160, 4400}, {48, 160}}, emulators) == all);
}

// Strips need several settings at once, which trying one setting after the other does not reach.
TEST_CASE("strips and rotated symbols are exact in the emulator", "[emulator]") {
  Devices emulators = devices_or_skip(Place::emulator);
  const codecs::CodecEntry& entry = codec_or_skip("quad_huffman");
  backends::Settings settings = codecs::default_settings(*entry.codec);
  settings.set("symbol_cols", int64_t{8});
  settings.set("layout", std::string("strips"));
  settings.set("fallback", std::string("none"));
  int ran = 0;
  for (const char* cells : {"contiguous", "folded"})
    for (const char* symbols : {"ordered", "rotated"})
      for (const int64_t table_bits : {8, 11, 12}) {
        if (std::string_view(cells) == "folded" && std::string_view(symbols) == "rotated") continue;
        settings.set("cells", std::string(cells));
        settings.set("symbols", std::string(symbols));
        settings.set("table_bits", table_bits);
        for (const int64_t raw_bits : {0, 1, 2}) {
          settings.set("raw_bits", std::string_view(cells) == "folded" ? raw_bits + 2 : raw_bits);
          for (const datasets::Matrix& matrix :
               {tests::gaussian_matrix({67, 203}, 1), tests::gaussian_matrix({130, 1100}, 2)})
            ran += run_all(entry, matrix, settings, emulators);
        }
      }
  CHECK(ran > 0);
}

TEST_CASE("plugins hand out the kernels of codecs, and none of codecs that they do not know", "[emulator]") {
  devices_or_skip(Place::emulator);
  int with_kernels = 0;
  for (const codecs::CodecEntry& entry : codecs::all_codecs()) with_kernels += !entry.kernels("emulator").empty();
  CHECK(with_kernels > 0);
  CHECK(codecs::CodecEntry{.id = "no_such_codec"}.kernels("emulator").empty());
  CHECK(codecs::all_codecs().front().kernels("no_such_backend").empty());
}

TEST_CASE("every GPU kernel is exact in the emulator with every setting", "[emulator]") {
  Devices emulators = devices_or_skip(Place::emulator);
  run_every_setting(each_codec(),
                    {tests::gaussian_matrix({64, 512}, 4), tests::gaussian_matrix({35, 129}, 7.74),
                     tests::bf16_matrix({35, 129}), tests::f8_matrix({35, 129}), tests::ternary_matrix({35, 129})},
                    std::move(emulators));
}

TEST_CASE("every GPU kernel is exact on this machine's GPUs, default settings", "[gpu]") {
  Devices gpus = devices_or_skip(Place::gpu);
  run_default_settings(each_codec(), matrices_of_every_type(), std::move(gpus));
}

TEST_CASE("every GPU kernel is exact on this machine's GPUs with every setting", "[gpu]") {
  Devices gpus = devices_or_skip(Place::gpu);
  run_every_setting(each_codec(), matrices_for_settings(), std::move(gpus));
}

TEST_CASE("every GPU kernel is exact at every width from 1 to 70, where one element is nearly everywhere", "[gpu]") {
  run_every_width(each_codec(), devices_or_skip(Place::gpu));
}

TEST_CASE("GPU kernels are exact over several blocks of rows", "[gpu]") {
  Devices gpus = devices_or_skip(Place::gpu);
  run_default_settings(each_codec(), several_blocks(), std::move(gpus));
}

TEST_CASE("chains of different layers are exact on this machine's GPUs, layer by layer and in whole", "[gpu]") {
  run_chains(each_codec(), devices_or_skip(Place::gpu));
}

TEST_CASE("a kernel whose launches cannot be captured is refused as a graph and runs as plain launches") {
  struct Nothing {
    void operator()(void*, const backends::DecodeArgs&) const {}
  };
  backends::Kernel kernel;
  kernel.bind = [](const backends::Policy&, backends::Layers, int, backends::Place&) {
    return backends::BoundKernel(Nothing{}, {.capturable = false});
  };
  backends::CompressedMatrix empty;
  for (auto& device : devices(Place::cpu, 1)) {
    const auto uploaded = device->upload(empty);
    backends::PassPlan plan;
    plan.kernel = &kernel;
    plan.op = backends::Op::decode;
    plan.layers = {uploaded.get()};
    plan.scales = {1};
    CHECK_THROWS_AS(backends::prepare(*device, plan), backends::Refused);
    plan.graph = false;
    CHECK_NOTHROW(backends::prepare(*device, plan)->run());
  }
}

TEST_CASE("a chain runs as a captured graph and as plain launches, with the same result", "[gpu]") {
  Devices gpus = devices_or_skip(Place::gpu);
  const codecs::CodecEntry& entry = each_codec();
  const datasets::Matrix first = tests::gaussian_matrix({512, 512}, 4, 1),
                         second = tests::gaussian_matrix({512, 512}, 4, 2);
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  if (!entry.codec->refuses(first.view(), settings).empty()) return;
  const Expected one = multiply(first);
  std::vector<int8_t> expected_v;
  {
    std::vector<int8_t> padded = one.v;
    padded.resize(padded.size() + backends::kVectorPaddingBytes);
    std::vector<int32_t> y(512);
    backends::cpu::dense_matvec_scalar(second.view().i8().data(), 512, 512, padded.data(), y.data());
    for (int32_t sum : y) expected_v.push_back(backends::requantise(sum, 1e-3f));
  }
  for (auto& gpu : gpus) {
    const auto a = gpu->upload(codecs::encode_matrix(entry, first.view(), settings)),
               b = gpu->upload(codecs::encode_matrix(entry, second.view(), settings));
    for (const backends::Kernel& kernel : entry.kernels(gpu->info().backend))
      for (const bool graph : {true, false}) {
        if (kernel.op == backends::Op::matmul || !kernel.refuses(a->view(), gpu->info(), kernel.policies[0]).empty())
          continue;
        backends::PassPlan plan;
        plan.kernel = &kernel;
        plan.layers = {a.get(), b.get()};
        plan.inputs = {one.x};
        plan.scales = {one.scale, 1e-3f};
        plan.graph = graph;
        const auto pass = backends::prepare(*gpu, plan);
        for (int repetition = 0; repetition < 3; ++repetition) {
          pass->poison_outputs(repetition % 2);
          CHECK(pass->run() > 0);
          CHECK(std::ranges::equal(pass->outputs(1), expected_v));
        }
        CHECK(pass->broken_guards() == "");
      }
  }
}

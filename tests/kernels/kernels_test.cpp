// Every kernel x tuning x instruction set of this CPU, on streams of the scalar encoder, against plain loops; in guarded
// memory, with poisoned outputs, with one thread and with three.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <cstdlib>

#include "backends/backend.h"
#include "backends/cpu/dense_matvec.h"
#include "codecs/registry.h"
#include "tests/test_matrices.h"
#include "tests/test_settings.h"

using namespace ecmv;

namespace {

struct Expected {
  std::vector<int8_t> x, v;
  std::vector<int32_t> y;
  float scale = 0;
};

Expected multiply(const datasets::Matrix& matrix) {
  Expected e;
  tests::Random random{11};
  for (int64_t c = 0; c < matrix.shape.cols; ++c) e.x.push_back(static_cast<int8_t>(random.next()));  // -128 included
  std::vector<int8_t> padded = e.x;
  padded.resize(e.x.size() + backends::kVectorPaddingBytes);
  e.y.resize(matrix.shape.rows);
  backends::cpu::dense_matvec_scalar(matrix.view().i8().data(), matrix.shape.rows, matrix.shape.cols, padded.data(), e.y.data());
  int64_t largest = 1;
  for (int32_t y : e.y) largest = std::max<int64_t>(largest, std::llabs(y));
  e.scale = 127.0f / static_cast<float>(largest);
  for (int32_t y : e.y) e.v.push_back(backends::requantise(y, e.scale));
  return e;
}

// All devices that this machine can open, with `threads` threads.
std::vector<std::unique_ptr<backends::Device>> devices(int threads) {
  std::vector<std::unique_ptr<backends::Device>> out;
  for (const backends::Backend& backend : backends::all_backends())
    for (const backends::DeviceInfo& info : backend.devices())
      if (info.unavailable.empty()) out.push_back(backend.open({threads, info.simd_target}));
  return out;
}

// Runs one kernel as decode, fused or unfused product and compares everything. Returns false if it refuses.
bool kernel_is_right(backends::Device& device, const backends::Kernel& kernel, int tuning, backends::Op op,
                     const backends::UploadedMatrix& uploaded, const datasets::Matrix& matrix, const Expected& expected) {
  device.select();
  const std::string refused = kernel.refuses(uploaded.view(), device.info(), tuning);
  if (!refused.empty()) {
    CHECK(refused.size() > 20);
    return false;
  }
  backends::PassPlan plan;
  plan.kernel = &kernel;
  plan.op = op;
  plan.tuning = tuning;
  plan.layers = {&uploaded};
  plan.inputs = {expected.x};
  plan.scales = {expected.scale};
  const auto pass = device.prepare(plan);
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

// Every kernel of a codec on one matrix; returns how many ran.
int run_all(const codecs::CodecEntry& entry, const datasets::Matrix& matrix, const codecs::Settings& settings,
            std::vector<std::unique_ptr<backends::Device>>& devices) {
  if (!entry.codec->refuses(matrix.view(), settings).empty()) return 0;
  const codecs::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
  const Expected expected = multiply(matrix);
  int ran = 0;
  for (auto& device : devices) {
    const auto uploaded = device->upload(compressed);
    for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
      for (size_t tuning = 0; tuning < kernel.tunings.size(); ++tuning) {
        INFO(entry.id << " [" << settings.to_string() << "] " << kernel.variant << "/" << kernel.tunings[tuning].name << " on "
                      << device->info().backend << " " << device->info().simd_target << ", " << tests::describe(matrix));
        ran += kernel_is_right(*device, kernel, static_cast<int>(tuning), kernel.op, *uploaded, matrix, expected);
        if (kernel.op == backends::Op::decode)
          kernel_is_right(*device, kernel, static_cast<int>(tuning), backends::Op::matvec, *uploaded, matrix, expected);
      }
  }
  return ran;
}

const codecs::CodecEntry& each_codec() {
  const size_t index = GENERATE_COPY(range(size_t{0}, codecs::all_codecs().size()));
  return codecs::all_codecs()[index];
}

bool has_kernels(const codecs::CodecEntry& entry) { return !entry.cpu_kernels.empty() || !entry.simd_kernels.empty(); }

}  // namespace

TEST_CASE("every kernel multiplies and decodes every matrix exactly, default settings") {
  const codecs::CodecEntry& entry = each_codec();
  auto one_thread = devices(1);
  int ran = 0;
  for (const datasets::Matrix& matrix : tests::test_matrices()) ran += run_all(entry, matrix, codecs::default_settings(*entry.codec), one_thread);
  INFO(entry.id);
  CHECK((ran > 0 || !has_kernels(entry)));
}

TEST_CASE("every kernel is exact with every setting and three threads") {
  const codecs::CodecEntry& entry = each_codec();
  auto three_threads = devices(3);
  const std::vector<datasets::Matrix> matrices = {tests::gaussian_matrix({96, 512}, 4), tests::gaussian_matrix({67, 203}, 7.74),
                                                  tests::distributions({35, 129})[5]};
  int ran = 0;
  for (const codecs::Settings& settings : tests::settings_to_test(*entry.codec))
    for (const datasets::Matrix& matrix : matrices) ran += run_all(entry, matrix, settings, three_threads);
  INFO(entry.id);
  CHECK((ran > 0 || !has_kernels(entry)));
}

TEST_CASE("kernels are exact over several blocks of rows") {
  const codecs::CodecEntry& entry = each_codec();
  auto three_threads = devices(3);
  // 3 Mi elements: more than one block with every default.
  int ran = run_all(entry, tests::gaussian_matrix({1536, 2048}, 4), codecs::default_settings(*entry.codec), three_threads);
  INFO(entry.id);
  CHECK((ran > 0 || !has_kernels(entry)));
}

// Not a test: a small program that verifies and times GPU kernels with nothing but the codecs and the plugins, for machines that lack
// the libraries of the command `ecmv`, and for quick rounds while a kernel is written.
//   gpu_check [--backend cuda] [--codec ID]... [--variant NAME] [--op matvec|decode] [--d 4096,16384] [--sigma 4] [--layers 10] [--set name=value]... [--passes 30] [--plain]
// Prints, for every matvec kernel x tuning: elements a second (MAC/s) of the chain's median pass, its part of the read bandwidth
// measured here, bits an element. Every layer's accumulators are compared first (of kernels that run
// whole chains also those of each layer in a launch of its own). With --op decode: the same of decode kernels, whose
// last layer is compared. With --passes 0 it only compares, for tools that slow a device down: timing gigabytes of reads takes
// compute-sanitizer's racecheck hours, the kernels seconds. Exit status 1 if anything was wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/dense_matvec.h"
#include "backends/cpu/team.h"
#include "codecs/registry.h"
#include "tests/test_matrices.h"

using namespace ecmv;

namespace {

struct Options {
  std::string backend = "cuda", variant;
  std::vector<std::string> codecs;
  std::vector<int64_t> sizes = {4096};
  std::map<std::string, std::string> settings;
  backends::Op op = backends::Op::matvec;
  double sigma = 4;
  int layers = 10, passes = 30;
  bool graph = true;
};

struct Chain {
  std::vector<datasets::Matrix> matrices;
  std::vector<int8_t> x;
  std::vector<std::vector<int32_t>> y;
  std::vector<float> scales;
};

// Rounded normal numbers from a table of 2^16 equally likely values: fast enough for a gigabyte.
datasets::Matrix gaussian(int64_t d, double sigma, uint64_t seed) {
  static std::vector<int8_t> table;
  if (table.empty()) {
    tests::Random random{99};
    for (int i = 0; i < 1 << 16; ++i) {
      const double u = std::max(1e-300, random.uniform()), angle = 6.283185307179586 * random.uniform();
      table.push_back(static_cast<int8_t>(std::clamp(std::nearbyint(sigma * std::sqrt(-2 * std::log(u)) * std::cos(angle)), -127.0, 127.0)));
    }
  }
  datasets::Matrix matrix;
  matrix.name = "gaussian";
  matrix.shape = {d, d};
  matrix.elements.resize(static_cast<size_t>(d * d));
  tests::Random random{seed};
  for (size_t i = 0; i < matrix.elements.size();) {
    uint64_t bits = random.next();
    for (int k = 0; k < 4 && i < matrix.elements.size(); ++k, bits >>= 16) matrix.elements[i++] = static_cast<std::byte>(table[bits & 0xFFFF]);
  }
  return matrix;
}

Chain make_chain(int64_t d, const Options& options) {
  Chain chain;
  chain.matrices.resize(options.layers);
  (void)gaussian(1, options.sigma, 0);  // the table, before threads
  const backends::cpu::Team team(backends::cpu::Team::available_threads());
  team.run([&](int thread) {
    for (int i = thread; i < options.layers; i += team.threads()) chain.matrices[i] = gaussian(d, options.sigma, static_cast<uint64_t>(i + 1));
  });
  tests::Random random{5};
  for (int64_t i = 0; i < d; ++i) chain.x.push_back(static_cast<int8_t>(random.next()));
  std::vector<int8_t> v = chain.x;
  for (const datasets::Matrix& matrix : chain.matrices) {
    v.resize(static_cast<size_t>(d + backends::kVectorPaddingBytes), 0);
    std::vector<int32_t> y(static_cast<size_t>(d));
    team.run([&](int thread) {
      const int64_t begin = d * thread / team.threads(), end = d * (thread + 1) / team.threads();
      backends::cpu::dense_matvec_scalar(matrix.view().i8().data() + begin * d, end - begin, d, v.data(), y.data() + begin);
    });
    int64_t largest = 1;
    for (int32_t sum : y) largest = std::max<int64_t>(largest, std::llabs(sum));
    chain.scales.push_back(127.0f / static_cast<float>(largest));
    v.clear();
    for (int32_t sum : y) v.push_back(backends::requantise(sum, chain.scales.back()));
    chain.y.push_back(std::move(y));
  }
  return chain;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Verifies and times one kernel; returns whether it was right.
bool run_kernel(backends::Device& device, const codecs::CodecEntry& entry, const backends::Kernel& kernel, int tuning, const Chain& chain,
                const std::vector<const backends::UploadedMatrix*>& layers, double bits, double bandwidth, const Options& options) {
  std::printf("%-16s %-22s %-24s ", std::string(entry.id).c_str(), std::string(kernel.variant).c_str(), std::string(kernel.tunings[tuning].name).c_str());
  for (const backends::UploadedMatrix* layer : layers)
    if (const std::string reason = kernel.refuses(layer->view(), device.info(), tuning); !reason.empty()) {
      std::printf("refused: %s\n", reason.c_str());
      return true;
    }
  backends::PassPlan plan;
  plan.kernel = &kernel;
  plan.op = options.op;
  plan.tuning = tuning;
  plan.layers = layers;
  plan.inputs = {chain.x};
  plan.scales = chain.scales;
  plan.graph = options.graph;
  const auto pass = device.prepare(plan);
  pass->poison_outputs(0);
  pass->run();
  std::vector<double> seconds;
  for (int i = 0; i < options.passes; ++i) seconds.push_back(pass->run());
  std::string wrong = pass->broken_guards();
  if (options.op == backends::Op::decode && wrong.empty() && !std::ranges::equal(pass->decoded(), chain.matrices.back().view().i8()))
    wrong = "the last layer is wrong";
  const auto compare_layers = [&](const char* how) {
    for (size_t i = 0; i < chain.y.size() && wrong.empty() && options.op == backends::Op::matvec; ++i)
      if (!std::ranges::equal(pass->accumulators(static_cast<int>(i)), chain.y[i])) wrong = "layer " + std::to_string(i) + how;
  };
  compare_layers(" is wrong");
  if (kernel.runs_chains()) {
    pass->poison_outputs(1);
    for (size_t i = 0; i < layers.size(); ++i) pass->run_layer(static_cast<int>(i));
    compare_layers(" is wrong by itself");
  }
  const double elements = static_cast<double>(chain.x.size()) * static_cast<double>(chain.x.size()) * static_cast<double>(layers.size());
  if (device.info().emulated || options.passes == 0) {  // no time means anything
    std::printf("%6.3f bits  %s\n", bits, wrong.empty() ? "exact" : wrong.c_str());
    return wrong.empty();
  }
  const double rate = elements / median(seconds);
  std::printf("%6.3f T%s/s  %5.2f of bandwidth  %6.3f bits  %8.2f us a layer  %s\n", rate * 1e-12, options.op == backends::Op::decode ? "elem" : "MAC",
              rate * bits / 8 / bandwidth, bits,
              median(seconds) * 1e6 / static_cast<double>(layers.size()), wrong.empty() ? "exact" : wrong.c_str());
  std::fflush(stdout);
  return wrong.empty();
}

bool run_size(backends::Device& device, int64_t d, double bandwidth, const Options& options) {
  const Chain chain = make_chain(d, options);
  bool right = true;
  std::printf("--- d = %lld, %d layers, sigma %g\n", static_cast<long long>(d), options.layers, options.sigma);
  for (const codecs::CodecEntry& entry : codecs::all_codecs()) {
    const auto kernels = entry.kernels(options.backend);
    if (kernels.empty() || (!options.codecs.empty() && std::ranges::find(options.codecs, std::string(entry.id)) == options.codecs.end())) continue;
    std::vector<std::string> errors;
    const codecs::Settings settings = codecs::resolve_settings(entry.codec->settings, options.codecs.empty() ? std::map<std::string, std::string>() : options.settings, errors);
    for (const std::string& error : errors) std::fprintf(stderr, "%s\n", error.c_str());
    if (!errors.empty()) return false;
    if (const std::string reason = entry.codec->refuses(chain.matrices.front().view(), settings); !reason.empty()) {
      std::printf("%-16s refused: %s\n", std::string(entry.id).c_str(), reason.c_str());
      continue;
    }
    std::vector<codecs::CompressedMatrix> encoded(chain.matrices.size());
    const backends::cpu::Team team(backends::cpu::Team::available_threads());
    team.run([&](int thread) {
      for (size_t i = static_cast<size_t>(thread); i < encoded.size(); i += static_cast<size_t>(team.threads()))
        encoded[i] = codecs::encode_matrix(entry, chain.matrices[i].view(), settings);
    });
    double stored = 0;
    std::vector<std::unique_ptr<backends::UploadedMatrix>> uploaded;
    std::vector<const backends::UploadedMatrix*> layers;
    for (const codecs::CompressedMatrix& layer : encoded) {
      stored += static_cast<double>(layer.stored_bytes());
      uploaded.push_back(device.upload(layer));
      layers.push_back(uploaded.back().get());
    }
    const double bits = 8 * stored / (static_cast<double>(d) * static_cast<double>(d) * static_cast<double>(layers.size()));
    for (const backends::Kernel& kernel : kernels)
      for (size_t tuning = 0; tuning < kernel.tunings.size(); ++tuning)
        // A decode kernel that is named is also measured as the first half of a product.
        if (options.variant.empty() ? kernel.op == options.op : kernel.variant == options.variant && (kernel.op == options.op || options.op == backends::Op::matvec))
          right &= run_kernel(device, entry, kernel, static_cast<int>(tuning), chain, layers, bits, bandwidth, options);
  }
  return right;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--plain") {
      options.graph = false;
      continue;
    }
    if (i + 1 >= argc) {
      std::fprintf(stderr, "The option %s needs a value, or is none.\n", name.c_str());
      std::exit(2);
    }
    const std::string value = argv[++i];
    if (name == "--backend") options.backend = value;
    else if (name == "--codec") options.codecs.push_back(value);
    else if (name == "--variant") options.variant = value;
    else if (name == "--op" && (value == "matvec" || value == "decode")) options.op = value == "decode" ? backends::Op::decode : backends::Op::matvec;
    else if (name == "--sigma") options.sigma = std::stod(value);
    else if (name == "--layers") options.layers = std::stoi(value);
    else if (name == "--passes") options.passes = std::stoi(value);
    else if (name == "--set") options.settings[value.substr(0, value.find('='))] = value.substr(value.find('=') + 1);
    else if (name == "--d") {
      options.sizes.clear();
      for (size_t at = 0; at < value.size(); at = std::min(value.size(), value.find(',', at)) + 1) options.sizes.push_back(std::stoll(value.substr(at)));
    } else {
      std::fprintf(stderr, "There is no option %s.\n", name.c_str());
      std::exit(2);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const backends::Backend* backend = backends::find_backend(options.backend);
  if (backend == nullptr) {
    std::fprintf(stderr, "There is no backend '%s'.\n", options.backend.c_str());
    return 2;
  }
  try {
    const auto device = backend->open({});
    const backends::DeviceInfo& info = device->info();
    const int64_t bytes = std::max<int64_t>(int64_t{1} << 30, 8 * info.llc_bytes);
    const double bandwidth = info.emulated || options.passes == 0 ? 0 : static_cast<double>(bytes) / median(device->time_reads(bytes, 9));
    std::printf("%s, %s, %d compute units, wave %d, L2 %.0f MiB, %s; reads %.3f TB/s\n", info.name.c_str(), info.simd_target.c_str(), info.compute_units,
                info.wave_size, static_cast<double>(info.llc_bytes) / 1048576, info.driver.c_str(), bandwidth * 1e-12);
    const backends::DeviceState before = device->state();
    bool right = true;
    for (int64_t d : options.sizes) right &= run_size(*device, d, bandwidth, options);
    const backends::DeviceState after = device->state();
    std::printf("clock %.0f -> %.0f MHz, memory %.0f MHz, %.0f W, %.0f C, limits: %s\n", before.clock_hz * 1e-6, after.clock_hz * 1e-6, after.memory_clock_hz * 1e-6,
                after.power_w, after.temperature_c, after.throttle_reasons.empty() ? "unknown" : after.throttle_reasons.c_str());
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

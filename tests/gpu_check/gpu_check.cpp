// Not a test: a small program that verifies and times GPU kernels with only the codecs and the plugins, for machines
// that lack the libraries of the command `ecmv`, and for quick rounds while a kernel is written.
//   gpu_check [--backend cuda] [--codec ID]... [--variant NAME] [--op matvec|matmul|decode] [--batch 1,16]
//     [--type i8|bf16] [--d 4096,16384] [--sigma 4] [--layers 10] [--set name=value]... [--passes 30] [--plain]
// For every matvec kernel with every policy it prints elements a second (MAC/s) of the chain's median pass, its share
// of the read bandwidth measured here, and bits an element. First it compares every layer's accumulators; for kernels
// that run whole chains, also with each layer in a launch of its own.
// --op decode does the same for decode kernels and compares the last layer.
// --op matmul runs float products of --batch tokens with int8 or bf16 elements (normal numbers of sigma 0.02, rounded)
// and checks each layer against the kernel's bound; "error" is the largest error relative to it, and rates count
// elements x tokens.
// --passes 0 only compares, for tools that slow a device down: compute-sanitizer's racecheck takes hours to time
// gigabytes of reads, but seconds for the kernels.
// Exit status 1 if anything was wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/products/dense_matvec.h"
#include "backends/cpu/team.h"
#include "backends/exact_product.h"
#include "backends/pass.h"
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
  datasets::ElementType type = datasets::ElementType::i8;
  std::vector<int> batches = {1};
  double sigma = 0;  // 0: 4 for int8, 0.02 for bf16
  int layers = 10, passes = 30;
  bool graph = true;
};

struct Chain {
  std::vector<datasets::Matrix> matrices;
  std::vector<int8_t> x;
  std::vector<std::vector<int32_t>> y;
  std::vector<float> scales;
  // matmul: of the largest batch.
  std::vector<std::vector<float>> tokens;
  std::vector<backends::ExactProduct> exact;
};

// Rounded normal numbers from a table of 2^16 equally likely values: fast enough for a gigabyte.
template <typename Bits>
datasets::Matrix gaussian(int64_t d, double sigma, uint64_t seed, datasets::ElementType type, Bits (*rounded)(double)) {
  static std::vector<Bits> table;
  if (table.empty()) {
    tests::Random random{99};
    for (int i = 0; i < 1 << 16; ++i) {
      const double u = std::max(1e-300, random.uniform()), angle = 6.283185307179586 * random.uniform();
      table.push_back(rounded(sigma * std::sqrt(-2 * std::log(u)) * std::cos(angle)));
    }
  }
  datasets::Matrix matrix;
  matrix.name = "gaussian";
  matrix.shape = {d, d};
  matrix.type = type;
  matrix.elements.resize(static_cast<size_t>(d * d) * sizeof(Bits));
  auto* elements = reinterpret_cast<Bits*>(matrix.elements.data());
  tests::Random random{seed};
  for (int64_t i = 0; i < d * d;) {
    uint64_t bits = random.next();
    for (int k = 0; k < 4 && i < d * d; ++k, bits >>= 16) elements[i++] = table[bits & 0xFFFF];
  }
  return matrix;
}

datasets::Matrix weights(int64_t d, const Options& options, uint64_t seed) {
  if (options.type == datasets::ElementType::bf16)
    return gaussian<uint16_t>(d, options.sigma, seed, options.type, datasets::nearest_bf16);
  return gaussian<int8_t>(d, options.sigma, seed, options.type, [](double value) {
    return static_cast<int8_t>(std::clamp(std::nearbyint(value), -127.0, 127.0));
  });
}

// The chain of int8 products.
void multiply_chain(Chain& chain, int64_t d) {
  const backends::cpu::Team team(backends::cpu::Team::available_threads());
  tests::Random random{5};
  for (int64_t i = 0; i < d; ++i) chain.x.push_back(static_cast<int8_t>(random.next()));
  std::vector<int8_t> v = chain.x;
  for (const datasets::Matrix& matrix : chain.matrices) {
    v.resize(static_cast<size_t>(d + backends::kVectorPaddingBytes), 0);
    std::vector<int32_t> y(static_cast<size_t>(d));
    team.run([&](int thread, int threads) {
      const int64_t begin = d * thread / threads, end = d * (thread + 1) / threads;
      backends::cpu::dense_matvec_scalar(matrix.view().i8().data() + begin * d, end - begin, d, v.data(),
                                         y.data() + begin);
    });
    int64_t largest = 1;
    for (int32_t sum : y) largest = std::max<int64_t>(largest, std::llabs(sum));
    chain.scales.push_back(127.0f / static_cast<float>(largest));
    v.clear();
    for (int32_t sum : y) v.push_back(backends::requantise(sum, chain.scales.back()));
    chain.y.push_back(std::move(y));
  }
}

std::vector<backends::ExactProduct> exact_products(const std::vector<datasets::Matrix>& matrices,
                                                   const std::vector<std::vector<float>>& tokens, int batch) {
  std::vector<backends::ExactProduct> exact;
  for (size_t i = 0; i < matrices.size(); ++i)
    exact.push_back(backends::exact_product(matrices[i].view(), tokens[i], batch));
  return exact;
}

Chain make_chain(int64_t d, const Options& options) {
  Chain chain;
  chain.matrices.resize(options.layers);
  (void)weights(1, options, 0);  // the table, before threads
  const backends::cpu::Team team(backends::cpu::Team::available_threads());
  team.run([&](int thread, int threads) {
    for (int i = thread; i < options.layers; i += threads)
      chain.matrices[i] = weights(d, options, static_cast<uint64_t>(i + 1));
  });
  if (options.op == backends::Op::matvec) multiply_chain(chain, d);
  if (options.op == backends::Op::matmul) {
    const int batch = std::ranges::max(options.batches);
    tests::Random random{7};
    for (int i = 0; i < options.layers; ++i) {
      chain.tokens.emplace_back();
      for (int64_t k = 0; k < batch * d; ++k) chain.tokens.back().push_back(static_cast<float>(random.normal()));
    }
    chain.exact = exact_products(chain.matrices, chain.tokens, batch);
  }
  return chain;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Facts of a codec that its kernels share.
struct Encoded {
  std::string id;
  std::vector<const backends::UploadedMatrix*> layers;
  double bits = 0, bandwidth = 0;
  const std::vector<datasets::Matrix>* decoded = nullptr;      // expected of decode kernels
  const std::vector<backends::ExactProduct>* exact = nullptr;  // matmul
};

// The first layer with a wrong result, in words. `used`: the largest error relative to its bound.
std::string wrong_layer(backends::Pass& pass, const Chain& chain, const Encoded& encoded, backends::Op op,
                        double& used) {
  if (op == backends::Op::decode && !std::ranges::equal(pass.decoded(), encoded.decoded->back().view().i8()))
    return "the last layer is wrong";
  for (size_t i = 0; i < chain.y.size() && op == backends::Op::matvec; ++i)
    if (!std::ranges::equal(pass.accumulators(static_cast<int>(i)), chain.y[i]))
      return "layer " + std::to_string(i) + " is wrong";
  for (size_t i = 0; i < encoded.layers.size() && op == backends::Op::matmul; ++i) {
    const int layer = static_cast<int>(i);
    const backends::ProductCheck check =
        backends::check_product(pass.products(layer), (*encoded.exact)[i], pass.rounding(layer));
    if (!check.violation.empty()) return "layer " + std::to_string(i) + ": " + check.violation;
    used = std::max(used, check.used);
  }
  return {};
}

// Verifies and times one kernel; returns whether it was right.
bool run_kernel(backends::Device& device, const backends::Kernel& kernel, const backends::Policy& policy, int batch,
                const Chain& chain, const Encoded& encoded, const Options& options) {
  std::printf("%-16s %-22s %-24s ", encoded.id.c_str(), std::string(kernel.variant).c_str(),
              std::string(policy.name).c_str());
  const bool matmul = options.op == backends::Op::matmul;
  if (matmul) std::printf("batch %2d  ", batch);
  for (const backends::UploadedMatrix* layer : encoded.layers)
    if (const std::string reason = kernel.refuses(layer->view(), device.info(), policy); !reason.empty()) {
      std::printf("refused: %s\n", reason.c_str());
      return true;
    }
  backends::PassPlan plan;
  plan.kernel = &kernel;
  plan.op = options.op;
  plan.policy = &policy;
  plan.layers = encoded.layers;
  plan.inputs = {chain.x};
  plan.scales = chain.scales;
  plan.graph = options.graph;
  plan.batch = batch;
  const int64_t d = chain.matrices.front().shape.cols;
  for (const std::vector<float>& tokens : chain.tokens)
    plan.tokens.emplace_back(tokens.begin(), tokens.begin() + batch * d);
  std::unique_ptr<backends::Pass> pass;
  try {
    pass = backends::prepare(device, plan);
  } catch (const backends::Refused& reason) {
    std::printf("refused: %s\n", reason.what());
    return true;
  }
  pass->poison_outputs(0);
  pass->run();
  std::vector<double> seconds;
  for (int i = 0; i < options.passes; ++i) seconds.push_back(pass->run());
  double used = 0;
  std::string wrong = pass->broken_guards();
  if (wrong.empty()) wrong = wrong_layer(*pass, chain, encoded, options.op, used);
  if (kernel.whole_chain && wrong.empty()) {
    pass->poison_outputs(1);
    for (size_t i = 0; i < encoded.layers.size(); ++i) pass->run_layer(static_cast<int>(i));
    wrong = wrong_layer(*pass, chain, encoded, options.op, used);
    if (!wrong.empty()) wrong += " by itself";
  }
  char right[32] = "exact";
  if (matmul) std::snprintf(right, sizeof(right), "right, error %.2g", used);
  const char* verdict = wrong.empty() ? right : wrong.c_str();
  if (device.info().emulated || options.passes == 0) {  // times mean nothing
    std::printf("%6.3f bits  %s\n", encoded.bits, verdict);
    return wrong.empty();
  }
  const double elements = static_cast<double>(d) * static_cast<double>(d) * static_cast<double>(encoded.layers.size()),
               rate = elements / median(seconds);
  std::printf("%6.3f T%s/s  %5.2f of bandwidth  %6.3f bits  %8.2f us a layer  %s\n", rate * batch * 1e-12,
              options.op == backends::Op::decode ? "elem" : "MAC", rate * encoded.bits / 8 / encoded.bandwidth,
              encoded.bits, median(seconds) * 1e6 / static_cast<double>(encoded.layers.size()), verdict);
  std::fflush(stdout);
  return wrong.empty();
}

bool run_codec(backends::Device& device, const codecs::CodecEntry& entry, const Chain& chain, double bandwidth,
               const Options& options) {
  std::vector<std::string> errors;
  const backends::Settings settings = codecs::resolve_settings(
      entry.codec->settings, options.codecs.empty() ? std::map<std::string, std::string>() : options.settings, errors);
  for (const std::string& error : errors) std::fprintf(stderr, "%s\n", error.c_str());
  if (!errors.empty()) return false;
  if (const std::string reason = entry.codec->refuses(chain.matrices.front().view(), settings); !reason.empty()) {
    std::printf("%-16s refused: %s\n", std::string(entry.id).c_str(), reason.c_str());
    return true;
  }
  std::vector<backends::CompressedMatrix> compressed(chain.matrices.size());
  std::vector<datasets::Matrix> decoded(entry.codec->lossless ? 0 : compressed.size());  // of lossy codecs
  const backends::cpu::Team team(backends::cpu::Team::available_threads());
  team.run([&](int thread, int threads) {
    for (size_t i = static_cast<size_t>(thread); i < compressed.size(); i += static_cast<size_t>(threads)) {
      compressed[i] = codecs::encode_matrix(entry, chain.matrices[i].view(), settings);
      if (decoded.empty()) continue;
      decoded[i] = chain.matrices[i];
      entry.codec->decode(compressed[i].view(), decoded[i].elements);
    }
  });
  const std::vector<backends::ExactProduct> exact =
      decoded.empty() || options.op != backends::Op::matmul
          ? std::vector<backends::ExactProduct>()
          : exact_products(decoded, chain.tokens, std::ranges::max(options.batches));
  double stored = 0, elements = 0;
  std::vector<std::unique_ptr<backends::UploadedMatrix>> uploaded;
  Encoded encoded{std::string(entry.id),
                  {},
                  0,
                  bandwidth,
                  decoded.empty() ? &chain.matrices : &decoded,
                  decoded.empty() ? &chain.exact : &exact};
  for (const backends::CompressedMatrix& layer : compressed) {
    stored += static_cast<double>(layer.stored_bytes());
    elements += static_cast<double>(layer.shape.elements());
    uploaded.push_back(device.upload(layer));
    encoded.layers.push_back(uploaded.back().get());
  }
  encoded.bits = 8 * stored / elements;
  bool right = true;
  for (const backends::Kernel& kernel : entry.kernels(options.backend)) {
    if (kernel.group_cols != 0) continue;  // elements have no scales here
    // A decode kernel chosen by name is also measured as the first half of a product.
    const bool chosen = options.variant.empty() ? kernel.op == options.op
                                                : kernel.variant == options.variant &&
                                                      (kernel.op == options.op || kernel.op == backends::Op::decode);
    for (const backends::Policy& policy : kernel.policies)
      for (const int batch : options.batches)
        right &= !chosen || run_kernel(device, kernel, policy, batch, chain, encoded, options);
  }
  return right;
}

bool run_size(backends::Device& device, int64_t d, double bandwidth, const Options& options) {
  const Chain chain = make_chain(d, options);
  bool right = true;
  std::printf("--- d = %lld, %d layers of %s, sigma %g\n", static_cast<long long>(d), options.layers,
              std::string(datasets::element_type_name(options.type)).c_str(), options.sigma);
  for (const codecs::CodecEntry& entry : codecs::all_codecs())
    if (!entry.kernels(options.backend).empty() &&
        (options.codecs.empty() || std::ranges::find(options.codecs, std::string(entry.id)) != options.codecs.end()))
      right &= run_codec(device, entry, chain, bandwidth, options);
  return right;
}

template <typename Number>
std::vector<Number> number_list(const std::string& text) {
  std::vector<Number> numbers;
  for (size_t at = 0; at < text.size(); at = std::min(text.size(), text.find(',', at)) + 1)
    numbers.push_back(static_cast<Number>(std::stoll(text.substr(at))));
  return numbers;
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
    if (name == "--backend")
      options.backend = value;
    else if (name == "--codec")
      options.codecs.push_back(value);
    else if (name == "--variant")
      options.variant = value;
    else if (name == "--op" && (value == "matvec" || value == "decode" || value == "matmul"))
      options.op = value == "decode"   ? backends::Op::decode
                   : value == "matmul" ? backends::Op::matmul
                                       : backends::Op::matvec;
    else if (name == "--type" && (value == "i8" || value == "bf16"))
      options.type = value == "i8" ? datasets::ElementType::i8 : datasets::ElementType::bf16;
    else if (name == "--batch")
      options.batches = number_list<int>(value);
    else if (name == "--sigma")
      options.sigma = std::stod(value);
    else if (name == "--layers")
      options.layers = std::stoi(value);
    else if (name == "--passes")
      options.passes = std::stoi(value);
    else if (name == "--set")
      options.settings[value.substr(0, value.find('='))] = value.substr(value.find('=') + 1);
    else if (name == "--d")
      options.sizes = number_list<int64_t>(value);
    else {
      std::fprintf(stderr, "There is no option %s.\n", name.c_str());
      std::exit(2);
    }
  }
  if (options.sigma == 0) options.sigma = options.type == datasets::ElementType::bf16 ? 0.02 : 4;
  const bool batches_fit = !options.batches.empty() && std::ranges::all_of(options.batches, [](int batch) {
    return batch >= 1 && batch <= backends::kMaxBatch;
  });
  if (!batches_fit || (options.op == backends::Op::matvec && options.type != datasets::ElementType::i8)) {
    std::fprintf(stderr, batches_fit ? "Products with int8 vectors are those of --type i8.\n"
                                     : "--batch takes numbers from 1 to 64.\n");
    std::exit(2);
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
    const double bandwidth =
        info.emulated || options.passes == 0 ? 0 : static_cast<double>(bytes) / median(device->time_reads(bytes, 9));
    std::printf("%s, %s, %d compute units, wave %d, L2 %.0f MiB, %s; reads %.3f TB/s\n", info.name.c_str(),
                info.simd_target.c_str(), info.compute_units, info.wave_size,
                static_cast<double>(info.llc_bytes) / 1048576, info.driver.c_str(), bandwidth * 1e-12);
    const backends::DeviceState before = device->state();
    bool right = true;
    for (int64_t d : options.sizes) right &= run_size(*device, d, bandwidth, options);
    const backends::DeviceState after = device->state();
    std::printf("clock %.0f -> %.0f MHz, memory %.0f MHz, %.0f W, %.0f C, limits: %s\n", before.clock_hz * 1e-6,
                after.clock_hz * 1e-6, after.memory_clock_hz * 1e-6, after.power_w, after.temperature_c,
                after.throttle_reasons.empty() ? "unknown" : after.throttle_reasons.c_str());
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

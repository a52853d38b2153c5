// Holds every kernel and policy of every codec, on every device that can run it, to the rule for bindings (the head of
// backends/kernel.h). Kernels that break the rule on purpose must be caught.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/pass.h"
#include "codecs/registry.h"
#include "tests/kernels/places.h"
#include "tests/kernels/products/group_scales.h"
#include "tests/test_matrices.h"

#if defined(__SANITIZE_ADDRESS__)
// Declared here because GCC does not install sanitizer/allocator_interface.h.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

using namespace ecmv;
using namespace ecmv::tests;

namespace {

// Bytes of the heap that are in use.
int64_t heap_bytes() {
#if defined(__SANITIZE_ADDRESS__)
  return static_cast<int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
#endif
}

// Memory for bindings, allocated before anything is counted.
class CountedPlace final : public backends::Place {
 public:
  static constexpr int64_t kBytes = int64_t{1} << 20;
  explicit CountedPlace(backends::Device& device)
      : executor_(device.executor(false)), memory_(executor_->allocate(2 * kBytes, "the test's memory")) {}
  void begin(size_t layers) {
    described_ = zeroed_ = 0;
    limit_ = backends::kDescriptionBytes * static_cast<int64_t>(layers);
  }
  const backends::DeviceInfo& device() const override { return executor_->device(); }
  const std::byte* describe(std::span<const std::byte> bytes) override {
    std::byte* place = memory_->data() + described_;
    described_ += (static_cast<int64_t>(bytes.size()) + 255) / 256 * 256;
    if (static_cast<int64_t>(bytes.size()) > limit_) throw std::logic_error("The descriptions are too large.");
    memory_->write(bytes, place - memory_->data());
    return place;
  }
  std::byte* zeroed(int64_t bytes) override {
    std::byte* place = memory_->data() + kBytes + zeroed_;
    zeroed_ += (bytes + 255) / 256 * 256;
    return place;
  }

 private:
  std::unique_ptr<backends::Executor> executor_;
  std::unique_ptr<backends::Buffer> memory_;
  int64_t described_ = 0, zeroed_ = 0, limit_ = 0;
};

// Two matrices with different tables: if one binding finds the other's leftovers, results are wrong.
struct Pair {
  std::vector<datasets::Matrix> matrices;
  std::vector<backends::CompressedMatrix> compressed;
};

std::string heap_violation(backends::Device& device, const backends::Kernel& kernel, const backends::Policy& policy,
                           std::span<const std::unique_ptr<backends::UploadedMatrix>> uploads) {
  constexpr int kBindings = 8;
  device.select();
  CountedPlace place(device);
  const auto bind = [&](const backends::UploadedMatrix& uploaded) {
    std::vector<std::byte> nothing(16);  // y and v of a chain's layer: never used
    const datasets::Scales scales = scales_for(kernel, uploaded.view().shape);
    const backends::Layer layer{&uploaded.view(), nullptr, nullptr, 1.0f, {&scales, nullptr}};
    place.begin(1);
    return kernel.bind(policy, {&layer, 1}, 1, place);
  };
  // Memory allocated once, at the first binding of each matrix, may stay.
  for (int i = 0; i < 3; ++i)
    for (const auto& uploaded : uploads) (void)bind(*uploaded);
  const int64_t before = heap_bytes();
  for (int i = 0; i < kBindings; ++i) (void)bind(*uploads[static_cast<size_t>(i) % uploads.size()]);
  const int64_t left = heap_bytes() - before;
  return left >= kBindings * 16 ? "A binding leaves " + std::to_string(left / kBindings) + " bytes on the heap." : "";
}

// Tokens of the first and of the second binding of a matmul. A body that looks up its batch, or its plan, where the
// other binding left its own multiplies too few tokens.
constexpr std::array<int, 2> kBatches = {3, 1};

// Runs both bindings while both are alive, and wipes scratch and exchanged words before each run; "" if results are
// right. Float products must be the same every time, since an enqueue starts what was bound, whatever ran between.
std::string result_violation(backends::Device& device, const backends::Kernel& kernel, const backends::Policy& policy,
                             const Pair& pair, std::span<const std::unique_ptr<backends::UploadedMatrix>> uploads) {
  std::vector<std::unique_ptr<backends::Pass>> passes;
  std::vector<datasets::Scales> scales;
  for (const auto& uploaded : uploads) scales.push_back(scales_for(kernel, uploaded->view().shape));
  for (size_t i = 0; i < uploads.size(); ++i) {
    backends::PassPlan plan;
    plan.kernel = &kernel;
    plan.policy = &policy;
    plan.op = kernel.op;
    plan.layers = {uploads[i].get()};
    plan.chained = false;
    const datasets::Shape shape = pair.matrices[i].shape;
    if (kernel.op == backends::Op::matvec) {
      plan.inputs = {std::vector<int8_t>(static_cast<size_t>(shape.cols), 1)};
      plan.scales = {1.0f};
    } else if (kernel.op == backends::Op::matmul) {
      plan.activations = kernel.activations;
      plan.batch = kBatches[i];
      plan.tokens = {std::vector<float>(static_cast<size_t>(plan.batch * shape.cols), 1.0f)};
      plan.weight_scales = {&scales[i]};
    }
    passes.push_back(prepare_in_any_form(device, plan));
  }
  std::array<std::vector<float>, 2> products;
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < passes.size(); ++i) {
      passes[i]->poison_outputs(round);
      passes[i]->run_layer(0);
      const datasets::Matrix& matrix = pair.matrices[i];
      bool right = true;
      if (kernel.op == backends::Op::decode) {
        right = std::ranges::equal(passes[i]->decoded(), matrix.view().i8());
      } else if (kernel.op == backends::Op::matvec) {
        const auto elements = matrix.view().i8();
        const auto y = passes[i]->accumulators(0);
        for (int64_t row = 0; row < matrix.shape.rows && right; ++row) {
          int32_t sum = 0;
          for (int64_t col = 0; col < matrix.shape.cols; ++col)
            sum += elements[static_cast<size_t>(row * matrix.shape.cols + col)];
          right = y[static_cast<size_t>(row)] == sum;
        }
      } else {
        const std::span<const float> y = passes[i]->products(0);
        if (round == 0) products[i].assign(y.begin(), y.end());
        right =
            std::ranges::none_of(y, [](float sum) { return std::isnan(sum); }) && std::ranges::equal(y, products[i]);
      }
      if (!right) return "With two bindings alive and the scratch wiped, results are wrong.";
      if (std::string broken = passes[i]->broken_guards(); !broken.empty()) return broken;
    }
  return {};
}

std::string binding_violation(backends::Device& device, const backends::Kernel& kernel, const backends::Policy& policy,
                              const Pair& pair) {
  std::vector<std::unique_ptr<backends::UploadedMatrix>> uploads;
  for (const auto& one : pair.compressed) uploads.push_back(device.upload(one));
  try {
    if (std::string violation = heap_violation(device, kernel, policy, uploads); !violation.empty()) return violation;
    return result_violation(device, kernel, policy, pair, uploads);
  } catch (const std::logic_error& e) {
    return e.what();
  }
}

// [64, 512] and [32, 1024] of a type, or of values, that the codec takes; empty if it takes none.
Pair matrices_of(const codecs::CodecEntry& entry) {
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  const std::array<std::vector<datasets::Matrix>, 3> choices = {{
      {gaussian_matrix({64, 512}, 2, 1), gaussian_matrix({32, 1024}, 7, 2)},
      {bf16_matrix({64, 512}, 0.02, 1), bf16_matrix({32, 1024}, 0.5, 2)},
      {ternary_matrix({64, 512}), ternary_matrix({32, 1024})},
  }};
  for (const std::vector<datasets::Matrix>& choice : choices) {
    Pair pair;
    pair.matrices = choice;
    for (const datasets::Matrix& matrix : pair.matrices)
      if (entry.codec->refuses == nullptr || entry.codec->refuses(matrix.view(), settings).empty())
        pair.compressed.push_back(codecs::encode_matrix(entry, matrix.view(), settings));
    if (pair.compressed.size() == pair.matrices.size()) return pair;
  }
  return {};
}

int hold_all(Devices& devices) {
  int held = 0;
  for (const codecs::CodecEntry& entry : tested_codecs()) {
    const Pair pair = matrices_of(entry);
    if (pair.compressed.empty() || !entry.codec->lossless) continue;
    for (auto& device : devices)
      for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
        for (const backends::Policy& policy : kernel.policies) {
          device->select();
          if (std::ranges::any_of(pair.compressed, [&](const auto& one) {
                return !kernel.refuses(one.view(), device->info(), policy).empty();
              }))
            continue;
          INFO(entry.id << " " << kernel.variant << "/" << policy.name << " on " << device->info().backend << " "
                        << device->info().simd_target);
          CHECK(binding_violation(*device, kernel, policy, pair) == "");
          ++held;
        }
  }
  return held;
}

// --- kernels that break the rule: each decodes raw_int8's elements through a "table", the identity, that it should
// build in every enqueue ---------

using backends::BoundKernel;
using Table = std::array<int8_t, 256>;

Table identity() {
  Table table;
  for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = static_cast<int8_t>(i);
  return table;
}
// The table belongs to one matrix; decoding another one with it gives wrong elements.
Table table_of(const backends::CompressedView& matrix) {
  Table table = identity();
  table[0] = static_cast<int8_t>(matrix.sections[0].bytes[0]);
  return table;
}

struct ByTable {
  const backends::CompressedView* matrix;
  const int8_t* table;
  void operator()(void*, const backends::DecodeArgs& args) const {
    decode(args, table == nullptr ? reinterpret_cast<const int8_t*>(args.scratch) : table);
  }
  void decode(const backends::DecodeArgs& args, const int8_t* by) const {
    const int64_t cols = matrix->shape.cols;
    for (int64_t i = 0; i < args.rows.count() * cols; ++i) {
      const auto symbol =
          std::to_integer<uint8_t>(matrix->sections[0].bytes[static_cast<size_t>(args.rows.begin * cols + i)]);
      args.out[i] = static_cast<std::byte>(symbol == 0 ? 0 : by[symbol]);
    }
  }
};
using backends::Layers;

BoundKernel table_on_the_heap(const backends::Policy&, Layers layers, int, backends::Place&) {
  static std::vector<std::unique_ptr<Table>> tables;  // which are no leaks
  tables.push_back(std::make_unique<Table>(identity()));
  return ByTable{layers[0].matrix, tables.back()->data()};
}
BoundKernel table_in_a_description(const backends::Policy&, Layers layers, int, backends::Place& place) {
  std::vector<int8_t> wide(4096);
  std::ranges::copy(identity(), wide.begin());
  return ByTable{layers[0].matrix, reinterpret_cast<const int8_t*>(place.describe(std::as_bytes(std::span(wide))))};
}
BoundKernel table_in_zeroed_memory(const backends::Policy&, Layers layers, int, backends::Place& place) {
  const Table table = identity();
  std::byte* memory = place.zeroed(256);
  std::memcpy(memory, table.data(), table.size());
  return ByTable{layers[0].matrix, reinterpret_cast<const int8_t*>(memory)};
}
BoundKernel table_in_the_scratch(const backends::Policy&, Layers layers, int, backends::Place&) {
  return {ByTable{layers[0].matrix, nullptr}, {.scratch_bytes = 256}};
}
// Keeps the tables of several matrices in one place: the last bound one wins.
struct ByStatic : ByTable {
  static inline Table table;
  int8_t first;
  void operator()(void*, const backends::DecodeArgs& args) const {
    decode(args, table.data());
    if (args.rows.begin == 0) args.out[0] = static_cast<std::byte>(table[0]);
  }
};
BoundKernel table_in_a_static(const backends::Policy&, Layers layers, int, backends::Place&) {
  ByStatic::table = table_of(*layers[0].matrix);
  return ByStatic{{layers[0].matrix, nullptr}, 0};
}
BoundKernel table_in_every_enqueue(const backends::Policy&, Layers layers, int, backends::Place&) {
  struct Body : ByTable {
    void operator()(void*, const backends::DecodeArgs& args) const {
      const Table table = identity();
      std::memcpy(args.scratch, table.data(), table.size());
      decode(args, reinterpret_cast<const int8_t*>(args.scratch));
    }
  };
  return {Body{{layers[0].matrix, nullptr}}, {.scratch_bytes = 256}};
}

// Matmuls that give 1 for every row and token that they multiply.
struct Ones {
  int64_t rows;
  int batch;
  void operator()(void*, const backends::MatmulArgs& args) const { store(args, batch); }
  static void store(const backends::MatmulArgs& args, int tokens) {
    for (int token = 0; token < tokens; ++token)
      std::fill(args.y + token * args.y_stride + args.rows.begin, args.y + token * args.y_stride + args.rows.end, 1.0f);
  }
};
BoundKernel batch_that_was_bound(const backends::Policy&, Layers layers, int batch, backends::Place&) {
  return Ones{layers[0].matrix->shape.rows, batch};
}
// The last batch that any kernel was bound for.
BoundKernel batch_in_a_static(const backends::Policy&, Layers layers, int batch, backends::Place&) {
  static int last = 0;
  struct Body : Ones {
    void operator()(void*, const backends::MatmulArgs& args) const { store(args, last); }
  };
  last = batch;
  return Body{{layers[0].matrix->shape.rows, batch}};
}
// Does something else when it is enqueued again.
BoundKernel plan_in_every_enqueue(const backends::Policy&, Layers layers, int batch, backends::Place&) {
  static float enqueued = 0;
  struct Body : Ones {
    void operator()(void*, const backends::MatmulArgs& args) const {
      store(args, batch);
      args.y[args.rows.begin] = enqueued++;
    }
  };
  return Body{{layers[0].matrix->shape.rows, batch}};
}

}  // namespace

TEST_CASE("a binding that leaves an uncounted table is caught") {
  const codecs::CodecEntry& raw = codec_or_skip("raw_int8");
  Devices devices;
  devices.push_back(backends::find_backend("scalar")->open({1, ""}));
  Pair pair = matrices_of(raw);
  pair.matrices[0].elements[0] = std::byte{3};
  pair.matrices[1].elements[0] = std::byte{5};
  pair.compressed.clear();
  for (const auto& matrix : pair.matrices)
    pair.compressed.push_back(codecs::encode_matrix(raw, matrix.view(), codecs::default_settings(*raw.codec)));
  const auto violation = [&](auto bind, backends::Op op = backends::Op::decode) {
    const backends::Kernel kernel{.op = op, .variant = "test", .bind = bind};
    return binding_violation(*devices[0], kernel, kernel.policies[0], pair);
  };
  CHECK(violation(table_in_every_enqueue) == "");
  CHECK(violation(table_on_the_heap).find("on the heap") != std::string::npos);
  CHECK(violation(table_in_a_description).find("escriptions") != std::string::npos);
  CHECK(violation(table_in_zeroed_memory).find("wrong") != std::string::npos);
  CHECK(violation(table_in_the_scratch).find("wrong") != std::string::npos);
  CHECK(violation(table_in_a_static).find("wrong") != std::string::npos);
  CHECK(violation(batch_that_was_bound, backends::Op::matmul) == "");
  CHECK(violation(batch_in_a_static, backends::Op::matmul).find("wrong") != std::string::npos);
  CHECK(violation(plan_in_every_enqueue, backends::Op::matmul).find("wrong") != std::string::npos);
}

TEST_CASE("a program that measures no policies takes the kernel's choice, unless the kernel refuses it") {
  static constexpr backends::Policy kPolicies[] = {{"never"}, {"small"}, {"large"}};
  backends::Kernel kernel{.op = backends::Op::matmul, .variant = "test", .policies = kPolicies};
  kernel.refuses = [](const backends::CompressedView&, const backends::DeviceInfo& device,
                      const backends::Policy& policy) {
    return std::string(policy.name == "never" || (policy.name == "large" && device.threads == 1) ? "It is too large."
                                                                                                 : "");
  };
  const backends::CompressedMatrix matrix;
  const auto chosen = [&](int threads, int batch) {
    backends::DeviceInfo device;
    device.threads = threads;
    return backends::chosen_policy(kernel, matrix.view(), device, batch).name;
  };
  CHECK(chosen(2, 1) == "small");
  kernel.choose = [](const backends::CompressedView&, const backends::DeviceInfo&, int batch) {
    return std::string_view(batch > 8 ? "large" : "small");
  };
  CHECK(chosen(2, 8) == "small");
  CHECK(chosen(2, 9) == "large");
  CHECK(chosen(1, 9) == "small");
}

TEST_CASE("bindings leave nothing but what the rule allows") {
  Devices on = devices_or_skip(tests::Place::cpu);
  CHECK(hold_all(on) > 0);
}

TEST_CASE("bindings leave nothing but what the rule allows, on the emulator", "[emulator]") {
  Devices on = devices_or_skip(tests::Place::emulator);
  CHECK(hold_all(on) > 0);
}

TEST_CASE("bindings leave nothing but what the rule allows, on GPUs", "[gpu]") {
  Devices on = devices_or_skip(tests::Place::gpu);
  CHECK(hold_all(on) > 0);
}

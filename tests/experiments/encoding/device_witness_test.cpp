// Claims about the process that asks kernels of GPUs whether they read what was stored. It asks kernels of the host
// here.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/plugins/plugins.h"
#include "codecs/registry.h"
#include "experiments/check/timed/device_witness.h"
#include "tests/experiments/test_codecs.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using reports::Status;

namespace {

void decode_a_copy(const Stored& stored, const DecodeArgs& args) {
  static std::map<const int8_t*, std::vector<int8_t>> copies;
  std::vector<int8_t>& copy = copies[stored.elements];
  if (copy.empty()) copy.assign(stored.elements, stored.elements + stored.shape.elements());
  decode({copy.data(), stored.shape}, args);
}
// As a kernel does that follows damaged offsets.
void decode_once_and_abort(const Stored& stored, const DecodeArgs& args) {
  static const int8_t first = stored.elements[0];
  if (stored.elements[0] != first) std::abort();
  decode(stored, args);
}
experiments::Task task_of(Op op) {
  return op == Op::decode   ? experiments::Task::decode
         : op == Op::matvec ? experiments::Task::matvec
                            : experiments::Task::matmul;
}
void multiply_tokens_by_a_copy(const Stored& stored, const MatmulArgs& args, int batch) {
  static std::map<const int8_t*, std::vector<int8_t>> copies;
  std::vector<int8_t>& copy = copies[stored.elements];
  if (copy.empty()) copy.assign(stored.elements, stored.elements + stored.shape.elements());
  multiply_tokens({copy.data(), stored.shape}, args, batch);
}

// What the process says about kernels of each codec on a backend: they read what is stored. It is there before this one
// opens a device.
void ask_about_kernels(const std::vector<std::string>& backends) {
  using Answer = experiments::DeviceWitness::Answer;
  experiments::DeviceWitness witness(true);
  int asked = 0;
  std::string unavailable;
  for (const std::string& id : backends) {
    if (!backends::has_plugin(id)) continue;
    const backends::DeviceInfo info = backends::find_backend(id)->devices().front();
    if (!info.unavailable.empty()) {
      unavailable += info.unavailable + " ";
      continue;
    }
    for (const codecs::CodecEntry& entry : codecs::all_codecs())
      for (const datasets::Matrix& matrix : {gaussian_matrix({64, 512}, 4), bf16_matrix({64, 512})}) {
        const backends::Settings settings = codecs::default_settings(*entry.codec);
        if (!entry.codec->refuses(matrix.view(), settings).empty()) continue;
        const auto layer = codecs::encode_matrix(entry, matrix.view(), settings);
        std::set<Op> ops;
        for (const backends::Kernel& kernel : entry.kernels(id)) {
          if (!kernel.refuses(layer.view(), info, kernel.policies[0]).empty()) continue;
          if (!ops.insert(kernel.op).second) continue;
          INFO(entry.id << " " << kernel.variant << " on " << id << ", " << describe(matrix));
          experiments::KernelSpec spec{.backend = id, .simd_target = info.simd_target, .batch = 3};
          spec.activations = kernel.activations;
          spec.launch = "plain";
          spec.task = task_of(kernel.op);
          spec.chosen = {&kernel, &kernel.policies[0]};
          const Answer answer = witness.answer(spec, layer, info);
          CHECK(answer != Answer::same);
          // Inverted numbers are numbers. Others' kernels may end at damaged streams.
          if (entry.id.starts_with("raw_")) CHECK(answer == Answer::other);
          ++asked;
        }
      }
  }
  if (asked == 0) SKIP("no kernel was asked. " + unavailable);
}

}  // namespace

TEST_CASE("kernels of the emulator read what was stored", "[emulator]") { ask_about_kernels({"emulator"}); }
TEST_CASE("kernels of this machine's GPUs read what was stored", "[gpu]") { ask_about_kernels({"cuda", "hip"}); }

TEST_CASE("a kernel of a device that keeps a copy is found out, and one that crashes ends nothing") {
  static const codecs::Codec codec = make_codec();
  backends::Kernel in_groups = make_kernel<multiply_tokens_by_a_copy>("copies for scales of groups");
  in_groups.group_cols = 32;
  static const std::vector<backends::Kernel> kernels = {make_kernel<tests::decode>("reads"),
                                                        make_kernel<decode_a_copy>("copies"),
                                                        make_kernel<decode_once_and_abort>("aborts"),
                                                        make_kernel<multiply>("multiplies"),
                                                        make_kernel<multiply_tokens>("multiplies tokens"),
                                                        in_groups};
  codecs::append_codecs({{"witnessed", &codec, kernels, {}}});
  const codecs::CodecEntry& entry = *codecs::find_codec("witnessed");
  const auto layer = codecs::encode_matrix(entry, gaussian_matrix({33, 65}, 4).view(), {});
  experiments::DeviceWitness witness(true);
  CHECK(experiments::DeviceWitness::current() == &witness);
  for (int time = 0; time < 2; ++time)  // each is asked once
    for (const backends::Kernel& kernel : kernels) {
      INFO(kernel.variant);
      experiments::KernelSpec spec{.backend = "scalar", .batch = 3};
      spec.task = task_of(kernel.op);
      spec.chosen.kernel = &kernel;
      const experiments::Outcome outcome = witness.ask(spec, layer, {});
      CHECK((outcome.status == Status::incorrect) == (kernel.variant.starts_with("copies") && time == 0));
      if (!outcome.fine()) CHECK_THAT(outcome.reason, ContainsSubstring("keeps a copy"));
    }
}

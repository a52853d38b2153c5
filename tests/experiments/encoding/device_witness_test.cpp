// Claims about the process that asks kernels of GPUs whether they read what was stored. It asks kernels of the host
// here.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <map>
#include <vector>

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

}  // namespace

TEST_CASE("a kernel of a device that keeps a copy is found out, and one that crashes ends nothing") {
  static const codecs::Codec codec = make_codec();
  static const std::vector<backends::Kernel> kernels = {
      make_kernel<tests::decode>("reads"), make_kernel<decode_a_copy>("copies"),
      make_kernel<decode_once_and_abort>("aborts"), make_kernel<multiply>("multiplies"),
      make_kernel<multiply_tokens>("multiplies tokens")};
  codecs::append_codecs({{"witnessed", &codec, kernels, {}}});
  const codecs::CodecEntry& entry = *codecs::find_codec("witnessed");
  const auto layer = codecs::encode_matrix(entry, gaussian_matrix({33, 65}, 4).view(), {});
  experiments::DeviceWitness witness(true);
  CHECK(experiments::DeviceWitness::current() == &witness);
  for (int time = 0; time < 2; ++time)  // each is asked once
    for (const backends::Kernel& kernel : kernels) {
      INFO(kernel.variant);
      experiments::KernelSpec spec{.backend = "scalar", .batch = 3};
      spec.task = kernel.op == Op::decode   ? experiments::Task::decode
                  : kernel.op == Op::matvec ? experiments::Task::matvec
                                            : experiments::Task::matmul;
      spec.chosen.kernel = &kernel;
      const experiments::Outcome outcome = witness.ask(spec, layer, {});
      CHECK((outcome.status == Status::incorrect) == (kernel.variant == "copies" && time == 0));
      if (!outcome.fine()) CHECK_THAT(outcome.reason, ContainsSubstring("keeps a copy"));
    }
}

// Which kernel runs where nobody names one, and which of its policies.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <string>

#include "backends/kernel_order.h"

namespace backends = ecmv::backends;
using backends::Activations;
using backends::Kernel;
using backends::Op;

namespace {

constexpr backends::Policy kPolicies[] = {{"narrow"}, {"wide"}};

// Takes matrices that have a header, wide ones only with more than one row.
std::string refuses(const backends::CompressedView& matrix, const backends::DeviceInfo&,
                    const backends::Policy& policy) {
  if (matrix.sections.empty()) return "There is no header.";
  return policy.name == "wide" && matrix.shape.rows < 2 ? "There are too few rows." : "";
}

// Reads the header, as kernels do.
std::string_view choose(const backends::CompressedView& matrix, const backends::DeviceInfo&, int) {
  return matrix.sections.at(0).name;
}

std::string refuses_all(const backends::CompressedView&, const backends::DeviceInfo&, const backends::Policy&) {
  return "It refuses every matrix.";
}
std::string_view choose_wide(const backends::CompressedView&, const backends::DeviceInfo&, int) { return "wide"; }

constexpr Kernel matmul(std::string_view variant, Activations activations = Activations::bf16) {
  return {.op = Op::matmul, .variant = variant, .activations = activations};
}
constexpr Kernel kDecode = {.op = Op::decode, .variant = "decode"};

using Table = std::vector<Kernel>;

// "fragments slabs decode": the variants in order.
std::string order_of(const Table& kernels, const backends::WantedKernel& wanted) {
  std::string names;
  for (const backends::ChosenKernel& one : kernels_in_order(kernels, {}, {}, wanted))
    names += (names.empty() ? "" : " ") + std::string(one.kernel->variant) +
             (one.policy->name == "default" ? "" : "/" + std::string(one.policy->name));
  return names;
}

backends::WantedKernel tokens(int batch, bool blas = false) {
  return {.batch = batch, .tokens = Activations::bf16, .blas = blas};
}

}  // namespace

TEST_CASE("a kernel chooses a policy only for a matrix that it takes") {
  backends::Kernel kernel;
  kernel.policies = kPolicies;
  kernel.refuses = refuses;
  kernel.choose = choose;
  backends::CompressedView matrix;
  matrix.shape = {4, 4};
  CHECK(backends::chosen_policy(kernel, matrix, {}, 1).name == "narrow");  // without a header to read
  matrix.sections = {{"wide", backends::Role::payload, {}, {}}};
  CHECK(backends::chosen_policy(kernel, matrix, {}, 1).name == "wide");
  matrix.shape = {1, 4};
  CHECK(backends::chosen_policy(kernel, matrix, {}, 1).name == "narrow");
  matrix.sections = {{"no policy", backends::Role::payload, {}, {}}};
  CHECK(backends::chosen_policy(kernel, matrix, {}, 1).name == "narrow");
}

TEST_CASE("the first kernel that multiplies all tokens at once is taken, or the one that multiplies the most") {
  const Table kernels = {kDecode, backends::up_to(16, matmul("few")), backends::up_to(128, matmul("most")),
                         matmul("many")};
  CHECK(order_of(kernels, tokens(1)) == "few most many decode");
  CHECK(order_of(kernels, tokens(16)) == "few most many decode");
  CHECK(order_of(kernels, tokens(17)) == "most many few decode");
  CHECK(order_of(kernels, tokens(65)) == "most many few decode");
  CHECK(order_of(kernels, tokens(4096)) == "most many few decode");
}

TEST_CASE("a kernel that does not lead with a matrix comes after others that read it as often") {
  Kernel few = backends::up_to(16, matmul("few"));
  few.leads = [](const backends::CompressedView& matrix, const backends::DeviceInfo&, int) {
    return matrix.shape.cols > 0;
  };
  const Table kernels = {few, matmul("many"), backends::up_to(8, matmul("fewest"))};
  CHECK(order_of(kernels, tokens(8)) == "many fewest few");
  CHECK(order_of(kernels, tokens(16)) == "many few fewest");
  backends::CompressedView wide;
  wide.shape = {1, 1};
  CHECK(kernels_in_order(kernels, wide, {}, tokens(8)).front().kernel->variant == "few");
  CHECK(kernels_in_order(kernels, wide, {}, tokens(17)).front().kernel->variant == "many");
}

TEST_CASE("decoders come first where a BLAS multiplies and a fused kernel would read the matrix three times") {
  Table kernels = {backends::up_to(16, matmul("few")), kDecode, backends::up_to(128, matmul("most"))};
  CHECK(order_of(kernels, tokens(256, true)) == "most few decode");
  CHECK(order_of(kernels, tokens(257, true)) == "decode most few");
  CHECK(order_of(kernels, tokens(257, false)) == "most few decode");
  // The best one that takes the matrix counts.
  kernels.back().refuses = refuses_all;
  CHECK(order_of(kernels, tokens(32, true)) == "most few decode");
  CHECK(order_of(kernels, tokens(33, true)) == "decode most few");
  kernels.front().refuses = refuses_all;
  CHECK(order_of(kernels, tokens(1, true)) == "decode few most");
}

TEST_CASE("kernels of the tokens' own type come first, others where tokens may be widened, and none of other ops") {
  Kernel chain = {.op = Op::matvec, .variant = "chain", .whole_chain = true};
  Kernel scaled = matmul("scaled");
  scaled.group_cols = 64;
  const Table kernels = {matmul("floats", Activations::f32),
                         backends::up_to(1, matmul("halves")),
                         chain,
                         scaled,
                         {.op = Op::matvec, .variant = "vector"},
                         kDecode};
  CHECK(order_of(kernels, tokens(8)) == "halves decode");
  backends::WantedKernel wanted = tokens(8);
  wanted.widens = true;
  CHECK(order_of(kernels, wanted) == "halves floats decode");
  CHECK(order_of(kernels, {.batch = 8}) == "floats decode");
  CHECK(order_of(kernels, {.op = Op::matvec}) == "vector decode");
  CHECK(order_of(kernels, {.op = Op::decode}) == "decode");
}

TEST_CASE("a kernel's chosen policy comes first, then its others") {
  Kernel kernel = matmul("policies");
  kernel.policies = kPolicies;
  CHECK(order_of({kernel}, tokens(1)) == "policies/narrow policies/wide");
  kernel.choose = choose_wide;
  CHECK(order_of({kernel}, tokens(1)) == "policies/wide policies/narrow");
}

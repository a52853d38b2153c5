// Which policy of a kernel runs where nobody names one.
#include <catch2/catch_test_macros.hpp>

#include "backends/kernel.h"

namespace backends = ecmv::backends;

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

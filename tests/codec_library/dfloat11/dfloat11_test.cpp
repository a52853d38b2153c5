// A library with a kernel of strangers: DFloat11's own, from the file of its package. Its stored bytes are those that
// the tree's reader of DFloat11 takes, and the kernel's steps find their way through them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/plugins/plugins.h"
#include "tests/codec_library/libraries.h"
#include "tests/run_command.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using Catch::Matchers::ContainsSubstring;

namespace {

const codecs::CodecEntry& dfloat11() { return tests::loaded_codec(ECMV_DFLOAT11_LIBRARY, "dfloat11"); }

backends::CompressedMatrix encoded(const datasets::Matrix& matrix) {
  return codecs::encode_matrix(dfloat11(), matrix.view(), codecs::default_settings(*dfloat11().codec));
}

int verify(tests::Command& ecmv, const std::string& backend) {
  return ecmv({"verify", "--codec-library", ECMV_DFLOAT11_LIBRARY, "--filter", "/dfloat11.*/" + backend, "--corrupt",
               "--flips", "20"});
}

}  // namespace

TEST_CASE("the tree's reader of DFloat11 decodes what the library dfloat11 stores") {
  const codecs::CodecEntry* reader = codecs::find_codec("huffman_exponents");
  if (reader == nullptr) SKIP("this build lacks the codec huffman_exponents");
  for (const datasets::Shape shape : {datasets::Shape{1, 1}, {7, 9}, {64, 512}, {300, 257}}) {
    const datasets::Matrix matrix = tests::bf16_matrix(shape);
    INFO(tests::describe(matrix));
    const backends::CompressedMatrix ours = encoded(matrix);
    REQUIRE(ours.sections.size() == 6);
    backends::CompressedMatrix theirs = codecs::encode_matrix(*reader, matrix.view(), ours.settings);
    for (backends::Section& section : theirs.sections)
      for (const backends::Section& one : ours.sections)
        if (one.name == section.name) {
          // The codes are followed by spare bytes there.
          const size_t spare = one.name == "encoded_exponent" ? static_cast<size_t>(section.padding_bytes) : 0;
          section.bytes = one.bytes;
          section.bytes.resize(section.bytes.size() + spare);
        }
    std::vector<std::byte> out(matrix.elements.size());
    reader->codec->decode(theirs.view(), out);
    CHECK(out == matrix.elements);
  }
}

TEST_CASE("the steps of DFloat11's kernel decode what the library dfloat11 stores", "[emulator]") {
  tests::Command ecmv;
  CHECK(verify(ecmv, "(size|scalar)") == 0);
  if (!backends::has_plugin("emulator")) SKIP("this build has no emulator");
  CHECK(verify(ecmv, "emulator") == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring(", 0 failed"));
}

TEST_CASE("without the file of its package the kernel of dfloat11 is refused with the reason") {
  const auto kernels = dfloat11().kernels("cuda");
  REQUIRE(kernels.size() == 1);
  const datasets::Matrix matrix = tests::bf16_matrix({64, 512});
  const backends::CompressedMatrix layer = encoded(matrix);
  const char* const set = std::getenv("DFLOAT11_PTX");
  const std::string before = set == nullptr ? "" : set;
  backends::DeviceInfo device;
  device.backend = "cuda";
  const auto reason = [&] { return kernels[0].refuses(layer.view(), device, kernels[0].policies[0]); };
  unsetenv("DFLOAT11_PTX");
  CHECK_THAT(reason(), ContainsSubstring("DFLOAT11_PTX does not name decode.ptx of the Python package dfloat11."));
  setenv("DFLOAT11_PTX", "/nowhere/decode.ptx", 1);
  CHECK_THAT(reason(), ContainsSubstring("The file that DFLOAT11_PTX names cannot be read."));
  if (set == nullptr)
    unsetenv("DFLOAT11_PTX");
  else
    setenv("DFLOAT11_PTX", before.c_str(), 1);
}

TEST_CASE("DFloat11's kernel decodes what the library dfloat11 stores", "[gpu]") {
  if (std::getenv("DFLOAT11_PTX") == nullptr) SKIP("DFLOAT11_PTX does not name the kernel of the package");
  const backends::DeviceInfo device = backends::find_backend("cuda")->devices().front();
  if (!device.unavailable.empty()) SKIP(device.unavailable);
  tests::Command ecmv;
  CHECK(verify(ecmv, "cuda") == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring(", 0 failed"));
}

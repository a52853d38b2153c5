// Folders outside the tree that new-codec writes, built with the package.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "backends/plugins/plugins.h"
#include "tests/run_command.h"

using namespace ecmv;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

// Builds the folder as its README says.
void build(const fs::path& folder, const fs::path& into) {
  tests::Command cmake(ECMV_CMAKE);
  std::vector<std::string> configure = {"-S",
                                        folder.string(),
                                        "-B",
                                        into.string(),
                                        std::string("-DCMAKE_PREFIX_PATH=") + ECMV_BUILD_DIR,
                                        "-DCMAKE_C_FLAGS=-Werror",
                                        "-DCMAKE_CXX_FLAGS=-Werror",
                                        "-DCMAKE_CUDA_ARCHITECTURES=90a",
                                        "--no-warn-unused-cli"};
  std::string options = ECMV_CMAKE_OPTIONS;
  for (size_t bar = 0; bar != std::string::npos;) {
    bar = options.find('|');
    configure.push_back(options.substr(0, bar));
    options.erase(0, bar == std::string::npos ? bar : bar + 1);
  }
  REQUIRE(cmake(configure) == 0);
  REQUIRE(cmake({"--build", into.string()}) == 0);
}

}  // namespace

TEST_CASE("new-codec writes a folder outside the tree that builds with the package and passes verification") {
  tests::Command ecmv;
  CHECK(ecmv({"new-codec", "my_codec", "--out-of-tree", "here/mine"}) == 0);
  // The command that it suggests works.
  const std::string program = fs::path(ECMV_BINARY).parent_path().string();
  CHECK_THAT(ecmv.err, ContainsSubstring("In " + (fs::canonical(ecmv.folder) / "here/mine").string()) &&
                           ContainsSubstring("export PATH='" + program + "':$PATH") &&
                           ContainsSubstring("-DCMAKE_PREFIX_PATH='" + program + "'"));
  for (const char* file : {"CMakeLists.txt", "my_codec.c", "README.md"}) {
    const std::string text = tests::text_of(ecmv.folder / "here/mine" / file);
    CHECK_THAT(text, ContainsSubstring("my_codec"));
    CHECK(text.find('@') == std::string::npos);
  }
  CHECK(ecmv({"new-codec", "my_codec", "--out-of-tree", "here/mine"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("is no empty folder."));
  CHECK(ecmv({"new-codec", "My-Codec", "--out-of-tree", "other"}) == 2);
  CHECK(ecmv({"new-codec", "test", "--out-of-tree", "other"}) == 2);
  CHECK_FALSE(fs::exists(ecmv.folder / "other"));

  build(ecmv.folder / "here/mine", ecmv.folder / "build");
  CHECK(ecmv({"verify", "--codec-library", "build/libmy_codec.so", "--filter", "/my_codec", "--corrupt", "--flips",
              "20"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("damaged streams: my_codec") && ContainsSubstring(", 0 failed"));
}

TEST_CASE("new-codec --gpu writes kernels for the emulator, and for CUDA where nvcc is", "[emulator]") {
  tests::Command ecmv;
  CHECK(ecmv({"new-codec", "my_codec", "--gpu"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("--gpu requires --out-of-tree"));
  CHECK(ecmv({"new-codec", "my_codec", "--out-of-tree", "mine", "--gpu"}) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("ecmv doctor"));
  for (const char* file :
       {"CMakeLists.txt", "my_codec.c", "README.md", "my_codec_gpu.h", "my_codec_gpu.cu", "my_codec_emulator.cpp"}) {
    const std::string text = tests::text_of(ecmv.folder / "mine" / file);
    CHECK_THAT(text, ContainsSubstring("my_codec_gpu"));
    CHECK(text.find('@') == std::string::npos);
  }
  build(ecmv.folder / "mine", ecmv.folder / "build");
  const std::string cache = tests::text_of(ecmv.folder / "build/CMakeCache.txt");
  const bool nvcc = cache.find("/nvcc\n") != std::string::npos;
  CHECK(ecmv({"list", "codecs", "my_codec", "--codec-library", "build/libmy_codec.so"}) == 0);
  for (const char* op : {"decode", "matvec"}) {
    CHECK_THAT(ecmv.out, ContainsSubstring(std::string("emulator ") + op + " thread_a_row"));
    CHECK((ecmv.out.find(std::string("cuda ") + op + " thread_a_row") != std::string::npos) == nvcc);
  }
  if (!backends::has_plugin("emulator")) SKIP("this build has no emulator");
  CHECK(ecmv({"verify", "--codec-library", "build/libmy_codec.so", "--filter", "/my_codec.*/emulator"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring(", 0 failed"));
  CHECK(ecmv({"run", "--codec-library", "build/libmy_codec.so", "--codec", "my_codec", "--backend", "emulator", "--d",
              "64", "--sigma", "4", "--op", "decode,matvec", "--require-backend", "emulator"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("my_codec†") && ContainsSubstring("thread_a_row"));
}

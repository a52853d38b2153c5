// Claims about published weights, which datasets/fetch_real_weights.sh has downloaded (or ECMV_REAL_WEIGHTS names).
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/experiments/small_run.h"
#include "tests/run_command.h"

using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kFiles = {"encoder", "smollm2.gguf", "smart_turn.onnx", "wordllama.safetensors"};

// Skips the test if they are missing.
fs::path real_weights() {
  const char* const named = std::getenv("ECMV_REAL_WEIGHTS");
  const fs::path folder = named != nullptr ? fs::path(named) : fs::path(ECMV_SOURCE_DIR) / "out" / "real_weights";
  for (const std::string& file : kFiles)
    if (!fs::exists(folder / file))
      SKIP("There are no real weights in " << folder.string() << "; datasets/fetch_real_weights.sh fetches them.");
  return folder;
}

}  // namespace

TEST_CASE("entropies of published weights are those that NumPy computes") {
  const fs::path folder = real_weights();
  Command python("/bin/sh");
  if (python({"-c", "exec python3 -c 'import numpy'"}) != 0) SKIP("There is no python3 with NumPy.");
  std::string command =
      "exec python3 -B '" ECMV_SOURCE_DIR "/tests/experiments/weights/check_entropies.py' '" ECMV_BINARY "'";
  for (const std::string& file : kFiles) command += " '" + (folder / file).string() + "'";
  const int code = python({"-c", command});
  INFO(python.out << python.err);
  CHECK(code == 0);
  for (const std::string& file : kFiles) CHECK_THAT(python.out, ContainsSubstring(file + ": "));
}

TEST_CASE("kinds of layers of published models have the entropies that were known before") {
  const fs::path folder = real_weights();
  Command ecmv;
  const auto entropy_of = [&](const std::string& file, const std::string& kind, const std::string& figure) {
    const std::string path = (folder / file).string();
    REQUIRE(ecmv({"inspect", path, "--json"}) == 0);
    const nlohmann::json found = nlohmann::json::parse(ecmv.out);
    for (const auto& row : found[path]["kinds"])
      if (row["kind"] == kind) return row[figure].get<double>();
    FAIL("no such kind");
    return 0.0;
  };
  CHECK_THAT(entropy_of("encoder", "q", "exponent_entropy_bits"), WithinAbs(2.58, 0.01));
  CHECK_THAT(entropy_of("smollm2.gguf", "down", "entropy_bits"), WithinAbs(3.85, 0.01));
  CHECK_THAT(entropy_of("smollm2.gguf", "embedding", "entropy_bits"), WithinAbs(7.46, 0.01));
}

TEST_CASE("every codec stores published weights exactly or within its bound, or refuses them with a reason") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  const fs::path folder = real_weights();
  Command ecmv;
  const std::vector<std::vector<std::string>> all = {
      {"encoder", "tensors=layer.0.attention.*(query|dense).weight"},
      {"encoder", "tensors=layer.0.attention.*(query|dense).weight", "type=bf16"},
      {"encoder", "tensors=layer.0.attention.*(query|dense).weight", "absmax:bits=5,group=tensor"},
      {"smollm2.gguf", "tensors=blk.0.(attn_k|ffn_up).weight"},
      {"smart_turn.onnx", "tensors=^val_(88|79|25)_quantized"}};
  for (const std::vector<std::string>& weights : all) {
    std::vector<std::string> arguments = {
        "run",     "--source", "weights", "--param", "file=" + (folder / weights[0]).string(),
        "--codec", "all",      "-o",      "r.jsonl", "--force"};
    for (size_t i = 1; i < weights.size(); ++i)
      arguments.insert(arguments.end(), {weights[i].starts_with("absmax") ? "--quantise" : "--param", weights[i]});
    for (const std::vector<std::string>& op : std::vector<std::vector<std::string>>{
             {"--op", "size"},
             {"--op", "matvec,matmul,decode", "--backend", "best", "--policy", "first", "--profile"}}) {
      std::vector<std::string> run = arguments;
      run.insert(run.end(), op.begin(), op.end());
      INFO(weights[0] << " " << weights.back() << " " << op[1]);
      CHECK(ecmv(run) == 0);
      CHECK_THAT(ecmv.err + ecmv.out, ContainsSubstring(" ok, "));
      CHECK_THAT(ecmv.err + ecmv.out, !ContainsSubstring(" failed"));
    }
  }
}

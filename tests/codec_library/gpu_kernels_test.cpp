// Kernels of GPUs in loaded libraries: read, bound and checked like those of the tree, tried in a process of their own
// first, and marked. The emulator runs them here; they are functions of the host there.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "backends/pass.h"
#include "backends/plugins/plugins.h"
#include "reports/record.h"
#include "tests/codec_library/libraries.h"
#include "tests/run_command.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using reports::Status;
namespace fs = std::filesystem;

namespace {

const codecs::CodecEntry& gpu_codec() { return tests::loaded_codec(ECMV_GPU_VARIANTS_LIBRARY, "gpu_codec"); }

const datasets::Matrix& matrix() {
  static const datasets::Matrix matrix = tests::gaussian_matrix({24, 40}, 4);
  return matrix;
}

void need_emulator() {
  if (!backends::has_plugin("emulator")) SKIP("this build has no emulator");
}

// A pass of one layer by the codec's kernel for the op; of several, the first.
struct Product {
  explicit Product(backends::Op op) : device(backends::find_backend("emulator")->open({})) {
    const codecs::CodecEntry& entry = gpu_codec();
    uploaded = device->upload(codecs::encode_matrix(entry, matrix().view(), codecs::default_settings(*entry.codec)));
    backends::PassPlan plan;
    const auto kernels = entry.kernels("emulator");
    plan.kernel = &*std::ranges::find(kernels, op, &backends::Kernel::op);
    plan.policy = &plan.kernel->policies[0];
    plan.op = op;
    plan.layers = {uploaded.get()};
    plan.inputs = {std::vector<int8_t>(40, 1)};
    plan.scales = {0.01f};
    plan.batch = op == backends::Op::matmul ? 2 : 1;
    plan.tokens = {std::vector<float>(80, 1)};
    pass = backends::prepare(*device, plan);
    pass->poison_outputs(0);
  }
  std::unique_ptr<backends::Device> device;
  std::unique_ptr<backends::UploadedMatrix> uploaded;
  std::unique_ptr<backends::Pass> pass;
};

int32_t sum_of_row(int64_t row) {
  int32_t sum = 0;
  for (int64_t i = 0; i < 40; ++i) sum += matrix().view().i8()[static_cast<size_t>(row * 40 + i)];
  return sum;
}

// A run of the codec on the emulator, beside one of raw_int8. A call may take three seconds.
int run(tests::Command& ecmv, const std::string& op, const std::string& library = ECMV_GPU_VARIANTS_LIBRARY) {
  std::ofstream(ecmv.folder / "run.yaml") << "schema: 1\nname: run\nmeasure: {max_seconds: 3}\nexperiments:\n"
                                             "  - data: {source: gaussian, d: 64, sigma: 4, layers: 2}\n"
                                             "    codecs: [gpu_codec, raw_int8]\n"
                                             "    kernels: {backend: emulator, op: "
                                          << op << ", policy: first}\n";
  return ecmv({"run", "run.yaml", "--codec-library", library, "--force", "-o", "r.jsonl"});
}

}  // namespace

TEST_CASE("a library's GPU kernels stand in the registry by their backend", "[emulator]") {
  const codecs::CodecEntry& entry = gpu_codec();
  const auto kernels = entry.kernels("emulator");
  REQUIRE(kernels.size() == 4);
  CHECK(kernels[0].op == backends::Op::decode);
  CHECK(kernels[1].policies.size() == 2);
  CHECK(kernels[2].most_tokens == 8);
  CHECK(kernels[3].activations == backends::Activations::bf16);
  CHECK(kernels[3].most_tokens == backends::kMaxBatch);
  CHECK(entry.kernels("cuda").empty());
  CHECK(entry.kernels("scalar").empty());
}

TEST_CASE("a library from before there were GPU kernels loads as it did", "[emulator]") {
  tests::Command ecmv;
  ecmv.environment["ECMV_TEST_VARIANT"] = "before_gpus";
  CHECK(ecmv({"list", "codecs", "gpu_codec", "--codec-library", ECMV_GPU_VARIANTS_LIBRARY}) == 0);
  CHECK(ecmv({"verify", "--codec-library", ECMV_GPU_VARIANTS_LIBRARY, "--filter", "/gpu_codec.*/scalar"}) == 0);
}

TEST_CASE("what is wrong with a table of GPU kernels ends the command with 2 and a sentence", "[emulator]") {
  struct Wrong {
    const char *variant, *sentence;
  };
  static constexpr Wrong kAll[] = {
      {"null_gpu_kernels", "hands out a null pointer instead of an ecmv_gpu_kernel."},
      {"older_gpu_kernel", "its ecmv_gpu_kernel has 64 bytes"},
      {"bad_backend", "on a backend 'metal', and not on one of cuda, hip, emulator."},
      {"cpu_backend", "on a backend 'simd', and not on one of cuda, hip, emulator."},
      {"no_backend", "gives no backend of the GPU kernel 'whole' of the codec 'gpu_codec'."},
      {"no_variant", "gives no variant of a GPU kernel of the codec 'gpu_codec'."},
      {"no_bind", "lacks the function bind of the GPU kernel 'whole'"},
      {"no_function", "gives 0 of the functions decode, matvec and matmul of the GPU kernel 'whole'"},
      {"two_functions", "gives 2 of the functions"},
      {"kernel_twice", "with the name 'emulator/decode/whole'."},
      {"tokens_of_a_decoder", "gives a type 4 of tokens"},
      {"tokens_of_no_type", "gives a type 3 of tokens"},
      {"too_many_tokens", "gives 4097 as most_tokens"},
      {"reserved", "sets a reserved field of the GPU kernel 'whole'"},
      {"null_policies", "gives no names of its policies of the GPU kernel 'whole'"},
  };
  tests::Command command;
  for (const Wrong& wrong : kAll) {
    INFO(wrong.variant);
    command.environment["ECMV_TEST_VARIANT"] = wrong.variant;
    CHECK(command({"list", "codecs", "--codec-library", ECMV_GPU_VARIANTS_LIBRARY}) == 2);
    CHECK_THAT(command.err, ContainsSubstring("ecmv: The codec library '") && ContainsSubstring(wrong.sentence));
  }
}

TEST_CASE("GPU kernels get device memory and scratch, and their results are read back", "[emulator]") {
  need_emulator();
  const Product decoded(backends::Op::decode), sums(backends::Op::matvec), products(backends::Op::matmul);
  for (const Product* product : {&decoded, &sums, &products}) {
    product->pass->run();
    CHECK(product->pass->broken_guards() == "");
  }
  CHECK(std::ranges::equal(decoded.pass->decoded(), matrix().view().i8()));
  CHECK(sums.pass->accumulators(0)[23] == sum_of_row(23));
  CHECK(products.pass->products(0)[24 + 23] == static_cast<float>(sum_of_row(23)));
}

TEST_CASE("what a GPU kernel writes beside its results breaks a guard zone, and its sentences arrive", "[emulator]") {
  need_emulator();
  for (const char* variant : {"past_the_end", "past_the_scratch"})
    for (const backends::Op op : {backends::Op::decode, backends::Op::matvec, backends::Op::matmul}) {
      INFO(variant << " " << backends::op_name(op));
      const tests::Variant wrong(variant);
      const Product product(op);
      product.pass->run();
      CHECK(product.pass->broken_guards() != "");
    }
  const tests::Variant wrong("call_error");
  const Product product(backends::Op::matvec);
  CHECK_THROWS_MATCHES(product.pass->run(), std::runtime_error,
                       MessageMatches(ContainsSubstring("The kernel 'whole' of the codec 'gpu_codec': The launch "
                                                        "failed: there is no such kernel.")));
}

TEST_CASE("what a GPU kernel says when it is bound is checked", "[emulator]") {
  need_emulator();
  struct Wrong {
    const char *variant, *sentence;
  };
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"bind_error", "The kernel 'whole' of the codec 'gpu_codec': The kernel cannot be bound."},
           {"negative_scratch", "asks for -1 bytes of scratch."},
           {"bad_flag", "sets 'not_capturable' to 2; 0 or 1 is possible."},
           {"bad_narrowing", "says of its rounding what cannot be."},
           {"bad_units", "says of its rounding what cannot be."},
           {"requantises_twice", "sets 'requantises' to 2; 0 or 1 is possible."}}) {
    INFO(wrong.variant);
    const tests::Variant variant(wrong.variant);
    CHECK_THROWS_MATCHES(Product(backends::Op::matvec), std::runtime_error,
                         MessageMatches(ContainsSubstring(wrong.sentence)));
  }
}

TEST_CASE("verify checks the GPU kernels of a library on the emulator", "[emulator]") {
  need_emulator();
  tests::Command ecmv;
  CHECK(ecmv({"verify", "--codec-library", ECMV_GPU_VARIANTS_LIBRARY, "--filter", "/gpu_codec.*/emulator"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring(", 0 failed"));
  ecmv.environment["ECMV_TEST_VARIANT"] = "wrong";
  CHECK(ecmv({"verify", "--codec-library", ECMV_GPU_VARIANTS_LIBRARY, "--filter", "/gpu_codec.*/emulator"}) == 3);
}

TEST_CASE("a GPU kernel that goes wrong costs its case, and the run goes on", "[emulator]") {
  need_emulator();
  struct Wrong {
    const char* variant;
    Status status;
    const char* sentence;
    int code;
  };
  tests::Command ecmv;
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"", Status::ok, "", 0},
           {"gpu_refuses", Status::refused, "refuses every matrix.", 0},
           {"call_error", Status::error, "Tried in a process of its own: The kernel 'whole' of the codec", 5},
           {"call_crash", Status::error, "ended the process in which it was tried by the signal Segmentation fault.",
            5},
           {"call_exit", Status::error, "ended the process in which it was tried with exit status 1.", 5},
           {"call_hang", Status::timed_out, "did not return within 3 s when it was tried.", 5},
           {"past_the_end", Status::incorrect, "The kernel wrote outside", 3},
           {"past_the_scratch", Status::incorrect, "The kernel wrote outside its scratch", 3},
           {"wrong", Status::incorrect, "differs", 3}}) {
    INFO(wrong.variant);
    if (tests::kSanitized && std::string(wrong.variant) == "call_crash") continue;  // the sanitizer's exit status
    ecmv.environment["ECMV_TEST_VARIANT"] = wrong.variant;
    CHECK(run(ecmv, "matvec") == wrong.code);
    INFO(ecmv.err);
    const reports::RecordSet records = reports::read_records(ecmv.folder / "r.jsonl");
    int others = 0;
    for (const reports::CaseRecord& record : records.cases)
      if (record.codec.id == "gpu_codec") {
        CHECK(record.status == wrong.status);
        CHECK_THAT(record.reason, ContainsSubstring(wrong.sentence));
        CHECK(record.codec.library_hash == tests::content_hash_of(ECMV_GPU_VARIANTS_LIBRARY));
      } else {
        others += record.status == Status::ok;
        CHECK(record.status != Status::error);
      }
    CHECK(others > 0);
  }
}

TEST_CASE("a kernel of a decoding step is tried, too", "[emulator]") {
  need_emulator();
  tests::Command ecmv;
  const auto step = [&] {
    return ecmv({"run",
                 "--codec-library",
                 ECMV_GPU_VARIANTS_LIBRARY,
                 "--codec",
                 "gpu_codec",
                 "--op",
                 "step",
                 "--source",
                 "model",
                 "--param",
                 "model=llama_3_8b",
                 "--param",
                 "blocks=1",
                 "--param",
                 "rows=32",
                 "--backend",
                 "emulator",
                 "--smoke",
                 "--force",
                 "-o",
                 "r.jsonl"});
  };
  CHECK(step() == 0);
  ecmv.environment["ECMV_TEST_VARIANT"] = "call_exit";
  CHECK(step() == 5);
  CHECK_THAT(ecmv.err, ContainsSubstring("ended the process in which it was tried with exit status 1."));
}

TEST_CASE("lists and reports mark a library's GPU kernels as loaded", "[emulator]") {
  need_emulator();
  tests::Command ecmv;
  CHECK(ecmv({"list", "codecs", "gpu_codec", "--codec-library", ECMV_GPU_VARIANTS_LIBRARY}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("gpu_codec (loaded)") && ContainsSubstring("emulator"));
  CHECK(ecmv({"list", "coverage", "gpu_codec", "--codec-library", ECMV_GPU_VARIANTS_LIBRARY}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("gpu_codec (loaded)") && ContainsSubstring("emulator"));
  CHECK(run(ecmv, "decode") == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("gpu_codec†"));
}

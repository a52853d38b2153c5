// Calls: the results of a library's functions are checked each time, and its sentences reach the user.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cfenv>
#include <clocale>
#include <csignal>
#include <filesystem>

#include "backends/pass.h"
#include "tests/codec_library/libraries.h"
#include "tests/run_command.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

const datasets::Matrix& matrix() {
  static const datasets::Matrix matrix = tests::gaussian_matrix({24, 40}, 4);
  return matrix;
}

backends::CompressedMatrix encoded(const codecs::CodecEntry& entry) {
  return codecs::encode_matrix(entry, matrix().view(), codecs::default_settings(*entry.codec));
}

// A product of one layer by the kernel of that op on `scalar`, with two threads.
std::unique_ptr<backends::Pass> product(const codecs::CodecEntry& entry, backends::Op kernel_op,
                                        backends::Device& device, std::unique_ptr<backends::UploadedMatrix>& uploaded) {
  uploaded = device.upload(encoded(entry));
  backends::PassPlan plan;
  for (const backends::Kernel& kernel : entry.kernels("scalar"))
    if (kernel.op == kernel_op) plan.kernel = &kernel;
  REQUIRE(plan.kernel != nullptr);
  REQUIRE(plan.kernel->refuses(uploaded->view(), device.info(), plan.kernel->policies[0]).empty());
  plan.policy = &plan.kernel->policies[plan.kernel->policies.size() - 1];
  plan.layers = {uploaded.get()};
  plan.inputs = {std::vector<int8_t>(40, 1)};
  plan.scales = {0.01f};
  return backends::prepare(device, plan);
}

std::unique_ptr<backends::Device> scalar() {
  backends::DeviceRequest request;
  request.threads = 2;
  return backends::find_backend("scalar")->open(request);
}

}  // namespace

TEST_CASE("what encode stores is checked, and its sentences arrive") {
  const codecs::CodecEntry& entry = tests::variant_codec();
  CHECK(encoded(entry).stored_bytes() == 24 * 40);
  struct Wrong {
    const char *variant, *sentence;
  };
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"encode_error", "The codec 'variant_codec' could not encode: The encoder gave up."},
           {"bad_role", "gives its section 'elements' a role 7 that there is not."},
           {"bad_section_name", "no lower_snake_case name."},
           {"bad_padding", "asks for 960 bytes for its section 'elements', of which 961 are padding."},
           {"negative_bytes", "asks for -1 bytes"},
           {"beyond_bound", "more than the declared bound of 960."},
           {"too_many_sections", "stores more than 10 sections."},
           {"section_twice", "stores its section 'elements' twice."},
           {"past_the_end", "wrote past the end of its section 'elements'."},
           {"shrink_too_early", "shrinks a section before it has added one."},
           {"grow", "shrinks its section 'elements' from 960 to 961 bytes."},
           {"bound_error", "has no bound: The bound is not known."},
           {"negative_bound", "declares a bound of -5 bytes."},
           {"huge_bound", "declares a bound of 9223372036854775807 bytes."}}) {
    INFO(wrong.variant);
    const tests::Variant variant(wrong.variant);
    CHECK_THROWS_MATCHES(encoded(entry), std::runtime_error, MessageMatches(ContainsSubstring(wrong.sentence)));
    // Estimating a size must not throw.
    CHECK_NOTHROW(entry.codec->max_stored_bytes({24, 40}, codecs::default_settings(*entry.codec)));
  }
}

TEST_CASE("rounding, signal handlers, locale and folder are as they were after a call") {
  const tests::Variant variant("careless");
  struct sigaction before {}, after {};
  sigaction(SIGTERM, nullptr, &before);
  const std::filesystem::path folder = std::filesystem::current_path();
  const std::string locale = std::setlocale(LC_ALL, nullptr);
  encoded(tests::variant_codec());
  CHECK(std::fegetround() == FE_TONEAREST);
  sigaction(SIGTERM, nullptr, &after);
  CHECK(after.sa_handler == before.sa_handler);
  CHECK(std::filesystem::current_path() == folder);
  CHECK(std::setlocale(LC_ALL, nullptr) == locale);
}

TEST_CASE("a refusal arrives as one line of UTF-8") {
  const codecs::CodecEntry& entry = tests::variant_codec();
  CHECK(entry.codec->refuses(tests::bf16_matrix({2, 2}).view(), codecs::default_settings(*entry.codec)) ==
        "variant_codec stores ? int8 elements only.");
  CHECK(entry.codec->refuses(matrix().view(), codecs::default_settings(*entry.codec)) == "");
}

TEST_CASE("a sentence of the decoder is a malformed stream") {
  const codecs::CodecEntry& entry = tests::variant_codec();
  const backends::CompressedMatrix compressed = encoded(entry);
  std::vector<std::byte> out(24 * 40);
  entry.codec->decode(compressed.view(), out);
  CHECK(out == matrix().elements);
  const tests::Variant variant("decode_error");
  CHECK_THROWS_MATCHES(entry.codec->decode(compressed.view(), out), codecs::MalformedStream,
                       MessageMatches(ContainsSubstring("The decoder gave up.")));
}

TEST_CASE("numbers about a matrix are checked") {
  const codecs::CodecEntry& entry = tests::variant_codec();
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  CHECK(entry.codec->ideal_bits_per_element(matrix().view(), settings) == 8);
  const tests::Variant variant("bad_ideal_bits");
  CHECK_THROWS_MATCHES(entry.codec->ideal_bits_per_element(matrix().view(), settings), std::runtime_error,
                       MessageMatches(ContainsSubstring("no number from 0 on.")));
}

TEST_CASE("a lossy codec is held to the bound that it states") {
  tests::Command folder;
  std::filesystem::copy_file(ECMV_VARIANTS_LIBRARY, folder.folder / "lossy.so");
  const codecs::CodecEntry* entry = nullptr;
  {
    const tests::Variant variant("lossy");
    entry = &tests::loaded_codec((folder.folder / "lossy.so").string(), "lossy_codec");
    CHECK_FALSE(entry->codec->lossless);
    REQUIRE(entry->codec->error_bound != nullptr);
    const backends::CompressedMatrix compressed = encoded(*entry);
    std::vector<std::byte> out(24 * 40);
    entry->codec->decode(compressed.view(), out);
    const codecs::ErrorBound bound = entry->codec->error_bound(matrix().view(), compressed.settings);
    CHECK(bound.absolute == 1);
    CHECK(codecs::check_bound(matrix().view(), out, bound).violation == "");
  }
  const tests::Variant variant("bad_error_bound");
  CHECK_THROWS_MATCHES(entry->codec->error_bound(matrix().view(), codecs::default_settings(*entry->codec)),
                       std::runtime_error, MessageMatches(ContainsSubstring("error bound")));
}

TEST_CASE("kernels get what they were bound to, and their errors arrive from every thread") {
  const codecs::CodecEntry& entry = tests::variant_codec();
  const auto device = scalar();
  std::unique_ptr<backends::UploadedMatrix> uploaded;
  for (const backends::Op op : {backends::Op::decode, backends::Op::matvec}) {
    const auto pass = product(entry, op, *device, uploaded);
    pass->poison_outputs(0);
    pass->run();
    const auto elements = matrix().view().i8();
    int32_t sum = 0;
    for (int i = 0; i < 40; ++i) sum += elements[static_cast<size_t>(23 * 40 + i)];
    CHECK(pass->accumulators(0)[23] == sum);
    CHECK(pass->broken_guards() == "");
  }
  const auto pass = product(entry, backends::Op::matvec, *device, uploaded);
  {
    const tests::Variant variant("kernel_error");
    CHECK_THROWS_MATCHES(
        pass->run(), std::runtime_error,
        MessageMatches(ContainsSubstring("The kernel 'rows' of the codec 'variant_codec': The kernel gave up.")));
  }
  {
    const tests::Variant variant("multiply_past_the_end");
    pass->run();
    CHECK(pass->broken_guards() != "");
  }
}

TEST_CASE("what a kernel says when it is bound is checked") {
  const codecs::CodecEntry& entry = tests::variant_codec();
  const auto device = scalar();
  std::unique_ptr<backends::UploadedMatrix> uploaded;
  struct Wrong {
    const char *variant, *sentence;
  };
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"bind_error", "The kernel 'rows' of the codec 'variant_codec': The kernel cannot be bound."},
           {"no_rows_per_block", "binds with 0 rows a block."},
           {"negative_scratch", "asks for -1 bytes of scratch."},
           {"bad_rounding", "says of its rounding what cannot be."}}) {
    INFO(wrong.variant);
    const tests::Variant variant(wrong.variant);
    CHECK_THROWS_MATCHES(product(entry, backends::Op::matvec, *device, uploaded), std::runtime_error,
                         MessageMatches(ContainsSubstring(wrong.sentence)));
  }
  uploaded = device->upload(encoded(entry));
  const tests::Variant variant("kernel_refuses");
  const backends::Kernel& kernel = entry.kernels("scalar")[0];
  CHECK(kernel.refuses(uploaded->view(), device->info(), kernel.policies[0]) ==
        "The kernel of variant_codec refuses every matrix.");
}

TEST_CASE("the example stores Rice codes as its head describes them") {
  const codecs::CodecEntry& entry = tests::example_codec();
  const datasets::Matrix small = tests::make_matrix(
      "small", {3, 2}, [](int64_t i) { return std::vector<int>{0, -1, 1, 0, -2, 2}[static_cast<size_t>(i)]; });
  std::vector<std::string> errors;
  const backends::Settings settings =
      codecs::resolve_settings(entry.codec->settings, {{"block_rows", "2"}, {"centre", "zero"}}, errors);
  REQUIRE(errors.empty());
  const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, small.view(), settings);
  REQUIRE(compressed.sections.size() == 3);
  CHECK(compressed.sections[0].name == "model");
  CHECK(compressed.sections[0].role == backends::Role::table);
  CHECK(compressed.sections[0].bytes == std::vector<std::byte>{std::byte{128}, std::byte{0}});
  CHECK(compressed.sections[1].role == backends::Role::index);
  CHECK(compressed.sections[1].bytes.size() == 3 * 8);
  // Folded 0 1 2 0 | 3 4, as 1 01 001 1 | 0001 00001.
  CHECK(compressed.sections[2].bytes ==
        std::vector<std::byte>{std::byte{0b10100110}, std::byte{0b00010000}, std::byte{0b10000000}});
  CHECK(compressed.codec == "example_codec");
  CHECK(compressed.format_version == 1);
}

// Claims about `ecmv advise`: outlooks that follow from records, and the sentences that a user reads.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>

#include <nlohmann/json.hpp>

#include "codecs/registry.h"
#include "experiments/advise/advice.h"
#include "experiments/advise/outlook.h"
#include "tests/run_command.h"

using namespace ecmv;
using namespace ecmv::experiments;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using Catch::Matchers::WithinRel;
using ecmv::tests::Command;

namespace {

// Two blocks of q [100, 50] and down [50, 200], and lm_head [400, 50]: a step of 1 ms.
reports::CaseRecord step_record(const std::string& codec, double bits, double median_s) {
  reports::CaseRecord r;
  r.status = reports::Status::ok;
  r.data = {.source = "model", .rows = 100, .cols = 50, .type = "bf16", .layers = 5};
  r.codec.id = codec;
  r.kernel = {.backend = "simd", .op = "step", .variant = "best", .policy = "best", .threads = 2, .device = "a CPU"};
  const auto bytes = [&](int64_t elements) { return static_cast<int64_t>(static_cast<double>(elements) * bits / 8); };
  r.step.parts = {{"q", codec, "rows", 2, 100, 50, bytes(10000), 1e-4},
                  {"down", codec, "rows", 2, 50, 200, bytes(20000), 2e-4},
                  {"lm_head", codec, "rows", 1, 400, 50, bytes(20000), 2e-4}};
  r.size.stored_bytes = bytes(50000);
  r.time.median_s = median_s;
  r.time.samples_s = {median_s};
  r.time.elements = 50000;
  r.check.decode = "exact";
  return r;
}

const std::vector<LayerGroup> kLayers = {{"q", 100, 50, 2}, {"down", 50, 200, 2}, {"lm_head", 400, 50, 1}};

std::vector<Outlook> outlooks_of(const std::vector<reports::CaseRecord>& cases, const std::vector<LayerGroup>& groups,
                                 int64_t batch = 1, const std::string& type = "bf16",
                                 const std::string& activations = "") {
  reports::RecordSet records;
  records.cases = cases;
  return outlooks(records, {groups, type, batch, activations, ""});
}

Outlook outlook(const std::string& codec, bool uncompressed, double bytes, double step_s) {
  return {.format = "bf16",
          .codec = codec,
          .uncompressed = uncompressed,
          .lossless = true,
          .stored_bytes = bytes,
          .step_s = step_s};
}

const Outlook kRaw = outlook("raw_bf16", true, 16e9, 0.01);

}  // namespace

TEST_CASE("the outlook for the layers of a record is the record's own time and bytes") {
  // The layers' times alone add up to 0.8 ms; the rest of the millisecond is divided among them.
  const auto found = outlooks_of({step_record("coder", 8, 1e-3)}, kLayers);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].tokens_per_s(), WithinRel(1000, 1e-12));
  CHECK_THAT(found[0].stored_bytes, WithinRel(50000, 1e-12));
  CHECK(found[0].lossless);
  CHECK_FALSE(found[0].uncompressed);
}

TEST_CASE("more blocks take as much longer as their layers did, and lm_head takes what it took") {
  const auto found = outlooks_of({step_record("coder", 8, 8e-4)},
                                 {{"q", 100, 50, 20}, {"down", 50, 200, 20}, {"lm_head", 400, 50, 1}});
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].step_s, WithinRel(20 * 1e-4 + 20 * 2e-4 + 2e-4, 1e-12));
  CHECK_THAT(found[0].stored_bytes, WithinRel(20 * 5000 + 20 * 10000 + 20000, 1e-12));
}

TEST_CASE("a layer of another shape takes as long an element as the one that is most like it") {
  const auto found = outlooks_of({step_record("coder", 8, 8e-4)}, {{"lm_head", 4000, 50, 1}, {"v", 50, 50, 1}});
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].step_s, WithinRel(10 * 2e-4 + 0.5 * 1e-4, 1e-12));
}

TEST_CASE("outlooks are sorted by speed, of cases of that batch and type, and know what is uncompressed") {
  std::vector<reports::CaseRecord> cases = {step_record("raw_bf16", 16, 2e-3), step_record("coder", 8, 1e-3),
                                            step_record("other", 8, 1e-4), step_record("another", 8, 1e-4)};
  cases[2].kernel.batch = 8;
  cases[3].data.type = "i8";
  const auto found = outlooks_of(cases, kLayers);
  REQUIRE(found.size() == 2);
  CHECK(found[0].codec == "coder");
  CHECK(found[1].uncompressed);
  CHECK(outlooks_of(cases, kLayers, 8).at(0).codec == "other");
}

TEST_CASE("outlooks are of cases with the tokens that are asked for") {
  std::vector<reports::CaseRecord> cases = {step_record("raw_bf16", 16, 2e-3), step_record("raw_bf16", 16, 1e-3)};
  cases[1].kernel.activations = "bf16";
  CHECK_THAT(outlooks_of(cases, kLayers, 1, "bf16", "f32").at(0).step_s, WithinRel(2e-3, 1e-9));
  CHECK_THAT(outlooks_of(cases, kLayers, 1, "bf16", "bf16").at(0).step_s, WithinRel(1e-3, 1e-9));
  CHECK_THAT(outlooks_of(cases, kLayers).at(0).step_s, WithinRel(1e-3, 1e-9));
}

TEST_CASE("a quantised format is an outlook with loss, and rounding codecs are none without") {
  std::vector<reports::CaseRecord> cases = {step_record("raw_int8", 8, 1e-3), step_record("rounds", 8, 1e-3)};
  cases[0].data.type = "i8";
  cases[0].data.parameters["quantise"] = std::string("absmax[bits=8,group=row]");
  cases[0].distortion = {40, 0.1};
  cases[1].check.decode = "within its bound";
  const auto found = outlooks_of(cases, kLayers);
  REQUIRE(found.size() == 2);
  for (const Outlook& one : found) CHECK_FALSE(one.lossless);
  CHECK(outlooks_of({cases[0]}, kLayers).at(0).format == "absmax[bits=8,group=row]");
}

TEST_CASE("a matmul stands in where a codec has no step") {
  reports::CaseRecord matmul = step_record("coder", 8, 1e-3);
  matmul.kernel.op = "matmul";
  matmul.step = {};
  matmul.data.layers = 10;
  matmul.size.bits_per_element = 8;
  const auto found = outlooks_of({matmul}, {{"q", 100, 50, 20}});
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].step_s, WithinRel(2e-3, 1e-12));
  CHECK_THAT(found[0].stored_bytes, WithinRel(20 * 5000, 1e-12));
  CHECK_THAT(outlooks_of({matmul, step_record("coder", 8, 5e-4)}, kLayers).at(0).step_s, WithinRel(5e-4, 1e-12));
}

TEST_CASE("a code that is faster is advised, with both speeds and both sizes") {
  CHECK(advice({outlook("coder", false, 10.7e9, 0.008), kRaw}, "bf16", 141e9).verdict ==
        "Use coder: 125 tokens/s against 100 tokens/s (1.25 times as fast), in 10.7 GB against 16.0 GB, without loss.");
}

TEST_CASE("weights are left as they are where codes are only smaller, unless memory is short") {
  CHECK(advice({kRaw, outlook("coder", false, 10.7e9, 0.02)}, "bf16", 141e9).verdict ==
        "Keep the weights uncompressed unless memory is short: raw_bf16 is the fastest, 100 tokens/s in 16.0 GB. coder "
        "takes 10.7 GB (0.67 of the size) without loss and runs at 50.0 tokens/s (0.50 of the speed).");
  // Speeds within 3 % are level.
  CHECK_THAT(advice({outlook("coder", false, 10.7e9, 0.0099), kRaw}, "bf16", 0).verdict,
             StartsWith("Keep the weights uncompressed unless"));
}

TEST_CASE("weights are left as they are where nothing makes them smaller or faster") {
  CHECK(
      advice({kRaw, outlook("coder", false, 15.9e9, 0.02)}, "bf16", 141e9).verdict ==
      "Keep the weights uncompressed: the smallest lossless code takes 0.99 of the size, and none is faster. raw_bf16 "
      "runs at 100 tokens/s in 16.0 GB.");
  CHECK_THAT(advice({kRaw}, "bf16", 0).verdict, StartsWith("Keep the weights uncompressed: no code was measured."));
}

TEST_CASE("weights that do not fit are coded, or nothing helps") {
  CHECK(advice({kRaw, outlook("coder", false, 10.7e9, 0.02)}, "bf16", 12e9).verdict ==
        "The uncompressed weights do not fit: they take 16.0 GB, the device has 12.0 GB. Use coder: it takes 10.7 GB "
        "without loss and runs at 50.0 tokens/s.");
  CHECK_THAT(advice({kRaw, outlook("coder", false, 10.7e9, 0.02)}, "bf16", 10e9).verdict,
             ContainsSubstring("No lossless code that was measured fits either."));
}

TEST_CASE("a busy machine decides nothing") {
  Outlook busy = outlook("coder", false, 10.7e9, 0.008);
  busy.disturbed = true;
  const Advice found = advice({busy, kRaw}, "bf16", 0);
  CHECK_THAT(found.verdict,
             StartsWith("Undecided, because other programs disturbed the run: coder ran at 1.25 times the "
                        "speed of raw_bf16"));
  CHECK_THAT(found.notes.back(), StartsWith("DISTURBED"));
}

TEST_CASE("without an uncompressed product nobody says that coding pays") {
  CHECK_THAT(advice({outlook("coder", false, 10.7e9, 0.008)}, "bf16", 0).verdict,
             ContainsSubstring("No uncompressed bf16 product was measured, so whether coding pays is unknown."));
  CHECK_THAT(advice({}, "bf16", 0).verdict, ContainsSubstring("there is no advice"));
}

TEST_CASE("formats with loss are told beside the advice, with their distance") {
  Outlook lossy = outlook("raw_int8", true, 8e9, 0.005);
  lossy.lossless = false;
  lossy.format = "absmax[bits=8,group=row]";
  lossy.snr_db = 40.12;
  const Advice found = advice({lossy, kRaw}, "bf16", 0);
  CHECK_THAT(found.verdict, StartsWith("Keep the weights uncompressed"));
  REQUIRE(found.notes.size() == 1);
  CHECK(found.notes[0] ==
        "The fastest with loss is raw_int8 of absmax[bits=8,group=row]: 200 tokens/s in 8.00 GB, 40.1 dB SNR.");
}

TEST_CASE("blocks that no product reads are left as they are, with what a code could take at most") {
  CHECK(advice_for_blocks(100e6, 97e6).verdict ==
        "Keep the file as it is: its blocks have their own scales. An ideal code of single numbers would take 97.0 MB "
        "of 100 MB (0.97), and products here decode such blocks to memory before they multiply, coded or not.");
}

TEST_CASE("advise measures a sample, keeps its records, and says the same of them again") {
  if (codecs::find_codec("raw_bf16") == nullptr || codecs::find_codec("huffman_exponents") == nullptr)
    SKIP("this build lacks raw_bf16 or huffman_exponents");
  Command ecmv;
  std::filesystem::create_directories(ecmv.folder / "tiny");
  std::ofstream(ecmv.folder / "tiny/config.json")
      << R"({"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 512})";
  REQUIRE(ecmv({"advise", "tiny", "--codec", "raw_bf16", "--codec", "huffman_exponents", "-o", "measured.jsonl",
                "--json"}) == 0);
  const auto first = nlohmann::json::parse(ecmv.out);
  CHECK(first["layers"] == 15);
  CHECK(first["types"] == nlohmann::json::array({"BF16"}));
  REQUIRE(first["outlooks"].size() == 2);
  REQUIRE(ecmv({"advise", "tiny", "--records", "measured.jsonl", "--json"}) == 0);
  const auto again = nlohmann::json::parse(ecmv.out);
  CHECK(again["outlooks"] == first["outlooks"]);
  CHECK(again["advice"] == first["advice"]);
  // Two copies of the first block and lm_head have the model's shape, so its speed is the record's.
  const reports::RecordSet records = reports::read_records(ecmv.folder / "measured.jsonl");
  for (const auto& row : first["outlooks"])
    for (const reports::CaseRecord& record : records.cases)
      if (row["codec"] == record.codec.id) {
        CHECK(record.step.blocks == 2);
        CHECK_THAT(row["tokens_per_s"].get<double>(), WithinRel(1 / record.time.median_s, 1e-9));
        CHECK_THAT(row["stored_bytes"].get<double>(), WithinRel(static_cast<double>(record.size.stored_bytes), 1e-9));
      }
  REQUIRE(ecmv({"advise", "tiny", "--records", "measured.jsonl"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("tiny: 15 layers") && ContainsSubstring("A step of 1 token on ") &&
                           ContainsSubstring("tokens/s") && ContainsSubstring("Only shapes were given"));
  // Records of one float32 token say nothing about one bf16 token, or about eight.
  CHECK(ecmv({"advise", "tiny", "--records", "measured.jsonl", "--activations", "bf16"}) == 6);
  CHECK(ecmv({"advise", "tiny", "--codec", "raw_bf16", "--activations", "bf16"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("A step of 1 token of bf16 on "));
  CHECK(ecmv({"advise", "tiny", "--codec", "raw_bf16", "--activations", "f16"}) == 2);
  // With records, options that choose measurements are refused.
  CHECK(ecmv({"advise", "tiny", "--records", "measured.jsonl", "--codec", "raw_bf16"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("--records excludes --codec"));
  CHECK(ecmv({"advise", "tiny", "--records", "measured.jsonl", "--batch", "8"}) == 6);
  CHECK_THAT(ecmv.out, ContainsSubstring("No lossless product of bf16 weights was measured"));
}

TEST_CASE("advise measures the uncompressed weights first: if time runs out, there is something to compare with") {
  if (codecs::find_codec("raw_bf16") == nullptr) SKIP("this build lacks raw_bf16");
  Command ecmv;
  std::ofstream(ecmv.folder / "config.json")
      << R"({"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 64})";
  ecmv({"advise", "."});
  const std::string before = "encoding with ";
  const size_t first = ecmv.err.find(before);
  REQUIRE(first != std::string::npos);
  CHECK_THAT(ecmv.err.substr(first + before.size()), StartsWith("raw_bf16"));
}

TEST_CASE("advise says why no product of the weights was measured") {
  if (codecs::find_codec("raw_bf16") == nullptr) SKIP("this build lacks raw_bf16");
  Command ecmv;
  std::string nans;
  for (int i = 0; i < 64 * 64; ++i) nans += std::string("\xc0\x7f", 2);
  const std::string header = R"({"w":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,8192]}})";
  std::ofstream(ecmv.folder / "nan.safetensors", std::ios::binary)
      << static_cast<char>(header.size()) << std::string(7, '\0') << header << nans;
  CHECK(ecmv({"advise", "nan.safetensors", "--codec", "raw_bf16"}) == 6);
  CHECK_THAT(ecmv.out, ContainsSubstring("there is no advice") && ContainsSubstring("it has NaN"));
}

TEST_CASE("advise of nothing that is there names what would be") {
  Command ecmv;
  CHECK(ecmv({"advise", "llama_8b"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("neither a file, nor a folder, nor one of llama_2_7b, llama_3_8b"));
  CHECK(ecmv({"advise", "llama_3_8b", "--batch", "4097"}) == 2);
  ecmv({"--help"});
  CHECK_THAT(ecmv.out, ContainsSubstring("advise"));
}

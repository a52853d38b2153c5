// The command with codecs from shared objects: list, verify, run, records, reports.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "reports/record.h"
#include "tests/codec_library/libraries.h"
#include "tests/processes.h"
#include "tests/run_command.h"

using namespace ecmv;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

const std::string kLibrary = fs::path(ECMV_EXAMPLE_LIBRARY).filename().string();

std::vector<std::string> small_run(std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"run",
                                  "--codec-library",
                                  ECMV_EXAMPLE_LIBRARY,
                                  "--codec",
                                  "example_codec:block_rows=8",
                                  "--d",
                                  "64",
                                  "--layers",
                                  "2",
                                  "--sigma",
                                  "4",
                                  "--backend",
                                  "scalar",
                                  "--profile",
                                  "-o",
                                  "r.jsonl"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("list marks loaded codecs and says where they come from") {
  tests::Command ecmv;
  CHECK(ecmv({"list", "codecs"}) == 0);
  CHECK(ecmv.out.find("(loaded)") == std::string::npos);
  CHECK(ecmv({"list", "codecs", "--codec-library", ECMV_EXAMPLE_LIBRARY}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("example_codec (loaded)") && ContainsSubstring("example_codec is from /") &&
                           ContainsSubstring(kLibrary));
  CHECK(ecmv({"list", "codecs", "example_codec", "--json", "--codec-library", ECMV_EXAMPLE_LIBRARY}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("\"loaded\": true") && ContainsSubstring(kLibrary + "\"") &&
                           ContainsSubstring("\"op\": \"matvec\""));
  // Also before the verb.
  CHECK(ecmv({"--codec-library", ECMV_EXAMPLE_LIBRARY, "list", "coverage", "--codec-library", ECMV_VARIANTS_LIBRARY}) ==
        0);
  CHECK_THAT(ecmv.out, ContainsSubstring("example_codec") && ContainsSubstring("variant_codec"));
}

TEST_CASE("verify checks a loaded codec, its kernels and damaged streams") {
  tests::Command ecmv;
  CHECK(ecmv({"verify", "--codec-library", ECMV_EXAMPLE_LIBRARY, "--filter", "/example_codec", "--corrupt", "--flips",
              "20"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("damaged streams: example_codec") && ContainsSubstring(", 0 failed"));
}

TEST_CASE("a wrong library is found out by a run, not believed") {
  tests::Command ecmv;
  struct Wrong {
    const char *variant, *sentence;
    int code;
  };
  for (const Wrong& wrong :
       std::initializer_list<Wrong>{{"decode_wrongly", "the reference decode differs at row 0, column 0", 3},
                                    {"multiply_wrongly", "W x differs", 3},
                                    {"multiply_past_the_end", "The kernel wrote outside the accumulators", 3},
                                    {"decode_past_the_end", "the reference decode wrote outside the matrix", 3},
                                    {"decode_before_the_start", "the reference decode wrote outside the matrix", 3},
                                    {"encode_error", "The encoder gave up.", 5},
                                    {"kernel_error", "The kernel gave up.", 5},
                                    {"decode_error", "The decoder gave up.", 5}}) {
    INFO(wrong.variant);
    ecmv.environment["ECMV_TEST_VARIANT"] = wrong.variant;
    CHECK(ecmv({"run", "--codec-library", ECMV_VARIANTS_LIBRARY, "--codec", "variant_codec", "--d", "64", "--layers",
                "2", "--sigma", "4", "--backend", "scalar", "--variant", "rows", "--profile", "--force"}) ==
          wrong.code);
    CHECK_THAT(ecmv.err, ContainsSubstring(wrong.sentence));
  }
}

TEST_CASE("what a library stores beside its sections is found out, as in a codec of the tree") {
  tests::Command ecmv;
  struct Wrong {
    const char *variant, *sentence;
    int code;
  };
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"keeps_a_copy", "the stored bytes alone are not the matrix", 3},
           {"other_names_each_time", "encodes the same matrix a second time to other bytes", 3},
           {"ideal_next_to_nothing", "states 0.001 ideal bits of an element", 3}}) {
    INFO(wrong.variant);
    ecmv.environment["ECMV_TEST_VARIANT"] = wrong.variant;
    CHECK(ecmv({"run", "--codec-library", ECMV_VARIANTS_LIBRARY, "--codec", "variant_codec", "--d", "64", "--layers",
                "1", "--sigma", "4", "--op", "size", "--profile", "--force"}) == wrong.code);
    CHECK_THAT(ecmv.err, ContainsSubstring(wrong.sentence));
  }
}

TEST_CASE("what a library prints is in no output of ours") {
  tests::Command ecmv;
  for (const char* variant : {"prints", "prints_on_cout"}) {
    INFO(variant);
    ecmv.environment["ECMV_TEST_VARIANT"] = variant;
    CHECK(ecmv({"run", "--codec-library", ECMV_VARIANTS_LIBRARY, "--codec", "variant_codec", "--d", "64", "--layers",
                "1", "--sigma", "4", "--op", "size", "--profile", "-o", "-"}) == 0);
    CHECK(ecmv.out.find("prints") == std::string::npos);
    CHECK(ecmv.out.starts_with("{\"schema\":1"));
    CHECK_THAT(ecmv.err, ContainsSubstring("The encoder prints.") && ContainsSubstring("The decoder prints."));
    CHECK(ecmv({"list", "codecs", "--json", "--codec-library", ECMV_VARIANTS_LIBRARY}) == 0);
    CHECK(ecmv.out.starts_with("{"));
  }
}

namespace {

// verify of variants.c as that variant.
int verify_variant(tests::Command& ecmv, const std::string& variant, bool corrupt = false) {
  ecmv.environment["ECMV_TEST_VARIANT"] = variant;
  std::vector<std::string> arguments = {
      "verify", "--codec-library", ECMV_VARIANTS_LIBRARY, "--filter", "/variant_codec.*/(scalar|size)", "--flips", "2"};
  if (corrupt) arguments.push_back("--corrupt");
  return ecmv(arguments);
}

}  // namespace

TEST_CASE("a crash in a loaded codec is told with the function's name") {
  struct Wrong {
    const char *variant, *sentence;
    int code;
  };
  tests::Command ecmv;
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"decode_crash",
            "ecmv: segmentation fault in decode() of the loaded codec 'variant_codec', for a matrix of ", 3},
           {"decode_abort", "ecmv: abort in decode() of the loaded codec 'variant_codec'", 3},
           // Where the handler takes its second coming for another thread, this hung in 3 of 8 runs.
           {"decode_abort_given_back", "ecmv: abort in decode() of the loaded codec 'variant_codec'", 3},
           {"decode_overrun", "ecmv: segmentation fault in decode() of the loaded codec 'variant_codec'", 3},
           {"kernel_crash", "ecmv: segmentation fault in matvec() of the kernel 'rows' of the loaded codec", 3}}) {
    INFO(wrong.variant);
    const int code = verify_variant(ecmv, wrong.variant);
    INFO(ecmv.err);
    if (tests::kSanitized) {  // the sanitizer's own report replaces ours
      CHECK(code != 0);
      continue;
    }
    CHECK(code == wrong.code);
    CHECK_THAT(ecmv.err, ContainsSubstring(wrong.sentence));
  }
  if (tests::kSanitized) return;
  // A run names the case, too, and keeps its records.
  ecmv.environment["ECMV_TEST_VARIANT"] = "kernel_crash";
  CHECK(ecmv({"run", "--codec-library", ECMV_VARIANTS_LIBRARY, "--codec", "variant_codec", "--d", "64", "--layers", "2",
              "--sigma", "4", "--backend", "scalar", "--variant", "rows", "--profile"}) == 5);
  CHECK_THAT(ecmv.err, ContainsSubstring("scalar/matvec/rows/first: invalid memory access.") &&
                           ContainsSubstring("segmentation fault in matvec() of the kernel 'rows'"));
}

TEST_CASE("a codec that ends the process is a failure") {
  tests::Command ecmv;
  CHECK(verify_variant(ecmv, "decode_exit") == 1);
  CHECK_THAT(ecmv.err,
             ContainsSubstring("ecmv: the process was ended in decode() of the loaded codec 'variant_codec'"));
}

TEST_CASE("a command that a codec ended never ends with 0, and leaves nothing behind") {
  tests::Command ecmv;
  for (const char* variant : {"decode_exit_at_once", "decode_quick_exit", "decode_exec"}) {
    INFO(variant);
    CHECK(verify_variant(ecmv, variant) == 3);
    CHECK_THAT(ecmv.err, ContainsSubstring("ecmv: The process ended with exit status 0 before the command did"));
    CHECK(ecmv({"run", "--codec-library", ECMV_VARIANTS_LIBRARY, "--codec", "variant_codec", "--d", "64", "--layers",
                "2", "--sigma", "4", "--backend", "scalar", "--profile", "--force"}) == 5);
  }
  for (const char* variant : {"exit_when_loaded_for_good", "crash_when_loaded_for_good"}) {
    INFO(variant);
    fs::remove(ecmv.folder / "tried");
    CHECK(verify_variant(ecmv, variant) == 2);
    CHECK_THAT(ecmv.err, ContainsSubstring("ecmv: A codec library ended the process"));
  }
  ecmv.environment["ECMV_TEST_VARIANT"] = "decode_orphan";
  CHECK(ecmv({"run", "--codec-library", ECMV_VARIANTS_LIBRARY, "--codec", "variant_codec", "--d", "64", "--layers", "1",
              "--sigma", "4", "--backend", "scalar", "--profile", "--force"}) == 0);
  const pid_t orphan = std::atoi(tests::text_of(ecmv.folder / "orphan").c_str());
  REQUIRE(orphan > 0);
  for (int tries = 0; tries < 50 && tests::lives(orphan); ++tries) usleep(100'000);
  CHECK_FALSE(tests::lives(orphan));
}

TEST_CASE("a kernel that ignores signals is ended by the second one") {
  tests::Command ecmv;
  ecmv.environment["ECMV_TEST_VARIANT"] = "kernel_ignores_signals";
  const pid_t child =
      ecmv.start({"run", "--codec-library", ECMV_VARIANTS_LIBRARY, "--codec", "variant_codec", "--d", "64", "--layers",
                  "2", "--sigma", "4", "--backend", "scalar", "--variant", "rows", "--threads", "1", "--profile"});
  for (int tries = 0; tries < 300; ++tries) {
    if (tests::text_of(ecmv.folder / "stderr").find("The kernel hangs.") != std::string::npos) break;
    usleep(100'000);
  }
  kill(child, SIGTERM);
  usleep(200'000);
  kill(child, SIGTERM);
  ecmv.wait_for(child);
  CHECK(ecmv.code == 130);
}

TEST_CASE("TERM ends a verification whose kernel hangs") {
  tests::Command ecmv;
  ecmv.environment["ECMV_TEST_VARIANT"] = "kernel_hang";
  const pid_t child = ecmv.start({"verify", "--codec-library", ECMV_VARIANTS_LIBRARY, "--filter",
                                  "/variant_codec.number=7,side=right.*/scalar/matvec"});
  for (int tries = 0; tries < 300; ++tries) {
    if (tests::text_of(ecmv.folder / "stderr").find("The kernel hangs.") != std::string::npos) break;
    usleep(100'000);
  }
  kill(child, SIGTERM);
  ecmv.wait_for(child);
  CHECK(ecmv.code == 130);
}

TEST_CASE("an interruption names the call that does not end") {
  tests::Command ecmv;
  ecmv.environment["ECMV_TEST_VARIANT"] = "kernel_hang";
  const pid_t child =
      ecmv.start({"run", "--codec-library", ECMV_VARIANTS_LIBRARY, "--codec", "variant_codec", "--d", "64", "--layers",
                  "2", "--sigma", "4", "--backend", "scalar", "--variant", "rows", "--threads", "2", "--profile"});
  const auto says = [&](const std::string& what) {
    for (int tries = 0; tries < 300; ++tries) {
      if (tests::text_of(ecmv.folder / "stderr").find(what) != std::string::npos) return true;
      usleep(100'000);
    }
    return false;
  };
  CHECK(says("The kernel hangs."));
  kill(child, SIGINT);
  CHECK(says("ecmv: under way: matvec() of the kernel 'rows' of the loaded codec 'variant_codec'"));
  kill(child, SIGINT);
  ecmv.wait_for(child);
  CHECK(ecmv.code == 130);
}

TEST_CASE("damaged streams: what goes wrong is told and counted") {
  tests::Command ecmv;
  // An encoder that fails leaves no stream to damage: the case fails, and the summary is printed.
  CHECK(verify_variant(ecmv, "encode_error", true) == 5);
  CHECK_THAT(ecmv.out, ContainsSubstring("FAILED damaged streams variant_codec") &&
                           ContainsSubstring("could not encode: The encoder gave up.") &&
                           ContainsSubstring("0 verified, "));
  CHECK(ecmv.err.find("internal error") == std::string::npos);
  CHECK(verify_variant(ecmv, "decode_damaged_past_the_end", true) == 3);
  CHECK_THAT(ecmv.out, ContainsSubstring("1 ended otherwise (the decoder wrote outside the matrix)"));
  CHECK(verify_variant(ecmv, "decode_believes", true) != 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("decoding damaged streams of variant_codec"));
  if (!tests::kSanitized) {
    CHECK(ecmv.code == 3);
    CHECK_THAT(ecmv.err, ContainsSubstring("segmentation fault in decode() of the loaded codec 'variant_codec'"));
  }
}

TEST_CASE("list shows the codecs that are named") {
  tests::Command ecmv;
  CHECK(ecmv({"list", "codecs", "example_codec", "--codec-library", ECMV_EXAMPLE_LIBRARY, "--codec-library",
              ECMV_VARIANTS_LIBRARY}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("example_codec (loaded)") && ContainsSubstring("block_rows") &&
                           ContainsSubstring(kLibrary));
  CHECK(ecmv.out.find("variant_codec") == std::string::npos);
  CHECK(ecmv({"list", "coverage", "example_codec", "--codec-library", ECMV_EXAMPLE_LIBRARY, "--codec-library",
              ECMV_VARIANTS_LIBRARY}) == 0);
  CHECK(ecmv.out.find("variant_codec") == std::string::npos);
  CHECK(ecmv({"list", "codecs", "example_codek", "--codec-library", ECMV_EXAMPLE_LIBRARY}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("There is no codec 'example_codek'. Did you mean 'example_codec'?"));
  CHECK(ecmv({"list", "backends", "example_codec"}) == 2);
}

TEST_CASE("records of a loaded codec name its file, and reports mark it") {
  tests::Command ecmv;
  CHECK(ecmv(small_run({"--md", "t.md", "--csv", "t.csv"})) == 0);
  CHECK_THAT(ecmv.out,
             ContainsSubstring("example_codec†[block_rows=8") && ContainsSubstring("† Codecs from shared objects"));
  CHECK_THAT(tests::text_of(ecmv.folder / "t.md"), ContainsSubstring("† Codecs from shared objects"));
  CHECK_THAT(tests::text_of(ecmv.folder / "t.csv"), ContainsSubstring(",codec_library,"));
  const reports::RecordSet records = reports::read_records(ecmv.folder / "r.jsonl");
  REQUIRE(records.cases.size() == 2);  // two policies
  for (const reports::CaseRecord& record : records.cases) {
    CHECK(record.status == reports::Status::ok);
    CHECK(record.codec.id == "example_codec");
    CHECK(record.codec.library_path == fs::canonical(ECMV_EXAMPLE_LIBRARY).string());
    CHECK(record.codec.library_hash == tests::content_hash_of(ECMV_EXAMPLE_LIBRARY));
    CHECK(record.size.index_bytes == 2 * (8 + 1) * 8);
    CHECK(record.size.stored_bytes < 2 * 64 * 64);
  }
  // These commands load nothing; the records have all they need.
  CHECK(ecmv({"report", "r.jsonl", "-o", "rep"}) == 0);
  for (const char* file : {"rep/report.html", "rep/results.md"})
    CHECK_THAT(tests::text_of(ecmv.folder / file),
               ContainsSubstring("example_codec†") && ContainsSubstring(records.cases[0].codec.library_hash));
  CHECK_THAT(tests::text_of(ecmv.folder / "rep/results.tex"),
             ContainsSubstring("example\\_\\allowbreak{}codec\\textdagger{}"));
  CHECK(ecmv({"compare", "r.jsonl", "r.jsonl"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("example_codec†"));
  // The config is that of a run, and the command to resume it names the library.
  CHECK(ecmv(small_run({"--resume"})) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("2 done before"));
}

TEST_CASE("without the library its codec is not there") {
  tests::Command ecmv;
  CHECK(ecmv({"run", "--codec", "example_codec", "--d", "64"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("There is no codec 'example_codec'.") && ContainsSubstring("--codec-library"));
}

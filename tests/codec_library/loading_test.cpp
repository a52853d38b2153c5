// Loading: how a codec from a shared object appears in the registry, and that every defect of a library ends with a
// sentence about it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/codec_library/libraries.h"
#include "tests/run_command.h"

using namespace ecmv;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

TEST_CASE("a loaded codec stands behind the built-in ones with its file, settings and kernels") {
  const size_t before = codecs::all_codecs().size();
  const codecs::CodecEntry* first = &codecs::all_codecs().front();
  const codecs::CodecEntry& entry = tests::example_codec();
  CHECK(&codecs::all_codecs().front() == first);  // nobody's pointer has become stale
  CHECK(entry.loaded());
  CHECK_FALSE(first->loaded());
  CHECK(entry.library_path == fs::canonical(ECMV_EXAMPLE_LIBRARY).string());
  CHECK(entry.library_hash == tests::content_hash_of(ECMV_EXAMPLE_LIBRARY));
  CHECK(entry.library_hash != tests::variant_codec().library_hash);
  CHECK(entry.codec->format_version == 1);
  CHECK(entry.codec->lossless);
  REQUIRE(entry.codec->settings.size() == 2);
  CHECK(entry.codec->settings[0].name == "block_rows");
  CHECK(std::get<int64_t>(entry.codec->settings[0].default_value) == 4);
  CHECK(entry.codec->settings[0].max == 64);
  CHECK(std::get<std::string>(entry.codec->settings[1].default_value) == "mean");
  CHECK(entry.codec->error_bound == nullptr);
  CHECK(entry.codec->read_file == nullptr);
  REQUIRE(entry.kernels("scalar").size() == 3);
  CHECK(entry.kernels("scalar")[1].op == backends::Op::matvec);
  CHECK(entry.kernels("scalar")[1].policies.size() == 2);
  CHECK(entry.kernels("scalar")[1].policies[1].name == "bytes");
  CHECK(entry.kernels("scalar")[2].policies[0].name == "default");
  CHECK(entry.kernels("simd").size() == 1);
  CHECK(entry.kernels("cuda").empty());
  // The same file by another name: it is loaded already.
  const size_t after = codecs::all_codecs().size();
  CHECK(after <= before + 2);  // the example and the variants
  codecs::load_codec_library(
      (fs::path(ECMV_EXAMPLE_LIBRARY).parent_path() / "." / fs::path(ECMV_EXAMPLE_LIBRARY).filename()).string());
  CHECK(codecs::all_codecs().size() == after);
}

TEST_CASE("files that are no codec library are refused with a sentence") {
  tests::Command folder;  // for its folder
  const auto refusal = [&](const std::string& name, const std::string& sentence) {
    const std::string file = (folder.folder / name).string();
    CHECK_THROWS_MATCHES(codecs::load_codec_library(file), codecs::LibraryError,
                         MessageMatches(ContainsSubstring(name) && ContainsSubstring(sentence)));
  };
  refusal("nothing.so", "There is no codec library");
  fs::create_directory(folder.folder / "folder.so");
  refusal("folder.so", "is a folder: name a file in it, or the folder in ECMV_CODEC_PATH.");
  REQUIRE(mkfifo((folder.folder / "pipe.so").c_str(), 0600) == 0);
  refusal("pipe.so", "is no file.");
  std::ofstream(folder.folder / "empty.so");
  refusal("empty.so", "does not load: file too short.");
  std::ofstream(folder.folder / "text.so") << std::string(5000, 'x');
  refusal("text.so", "does not load: invalid ELF header.");
  // The first half of a library, with a good head.
  const std::string whole = tests::text_of(ECMV_EXAMPLE_LIBRARY);
  std::ofstream(folder.folder / "half.so") << whole.substr(0, whole.size() / 2);
  CHECK_THROWS_AS(codecs::load_codec_library((folder.folder / "half.so").string()), codecs::LibraryError);
  fs::copy_file(ECMV_OTHER_VERSION_LIBRARY, folder.folder / "other.so");
  refusal("other.so",
          "was made for another version of ecmv_codec.h: it exports ecmv_codec_library_2, and this program knows "
          "ecmv_codec_library_1.");
}

TEST_CASE("a library that hangs while it loads is given up") {
  tests::Command folder;
  const fs::path file = folder.folder / "hanging.so";
  fs::copy_file(ECMV_VARIANTS_LIBRARY, file);
  const tests::Variant variant("hang");
  CHECK_THROWS_MATCHES(codecs::load_codec_library(file.string(), 1), codecs::LibraryError,
                       MessageMatches(ContainsSubstring("did not load within 1 seconds.")));
}

TEST_CASE("everything that is wrong with a library while it is loaded ends the command with 2 and a sentence") {
  struct Wrong {
    const char *variant, *sentence;
  };
  static constexpr Wrong kAll[] = {
      {"crash_in_constructor", "while it was loaded"},
      {"exit_in_constructor", "ended the process while it was loaded (exit status 0)."},
      {"crash", "while it was loaded"},
      {"abort", "while it was loaded"},
      {"exit", "ended the process while it was loaded (exit status 3)."},
      {"unusable", "says that it cannot be used here: This CPU lacks what it needs."},
      {"null_library", "hands out a null pointer instead of an ecmv_codec_library."},
      {"garbage_struct_bytes",
       "was made for another version of ecmv_codec.h: its ecmv_codec_library has 18446744073709551615 bytes, here it "
       "has 24."},
      {"older_struct", "was made for another version of ecmv_codec.h: its ecmv_codec has 64 bytes"},
      {"no_struct_bytes", "leaves struct_bytes of an ecmv_codec at 0; it is sizeof(ecmv_codec) there."},
      {"newer_field",
       "was made for a newer version of ecmv_codec.h and needs it: its ecmv_codec says something behind"},
      {"newer_setting_field", "its ecmv_setting says something behind"},
      {"uneven_structs", "of different struct_bytes in one array."},
      {"no_codecs", "has 0 codecs; 1 to 64 are possible."},
      {"negative_codecs", "has -1 codecs"},
      {"null_codecs", "hands out a null pointer instead of an ecmv_codec."},
      {"misaligned", "hands out an ecmv_codec at an address that is not aligned."},
      {"id_twice", "has two codecs with the id 'variant_codec'."},
      {"no_id", "gives no codec's id."},
      {"bad_id", "no lower_snake_case name of at most 64 characters: 'Variant-Codec'."},
      {"no_summary", "gives no summary of the codec 'variant_codec'."},
      {"two_lines",
       "gives a summary of the codec 'variant_codec' that is empty, longer than 200 bytes, or no single line of "
       "UTF-8."},
      {"no_utf8", "gives a source of the codec"},
      {"version_0", "has a format version 0"},
      {"bad_flag", "sets 'bytes_vary' of the codec 'variant_codec' to 2"},
      {"no_refuses", "lacks the function refuses of the codec 'variant_codec'."},
      {"no_encode", "lacks the function encode of the codec 'variant_codec'."},
      {"no_decode", "lacks the function decode of the codec 'variant_codec'."},
      {"no_max_stored_bytes", "lacks the function max_stored_bytes of the codec 'variant_codec'."},
      {"lossy_without_bound", "gives no error_bound"},
      {"too_many_settings", "has 17 settings of the codec 'variant_codec'; 0 to 16 are possible."},
      {"null_settings", "hands out a null pointer instead of an ecmv_setting."},
      {"setting_twice", "has two settings of the codec 'variant_codec' with the name 'number'."},
      {"bad_setting_name", "name of a setting of the codec 'variant_codec' that is no lower_snake_case name"},
      {"no_help", "gives a help of the setting 'number'"},
      {"default_outside",
       "gives a default of the setting 'number' of the codec 'variant_codec' that is not between its min and its max."},
      {"choice_outside", "that is not the position of a choice."},
      {"null_choices", "gives no choices of the setting 'side'"},
      {"bad_choice", "gives a choice of the setting 'side'"},
      {"choice_twice", "has two choices of the setting 'side' of the codec 'variant_codec' with the name 'right'."},
      {"kernel_without_function", "gives 0 of the functions decode, matvec and matmul of the kernel 'copy'"},
      {"kernel_of_two_functions", "gives 2 of the functions"},
      {"kernel_nowhere", "offers the kernel 'rows' of the codec 'variant_codec' on no backend."},
      {"bad_variant", "gives a variant of a kernel"},
      {"kernel_twice", "with the name 'scalar/decode/copy'."},
      {"policy_twice", "has two policies of the kernel 'rows'"},
      {"null_policies", "gives no names of its policies of the kernel 'rows'"},
  };
  tests::Command command;
  for (const Wrong& wrong : kAll) {
    INFO(wrong.variant);
    command.environment["ECMV_TEST_VARIANT"] = wrong.variant;
    CHECK(command({"list", "codecs", "--codec-library", ECMV_VARIANTS_LIBRARY}) == 2);
    CHECK(command.out.empty());
    CHECK_THAT(command.err, ContainsSubstring("ecmv: The codec library '") && ContainsSubstring(wrong.sentence));
  }
}

TEST_CASE("an id that there is already is refused") {
  tests::Command command;
  // A second file with the same codec.
  fs::copy_file(ECMV_EXAMPLE_LIBRARY, command.folder / "copy.so");
  CHECK(command({"list", "codecs", "--codec-library", ECMV_EXAMPLE_LIBRARY, "--codec-library", "copy.so"}) == 2);
  CHECK_THAT(command.err, ContainsSubstring("has a codec 'example_codec', and there is one already, from '" +
                                            fs::canonical(ECMV_EXAMPLE_LIBRARY).string() + "'."));
  if (codecs::find_codec("raw_int8") == nullptr) SKIP("this build lacks the codec");
  command.environment["ECMV_TEST_VARIANT"] = "id_of_another";
  CHECK(command({"list", "codecs", "--codec-library", ECMV_VARIANTS_LIBRARY}) == 2);
  CHECK_THAT(command.err, ContainsSubstring("has a codec 'raw_int8', and there is one already in this program."));
}

TEST_CASE("ECMV_CODEC_PATH names files and folders, and verbs without codecs do not look at it") {
  tests::Command command;
  fs::create_directory(command.folder / "libraries");
  fs::copy_file(ECMV_EXAMPLE_LIBRARY, command.folder / "libraries/b.so");
  std::ofstream(command.folder / "libraries/notes.txt") << "no library\n";
  command.environment["ECMV_CODEC_PATH"] = std::string("libraries::") + ECMV_VARIANTS_LIBRARY;
  CHECK(command({"list", "codecs"}) == 0);
  CHECK_THAT(command.out, ContainsSubstring("example_codec (loaded)") && ContainsSubstring("variant_codec (loaded)") &&
                              ContainsSubstring("libraries/b.so"));
  CHECK(command.err.empty());
  // A file found in both ways is loaded once.
  CHECK(command({"list", "codecs", "--codec-library", "libraries/b.so"}) == 0);
  command.environment["ECMV_CODEC_PATH"] = "nowhere.so";
  CHECK(command({"list", "codecs"}) == 2);
  CHECK_THAT(command.err, ContainsSubstring("There is no codec library 'nowhere.so'. It is named by ECMV_CODEC_PATH."));
  CHECK(command({"list", "devices", "--json"}) == 2);
  CHECK(command({"verify"}) == 2);
  CHECK(command({"run", "--codec", "example_codec"}) == 2);
  CHECK(command({"inspect", "nothing.npy"}) == 2);
  CHECK(command.err.find("nowhere.so") == std::string::npos);
  CHECK(command({"report", "--help"}) == 0);
  // doctor reports it instead.
  CHECK(command({"doctor"}) == 0);
  CHECK_THAT(command.out, ContainsSubstring("There is no codec library 'nowhere.so'."));
}

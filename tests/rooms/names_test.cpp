// A name means one thing, and a codec keeps few versions of it.
#include <catch2/catch_test_macros.hpp>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/rooms/definitions.h"
#include "tests/rooms/tree.h"

using namespace ecmv::tests;

namespace {

constexpr size_t kMostGoldenVersions = 2;

// This list only shrinks.
const Exceptions kTwice = {{"Bf16Elements", 1}, {"Buffer", 1},   {"Cells", 1},     {"Halves", 1},
                           {"Matrix", 1},       {"PairDots", 1}, {"QuadQueue", 1}, {"Quarters", 1},
                           {"Stored", 1},       {"Stream", 2},   {"Widened", 1}};

// Files by class name, without classes inside of others.
using Places = std::map<std::string, std::set<std::string>>;

void add_classes(const std::string& path, const std::string& text, Places& places) {
  for (const Definition& found : definitions_in(text))
    if (found.is_class && !found.is_nested && !found.name.empty()) places[found.name].insert(path);
}

std::string codec_of(const std::string& path) {
  if (!path.starts_with("codecs/") || path.starts_with("codecs/modelling/")) return "";
  const size_t end = path.find('/', 7);
  return end == std::string::npos ? "" : path.substr(7, end - 7);
}

// Whether a source may include both, or one may include the other: a codec sees nothing of other codecs, of reports and
// experiments.
bool meet(const std::string& a, const std::string& b) {
  const auto is_header = [](const std::string& path) { return path.ends_with(".h") || path.ends_with(".inc"); };
  const auto is_above_codecs = [](const std::string& path) {
    return path.starts_with("reports/") || path.starts_with("experiments/");
  };
  if (!is_header(a) && !is_header(b)) return false;
  // The emulator's classes replace a device's; a build has one or the other.
  if (a.starts_with("backends/emulator/") || b.starts_with("backends/emulator/")) return false;
  const std::string codec_a = codec_of(a), codec_b = codec_of(b);
  if (codec_a == codec_b) return true;
  return (codec_a.empty() && !is_above_codecs(a)) || (codec_b.empty() && !is_above_codecs(b));
}

std::vector<std::string> defined_twice(const Places& places) {
  std::vector<std::string> out;
  for (const auto& [name, files] : places)
    for (auto a = files.begin(); a != files.end(); ++a)
      for (auto b = std::next(a); b != files.end(); ++b)
        if (meet(*a, *b)) out.push_back(*a + ", " + *b + ": " + name);
  return out;
}

std::vector<std::string> many_versions(const std::vector<fs::path>& files) {
  std::map<std::string, std::set<std::string>> versions;
  for (const fs::path& path : files)
    for (fs::path folder = path.parent_path(); folder.has_filename(); folder = folder.parent_path())
      if (folder.parent_path().filename() == "golden" && folder.string().starts_with("codecs/"))
        versions[folder.parent_path().string()].insert(folder.filename());
  std::vector<std::string> out;
  for (const auto& [folder, names] : versions)
    if (names.size() > kMostGoldenVersions) out.push_back(folder + " has " + std::to_string(names.size()));
  return out;
}

}  // namespace

TEST_CASE("no class or struct of a header has the name of another that is seen with it, tests apart", "[habits]") {
  Places places;
  for (const fs::path& path : files_of_the_tree()) {
    const std::string name = path.string();
    const bool is_test = name.starts_with("tests/") || path.filename().string().starts_with("test");
    if (is_cpp(path) && !is_test && !is_data(path)) add_classes(name, text_of(path), places);
  }
  REQUIRE(places.size() > 100);
  CHECK(none("names defined twice", beyond(defined_twice(places), kTwice)));
}

TEST_CASE("a codec keeps golden streams of at most two versions", "[habits]") {
  const std::vector<std::string> offenders = many_versions(files_of_the_tree());
  CHECK(none("golden versions", offenders));
}

TEST_CASE("a name defined twice and a third golden version are found", "[habits]") {
  Places places;
  add_classes("a.h", "namespace a {\nstruct Plan {\n  struct Part {};\n};\nstruct Later;\n}\n", places);
  add_classes("b.h", "struct Part {};\nstruct Later {};\n", places);
  CHECK(defined_twice(places).empty());
  add_classes("c.cpp", "namespace {\nclass Plan final : public Base {};\n}\n", places);
  CHECK(defined_twice(places) == std::vector<std::string>{"a.h, c.cpp: Plan"});

  CHECK(beyond(defined_twice(places), {{"Plan", 1}}).empty());
  CHECK(beyond(defined_twice(places), {{"Plan", 2}}).size() == 1);  // it offends less often
  CHECK(beyond(defined_twice(places), {}).size() == 1);

  const auto twice = [](const std::string& a, const std::string& b) {
    Places both;
    add_classes(a, "struct Plan {};", both);
    add_classes(b, "struct Plan {};", both);
    return defined_twice(both).size() == 1;
  };
  CHECK(twice("codecs/rans/model.h", "codecs/rans/cpu.cpp"));
  CHECK(twice("codecs/rans/model.h", "codecs/modelling/model.h"));
  CHECK(twice("codecs/rans/cpu.cpp", "backends/kernel.h"));
  CHECK(twice("experiments/plan/plan.h", "reports/record.h"));
  CHECK_FALSE(twice("codecs/rans/model.h", "codecs/tans/model.h"));
  CHECK_FALSE(twice("codecs/rans/cpu.cpp", "codecs/rans/simd.cpp"));
  CHECK_FALSE(twice("codecs/rans/model.h", "reports/record.h"));

  std::vector<fs::path> golden = {"codecs/a/golden/v1/s.bin", "codecs/a/golden/v2/s.bin", "codecs/a/golden/v2/t.bin"};
  CHECK(many_versions(golden).empty());
  golden.push_back("codecs/a/golden/v3/sizes.csv");
  CHECK(many_versions(golden) == std::vector<std::string>{"codecs/a/golden has 3"});
}

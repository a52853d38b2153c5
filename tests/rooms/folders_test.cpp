// A folder is one idea: few sources, and a map once they do not fit one look.
#include <catch2/catch_test_macros.hpp>

#include <fnmatch.h>

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/rooms/tree.h"

using namespace ecmv::tests;

namespace {

constexpr size_t kMostSources = 20, kMostWithoutMap = 10;

std::map<std::string, std::vector<std::string>> sources_by_folder(const std::vector<fs::path>& files) {
  std::map<std::string, std::vector<std::string>> out;
  for (const fs::path& path : files)
    if (is_source(path)) out[path.parent_path()].push_back(path.filename());
  return out;
}

std::vector<std::string> too_full(const std::vector<fs::path>& files) {
  std::vector<std::string> out;
  for (const auto& [folder, sources] : sources_by_folder(files))
    if (sources.size() > kMostSources) out.push_back(folder + " has " + std::to_string(sources.size()) + " sources");
  return out;
}

// `a.{h,cpp}` as a.h and a.cpp.
std::vector<std::string> without_braces(const std::string& name) {
  const size_t open = name.find('{'), close = name.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return {name};
  std::vector<std::string> out;
  std::istringstream choices(name.substr(open + 1, close - open - 1));
  for (std::string choice; std::getline(choices, choice, ',');)
    for (const std::string& rest : without_braces(name.substr(close + 1)))
      out.push_back(name.substr(0, open) + choice + rest);
  return out;
}

// Names in backticks in READMEs, without endings: `one.*` and `one.h` name all of one.h, one.cpp and one.cu.
std::vector<std::string> names_on_map(const std::string& readmes) {
  static const std::regex quoted("`([^`\n]+)`");
  std::vector<std::string> out;
  for (std::sregex_iterator i(readmes.begin(), readmes.end(), quoted), end; i != end; ++i) {
    std::istringstream words((*i)[1]);
    for (std::string word; words >> word;)
      for (const std::string& name : without_braces(word))
        if (const size_t dot = name.rfind('.'); dot != std::string::npos) out.push_back(name.substr(0, dot));
  }
  return out;
}

// The sources of a folder that no map names, alone or by a pattern, with or without the folder.
std::vector<std::string> not_on_map(const std::string& folder, const std::vector<std::string>& sources,
                                    const std::string& readmes) {
  const std::vector<std::string> names = names_on_map(readmes);
  std::vector<std::string> out;
  for (const std::string& source : sources) {
    const std::string stem = fs::path(source).stem();
    const std::string places[] = {stem, fs::path(folder).filename().string() + "/" + stem, folder + "/" + stem};
    const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      if (name.find_first_not_of("*./") == std::string::npos || name.ends_with("/*")) return false;  // it says nothing
      return std::any_of(std::begin(places), std::end(places), [&](const std::string& place) {
        return fnmatch(name.c_str(), place.c_str(), FNM_PATHNAME) == 0;
      });
    });
    if (!named) out.push_back(folder + "/" + source);
  }
  return out;
}

}  // namespace

TEST_CASE("folders hold at most 20 sources", "[habits]") {
  const std::vector<std::string> offenders = too_full(files_of_the_tree());
  CHECK(none("folders with too many sources", offenders));
}

TEST_CASE("a README's map names every source of a folder with more than ten", "[habits]") {
  std::vector<std::string> offenders;
  for (const auto& [folder, sources] : sources_by_folder(files_of_the_tree())) {
    if (sources.size() <= kMostWithoutMap) continue;
    const std::string readmes =
        text_of(fs::path(folder) / "README.md") + "\n" + text_of(fs::path(folder).parent_path() / "README.md");
    for (const std::string& missing : not_on_map(folder, sources, readmes)) offenders.push_back(missing);
  }
  CHECK(none("sources that no map names", offenders));
}

TEST_CASE("a folder with one source too many and a source that no map names are found", "[habits]") {
  std::vector<fs::path> files = {"a/README.md"};
  for (int i = 0; i < 20; ++i) files.push_back("a/" + std::to_string(i) + ".cpp");
  CHECK(too_full(files).empty());
  files.push_back("a/b.py");
  CHECK(too_full(files) == std::vector<std::string>{"a has 21 sources"});

  const std::vector<std::string> sources = {"one.h", "one.cpp", "two.cpp"};
  CHECK(not_on_map("r/a", sources, "`one.*`: it. `two.cpp`").empty());
  CHECK(not_on_map("r/a", sources, "`a/one.{h,cpp}`, `r/a/two.cpp`").empty());
  CHECK(not_on_map("r/a", sources, "`one.h`, `t*.cpp`").empty());
  CHECK(not_on_map("r/a", sources, "one.h, `b/one.h`, `two.cpp`") ==
        std::vector<std::string>{"r/a/one.h", "r/a/one.cpp"});
  CHECK(not_on_map("r/a", sources, "every `*.h`, all of `a/*.*`, `one`").size() == 3);
}

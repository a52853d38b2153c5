// Links of Markdown files in the repository lead to existing files.
#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = ECMV_SOURCE_DIR;

std::vector<fs::path> documents() {
  std::vector<fs::path> out;
  const auto take = [&](const fs::path& path) {
    if (path.extension() == ".md") out.push_back(path);
  };
  for (const auto& entry : fs::directory_iterator(kRoot)) take(entry.path());
  for (const char* room : {"datasets", "codecs", "backends", "reports", "experiments", "tests", "third_party"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / room)) take(entry.path());
  return out;
}

// The files that a text links to or shows, without those in code, other sites and places within the file itself.
std::vector<std::string> local_links(std::istream&& text) {
  static const std::regex code("`[^`]*`"), link(R"(\]\(([^)#\s]+)(#[^)\s]*)?\))");
  std::vector<std::string> out;
  bool fenced = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) fenced = !fenced;
    if (fenced || line.find("](") == std::string::npos) continue;
    line = std::regex_replace(line, code, "");
    for (std::sregex_iterator i(line.begin(), line.end(), link), end; i != end; ++i)
      if ((*i)[1].str().find(':') == std::string::npos) out.push_back((*i)[1]);
  }
  return out;
}

}  // namespace

TEST_CASE("links of documents lead to files that are there") {
  const std::vector<fs::path> all = documents();
  REQUIRE(all.size() > 10);
  for (const fs::path& path : all)
    for (const std::string& target : local_links(std::ifstream(path))) {
      INFO(fs::relative(path, kRoot).string() << " links to " << target);
      CHECK(fs::exists(path.parent_path() / target));
    }
}

TEST_CASE("links are found in prose, not in code or to other sites") {
  const std::string text =
      "[a](b/c.md), ![d](e.svg), [`f`](g.md#h); [i](#j) [k](https://l.m) `[n](o)`\n```\n[p](q)\n```\n";
  CHECK(local_links(std::istringstream(text)) == std::vector<std::string>{"b/c.md", "e.svg", "g.md"});
}

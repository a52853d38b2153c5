// Claims about reports/published: it is small, every file is cited, and nothing tells about the machine that wrote it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = ECMV_SOURCE_DIR;
const fs::path kPublished = kRoot / "reports" / "published";

bool is_within(const fs::path& path, const fs::path& folder) {
  return path.string().starts_with(folder.string() + "/");
}

// The files that a page names: targets of its links, relative to it, and paths from the root that begin with
// reports/published. Links to folders cite nothing.
std::set<fs::path> cited_by(const fs::path& page) {
  static const std::regex link(R"re(\]\(([^)#:]+)[^)]*\))re"), path(R"re(reports/published/[-A-Za-z0-9_./]+)re");
  const std::string text = file_text(page);
  std::set<fs::path> files;
  const auto add = [&](const fs::path& file) {
    if (fs::is_regular_file(file)) files.insert(fs::weakly_canonical(file));
  };
  for (std::sregex_iterator i(text.begin(), text.end(), link), end; i != end; ++i)
    add(page.parent_path() / (*i)[1].str());
  for (std::sregex_iterator i(text.begin(), text.end(), path), end; i != end; ++i) add(kRoot / (*i)[0].str());
  return files;
}

// Pages for readers and the sidecars of their numbers: everything but the pages of runs.
std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  for (const char* folder : {"codecs", "reports", "experiments", "backends", "datasets"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const fs::path& path = entry.path();
      const bool of_a_run = is_within(path.parent_path(), kPublished);
      if (path.extension() == ".md" && !of_a_run) found.push_back(path);
    }
  for (const auto& entry : fs::directory_iterator(kRoot))
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  for (const auto& entry : fs::directory_iterator(kPublished / "numbers")) found.push_back(entry.path());
  return found;
}

// Everything that the pages lead to: a cited page of a run cites its figures and its records.
std::set<fs::path> cited_files() {
  std::set<fs::path> cited;
  std::vector<fs::path> open = pages();
  while (!open.empty()) {
    const fs::path page = open.back();
    open.pop_back();
    std::set<fs::path> named = cited_by(page);
    if (page.filename() == "results.md") named.insert(fs::weakly_canonical(page.parent_path() / "records.jsonl"));
    for (const fs::path& file : named)
      if (cited.insert(file).second && file.extension() == ".md") open.push_back(file);
  }
  return cited;
}

}  // namespace

TEST_CASE("published records, pages and figures take 8 MB at most, and each is cited by a page") {
  constexpr std::uintmax_t kMostBytes = 8'000'000;
  const std::set<fs::path> cited = cited_files();
  const fs::path folder = fs::weakly_canonical(kPublished);
  std::uintmax_t bytes = 0;
  std::string uncited;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    bytes += entry.file_size();
    const fs::path& path = entry.path();
    const bool is_page = path.parent_path() == folder || path.parent_path() == folder / "numbers";
    if (!is_page && !cited.contains(path)) uncited += fs::relative(path, folder).string() + "\n";
  }
  CHECK(bytes <= kMostBytes);
  INFO("no page leads to these files of reports/published:\n" << uncited);
  CHECK(uncited.empty());
}

TEST_CASE("the page of published runs links to the records or tables of every run") {
  const std::string text = file_text(kPublished / "README.md");
  int runs = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kPublished)) {
    if (entry.path().filename() != "records.jsonl") continue;
    const std::string name = fs::relative(entry.path().parent_path(), kPublished).string();
    INFO(name);
    CHECK_THAT(text, ContainsSubstring("(" + name + "/results.md)"));
    ++runs;
  }
  CHECK(runs >= 12);
  static const std::regex link(R"re(\]\(([^)#:]+)\))re");
  for (std::sregex_iterator i(text.begin(), text.end(), link), end; i != end; ++i) {
    INFO((*i)[1]);
    CHECK(fs::exists(kPublished / (*i)[1].str()));
  }
}

TEST_CASE("published records and tables name no folder of a machine") {
  static const std::regex folder("[\" ](/tmp|/home|/root|/mnt)/");
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kPublished)) {
    INFO(entry.path().string());
    if (entry.path().extension() == ".gz")
      for (const RunRecord& run : read_records(entry.path()).runs)
        CHECK_FALSE(std::regex_search(to_json_line(run), folder));
    if (entry.path().extension() != ".jsonl" && entry.path().extension() != ".md") continue;
    std::istringstream lines(file_text(entry.path()));
    bool named = false;
    // Only records of runs have paths.
    for (std::string line; std::getline(lines, line) && !named;)
      if (line.find("\"kind\":\"case\"") == std::string::npos) named = std::regex_search(line, folder);
    CHECK_FALSE(named);
    ++files;
  }
  CHECK(files > 10);
}

// Rules for rooms: every #include "..." obeys the table of CONTRIBUTING.md, and no codec's id is named outside codecs/,
// configs, tests and documentation.
#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = ECMV_SOURCE_DIR;

std::vector<fs::path> sources_below(const std::string& room) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / room)) {
    const std::string extension = entry.path().extension();
    if (extension == ".h" || extension == ".cpp" || extension == ".cu")
      out.push_back(fs::relative(entry.path(), kRoot));
  }
  REQUIRE(!out.empty());
  return out;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(kRoot / path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::string codec_folder(const std::string& path) {
  static const std::regex expression("^codecs/([a-z0-9_]+)/.*");
  std::smatch match;
  return std::regex_match(path, match, expression) ? match[1].str() : "";
}

bool starts_with_any(const std::string& path, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes)
    if (path.starts_with(prefix)) return true;
  return false;
}

// Whether a file may include another, by its room. Paths are from the root.
bool may_include(const std::string& file, const std::string& included) {
  const std::string own = codec_folder(file), other = codec_folder(included);
  if (file.starts_with("datasets/")) return included.starts_with("datasets/");
  if (file.starts_with("reports/")) return included.starts_with("reports/");
  if (file.starts_with("backends/")) return starts_with_any(included, {"backends/", "datasets/"});
  if (file == "codecs/registry.h" || file == "codecs/registry.cpp")
    return starts_with_any(included, {"datasets/", "backends/kernel.h", "backends/plugins/plugins.h", "codecs/"});
  if (file.starts_with("codecs/")) {
    const bool is_test = fs::path(file).filename().string().starts_with("test");  // test.cpp and its parts
    if (!own.empty() && own != "modelling" && !other.empty() && other != "modelling" && other != own) return false;
    if (is_test) return true;
    const bool is_gpu =
        file.ends_with(".cu") || file.ends_with("_gpu.h") || file.starts_with("codecs/" + own + "/gpu/");
    return starts_with_any(included,
                           {"datasets/", "codecs/", "backends/compressed_matrix.h", "backends/kernel.h",
                            "backends/plugins/installed_library.h", is_gpu ? "backends/gpu/" : "backends/cpu/"});
  }
  return file.starts_with("experiments/") || file.starts_with("tests/");
}

}  // namespace

TEST_CASE("includes obey the table of rooms") {
  static const std::regex include(R"re(^\s*#\s*include\s+"([^"]+)")re");
  for (const char* room : {"datasets", "codecs", "backends", "reports", "experiments"})
    for (const fs::path& path : sources_below(room))
      for (const std::string& line : lines_of(path)) {
        std::smatch match;
        if (!std::regex_search(line, match, include)) continue;
        const std::string included = match[1];
        if (!fs::exists(kRoot / included)) continue;  // generated headers and libraries (Highway)
        INFO(path.string() << " includes " << included);
        CHECK(may_include(path.string(), included));
      }
}

TEST_CASE("no codec is named outside its room, configs, tests and documents") {
  std::set<std::string> ids;
  for (const auto& entry : fs::directory_iterator(kRoot / "codecs"))
    if (fs::exists(entry.path() / "codec.cpp")) ids.insert(entry.path().filename());
  REQUIRE(ids.size() > 1);
  for (const char* room : {"datasets", "backends", "reports", "experiments"})
    for (const fs::path& path : sources_below(room))
      for (const std::string& line : lines_of(path))
        for (const std::string& id : ids) {
          // Look for the word in quotes: a name that code acts upon.
          if (line.find("\"" + id + "\"") == std::string::npos) continue;
          INFO(path.string() << ": " << line);
          // The baseline that speed-ups refer to is an option of the command with this one default.
          CHECK((id == "raw_int8" && line.find("kDefaultBaseline") != std::string::npos));
        }
}

TEST_CASE("threads, clocks, device calls and the stdout that is shared with libraries stay in their rooms") {
  const std::map<std::string, std::vector<std::string>> forbidden = {
      {"#pragma omp", {"backends/cpu/team.cpp"}},
      {"std::chrono", {"backends/cpu/", "backends/emulator/", "backends/sockets/", "experiments/"}},
      {"YAML::", {"experiments/"}},
      {"cudaMalloc", {"backends/"}},
      {"hipMalloc", {"backends/"}},
      {"std::cout",
       {"experiments/output/own_stdout.", "experiments/command/command.cpp", "experiments/command/guard.cpp"}},
  };
  for (const char* room : {"datasets", "codecs", "backends", "reports", "experiments"})
    for (const fs::path& path : sources_below(room))
      for (const std::string& line : lines_of(path))
        for (const auto& [word, allowed] : forbidden)
          if (line.find(word) != std::string::npos && !path.string().ends_with("test.cpp")) {
            INFO(path.string() << ": " << line);
            CHECK(starts_with_any(path.string(), allowed));
          }
}

TEST_CASE("no header brings all names of a namespace to those who include it") {
  // Namespaces do not indent their content, so at their scope a line begins with its first word.
  for (const char* room : {"datasets", "codecs", "backends", "reports", "experiments", "tests"})
    for (const fs::path& path : sources_below(room)) {
      if (path.extension() != ".h") continue;
      for (const std::string& line : lines_of(path)) {
        INFO(path.string() << ": " << line);
        CHECK_FALSE(line.starts_with("using namespace"));
      }
    }
}

TEST_CASE("every codec folder describes itself") {
  for (const auto& entry : fs::directory_iterator(kRoot / "codecs")) {
    if (!fs::exists(entry.path() / "codec.cpp")) continue;
    INFO(entry.path().string());
    CHECK(fs::exists(entry.path() / "README.md"));
    // A layout that several codecs share is described in codecs/modelling/.
    bool shared_layout = false;
    for (const std::string& line : lines_of(fs::relative(entry.path() / "codec.cpp", kRoot)))
      shared_layout = shared_layout || line.find("#include \"codecs/modelling/") != std::string::npos;
    CHECK((fs::exists(entry.path() / "format.h") || fs::exists(entry.path() / "format") || shared_layout));
  }
}

// The files of the repository, for the tests of its habits. Paths are from its root.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace ecmv::tests {

namespace fs = std::filesystem;

inline const fs::path kRoot = ECMV_SOURCE_DIR;

// Every file of the rooms and of the root itself, sorted, without files from a build or a download.
inline std::vector<fs::path> files_of_the_tree() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(kRoot))
    if (entry.is_regular_file()) out.push_back(entry.path().filename());
  for (const char* room :
       {".ci", ".github", "backends", "codecs", "datasets", "experiments", "reports", "tests", "third_party"})
    if (fs::exists(kRoot / room))
      for (auto entry = fs::recursive_directory_iterator(kRoot / room); entry != fs::end(entry); ++entry) {
        const std::string name = entry->path().filename();
        if (name == "cache" || name == "__pycache__")
          entry.disable_recursion_pending();
        else if (entry->is_regular_file())
          out.push_back(fs::relative(entry->path(), kRoot));
      }
  std::sort(out.begin(), out.end());
  return out;
}

inline std::string text_of(const fs::path& path) {
  std::ifstream file(kRoot / path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> lines_in(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline bool is_cpp(const fs::path& path) {
  const std::string extension = path.extension();
  return extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".c" || extension == ".inc";
}

inline bool is_python(const fs::path& path) { return path.extension() == ".py"; }

inline bool is_source(const fs::path& path) { return is_cpp(path) || is_python(path); }

// Tables of numbers that a program wrote.
inline bool is_data(const fs::path& path) {
  const std::string name = path.string();
  return name.ends_with("_hashes.inc") || name.ends_with("_models.inc");
}

// How often each name may offend. These lists only shrink.
using Exceptions = std::map<std::string, int>;

// The offenders ("...: NAME" or "...: NAME has ...") whose names offend more often than `known` allows, and the names
// that offend less often.
inline std::vector<std::string> beyond(const std::vector<std::string>& offenders, const Exceptions& known) {
  std::map<std::string, std::vector<std::string>> by_name;
  for (const auto& [name, times] : known) by_name[name] = {};
  for (const std::string& offender : offenders) {
    const size_t name = offender.rfind(": ") + 2;
    by_name[offender.substr(name, offender.find(' ', name) - name)].push_back(offender);
  }
  std::vector<std::string> out;
  for (const auto& [name, places] : by_name) {
    const auto allowed = known.find(name);
    const size_t times = allowed == known.end() ? 0 : static_cast<size_t>(allowed->second);
    if (places.size() > times) out.insert(out.end(), places.begin(), places.end());
    if (places.size() < times)
      out.push_back(name + " offends " + std::to_string(places.size()) + " times: let the list of exceptions say so");
  }
  return out;
}

// Whether there are no offenders. Otherwise prints all of them to stderr, their numbers by room first: Catch2 would
// break the lines.
inline bool none(const std::string& habit, const std::vector<std::string>& offenders) {
  if (offenders.empty()) return true;
  std::map<std::string, int> rooms;
  for (const std::string& offender : offenders) ++rooms[offender.substr(0, offender.find_first_of("/:"))];
  std::cerr << habit << ": " << offenders.size() << "\n";
  for (const auto& [room, count] : rooms) std::cerr << "  " << room << ": " << count << "\n";
  for (const std::string& offender : offenders) std::cerr << offender << "\n";
  return false;
}

}  // namespace ecmv::tests

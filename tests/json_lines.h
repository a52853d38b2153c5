// Whether a file is lines of JSON as any parser of the standard takes them, which is more than our own reader asks for.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/run_command.h"

namespace ecmv::tests {

// "" or the first line that is no JSON object with strings of UTF-8, numbers that are finite, and a newline at its end.
inline std::string no_json_line(const std::filesystem::path& path) {
  const std::string text = text_of(path);
  if (text.empty()) return "the file " + path.string() + " is empty";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!nlohmann::json::accept(line) || lines.eof()) return line;
  return {};
}

}  // namespace ecmv::tests

// A locale with a decimal comma and points between thousands.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <locale>
#include <string>

namespace ecmv::tests {

// Writes the locale de_DE.UTF-8 to `folder`, for LOCPATH, from the sources that come with the C library; false where
// these are missing.
inline bool write_comma_locale(const std::filesystem::path& folder) {
  const std::filesystem::path locale = folder / "de_DE.UTF-8";
  const std::string command = "localedef -i de_DE -f UTF-8 '" + locale.string() + "' >/dev/null 2>&1";
  return std::system(command.c_str()) == 0 && std::filesystem::exists(locale / "LC_NUMERIC");
}

// The same for C++ streams, which needs no file.
struct CommaPoint : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

}  // namespace ecmv::tests

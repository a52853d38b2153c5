// Why a driver shows fewer devices than a variable of the environment lists: CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES,
// ROCR_VISIBLE_DEVICES. Drivers say nothing of it: the first entry that names no device ends the list.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/printable.h"

namespace ecmv::backends {

inline std::vector<std::string_view> listed_devices(std::string_view list) {
  std::vector<std::string_view> entries;
  while (true) {
    const size_t comma = list.find(','), end = std::min(comma, list.size());
    const size_t begin = std::min(list.find_first_not_of(" \t"), end);
    size_t last = end;
    while (last > begin && (list[last - 1] == ' ' || list[last - 1] == '\t')) --last;
    entries.push_back(list.substr(begin, last - begin));
    if (comma == std::string_view::npos) return entries;
    list.remove_prefix(comma + 1);
  }
}

// Why the driver may not have taken this entry.
inline std::string_view why_not_taken(std::string_view entry) {
  if (entry.starts_with("-")) return "a negative number ends the list";
  if (entry.starts_with("MIG-"))
    return "it must name a MIG device of this machine (nvidia-smi -L lists them), of which a process gets only one";
  if (entry.starts_with("GPU-")) return "it must begin the name of exactly one device of this machine";
  if (!entry.empty() && entry.find_first_not_of("0123456789") == std::string_view::npos)
    return "there is no device of that number";
  return "it is neither a number nor a name that begins with GPU- or MIG-";
}

// A sentence if `value` lists more devices than the `shown` ones, else "". A null pointer is no list.
inline std::string why_fewer_devices(const std::string& variable, const char* value, int shown) {
  if (value == nullptr) return {};
  const std::vector<std::string_view> entries = listed_devices(value);
  const auto count = static_cast<size_t>(shown);
  if (count >= entries.size()) return {};
  if (entries.size() == 1 && entries[0].empty()) return variable + " is empty, which hides every device.";
  const std::string seen = shown == 0 ? "no device" : std::to_string(shown) + (shown == 1 ? " device" : " devices");
  const std::string start =
      variable + " is '" + datasets::printable(value) + "', of which the driver shows " + seen + ": ";
  for (size_t i = 0; i < entries.size(); ++i)
    if (std::find(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(i), entries[i]) !=
        entries.begin() + static_cast<std::ptrdiff_t>(i))
      return start + "'" + datasets::printable(entries[i]) + "' stands there twice.";
  return start + "it did not take '" + datasets::printable(entries[count]) + "'; " +
         std::string(why_not_taken(entries[count])) + ".";
}

// The same for the first of these variables of this process's environment that explains it.
inline std::string why_fewer_devices(std::initializer_list<const char*> variables, int shown) {
  for (const char* variable : variables)
    if (std::string why = why_fewer_devices(variable, std::getenv(variable), shown); !why.empty()) return why;
  return {};
}

}  // namespace ecmv::backends

// Settings look-up and the size accounting of compressed matrices.
#include "backends/compressed_matrix.h"

#include <stdexcept>

namespace ecmv::backends {

int64_t Settings::integer(std::string_view name) const {
  const auto it = values_.find(name);
  if (it == values_.end() || !std::holds_alternative<int64_t>(it->second))
    throw std::logic_error("The codec asked for the integer setting '" + std::string(name) +
                           "', which it did not declare.");
  return std::get<int64_t>(it->second);
}

const std::string& Settings::text(std::string_view name) const {
  const auto it = values_.find(name);
  if (it == values_.end() || !std::holds_alternative<std::string>(it->second))
    throw std::logic_error("The codec asked for the text setting '" + std::string(name) +
                           "', which it did not declare.");
  return std::get<std::string>(it->second);
}

std::string Settings::to_string() const {
  std::string out;
  for (const auto& [name, value] : values_) {
    if (!out.empty()) out += ',';
    out += name + '=';
    out += std::holds_alternative<int64_t>(value) ? std::to_string(std::get<int64_t>(value))
                                                  : std::get<std::string>(value);
  }
  return out;
}

std::string_view role_name(Role role) {
  switch (role) {
    case Role::payload: return "payload";
    case Role::table: return "table";
    case Role::index: return "index";
    case Role::scale: return "scale";
  }
  return "?";
}

int64_t CompressedMatrix::stored_bytes() const {
  int64_t total = 0;
  for (const Section& section : sections) total += static_cast<int64_t>(section.bytes.size());
  return total;
}

int64_t CompressedMatrix::stored_bytes(Role role) const {
  int64_t total = 0;
  for (const Section& section : sections)
    if (section.role == role) total += static_cast<int64_t>(section.bytes.size());
  return total;
}

int64_t CompressedMatrix::padding_bytes() const {
  int64_t total = 0;
  for (const Section& section : sections) total += section.padding_bytes;
  return total;
}

CompressedView CompressedMatrix::view() const {
  CompressedView view{shape, type, &settings, {}};
  view.sections.reserve(sections.size());
  for (const Section& section : sections)
    view.sections.push_back({section.name, section.role, section.bytes, section.bytes});
  return view;
}

}  // namespace ecmv::backends

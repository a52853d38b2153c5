// Text from files as a terminal may show it: control characters, which could move its cursor or change its state, are
// written out.
#pragma once

#include <string>
#include <string_view>

namespace ecmv::datasets {

// Writes bytes below 32, 127 and the characters U+0080 to U+009F as \u001b, which JSON reads too, except those of
// `kept`.
inline std::string printable(std::string_view text, std::string_view kept = "") {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_pair =
        byte == 0xC2 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xE0) == 0x80;
    if (!is_pair && ((byte >= 32 && byte != 127) || kept.find(text[i]) != kept.npos)) {
      out += text[i];
      continue;
    }
    const unsigned char shown = is_pair ? static_cast<unsigned char>(text[++i]) : byte;
    out.append("\\u00") += kDigits[shown >> 4];
    out += kDigits[shown & 15];
  }
  return out;
}

}  // namespace ecmv::datasets

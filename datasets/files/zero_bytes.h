// Refuses texts with zero bytes. The JSON library takes one for the end of the text and would ignore what follows it.
#pragma once

#include <string>
#include <string_view>

namespace ecmv::datasets {

// Calls bad(sentence), which throws, for a text with a zero byte.
inline void expect_no_zero_bytes(std::string_view text, void (*bad)(const std::string&)) {
  if (const size_t at = text.find('\0'); at != text.npos)
    bad("its JSON has a zero byte at byte " + std::to_string(at) + ".");
}

}  // namespace ecmv::datasets

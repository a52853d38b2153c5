// Texts that come from a library: nothing is known of them but that they end with a zero somewhere.
#pragma once

#include <string>
#include <string_view>

namespace ecmv::codecs::loaded {

// One line of 1 to `most` bytes of valid UTF-8 without control characters.
bool is_line(const char* text, size_t most);
// lower_snake_case, a letter first, at most 64 characters.
bool is_name(std::string_view text);
bool is_name(const char* text);
// Letters, digits and "_.+-", at most 64: what a setting can be given on a command line.
bool is_choice(const char* text);

// A returned sentence, fit to be shown: cut after 500 bytes, control characters and bytes that are no UTF-8 replaced.
std::string sentence(const char* text);

// A copy of `text` that ends with a zero and lives until the program ends; one copy for equal texts.
const char* interned(std::string_view text);

}  // namespace ecmv::codecs::loaded

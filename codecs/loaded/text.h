// Checks texts from a library, which promise nothing but a zero at their end.
#pragma once

#include <string>
#include <string_view>

namespace ecmv::codecs::loaded {

// One line of 1 to `most` bytes of valid UTF-8 without control characters.
bool is_line(const char* text, size_t most);
// lower_snake_case, a letter first, at most 64 characters.
bool is_name(std::string_view text);
bool is_name(const char* text);
// Letters, digits and "_.+-", at most 64: a value that a command line can give to a setting.
bool is_choice(const char* text);

// A returned sentence, made fit to show: cut after 500 bytes, control characters and invalid UTF-8 replaced.
std::string sentence(const char* text);

// A copy of `text` that ends with a zero and lives until the program ends. Equal texts share one copy.
const char* interned(std::string_view text);

}  // namespace ecmv::codecs::loaded

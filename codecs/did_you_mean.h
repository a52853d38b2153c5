// Finds the known word nearest to a mistyped one, wherever people type names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ecmv::codecs {

// " Did you mean 'x'?" for a known word one letter away, else for those that hold the word, else for one two letters
// away, else for those that hold the word but for its end ("'huffman_lut' or 'quad_huffman'" for "huffmann"), else for
// the one with the least edit distance, if that is at most 3 and about half of the word; otherwise "".
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

}  // namespace ecmv::codecs

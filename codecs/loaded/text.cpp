// See text.h.
#include "codecs/loaded/text.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

namespace ecmv::codecs::loaded {
namespace {

constexpr size_t kMostNameBytes = 64, kMostSentenceBytes = 500;

// Bytes of the UTF-8 character at text[at]; 0 if there is none. Overlong forms, surrogates and values past U+10FFFF are
// none.
size_t character_bytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t count = lead >= 0xC2 && lead <= 0xDF   ? 2
                       : lead >= 0xE0 && lead <= 0xEF ? 3
                       : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                      : 0;
  for (size_t i = 1; i < count; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF0 && byte(1) < 0x90) ||
      (lead == 0xF4 && byte(1) > 0x8F))
    return 0;
  return count;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

}  // namespace

bool is_line(const char* text, size_t most) {
  const size_t bytes = strnlen(text, most + 1);
  if (bytes == 0 || bytes > most) return false;
  const std::string_view line(text, bytes);
  for (size_t at = 0; at < bytes;) {
    const size_t step = character_bytes(line, at);
    if (step == 0 || is_control(line[at])) return false;
    at += step;
  }
  return true;
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kMostNameBytes || text[0] < 'a' || text[0] > 'z') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

bool is_name(const char* text) { return is_name(std::string_view(text, strnlen(text, kMostNameBytes + 1))); }

bool is_choice(const char* text) {
  const std::string_view choice(text, strnlen(text, kMostNameBytes + 1));
  if (choice.empty() || choice.size() > kMostNameBytes) return false;
  return std::all_of(choice.begin(), choice.end(),
                     [](char c) { return is_alphanumeric(c) || std::strchr("_.+-", c) != nullptr; });
}

std::string sentence(const char* text) {
  const std::string_view raw(text, strnlen(text, kMostSentenceBytes));
  std::string out;
  for (size_t at = 0; at < raw.size();) {
    const size_t step = character_bytes(raw, at);
    if (step == 0)
      out += '?';
    else if (is_control(raw[at]))
      out += ' ';
    else
      out += raw.substr(at, step);
    at += std::max<size_t>(1, step);
  }
  return out.empty() ? "The codec's library gave an empty sentence." : out;
}

const char* interned(std::string_view text) {
  static std::mutex mutex;
  static auto* texts = new std::set<std::string, std::less<>>;  // never destroyed: kernels may outlive other statics
  const std::scoped_lock lock(mutex);
  auto found = texts->find(text);
  if (found == texts->end()) found = texts->emplace(text).first;
  return found->c_str();
}

}  // namespace ecmv::codecs::loaded

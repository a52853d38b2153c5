// Shared by tests of memory compression codecs: blocks with known sizes, the stored bits of a block, and the claim that
// every kind of block comes back, whatever the elements' type and wherever the matrix ends.
#pragma once

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <string>
#include <vector>

#include "codecs/modelling/memory_blocks.h"
#include "codecs/registry.h"
#include "tests/test_matrices.h"
#include "tests/test_settings.h"

namespace ecmv::tests {

using GivenSettings = std::map<std::string, std::string>;
using Bytes = std::vector<std::byte>;

inline Bytes words32(const std::vector<uint32_t>& words) {
  Bytes bytes(words.size() * 4);
  for (size_t i = 0; i < words.size(); ++i) codecs::modelling::store_word32(bytes, i, words[i]);
  return bytes;
}
inline Bytes words64(const std::vector<uint64_t>& words) {
  Bytes bytes(words.size() * 8);
  for (size_t i = 0; i < words.size(); ++i) codecs::modelling::store_word(bytes, 8 * i, 8, words[i]);
  return bytes;
}
inline Bytes words16(const std::vector<uint16_t>& words) {
  Bytes bytes(words.size() * 2);
  for (size_t i = 0; i < words.size(); ++i) codecs::modelling::store_word(bytes, 2 * i, 2, words[i]);
  return bytes;
}
// first, first + step, ...
inline Bytes ramp32(uint32_t first, uint32_t step, int count) {
  std::vector<uint32_t> words;
  for (int i = 0; i < count; ++i) words.push_back(first + static_cast<uint32_t>(i) * step);
  return words32(words);
}
inline Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}
inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Blocks of 32 bytes whose coded sizes are known.
inline const std::map<std::string, Bytes>& known_blocks() {
  static const std::map<std::string, Bytes> blocks = {
      {"Z", Bytes(32)},
      {"N1", ramp32(1, 1, 8)},
      {"N2",
       words32({0, 0xffffffff, 7, 0xfffffff8, 100, static_cast<uint32_t>(-200), 30000, static_cast<uint32_t>(-30000)})},
      {"P", words64({0x00007F1234560010, 5, 0x00007F1234560048, 0x00007F123456007F})},
      {"R", words64({0x0123456789ABCDEF, 0x0123456789ABCDEF, 0x0123456789ABCDEF, 0x0123456789ABCDEF})},
      {"W", ramp32(0x3F800000, 0, 8)},
      {"F", words32({0x3F800000, 0x3FC00000, 0x3FA00000, 0x3F800000, 0x40000000, 0x3FE00000, 0x3F900000, 0x3F800000})},
      {"D", words32({0x12345678, 0x12345678, 0x12345699, 0x1234ABCD, 0xFF, 0, 0xDEADBEEF, 0x12349999})},
      {"L", ramp32(1000, 4, 8)},
      {"M", words32({0x40}) + Bytes(28)},
      {"random", from_hex("52f22665a60c12d289185d950ee8813609166f6b113d178d6c0fd3901ff239a1")},
  };
  return blocks;
}

inline datasets::Matrix byte_matrix(Bytes bytes, datasets::ElementType type = datasets::ElementType::u8) {
  datasets::Matrix matrix;
  matrix.name = "bytes";
  matrix.type = type;
  matrix.shape = {1, static_cast<int64_t>(bytes.size()) / datasets::element_bytes(type)};
  matrix.elements = std::move(bytes);
  matrix.content_hash = datasets::content_hash(matrix.view());
  return matrix;
}

inline backends::Settings block_settings_of(std::string_view codec, const GivenSettings& given) {
  std::vector<std::string> errors;
  backends::Settings settings = codecs::resolve_settings(codecs::find_codec(codec)->codec->settings, given, errors);
  for (const std::string& error : errors) FAIL_CHECK(error);
  return settings;
}

// Bits of every block under an accounting. The settings may give a block size of 64 or 128.
inline std::vector<uint32_t> block_bits(std::string_view codec, const Bytes& bytes, const GivenSettings& given = {},
                                        std::string_view accounting = "stream") {
  const datasets::Matrix matrix = byte_matrix(bytes);
  for (const codecs::BlockSizes& sizes :
       codecs::find_codec(codec)->codec->block_sizes(matrix.view(), block_settings_of(codec, given)))
    if (sizes.accounting == accounting) return sizes.bits;
  FAIL_CHECK("no accounting " << accounting);
  return {};
}

// Bits of known_blocks() by name, under the accounting of stored bits.
using KnownBits = std::map<std::string, uint32_t>;
inline void claim_known_bits(std::string_view codec, const KnownBits& expected) {
  for (const auto& [name, size] : expected) {
    INFO(name);
    CHECK(block_bits(codec, known_blocks().at(name)).at(0) == size);
    CHECK(block_bits(codec, known_blocks().at(name), {}, "stream+raw").at(0) == std::min(size, 256u) + 1);
  }
}
// The same under an accounting of others, in units of `unit` bits.
inline void claim_bits_of_others(std::string_view codec, const char* accounting, const KnownBits& expected,
                                 uint32_t unit = 1) {
  for (const auto& [name, size] : expected) {
    INFO(name);
    CHECK(block_bits(codec, known_blocks().at(name), {}, accounting).at(0) == unit * size);
  }
}

// The stored bits of one block as zeros and ones; spaces and bars in expected texts are for the reader.
inline std::string stored_bits(std::string_view codec, const Bytes& block, const GivenSettings& given = {}) {
  const datasets::Matrix matrix = byte_matrix(block);
  const backends::CompressedMatrix compressed =
      codecs::encode_matrix(*codecs::find_codec(codec), matrix.view(), block_settings_of(codec, given));
  codecs::modelling::BitReader in(compressed.sections[codecs::modelling::kMemoryBlocks].bytes);
  std::string text;
  for (uint32_t bits : block_bits(codec, block, given))
    for (; bits > 0; --bits) text += in.read(1) == 1 ? '1' : '0';
  return text;
}
inline std::string bits(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c == '0' || c == '1') out += c;
  return out;
}
// A number in `count` bits.
inline std::string field(uint64_t value, int count) {
  std::string out;
  while (count-- > 0) out += value >> count & 1 ? '1' : '0';
  return out;
}

// A block of `bytes` bytes of the given kind: typical content of memory, and values at the borders of the codes'
// ranges.
inline Bytes awkward_block(int kind, size_t bytes, Random& random) {
  std::vector<uint32_t> words(bytes / 4);
  const uint32_t near = static_cast<uint32_t>(random.next());
  const int border = static_cast<int>(random.next() % 33);
  for (size_t i = 0; i < words.size(); ++i) {
    const auto any = static_cast<uint32_t>(random.next());
    switch (kind % 16) {
      case 0: words[i] = 0; break;
      case 1: words[i] = any; break;
      case 2: words[i] = near; break;
      case 3:
        words[i] = static_cast<uint32_t>(static_cast<int32_t>(any) >> (any % 32));
        break;  // all lengths, both signs
      case 4: words[i] = near + any % 256 - 128; break;
      case 5: words[i] = near + any % 65536 - 32768; break;
      case 6: words[i] = i % 2 == 0 ? near + any % 128 : 0x00007F12; break;  // pointers
      case 7: words[i] = std::bit_cast<uint32_t>(static_cast<float>(any % 1000) * 0.125f); break;
      case 8: words[i] = i % 2 == 0 ? 0 : 0x3FF00000 + (any & 0xfffff); break;  // doubles of few digits
      case 9: words[i] = static_cast<uint32_t>((uint64_t{1} << border) - 1 + any % 3); break;
      case 10: words[i] = static_cast<uint32_t>(-(int64_t{1} << border) - 1 + any % 3); break;
      case 11: words[i] = any % 4 == 0 ? any : 0; break;
      case 12: words[i] = uint32_t{1} << any % 32; break;
      case 13: words[i] = (any & 0xff) * 0x01010101u; break;
      case 14: words[i] = i % 2 == 0 ? 0 : 0xffffffff; break;
      default: words[i] = any & random.next() & random.next(); break;
    }
  }
  Bytes block = words32(words);
  if (kind % 5 == 4) block[random.next() % block.size()] ^= static_cast<std::byte>(1 << random.next() % 8);
  return block;
}

inline Bytes awkward_blocks(int count, uint64_t seed) {
  Random random{seed};
  Bytes bytes;
  for (int i = 0; i < count; ++i) bytes = bytes + awkward_block(static_cast<int>(random.next() % 80), 32, random);
  return bytes;
}

// Awkward blocks, matrices of every length around a block and all element types come back with all tested settings.
inline void claim_blocks_round_trip(std::string_view id) {
  const codecs::CodecEntry& entry = *codecs::find_codec(id);
  const auto round_trips = [&](const datasets::Matrix& matrix, const backends::Settings& settings) {
    const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
    Bytes decoded(matrix.elements.size(), std::byte{0x5a});
    entry.codec->decode(compressed.view(), decoded);
    INFO(id << " [" << settings.to_string() << "] " << matrix.elements.size() << " bytes");
    CHECK(decoded == matrix.elements);
    // The counts equal the stored sizes.
    const codecs::BlockSizes sizes = entry.codec->block_sizes(matrix.view(), settings).front();
    int64_t bits = 0;
    for (const uint32_t block : sizes.bits) bits += block;
    CHECK((bits + 7) / 8 == static_cast<int64_t>(compressed.sections[codecs::modelling::kMemoryBlocks].bytes.size()));
  };
  for (const backends::Settings& settings : settings_to_test(*entry.codec))
    round_trips(byte_matrix(awkward_blocks(600, 3)), settings);
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  round_trips(byte_matrix(awkward_blocks(20000, 5)), settings);
  for (size_t length = 0; length < 140; ++length) {
    Bytes bytes = awkward_blocks(5, length);
    bytes.resize(length);
    round_trips(byte_matrix(bytes), settings);
  }
  for (const auto type :
       {datasets::ElementType::i8, datasets::ElementType::bf16, datasets::ElementType::f16, datasets::ElementType::f32})
    round_trips(byte_matrix(awkward_blocks(50, 9), type), settings);
  for (const auto& [name, block] : known_blocks()) round_trips(byte_matrix(block), settings);
}

}  // namespace ecmv::tests

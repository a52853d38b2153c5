// Encoder and bounds-checked reference decoder of `segments`.
#include "codecs/huffman_exponents/segments.h"
#include "codecs/compressed_matrix.h"

#include <algorithm>
#include <array>
#include <vector>

#include "codecs/huffman_exponents/elements.h"
#include "codecs/huffman_exponents/format.h"
#include "codecs/modelling/bytes.h"
#include "codecs/modelling/code_lengths.h"

namespace ecmv::codecs::huffman_exponents::segments {
namespace {

using modelling::load_word32, modelling::store_word32;

struct Tiling {
  int64_t rows, cols, segment_cols;
  int64_t segments() const { return ceil_div(cols, segment_cols); }
  int64_t groups() const { return ceil_div(rows, kGroupRows); }
  int64_t tiles() const { return groups() * segments(); }
  int64_t cols_of(int64_t segment) const { return std::min(segment_cols, cols - segment * segment_cols); }
};

int code_bits_of(const Settings& settings) { return static_cast<int>(settings.integer("code_bits")); }

Tiling tiling_of(datasets::Shape shape, const Settings& settings) {
  return {shape.rows, shape.cols, settings.integer("segment_cols")};
}

// Words of 32 bits, the first bit most significant.
struct Words {
  std::vector<uint32_t> words;
  int64_t bits = 0;

  void put(uint32_t code, int length) {  // 1..16
    const int used = static_cast<int>(bits % 32);
    if (used == 0) words.push_back(0);
    const uint64_t placed = uint64_t{code} << (64 - used - length);
    words.back() |= static_cast<uint32_t>(placed >> 32);
    if (used + length > 32) words.push_back(static_cast<uint32_t>(placed));
    bits += length;
  }
};

// The canonical code: codes of up to l bits lie below limit[l], left-aligned in 32 bits.
struct Canonical {
  std::span<const std::byte> order;
  std::array<uint64_t, kMaxCodeBits + 1> limit{};
  std::array<uint32_t, kMaxCodeBits + 1> count{};

  Canonical(std::span<const std::byte> code, int code_bits) {
    if (code.size() < size_t{kOrderByte}) throw MalformedStream("The code lacks the numbers of codes of each length.");
    order = code.subspan(kOrderByte);
    uint64_t next = 0, codes = 0;
    for (int length = 0; length <= kMaxCodeBits; ++length) {
      const size_t l = static_cast<size_t>(length);
      codes += count[l] = std::to_integer<uint32_t>(code[2 * l]) | std::to_integer<uint32_t>(code[2 * l + 1]) << 8;
      limit[l] = next += uint64_t{count[l]} << (32 - length);
      if (count[l] > 0 && (length == 0 || length > code_bits))
        throw MalformedStream("A code is longer than the setting code_bits allows, or of no bits.");
    }
    if (next > uint64_t{1} << 32) throw MalformedStream("The code lengths ask for more codes than there are.");
    if (codes != order.size()) throw MalformedStream("There must be an exponent for each code.");
  }

  // The exponent whose code begins the window, and the code's length.
  std::pair<uint32_t, int> take(uint32_t window) const {
    uint32_t before = 0;
    for (int length = 1; length <= kMaxCodeBits; ++length) {
      const size_t l = static_cast<size_t>(length);
      if (window < limit[l])
        return {
            std::to_integer<uint32_t>(order[before + static_cast<uint32_t>((window - limit[l - 1]) >> (32 - length))]),
            length};
      before += count[l];
    }
    throw MalformedStream("No exponent has a code that begins with these bits.");
  }
};

std::vector<std::byte> code_section(const std::vector<uint8_t>& lengths) {
  std::vector<std::byte> code(kOrderByte);
  for (const uint32_t exponent : modelling::canonical_order(lengths)) {
    std::byte& count = code[2 * size_t{lengths[exponent]}];
    count = static_cast<std::byte>(std::to_integer<int>(count) + 1);
    if (count == std::byte{0}) code[2 * size_t{lengths[exponent]} + 1] = std::byte{1};
    code.push_back(static_cast<std::byte>(exponent));
  }
  return code;
}

}  // namespace

std::string refuses(datasets::MatrixView matrix) {
  if (matrix.type != datasets::ElementType::bf16 && matrix.type != datasets::ElementType::f8_e4m3)
    return "huffman_exponents codes the exponents of bf16 and f8_e4m3 elements, not of " +
           std::string(datasets::element_type_name(matrix.type)) + ".";
  if (matrix.shape.elements() > int64_t{UINT32_MAX})
    return "The layout segments counts words in 32 bits; a matrix may have 4294967295 elements at most.";
  return "";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const Tiling tiling = tiling_of(matrix.shape, settings);
  const bool bf16 = is_bf16(matrix.type);
  std::vector<uint64_t> counts(bf16 ? kBf16Exponents : kF8Exponents, 0);
  for (int64_t i = 0; i < matrix.shape.elements(); ++i) ++counts[exponent_of(matrix.elements, matrix.type, i)];
  const std::vector<uint8_t> lengths = modelling::limited_code_lengths(counts, code_bits_of(settings));
  const std::vector<uint32_t> codes = modelling::canonical_codes(lengths);

  std::vector<std::byte> streams, tiles(static_cast<size_t>(4 * (tiling.tiles() + 1)));
  int64_t words = 0, code_bits = 0;
  for (int64_t tile = 0; tile < tiling.tiles(); ++tile) {
    const int64_t group = tile / tiling.segments(), segment = tile % tiling.segments(),
                  rows = rows_of_group(tiling.rows, group);
    std::vector<Words> of_rows(static_cast<size_t>(rows));
    size_t longest = 0;
    for (int64_t r = 0; r < rows; ++r) {
      Words& own = of_rows[static_cast<size_t>(r)];
      const int64_t first = (group * kGroupRows + r) * tiling.cols + segment * tiling.segment_cols;
      for (int64_t c = 0; c < tiling.cols_of(segment); ++c) {
        const uint32_t exponent = exponent_of(matrix.elements, matrix.type, first + c);
        own.put(codes[exponent], lengths[exponent]);
      }
      longest = std::max(longest, own.words.size());
      code_bits += own.bits;
    }
    store_word32(tiles, tile, static_cast<uint32_t>(words));
    const int64_t added = static_cast<int64_t>(longest) * rows;
    streams.resize(streams.size() + static_cast<size_t>(4 * added));
    for (int64_t r = 0; r < rows; ++r)
      for (size_t k = 0; k < of_rows[static_cast<size_t>(r)].words.size(); ++k)
        store_word32(streams, words + static_cast<int64_t>(k) * rows + r, of_rows[static_cast<size_t>(r)].words[k]);
    words += added;
  }
  store_word32(tiles, tiling.tiles(), static_cast<uint32_t>(words));
  streams.resize(streams.size() + 4 * kSpareWords);
  // Streams shorter than the tile's longest are filled up to it.
  const int64_t stream_padding = static_cast<int64_t>(streams.size()) - (code_bits + 7) / 8;

  const int64_t raw_row = raw_row_bytes(tiling.cols, bf16);
  std::vector<std::byte> raw(static_cast<size_t>(tiling.rows * raw_row));
  for (int64_t row = 0; row < tiling.rows; ++row)
    for (int64_t col = 0; col < tiling.cols; ++col) {
      const uint32_t bits = raw_of(matrix.elements, matrix.type, row * tiling.cols + col);
      const int64_t word = raw_index(matrix.shape, bf16, row, col) / 4;
      const int mantissa_bits = bf16 ? kBf16MantissaBits : kF8MantissaBits;
      store_word32(
          raw, word,
          load_word32(raw, word) | raw_part(bf16, bits >> mantissa_bits, bits & ((1u << mantissa_bits) - 1), col));
    }
  const int64_t raw_padding = tiling.rows * raw_row - (tiling.rows * tiling.cols * (bf16 ? 2 : 1) + 1) / 2;
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections = {{"code", Role::table, 64, code_section(lengths)},
                         {"streams", Role::payload, 64, std::move(streams), stream_padding},
                         {"sign_mantissa", Role::payload, 64, std::move(raw), raw_padding},
                         {"tiles", Role::index, 64, std::move(tiles)}};
  return compressed;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != kSections) throw MalformedStream("A stream of segments has four sections.");
  const auto section = [&](int i) { return compressed.sections[static_cast<size_t>(i)].bytes; };
  const Tiling tiling = tiling_of(compressed.shape, *compressed.settings);
  const bool bf16 = is_bf16(compressed.type);
  const Canonical code(section(kCode), code_bits_of(*compressed.settings));
  if (section(kStreams).size() % 4 != 0 || section(kStreams).size() < 4 * kSpareWords)
    throw MalformedStream("The streams lack their spare words.");
  const int64_t words = static_cast<int64_t>(section(kStreams).size() / 4) - kSpareWords;
  if (static_cast<int64_t>(section(kTiles).size()) != 4 * (tiling.tiles() + 1))
    throw MalformedStream("There must be a first word for each tile, and the number of words.");
  if (static_cast<int64_t>(section(kSignMantissa).size()) != tiling.rows * raw_row_bytes(tiling.cols, bf16))
    throw MalformedStream("There must be a sign and a mantissa for each element.");
  if (load_word32(section(kTiles), 0) != 0 || load_word32(section(kTiles), tiling.tiles()) != words)
    throw MalformedStream("The tiles do not cover the streams.");

  for (int64_t tile = 0; tile < tiling.tiles(); ++tile) {
    const int64_t group = tile / tiling.segments(), segment = tile % tiling.segments(),
                  rows = rows_of_group(tiling.rows, group);
    const int64_t begin = load_word32(section(kTiles), tile), end = load_word32(section(kTiles), tile + 1);
    if (begin > end || end > words || (end - begin) % rows != 0)
      throw MalformedStream("A tile's words lie outside the streams or are not as many for each row.");
    const int64_t bits = (end - begin) / rows * 32;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = group * kGroupRows + r;
      const auto word = [&](int64_t k) {
        return 32 * k < bits ? load_word32(section(kStreams), begin + k * rows + r) : 0u;
      };
      int64_t position = 0;
      for (int64_t c = 0; c < tiling.cols_of(segment); ++c) {
        const int64_t k = position / 32;
        const uint64_t both = uint64_t{word(k)} << 32 | word(k + 1);
        const auto [exponent, length] = code.take(static_cast<uint32_t>(both << (position % 32) >> 32));
        position += length;
        if (position > bits) throw MalformedStream("A row's codes are longer than its stream.");
        const int64_t col = segment * tiling.segment_cols + c;
        if (!bf16 && exponent >= kF8Exponents) throw MalformedStream("A decoded exponent does not fit f8_e4m3.");
        const uint32_t raw = load_word32(section(kSignMantissa), raw_index(compressed.shape, bf16, row, col) / 4);
        store_element(out, compressed.type, row * tiling.cols + col, exponent, raw_bits(bf16, raw, col));
      }
    }
  }
}

// A tile has the words of its longest stream, which may have all the long codes. The type is not known here, so the
// larger bound of the two counts.
int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  const auto of_type = [&](bool bf16) {
    const Tiling tiling = tiling_of({shape.rows, bf16 ? shape.cols / 2 : shape.cols}, settings);
    return tiling.rows * (ceil_div(tiling.cols * code_bits_of(settings), 8) + 4 * tiling.segments() +
                          raw_row_bytes(tiling.cols, bf16)) +
           4 * (tiling.tiles() + 1);
  };
  return kOrderByte + kBf16Exponents + std::max(of_type(true), of_type(false)) + 4 * kSpareWords;
}

}  // namespace ecmv::codecs::huffman_exponents::segments

// quad_huffman: one length-limited Huffman code for the high parts of 2, 4 or 8 columns, low bits raw, patches for what
// has no code; laid out so that a lane owns a row and decodes a symbol's columns by a look-up (format.h, README.md).
#include "codecs/codec.h"

#include <algorithm>
#include <array>
#include <bit>

#include "codecs/quad_huffman/encode.h"
#include "codecs/quad_huffman/fragments.h"
#include "codecs/quad_huffman/model.h"
#include "codecs/quad_huffman/plain.h"
#include "codecs/quad_huffman/raw_planes.h"
#include "codecs/quad_huffman/schedule.h"
#include "codecs/quad_huffman/settings.h"
#include "codecs/quad_huffman/stored.h"
#include "codecs/quad_huffman/strips.h"

namespace ecmv::codecs::quad_huffman {
namespace {

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const Aim aim = settings.text("optimise") == "speed" ? Aim::speed : Aim::size;
  const std::string_view cells = settings.text("cells");
  const bool strips = wants_strips(settings), rotated = wants_rotated(settings);
  Wanted wanted{.symbol_cols = strips ? kMostSymbolCols : number_of(settings, "symbol_cols"),
                .raw_bits = number_of(settings, "raw_bits"),
                .table_bits = number_of(settings, "table_bits"),
                .contiguous = cells != "folded",
                .folded = cells != "contiguous" && !rotated,
                .fragments = wants_fragments(settings),
                .strips = strips,
                .rotated = rotated};
  CompressedMatrix compressed = make_compressed(matrix, settings);
  const bool fragments = wants_fragments(settings);
  const std::vector<std::byte> elements = fragments ? to_fragments(matrix)
                                          : strips  ? to_strips(matrix)
                                                    : std::vector<std::byte>();
  const datasets::MatrixView stored =
      fragments || strips ? datasets::MatrixView{stored_shape_for(matrix.shape, settings), matrix.type, elements}
                          : matrix;
  const auto encode_with = [&](const Wanted& with) {
    return encode_sections(stored, make_model(stored, with, aim), tile_cols_for(stored.shape, settings), compressed,
                           strips);
  };
  if (!encode_with(wanted)) {
    wanted.table_bits = kMostTableBits - kRotationBits;  // no codes of more than 13 bits
    encode_with(wanted);
  }
  if (fragments) compressed.sections[kHeader].bytes[4] |= std::byte{kFragments};
  if (settings.text("fallback") != "plain" ||
      compressed.stored_bytes() <= static_cast<int64_t>(matrix.elements.size()) + kPlainHeaderBytes)
    return compressed;
  for (Section& section : compressed.sections) section.bytes.clear(), section.padding_bytes = 0;
  compressed.sections[kHeader].bytes = {std::byte{kPlain}};
  compressed.sections[kRaw].bytes.assign(matrix.elements.begin(), matrix.elements.end());
  return compressed;
}

void require(bool condition, const char* sentence) {
  if (!condition) throw MalformedStream(sentence);
}

void check_table(const Stored& stored) {
  // Bits that must be 0: raw ones go there.
  const int shift = entry_shift(stored.symbol_cols, stored.form);
  const uint32_t of_length = stored.symbol_cols == 2                               ? 0xffff0000u
                             : has_summed_lengths(stored.symbol_cols, stored.form) ? 0x00030303u
                                                                                   : 0x01010101u;
  const uint32_t unused = has_packed_entries(stored.symbol_cols, stored.form)    ? 0x00f0f0f0u
                          : has_exponent_eights(stored.symbol_cols, stored.form) ? 0x88888888u
                          : has_exact_lengths(stored.rotated, stored.form)
                              ? ~(0x11111111u | 0x00808000u | 0x33333333u << shift)
                          : stored.has_nibbles() ? ~(0x11111111u | 0x33333333u << shift)
                                                 : low_bits_of_bytes(shift) & ~of_length;
  for (int64_t i = 0; i < int64_t{1} << stored.table_bits; ++i) {
    const int length = stored.entry_length(i) - (stored.rotated ? kRotationBits : 0);
    require(length >= 1 && length <= stored.table_bits,
            "A table entry of a quad_huffman stream has a length that no code has.");
    require(!has_exact_lengths(stored.rotated, stored.form) ||
                (sum_of_lengths(stored.symbol_cols, stored.entry(i)) & kExactLengthMask) ==
                    static_cast<uint32_t>(stored.entry_length(i)),
            "A table entry of rotated symbols of a quad_huffman stream has a length that is not exact.");
    require((stored.entry(i) & unused) == 0, "A table entry of a quad_huffman stream has bits where the raw ones go.");
    // A decoder may look an entry up by more bits than its code has, whatever follows.
    const int64_t first = i & ((int64_t{1} << length) - 1);
    require(stored.entry(i) == stored.entry(first), "A code of a quad_huffman stream has table entries that differ.");
    for (int k = 0; k < stored.symbol_cols; ++k)
      require(stored.entry_high(i, k) <= most_high(stored.symbol_cols, stored.form),
              "A table entry of a quad_huffman stream has a high part that no symbol has.");
  }
}

void check_tile(const Stored& stored, const TileIndex& tile, const TileIndex& next) {
  require(tile.first_unit <= next.first_unit && tile.first_patch <= next.first_patch,
          "The index of tiles of a quad_huffman stream falls.");
  require(tile.left_patches <= next.first_patch - tile.first_patch,
          "A tile of a quad_huffman stream has more patches on its left than in all.");
  require(tile.partial_lines <= kMostPartialLines, "A tile of a quad_huffman stream has more than 32 partial lines.");
  int64_t units = tile.mask_units() + int64_t{tile.full_lines} * (kLineBytes / kUnitBytes);
  require(tile.first_unit + units <= next.first_unit, "A tile of a quad_huffman stream has fewer codes than lines.");
  int64_t words = 0;
  for (int i = 0; i < tile.partial_lines; ++i)
    words += std::popcount(load_u32(stored.codes + tile.first_unit * kUnitBytes + 4 * i));
  units += (words + 3) / 4;
  require(tile.first_unit + units == next.first_unit,
          "The codes of a tile of a quad_huffman stream have a wrong size.");
}

// Everything but the schedule, the codes and the places of the patches, which decode() follows one by one.
Stored open_checked(const CompressedView& view) {
  const auto bytes = [&](int section) { return static_cast<int64_t>(view.sections[section].bytes.size()); };
  const bool f8 = view.type == datasets::ElementType::f8_e4m3, floats = f8 || view.type == datasets::ElementType::bf16;
  require(floats || view.type == datasets::ElementType::i8, "A quad_huffman stream is of int8, bf16 or f8 elements.");
  require(bytes(kHeader) == (floats ? kFloatHeaderBytes : kHeaderBytes),
          "The header of a quad_huffman stream has 6 bytes, of bf16 and f8 elements 7.");
  const int tile_byte = std::to_integer<int>(view.sections[kHeader].bytes[4]) & ~kFragments,
            symbol_byte = std::to_integer<int>(view.sections[kHeader].bytes[5]),
            log_symbol = symbol_byte & ~(floats                         ? kSince7
                                         : (symbol_byte & kStrips) != 0 ? kStrips + kRotated
                                                                        : 0);
  require(floats || (symbol_byte & kStripsOf9) == 0,
          "Strips of a quad_huffman stream of version 9, whose patches had 16 bits, are not decoded any more.");
  require(log_symbol >= 1 && log_symbol <= 3, "The symbols of a quad_huffman stream have 2, 4 or 8 columns.");
  const int tile_cols = stored_tile_cols(tile_byte, 1 << log_symbol);
  require((tile_byte < 16 || tile_byte >= kTileSegments) && tile_cols >= kLeastTileCols && tile_cols <= kMostTileCols,
          "The tiles of a quad_huffman stream have 256 to 2048 columns.");
  const Stored stored = open_stored(view);
  if (floats)
    require(
        stored.form == float_form(stored.symbol_cols, f8) && (!f8 || stored.symbol_cols >= kLeastF8SymbolCols),
        "A quad_huffman stream of bf16 has symbols of 2, 4 or 8 columns and 8, 9 or 10 raw bits, of f8 of 4 or 8 and 5 "
        "or 6.");
  else
    require(stored.form < 2 * kFolded && stored.raw_bits() >= least_raw_bits(stored.symbol_cols, stored.folded()) &&
                stored.raw_bits() <= most_raw_bits(stored.symbol_cols, stored.folded()),
            "A quad_huffman stream has a number of raw bits that its symbols have not (before format 4, symbols of 8 "
            "columns without folded cells could have more).");
  require(stored.table_bits >= kLeastTableBits && stored.table_bits <= kMostTableBits,
          "The table of a quad_huffman stream is indexed by 8 to 13 bits.");
  require(stored.lowest >= (floats ? 0 : -128) && stored.lowest <= (floats ? most_exponent(stored.form) : 127),
          "The lowest element or exponent that a quad_huffman stream codes is none.");
  require(!has_exponent_eights(stored.symbol_cols, stored.form) ||
              (stored.lowest <= most_eights_lowest(f8) && (f8 || stored.lowest >= kLeastEightsLowest)),
          "The lowest exponent of a quad_huffman stream is none that symbols of 8 have.");
  require(!floats || stored.largest_stand_in <= most_stand_in(stored.form),
          "What stands in for an exponent of a quad_huffman stream is more than the type's exponents and one.");
  require(bytes(kTable) == int64_t{4} << stored.table_bits,
          "The table of a quad_huffman stream has a wrong size (before format 4, symbols of 8 columns without folded "
          "cells had entries of 8 bytes).");
  require(!stored.strips || (stored.symbol_cols == kMostSymbolCols && !stored.fragments),
          "The strips of a quad_huffman stream have symbols of 8 columns and are no fragments.");
  require(!stored.rotated || (stored.has_nibbles() && stored.table_bits <= kMostRotatedTableBits),
          "A quad_huffman stream rotates symbols that have no rotations.");
  check_table(stored);
  const int64_t tiles = stored.row_groups * stored.column_tiles;
  require(bytes(kTiles) == kTileBytes * (tiles + 1), "The index of tiles of a quad_huffman stream has a wrong size.");
  require(bytes(kSchedule) == tiles * stored.tile_segments, "The schedule of a quad_huffman stream has a wrong size.");
  require(
      bytes(kRaw) == stored.row_groups * stored.row_segments * raw_bytes_of_segment(stored.symbol_cols, stored.form),
      "The raw bits of a quad_huffman stream have a wrong size.");
  const int each_patch = stored.strips ? kPacketBytes : patch_bytes(stored.form, stored.since_7);
  require(bytes(kPatches) % each_patch == 0, "The patches of a quad_huffman stream have no whole number.");
  const TileIndex end = stored.tile(tiles);
  require(stored.tile(0).first_unit == 0 && stored.first_patch(0) == 0 &&
              end.first_unit * kUnitBytes == bytes(kCodes) && end.first_patch * each_patch == bytes(kPatches),
          "The index of tiles of a quad_huffman stream does not cover its codes and patches.");
  for (int64_t i = 0; i < tiles; ++i) check_tile(stored, stored.tile(i), stored.tile(i + 1));
  return stored;
}

// Decodes one tile to elements[kLanes][kMostTileCols], wide enough for what patches may still correct; of floats the
// exponents, and their signs and mantissas beside them.
struct TileDecoder {
  const Stored& stored;
  int64_t group, column;
  std::vector<int16_t> elements = std::vector<int16_t>(kLanes * kMostTileCols);
  std::vector<uint8_t> signs = std::vector<uint8_t>(stored.floats() ? kLanes * kMostTileCols : 0);

  void decode() {
    const int64_t tile = group * stored.column_tiles + column;
    const TileIndex index = stored.tile(tile);
    const TileCodes codes(stored, index);
    const int64_t lines = index.lines();
    const int segments = static_cast<int>(stored.segments_of(column));
    std::array<int64_t, kMostSegments> reach;
    int64_t blocks = 0;
    for (int s = 0; s < segments; ++s)
      reach[s] = reach_of(blocks += stored.schedule[tile * stored.tile_segments + s], lines);
    for (int64_t s = segments; s < stored.tile_segments; ++s)
      require(stored.schedule[tile * stored.tile_segments + s] == 0,
              "A quad_huffman stream fetches lines past its last column.");
    require(segments > 1 || lines <= std::min(stored.most_code_bits(), kMostTableBits),
            "A tile of a quad_huffman stream has more lines than the codes of its only segment can fill.");
    require(reach[segments - 1] == lines, "A quad_huffman stream does not fetch all lines of a tile.");
    // Kernels know positions of rotated symbols modulo a ring.
    require(!stored.rotated || reach[0] < kRingLines,
            "A tile of rotated symbols of a quad_huffman stream begins with a full ring.");
    for (int lane = 0; lane < kLanes; ++lane) {
      int64_t position = 0;
      for (int s = 0; s < segments; ++s) {
        position = std::max(position, 32 * (reach[std::min(s + kAhead, segments - 1)] - kRingLines));
        decode_codes(codes, lane, s, 32 * reach[s], position);
        add_raw(lane, s);
      }
    }
    if (stored.floats()) return replace(index.first_patch, stored.first_patch(tile + 1));
    if (stored.strips) return add_placed(index.first_patch, stored.first_patch(tile + 1));
    int last = 0;
    for (int64_t i = index.first_patch; i < stored.first_patch(tile + 1); ++i) {
      const Patch patch = stored.patch(index, i);
      require(place_of(patch) >= last, kPatchOrder);
      last = place_of(patch);
      require(group * kLanes + patch.row < stored.rows && patch.col < stored.cols_of(column), kPatchLeaves);
      add(at(patch.row, patch.col), patch.delta);
    }
  }

  int16_t& at(int lane, int col) {
    return elements[static_cast<size_t>(lane) * kMostTileCols + static_cast<size_t>(col)];
  }
  uint8_t& sign_at(int lane, int col) {
    return signs[static_cast<size_t>(lane) * kMostTileCols + static_cast<size_t>(col)];
  }
  // The bits of an element of bf16 or f8.
  uint16_t float_at(int lane, int col) {
    const int exponent = at(lane, col), sign = sign_at(lane, col);
    require(exponent >= 0 && exponent <= most_exponent(stored.form),
            "An exponent of a quad_huffman stream is none of its elements' type.");
    return stored.float_bits(exponent, sign);
  }

 private:
  // Kernels apply patches as they come to their columns.
  static constexpr const char* kPatchOrder =
      "The patches of a tile of a quad_huffman stream are not in the order of their columns and rows.";
  static constexpr const char* kPatchLeaves = "A patch of a quad_huffman stream leaves its tile.";
  static int place_of(const auto& patch) { return patch.col * kLanes + patch.row; }

  static void add(int16_t& element, int delta) {
    const int sum = element + delta;
    require(sum >= INT16_MIN && sum <= INT16_MAX, "A patch of a quad_huffman stream leads far from int8.");
    element = static_cast<int16_t>(sum);
  }
  void add_placed(int64_t first, int64_t end) {
    const int64_t places = tile_places(stored.cols_of(column));
    stored.for_each_placed_patch(first, end, [&](const PlacedPatch& patch, int64_t place) {
      require(place < places, kPatchLeaves);
      const auto row = static_cast<int>(place / kStripCols), col = static_cast<int>(place % kStripCols);
      add(at(col / kLaneCols, row * kLaneCols + col % kLaneCols), (patch.takes ? -1 : 1) * (1 << stored.cell_bits()));
    });
    // Kernels know places by 32 bits.
    require((end - first) * kPacketPatches <= INT32_MAX / kNoPatchDistance,
            "A tile of strips of a quad_huffman stream has too many patches.");
  }

  void replace(int64_t first, int64_t end) {
    int last = -1;
    int64_t zeros = 0;
    if (has_exponent_eights(stored.symbol_cols, stored.form))
      for (int64_t row = 0; row < std::min<int64_t>(kLanes, stored.rows - group * kLanes); ++row)
        for (int64_t col = 0; col < stored.cols_of(column); ++col)
          zeros += at(static_cast<int>(row), static_cast<int>(col)) == 0 ? 1 : 0;
    for (int64_t i = first; i < end; ++i) {
      const FloatPatch patch = stored.float_patch(i);
      zeros -= patch.stand_in == 0 ? 1 : 0;
      require(place_of(patch) > last, kPatchOrder);
      last = place_of(patch);
      require(group * kLanes + patch.row < stored.rows && patch.col < stored.cols_of(column), kPatchLeaves);
      require(patch.stand_in <= stored.largest_stand_in && at(patch.row, patch.col) == patch.stand_in,
              "A patch of a quad_huffman stream replaces an exponent that is not there.");
      require(!has_exponent_eights(stored.symbol_cols, stored.form) ||
                  has_eights_patch(stored.form, stored.lowest, patch.exponent),
              "A patch of a quad_huffman stream has an exponent that products with symbols of 8 cannot take.");
      require(!stored.since_7 || stored.signs_of_patches()[i] == sign_at(patch.row, patch.col),
              "A patch of a quad_huffman stream has not the sign and mantissa of its element.");
      at(patch.row, patch.col) = static_cast<int16_t>(patch.exponent);
    }
    require(!has_exponent_eights(stored.symbol_cols, stored.form) || zeros == 0,
            "An exponent of 0 of a quad_huffman stream has no patch, as symbols of 8 exponents want it.");
  }

  // The high parts.
  void decode_codes(const TileCodes& codes, int lane, int segment, int64_t end, int64_t& position) {
    const int each = stored.symbol_cols;
    const int64_t begin = position;
    for (int i = 0; i < kSegmentSymbols; ++i) {
      const uint64_t both = codes.word(position / 32, lane) | static_cast<uint64_t>(codes.word(position / 32 + 1, lane))
                                                                  << 32;
      const int rotation_bits = stored.rotated ? kRotationBits : 0;
      const int64_t left = std::max<int64_t>(0, end - position - rotation_bits);
      const uint64_t window = both >> (position % 32);
      const int rotation = static_cast<int>(window & ((1u << rotation_bits) - 1));
      const auto entry = static_cast<int64_t>(window >> rotation_bits &
                                              ((uint64_t{1} << std::min<int64_t>(stored.table_bits, left)) - 1));
      position += stored.entry_length(entry);
      require(position <= end, "A code of a quad_huffman stream reaches into lines that are not there yet.");
      for (int k = 0; k < each; ++k)
        at(lane, (segment * kSegmentSymbols + i) * each + k) =
            static_cast<int16_t>(stored.entry_high(entry, stored.rotated ? rotated_col(k, rotation) : k));
    }
    require(!stored.rotated || position - begin <= kMostSegmentBits,
            "A segment of rotated symbols of a quad_huffman stream has more than 416 bits.");
  }

  void add_raw(int lane, int segment) {
    const uint8_t* raw = stored.raw_of(group, column * stored.tile_segments + segment) + stored.raw_lane_bytes() * lane;
    for (int part = 0; part < stored.segment_cols() / 32; ++part) {
      std::array<uint32_t, kMostPlaneWords> words{};
      for (int j = 0; j < stored.raw_bits(); ++j) words[j] = load_u32(raw + stored.raw_word_offset(part, j));
      std::array<uint32_t, 8> quads;
      stored.unpack(words.data(), quads.data());
      for (int i = 0; i < 32; ++i) {
        const int col = segment * stored.segment_cols() + 32 * part + i;
        int16_t& element = at(lane, col);
        const int raw_bits = static_cast<int>(quads[i / 4] >> (8 * (i % 4)) & 0xff);
        element = static_cast<int16_t>(stored.lowest + stored.offset_of(element, raw_bits));
        if (stored.floats()) sign_at(lane, col) = stored.sign_of(words.data(), i);
      }
    }
  }
};

void decode_plain(const CompressedView& view, std::span<std::byte> out) {
  for (int section = 0; section < kSections; ++section)
    require(section == kHeader || section == kRaw || view.sections[section].bytes.empty(),
            "A plain quad_huffman stream has sections besides its elements.");
  require(view.sections[kRaw].bytes.size() == out.size(),
          "The elements of a plain quad_huffman stream have a wrong size.");
  std::copy(view.sections[kRaw].bytes.begin(), view.sections[kRaw].bytes.end(), out.begin());
}

void decode(const CompressedView& view, std::span<std::byte> out) {
  require(view.sections.size() == kSections, "A quad_huffman stream has seven sections.");
  if (is_plain(view)) return decode_plain(view, out);
  const Stored stored = open_checked(view);
  for (int64_t group = 0; group < stored.row_groups; ++group)
    for (int64_t column = 0; column < stored.column_tiles; ++column) {
      TileDecoder tile{stored, group, column};
      tile.decode();
      for (int64_t row = group * kLanes; row < std::min(stored.rows, (group + 1) * kLanes); ++row)
        for (int64_t col = 0; col < stored.cols_of(column); ++col) {
          const int lane = static_cast<int>(row - group * kLanes);
          const ElementPlace place = stored.place_of(row, column * stored.tile_cols + col);
          if (place.row >= stored.size.rows || place.col >= stored.size.cols) continue;
          const size_t number = static_cast<size_t>(place.row * stored.size.cols + place.col);
          if (stored.floats()) {
            const uint16_t bits = tile.float_at(lane, static_cast<int>(col));
            const auto bytes = static_cast<size_t>(stored.element_bytes());
            for (size_t i = 0; i < bytes; ++i) out[bytes * number + i] = static_cast<std::byte>(bits >> (8 * i) & 0xff);
            continue;
          }
          const int element = tile.at(lane, static_cast<int>(col));
          require(element >= -128 && element <= 127, "An element of a quad_huffman stream leaves the range of int8.");
          out[number] = static_cast<std::byte>(element & 0xff);
        }
    }
}

// Every code as long as codes get and every element patched all the way across the cells of int8; open settings may
// become any.
int64_t max_stored_int8(datasets::Shape shape, const Settings& settings) {
  const int64_t raw_bits = settings.integer("raw_bits");
  const int symbol_cols = number_of(settings, "symbol_cols");
  const int least_cols = symbol_cols == 0 ? kLeastSymbolCols : symbol_cols,
            most_cols = symbol_cols == 0 ? kMostSymbolCols : symbol_cols;
  const int most_raw = raw_bits < 0 ? kMostRawBits : static_cast<int>(raw_bits),
            least_raw = raw_bits < 0 ? 0 : static_cast<int>(raw_bits);
  const int tile_cols = tile_cols_for(shape, settings);
  const int64_t groups = row_groups(shape.rows), tiles = groups * column_tiles(shape.cols, tile_cols);
  // Lanes are moved only where others are longer, so the longest codes of all are a bound of any schedule.
  const int64_t lines = groups * row_segments(shape.cols, least_cols) * ((kSegmentSymbols * kMostTableBits + 31) / 32);
  return kHeaderBytes + (int64_t{4} << kMostTableBits) + kTileBytes * (tiles + 1) +
         tiles * (tile_cols / segment_cols(least_cols)) + lines * kLineBytes +
         tiles * (4 * kMostPartialLines + 2 * kUnitBytes) +
         groups * row_segments(shape.cols, most_cols) * raw_bytes_of_segment(most_cols, most_raw) +
         2 * shape.elements() * (256 >> std::max(0, least_raw - 1)) +
         (wants_strips(settings) ? tiles * most_moving_patches(tile_cols) * 2 : 0);
}

// The shape is that of bytes, and says nothing of their type. f8 elements with a patch each take less than int8 elements with
// all of theirs; so do bf16 rows of half as many elements, but for what is rounded up to whole segments and tiles of them.
int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  const auto stored = [&](datasets::Shape of) { return stored_shape_for(of, settings); };
  const datasets::Shape halves = stored({shape.rows, (shape.cols + 1) / 2});
  shape = stored(shape);
  const int tile_cols = tile_cols_for(halves, settings);
  const int64_t groups = row_groups(shape.rows), tiles = groups * column_tiles(halves.cols, tile_cols),
                segments = groups * row_segments(halves.cols, kLeastSymbolCols);
  const int64_t floats = kFloatHeaderBytes + (int64_t{4} << kMostTableBits) +
                         (tiles + 1) * (kTileBytes + kMostTileCols / segment_cols(kLeastSymbolCols) +
                                        4 * kMostPartialLines + 2 * kUnitBytes) +
                         segments * (kSegmentSymbols * kMostTableBits / 32 * kLineBytes +
                                     5 * raw_bytes_of_segment(kLeastSymbolCols, kMostPlaneWords)) +
                         patch_bytes(kSignMantissaBits, true) * halves.elements();
  return std::max(max_stored_int8(shape, settings), floats);
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary =
          "high parts of 2, 4 or 8 columns (of bf16 and f8: exponents) in one Huffman code, low bits raw, patches; a "
          "lane a row, a symbol a look-up",
      .source =
          "our own; length limits by package-merge (Larmore and Hirschberg, J. ACM 1990), patches after PFOR (Zukowski "
          "et al., ICDE 2006)",
      .format_version = 10,
      .lossless = true,
      .settings =
          {{.name = "raw_bits",
            .unit = "bit",
            .help = "low bits of an element stored as they are; -1: chosen for `optimise`",
            .default_value = int64_t{-1},
            .min = -1,
            .max = kMostRawBits},
           {.name = "table_bits",
            .unit = "bit",
            .help = "longest code, index width of the table; 0: chosen for `optimise`",
            .default_value = int64_t{0},
            .values = {0, 8, 9, 10, 11, 12, 13}},
           {.name = "tile_cols",
            .unit = "column",
            .help = "columns of a tile, with symbols of 8 a multiple of 256; 0: as many as leave about 3500 tiles",
            .default_value = int64_t{0},
            .values = {0, 256, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048}},
           {.name = "symbol_cols",
            .unit = "column",
            .help = "columns of a symbol: many are fast, few are small; f8 has 4 or 8, and 8 of bf16 and f8 are for "
                    "layout=fragments; 0: chosen for `optimise`",
            .default_value = int64_t{4},
            .values = {0, 2, 4, 8}},
           {.name = "cells",
            .unit = "",
            .help = "which elements share a code: neighbours, or those at the same distance from the centre, of "
                    "which the sign is raw; any: chosen for `optimise`",
            .default_value = "any",
            .choices = {"any", "contiguous", "folded"}},
           {.name = "layout",
            .unit = "",
            .help =
                "what a GPU lane decodes: a row; what it has of the operands of matrix units "
                "(fragments), for products with tokens of bf16; or 32 columns of all rows (strips), for int8 vectors",
            .default_value = "rows",
            .choices = {"rows", "fragments", "strips"},
            .brings = {{"strips", "symbol_cols", "8"}}},
           {.name = "symbols",
            .unit = "",
            .help = "whether a table's entry is one symbol (ordered), or all eight rotations of it, of which three "
                    "bits more of a code "
                    "say which (rotated: strips of 8 columns a symbol, contiguous cells)",
            .default_value = "ordered",
            .choices = {"ordered", "rotated"},
            .brings = {{"rotated", "layout", "strips"},
                       {"rotated", "symbol_cols", "8"},
                       {"rotated", "cells", "contiguous"}}},
           {.name = "optimise",
            .unit = "",
            .help = "what open settings are chosen for: fewest bytes, or the shortest time on a GPU",
            .default_value = "size",
            .choices = {"size", "speed"}},
           {.name = "fallback",
            .unit = "",
            .help = "what is stored where codes would take more bytes than the elements: these as they are "
                    "(plain), or codes all the same (none)",
            .default_value = "plain",
            .choices = {"plain", "none"}}},
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::quad_huffman

#include "codecs/quad_huffman/format/decode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "backends/cpu/team.h"
#include "codecs/codec.h"
#include "codecs/quad_huffman/format/schedule.h"
#include "codecs/quad_huffman/format/segment.h"
#include "codecs/quad_huffman/format/stored.h"

namespace ecmv::codecs::quad_huffman {
namespace {

void require(bool condition, const char* sentence) {
  if (!condition) throw MalformedStream(sentence);
}

// Table entries must be 0 in these bits, where raw bits go.
uint32_t unused_bits(const Stored& stored) {
  const int cols = stored.symbol_cols;
  const Form form = stored.form;
  const int shift = entry_shift(form);
  if (has_packed_entries(cols, form)) return 0x00f0f0f0;
  if (has_exponent_eights(cols, form)) return 0x88888888;
  const uint32_t of_nibbles = 0x11111111 | 0x33333333u << shift;
  if (has_exact_lengths(stored.rotated, form)) return ~(of_nibbles | 0x00808000);
  if (has_nibble_entries(cols, form)) return ~of_nibbles;
  const uint32_t of_length = has_summed_lengths(cols, form) ? 0x00030303 : 0x01010101;
  return low_bits_of_bytes(shift) & ~of_length;
}

void check_table(const Stored& stored) {
  const uint32_t unused = unused_bits(stored);
  for (int64_t i = 0; i < int64_t{1} << stored.table_bits; ++i) {
    const int length = stored.entry_length(i) - (stored.rotated ? kRotationBits : 0);
    require(length >= 1 && length <= stored.table_bits,
            "A table entry of a quad_huffman stream has a length that no code has.");
    require(!has_exact_lengths(stored.rotated, stored.form) ||
                (sum_of_lengths(stored.symbol_cols, stored.entry(i)) & kExactLengthMask) ==
                    static_cast<uint32_t>(stored.entry_length(i)),
            "A table entry of rotated symbols of a quad_huffman stream has a length that is not exact.");
    require((stored.entry(i) & unused) == 0, "A table entry of a quad_huffman stream has bits where the raw ones go.");
    // A decoder may look an entry up with more bits than its code has, whatever follows.
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

void check_header(const CompressedView& view) {
  const auto& bytes = view.sections[kHeader].bytes;
  const bool f8 = view.type == datasets::ElementType::f8_e4m3, floats = f8 || view.type == datasets::ElementType::bf16;
  require(floats || view.type == datasets::ElementType::i8, "A quad_huffman stream is of int8, bf16 or f8 elements.");
  require(bytes.size() == header_bytes(floats), "The header of a quad_huffman stream has 6 bytes, of bf16 and f8 7.");
  const Header header = read_header(bytes);
  const auto& [form, table_bits, lowest, tile_segments, cols, layout, rotated, largest_substitute] = header;
  require(form.floats == floats && form.f8 == f8, "The header of a quad_huffman stream has another type of elements.");
  const std::vector<std::byte> written = write_header(header);
  require(std::equal(written.begin(), written.end(), bytes.begin()),
          "The header of a quad_huffman stream has bits that mean nothing.");
  require(cols >= kLeastSymbolCols, "The symbols of a quad_huffman stream have 4 or 8 columns.");
  const int tile_cols = tile_cols_of(header);
  require(tile_cols >= kLeastTileCols && tile_cols <= kMostTileCols,
          "The tiles of a quad_huffman stream have 128 to 2048 columns.");
  require(floats
              ? form == float_form(cols, f8)
              : form.raw_bits >= least_raw_bits(cols, form.folded) && form.raw_bits <= most_raw_bits(cols, form.folded),
          "A quad_huffman stream has a number of raw bits that its symbols do not have.");
  require(table_bits >= kLeastTableBits && table_bits <= kMostTableBits,
          "The table of a quad_huffman stream is indexed by 8 to 13 bits.");
  require(lowest >= (floats ? 0 : -128) && lowest <= (floats ? most_exponent(form) : 127),
          "The lowest element or exponent that a quad_huffman stream codes is none.");
  require(
      !has_exponent_eights(cols, form) || (lowest <= most_eights_lowest(f8) && (f8 || lowest >= kLeastEightsLowest)),
      "The lowest exponent of a quad_huffman stream is none that symbols of 8 have.");
  require(largest_substitute <= most_substitute(form),
          "What stands in for an exponent of a quad_huffman stream is more than the type's exponents and one.");
  require(layout != Layout::strips || (cols == kMostSymbolCols && !floats),
          "The strips of a quad_huffman stream have int8 elements in symbols of 8 columns.");
  require(!rotated || (layout == Layout::strips && !form.folded && table_bits <= kMostRotatedTableBits),
          "A quad_huffman stream rotates symbols that have no rotations.");
}

// Checks everything but the schedule, the codes and the places of patches, which decode() follows one by one.
Stored open_checked(const CompressedView& view) {
  check_header(view);
  const auto bytes = [&](int section) { return static_cast<int64_t>(view.sections[section].bytes.size()); };
  const Stored stored = open_stored(view);
  require(bytes(kTable) == int64_t{4} << stored.table_bits, "The table of a quad_huffman stream has a wrong size.");
  check_table(stored);
  const int64_t tiles = stored.row_groups * stored.column_tiles;
  require(bytes(kTiles) == kTileBytes * (tiles + 1), "The index of tiles of a quad_huffman stream has a wrong size.");
  require(bytes(kSchedule) == tiles * stored.tile_segments, "The schedule of a quad_huffman stream has a wrong size.");
  require(bytes(kRaw) == stored.row_groups * stored.raw_row_bytes + raw_bytes_past(stored, stored.cols),
          "The raw bits of a quad_huffman stream have a wrong size.");
  const int each_patch = stored.strips() ? kPacketBytes : patch_bytes(stored.form);
  require(bytes(kPatches) % each_patch == 0, "The patches of a quad_huffman stream have no whole number.");
  const TileIndex end = stored.tile(tiles);
  require(stored.tile(0).first_unit == 0 && stored.first_patch(0) == 0 &&
              end.first_unit * kUnitBytes == bytes(kCodes) && end.first_patch * each_patch == bytes(kPatches),
          "The index of tiles of a quad_huffman stream does not cover its codes and patches.");
  for (int64_t i = 0; i < tiles; ++i) check_tile(stored, stored.tile(i), stored.tile(i + 1));
  return stored;
}

// A tile's codes, a lane's words one after the other.
class LaneWords {
 public:
  void gather(const TileCodes& codes) {
    stride_ = static_cast<size_t>(codes.lines()) + 2;  // a window at the end is two words of zeros
    words_.assign(kLanes * stride_, 0);
    for (int lane = 0; lane < kLanes; ++lane)
      for (int line = 0; line < codes.lines(); ++line) words_[lane * stride_ + line] = codes.word(line, lane);
  }
  uint64_t window(int64_t position, int lane) const {
    const uint32_t* word = words_.data() + static_cast<size_t>(lane) * stride_ + position / 32;
    return (word[0] | uint64_t{word[1]} << 32) >> (position % 32);
  }

 private:
  size_t stride_ = 0;
  std::vector<uint32_t> words_;
};

// Decodes tile after tile to elements[kLanes][kMostTileCols], wide enough for values that patches still correct. For
// floats these are the exponents; signs and mantissas stand beside them, or, of bf16 in pairs, all stand in `numbers`.
struct TileDecoder {
  const Stored& stored;
  const bool in_pairs = decodes_pairs(stored);
  int64_t group = 0, column = 0;
  std::vector<uint16_t> numbers = std::vector<uint16_t>(in_pairs ? kLanes * kMostTileCols : 0);
  std::vector<int16_t> elements = std::vector<int16_t>(in_pairs ? 0 : kLanes * kMostTileCols);
  std::vector<uint8_t> signs = std::vector<uint8_t>(in_pairs ? 0 : kLanes * kMostTileCols);
  LaneWords words = {};

  void decode(int64_t of_group, int64_t of_column) {
    group = of_group, column = of_column;
    const int64_t tile = group * stored.column_tiles + column;
    const TileIndex index = stored.tile(tile);
    const TileCodes codes(stored, index);
    const int64_t lines = index.lines(), segments = stored.segments_of(column);
    const uint8_t* schedule = stored.schedule + tile * stored.tile_segments;
    std::array<int64_t, kMostSegments> reach;
    reach_of_segments(schedule, segments, lines, reach.data());
    require(
        std::all_of(schedule + segments, schedule + stored.tile_segments, [](uint8_t blocks) { return blocks == 0; }),
        "A quad_huffman stream fetches lines past its last column.");
    require(segments > 1 || lines <= std::min(stored.most_code_bits(), kMostTableBits),
            "A tile of a quad_huffman stream has more lines than the codes of its only segment can fill.");
    require(reach[segments - 1] == lines, "A quad_huffman stream does not fetch all lines of a tile.");
    // Kernels know positions of rotated symbols only modulo a ring.
    require(!stored.rotated || reach[0] < kRingLines,
            "A tile of rotated symbols of a quad_huffman stream begins with a full ring.");
    words.gather(codes);
    for (int lane = 0; lane < kLanes && in_pairs; lane += kTogether) {
      std::array<int64_t, kTogether> positions{};
      for (int64_t s = 0; s < segments; ++s) {
        for (int64_t& position : positions) position = std::max(position, least_position(reach.data(), s, segments));
        decode_lanes(lane, s, 32 * reach[s], positions);
      }
    }
    for (int lane = 0; lane < kLanes && !in_pairs; ++lane) {
      int64_t position = 0;
      for (int64_t s = 0; s < segments; ++s) {
        position = std::max(position, least_position(reach.data(), s, segments));
        decode_lane(lane, s, 32 * reach[s], position);
      }
    }
    if (stored.form.floats) return replace(index.first_patch, stored.first_patch(tile + 1));
    if (stored.strips()) return add_placed(index.first_patch, stored.first_patch(tile + 1));
    int last = 0;
    for (int64_t i = index.first_patch; i < stored.first_patch(tile + 1); ++i) {
      const Patch patch = stored.patch(index, i);
      require(order_of(patch) >= last, kPatchOrder);
      last = order_of(patch);
      add(at(elements, patch), patch.delta);
    }
  }

  // Writes the elements to their places in the matrix.
  void store(std::byte* out) const {
    const datasets::Shape size = stored.size;
    const int64_t cols = stored.cols_of(column), bytes = stored.element_bytes(), first_col = column * stored.tile_cols,
                  run = stored.strips()      ? int64_t{kLaneCols}
                        : stored.fragments() ? static_cast<int64_t>(stored.runs())
                                             : cols,
                  period = stored.fragments() ? int64_t{kFragmentCols} : cols;
    std::vector<std::byte> made(static_cast<size_t>(2 * cols));
    for (int64_t row = group * kLanes; row < std::min(stored.rows, (group + 1) * kLanes); ++row) {
      const std::byte* of_row = made.data();
      if (in_pairs && std::endian::native == std::endian::little)
        of_row = reinterpret_cast<const std::byte*>(numbers.data() + row % kLanes * kMostTileCols);
      else
        make_row(row % kLanes * kMostTileCols, cols, made.data());
      // Columns that follow each other in the matrix, too; of fragments those of one unit after the other.
      for (int64_t begin = 0; begin < std::min(period, cols); begin += run) {
        const ElementPlace place = stored.place_of(row, first_col + begin);
        if (place.row >= size.rows) continue;
        std::byte* to = out + bytes * place.row * size.cols;
        for (int64_t col = begin, at = place.col; col < cols && at < size.cols; col += period, at += kUnitCols) {
          const int64_t count = std::min({run, cols - col, size.cols - at});
          const std::byte* from = of_row + bytes * col;
          if (bytes * count == 4)
            std::memcpy(to + bytes * at, from, 4);  // most fragments
          else
            std::memcpy(to + bytes * at, from, static_cast<size_t>(bytes * count));
        }
      }
    }
  }

 private:
  // The bytes of `count` elements from number `first` on.
  void make_row(int64_t first, int64_t count, std::byte* to) const {
    if (in_pairs) {
      for (int64_t i = 0; i < count; ++i)
        to[2 * i] = static_cast<std::byte>(numbers[first + i] & 0xff),
               to[2 * i + 1] = static_cast<std::byte>(numbers[first + i] >> 8);
      return;
    }
    const int16_t* from = elements.data() + first;
    const uint8_t* sign = signs.data() + first;
    const Form form = stored.form;
    const int least = form.floats ? 0 : -128, most = form.floats ? most_exponent(form) : 127;
    bool fits = true;
    for (int64_t i = 0; i < count; ++i) fits &= from[i] >= least && from[i] <= most;
    require(fits, form.floats ? "An exponent of a quad_huffman stream is none of its elements' type."
                              : "An element of a quad_huffman stream leaves the range of int8.");
    if (!form.floats) {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<std::byte>(from[i] & 0xff);
    } else if (form.f8) {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<std::byte>(float_bits_of(form, from[i], sign[i]));
    } else {
      for (int64_t i = 0; i < count; ++i) {
        const int bits = (sign[i] & 0x80) << 8 | from[i] << 7 | (sign[i] & 0x7f);
        to[2 * i] = static_cast<std::byte>(bits & 0xff), to[2 * i + 1] = static_cast<std::byte>(bits >> 8 & 0xff);
      }
    }
  }

  // Kernels apply patches as they come to their columns.
  static constexpr const char* kPatchOrder =
      "The patches of a tile of a quad_huffman stream are not in the order of their columns and rows.";
  static int order_of(const auto& patch) { return patch.col * kLanes + patch.row; }
  // The tile's value at the patch; `of_tile` are its elements or signs.
  template <class Value>
  Value& at(std::vector<Value>& of_tile, const auto& patch) const {
    require(group * kLanes + patch.row < stored.rows && patch.col < stored.cols_of(column),
            "A patch of a quad_huffman stream leaves its tile.");
    return of_tile[static_cast<size_t>(patch.row) * kMostTileCols + static_cast<size_t>(patch.col)];
  }

  static void expect_there(int64_t past, int64_t end) {
    require(past <= end, "A code of a quad_huffman stream reaches into lines that are not there yet.");
  }
  const uint8_t* raw_of(int lane, int64_t segment) const {
    return stored.raw_of(group, column * stored.tile_segments + segment) + stored.raw_lane_bytes() * lane;
  }
  size_t place_of(int lane, int64_t segment) const {
    return static_cast<size_t>(lane * kMostTileCols + segment * stored.segment_cols());
  }

  // kTogether lanes, of bf16 in pairs.
  void decode_lanes(int lane, int64_t segment, int64_t end, std::array<int64_t, kTogether>& positions) {
    decode_pairs(stored, words, lane, positions, raw_of(lane, segment), numbers.data() + place_of(lane, segment),
                 kMostTileCols, [&](int64_t past) { expect_there(past, end); });
  }

  void decode_lane(int lane, int64_t segment, int64_t end, int64_t& position) {
    const int64_t begin = position;
    const size_t first = place_of(lane, segment);
    SegmentColumns columns;
    decode_segment(stored, words, lane, position, raw_of(lane, segment), columns,
                   [&](int64_t past) { expect_there(past, end); });
    require(!stored.rotated || position - begin <= kMostSegmentBits,
            "A segment of rotated symbols of a quad_huffman stream has more than 416 bits.");
    const auto count = static_cast<size_t>(stored.segment_cols());
    const int lowest = stored.lowest;
    int16_t* to = elements.data() + first;
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<int16_t>(lowest + columns.offsets[i]);
    if (stored.form.floats) std::copy_n(columns.signs.data(), count, signs.data() + first);
  }

  static void add(int16_t& element, int delta) {
    const int sum = element + delta;
    require(sum >= INT16_MIN && sum <= INT16_MAX, "A patch of a quad_huffman stream leads far from int8.");
    element = static_cast<int16_t>(sum);
  }

  void add_placed(int64_t first, int64_t end) {
    // Kernels know places by 32 bits.
    require((end - first) * kPacketPatches <= INT32_MAX / kNoPatchDistance,
            "A tile of strips of a quad_huffman stream has too many patches.");
    for_each_placed_patch(stored.patches, first, end, [&](const PlacedPatch& placed, int64_t place) {
      const auto row = static_cast<int>(place / kStripCols), col = static_cast<int>(place % kStripCols),
                 step = 1 << stored.cell_bits();
      const Patch patch{col / kLaneCols, row * kLaneCols + col % kLaneCols, placed.takes ? -step : step};
      add(at(elements, patch), patch.delta);
    });
  }

  void replace(int64_t first, int64_t end) {
    const bool eights = has_exponent_eights(stored.symbol_cols, stored.form);
    int last = -1;
    int64_t zeros = 0;  // in pairs there are none, since the lowest exponent of eights is 16
    for (int64_t row = 0; eights && !in_pairs && row < std::min<int64_t>(kLanes, stored.rows - group * kLanes); ++row) {
      const int16_t* of_row = elements.data() + row * kMostTileCols;
      zeros += std::count(of_row, of_row + stored.cols_of(column), 0);
    }
    for (int64_t i = first; i < end; ++i) {
      const StoredPatch patch = stored.float_patch(i);
      zeros -= patch.substitute == 0 ? 1 : 0;
      require(order_of(patch) > last, kPatchOrder);
      last = order_of(patch);
      uint16_t number = in_pairs ? at(numbers, patch) : 0;
      const int exponent = in_pairs ? number >> 7 & 255 : at(elements, patch),
                sign = in_pairs ? (number >> 8 & 0x80) | (number & 0x7f) : at(signs, patch);
      require(patch.substitute <= stored.largest_substitute && exponent == patch.substitute,
              "A patch of a quad_huffman stream replaces an exponent that is not there.");
      require(!eights || has_eights_patch(stored.form, stored.lowest, patch.exponent),
              "A patch of a quad_huffman stream has an exponent that products with symbols of 8 cannot take.");
      require(stored.signs_of_patches()[i] == sign,
              "A patch of a quad_huffman stream has not the sign and mantissa of its element.");
      if (in_pairs)
        at(numbers, patch) = stored.float_bits(patch.exponent, sign);
      else
        at(elements, patch) = static_cast<int16_t>(patch.exponent);
    }
    require(!eights || zeros == 0,
            "An exponent of 0 of a quad_huffman stream has no patch, as symbols of 8 exponents want it.");
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

}  // namespace

void decode(const CompressedView& view, std::span<std::byte> out) {
  require(view.sections.size() == kSections, "A quad_huffman stream has seven sections.");
  if (is_plain(view)) return decode_plain(view, out);
  const Stored stored = open_checked(view);
  const auto decode_group = [&](int64_t group) {
    TileDecoder tile{stored};
    for (int64_t column = 0; column < stored.column_tiles; ++column) {
      tile.decode(group, column);
      tile.store(out.data());
    }
  };
  if (stored.size.elements() >= int64_t{1} << 20) return backends::cpu::Team::for_each(stored.row_groups, decode_group);
  for (int64_t group = 0; group < stored.row_groups; ++group) decode_group(group);
}

}  // namespace ecmv::codecs::quad_huffman

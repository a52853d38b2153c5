// Encodes tile by tile: each lane's codes become a string of bits without gaps, its raw words and its patches. Then
// come the schedule and the layout of the strings in the tile's lines, in pieces of segments where a lane is moved.
#include "codecs/quad_huffman/encode/encode.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "backends/cpu/team.h"
#include "codecs/compressed_matrix.h"
#include "codecs/modelling/bytes.h"
#include "codecs/quad_huffman/format/raw_planes.h"
#include "codecs/quad_huffman/format/schedule.h"
#include "codecs/quad_huffman/format/stored.h"
#include "datasets/large_bytes.h"

namespace ecmv::codecs::quad_huffman {
namespace {

using modelling::append;

void append_count(std::vector<std::byte>& bytes, uint64_t count) {
  if (count > UINT32_MAX)
    throw std::length_error("quad_huffman counts codes and patches in 32 bits; this matrix needs more.");
  append<uint32_t>(bytes, static_cast<uint32_t>(count));
}

void store_u32(uint32_t value, std::byte* at) {
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  std::memcpy(at, &value, 4);
}

// A string of bits, first bit lowest. Room for a lane of the widest tile with the longest codes.
struct BitString {
  std::array<uint32_t, kMostTileCols / kLeastSymbolCols * kMostTableBits / 32 + 3> words;
  uint64_t pending = 0;
  int pending_bits = 0, filled = 0;

  void put(uint32_t bits, int count) {
    pending |= static_cast<uint64_t>(bits) << pending_bits;
    pending_bits += count;
    if (pending_bits >= 32) {
      words[filled++] = static_cast<uint32_t>(pending);
      pending >>= 32;
      pending_bits -= 32;
    }
  }
  int32_t size() const { return 32 * filled + pending_bits; }
  void finish() {
    words[filled] = static_cast<uint32_t>(pending);
    words[filled + 1] = 0;
  }
  // Returns `count` (1..32) bits from bit `at` on.
  uint32_t get(int32_t at, int count) const {
    const uint64_t both = words[at / 32] | static_cast<uint64_t>(words[at / 32 + 1]) << 32;
    return static_cast<uint32_t>(both >> (at % 32) & ((uint64_t{1} << count) - 1));
  }
};

}  // namespace

int64_t append_packets(std::span<const uint32_t> patches, std::vector<std::byte>& to) {
  constexpr PlacedPatch kMoves{kNoPatchDistance, false};
  std::vector<PlacedPatch> placed;
  int last = 0;
  for (const uint32_t patch : patches) {
    const auto place = static_cast<int>(patch >> 1);
    for (; place - last >= kNoPatchDistance; last += kNoPatchDistance) placed.push_back(kMoves);
    placed.push_back({place - last, (patch & 1) != 0});
    last = place;
  }
  const size_t packets = (placed.size() + kPacketPatches - 1) / kPacketPatches;
  placed.resize(packets * kPacketPatches, kMoves);
  for (size_t i = 0; i < placed.size(); i += 2) {
    const int both = placed[i].bits() | placed[i + 1].bits() << kPlacedPatchBits;
    for (int byte = 0; byte < 3; ++byte) to.push_back(static_cast<std::byte>(both >> (8 * byte) & 0xff));
  }
  return static_cast<int64_t>(packets);
}

namespace {

// Writes the patches of one tile after the other.
class PatchEncoder {
 public:
  PatchEncoder(Form form, Layout layout) : form_(form), layout_(layout) {}

  // Adds |delta| int8 patches of one cell each.
  void add(int row, int col, int delta) {
    const uint64_t patch = static_cast<uint64_t>(row + kLanes * col) << 1 | (delta < 0 ? 1 : 0);
    of_tile_.insert(of_tile_.end(), static_cast<size_t>(std::abs(delta)), patch);
  }
  void replace(const StoredPatch& patch, uint8_t sign) {
    of_tile_.push_back(static_cast<uint64_t>(patch.row | kLanes * patch.col | patch.exponent << 16) |
                       static_cast<uint64_t>(patch.substitute) << 24 | static_cast<uint64_t>(sign) << 32);
    largest_substitute_ = std::max(largest_substitute_, patch.substitute);
  }

  // Ends the tile and stores its patches column by column, so that neighbours are for different rows. Returns how many
  // are for the first kPatchCols columns.
  int64_t finish_tile() {
    std::sort(of_tile_.begin(), of_tile_.end(),
              [&](uint64_t a, uint64_t b) { return form_.floats ? (a & 0xffff) < (b & 0xffff) : a < b; });
    int64_t left = 0;
    std::vector<uint32_t> placed;
    for (const uint64_t patch : of_tile_) {
      const uint64_t position = patch >> 1, lane = position % kLanes, col = position / kLanes;
      if (form_.floats) {
        append<uint32_t>(bytes_, static_cast<uint32_t>(patch));
        signs_.push_back(static_cast<std::byte>(patch >> 32));
      } else if (layout_ == Layout::strips) {
        const uint64_t place = col / kLaneCols * kStripCols + lane * kLaneCols + col % kLaneCols;
        placed.push_back(static_cast<uint32_t>(place << 1 | (patch & 1)));
      } else {
        left += col < kPatchCols ? 1 : 0;
        append<uint16_t>(bytes_, static_cast<uint16_t>(position % (kLanes * kPatchCols) | (patch & 1) << 15));
      }
    }
    std::sort(placed.begin(), placed.end());
    count_ += layout_ == Layout::strips ? append_packets(placed, bytes_) : static_cast<int64_t>(of_tile_.size());
    of_tile_.clear();
    return left;
  }

  int64_t count() const { return count_; }  // finished tiles' patches; strips: packets
  int largest_substitute() const { return largest_substitute_; }
  // Takes the patches of the tiles that follow.
  void take(PatchEncoder&& next) {
    bytes_.insert(bytes_.end(), next.bytes_.begin(), next.bytes_.end());
    signs_.insert(signs_.end(), next.signs_.begin(), next.signs_.end());
    count_ += next.count_;
    largest_substitute_ = std::max(largest_substitute_, next.largest_substitute_);
  }
  std::vector<std::byte> finish() {
    bytes_.insert(bytes_.end(), signs_.begin(), signs_.end());
    return std::move(bytes_);
  }

 private:
  Form form_;
  Layout layout_;
  std::vector<uint64_t> of_tile_;  // column, row, whether it takes one; floats: as stored, and the sign from bit 32 on
  std::vector<std::byte> bytes_, signs_;
  int64_t count_ = 0;
  int largest_substitute_ = 0;
};

// Encodes row groups that follow each other, from number `first_group` on.
class Encoder {
 public:
  Encoder(datasets::MatrixView matrix, const Model& model, const Header& header, int64_t first_group)
      : patches(model.form, header.layout),
        first_group_(first_group),
        elements_(reinterpret_cast<const uint8_t*>(matrix.elements.data())),
        rows_(matrix.shape.rows),
        cols_(matrix.shape.cols),
        model_(model),
        form_(model.form),
        tile_cols_(tile_cols_of(header)),
        raw_row_bytes_(raw_bytes_of_cols(header, matrix.shape.cols)),
        raw_bytes_past_(raw_bytes_past(header, matrix.shape.cols)),
        segment_cols_(segment_cols(model.symbol_cols)) {
    for (int i = 0; i < 256; ++i) {
      const int w = form_.floats ? i : static_cast<int8_t>(i), clamped = model.clamped_high(w);
      high_[i] = static_cast<uint32_t>(clamped) | (model.high(w) == clamped && !model.always_patched(i) ? 0 : kOutside);
      low_[i] = static_cast<uint8_t>(model.raw(w));
    }
  }

  // Encodes tiles in the order in which they are stored. Returns false if a lane's segment has more code bits than any
  // may have.
  bool encode_tile(int64_t group, int64_t column) {
    const int64_t first_col = column * tile_cols_, tile_width = std::min<int64_t>(tile_cols_, cols_ - first_col);
    const int segments = static_cast<int>((tile_width + segment_cols_ - 1) / segment_cols_);
    const size_t segment_bytes = raw_bytes_of_segment(model_.symbol_cols, form_), raw_begin = raw.size();
    raw.resize(raw_begin + segment_bytes * static_cast<size_t>(segments));
    for (int lane = 0; lane < kLanes; ++lane) {
      strings_[lane].pending = 0, strings_[lane].pending_bits = 0, strings_[lane].filled = 0;
      const int64_t row = group * kLanes + lane;
      for (int s = 0; s < segments; ++s) {
        const int32_t before = strings_[lane].size();
        const int64_t col = first_col + int64_t{s} * segment_cols_;
        const int64_t there = row < rows_ ? std::min<int64_t>(segment_cols_, cols_ - col) : 0;
        load_segment(row * cols_ + col, there);
        encode_codes(there, lane, s * segment_cols_);
        store_raw(lane, raw.data() + raw_begin + segment_bytes * static_cast<size_t>(s));
        lanes_[lane].bits[s] = strings_[lane].size() - before;
        if (model_.rotated && lanes_[lane].bits[s] > kMostSegmentBits) return false;
        lanes_[lane].begin[s] = before;
      }
      strings_[lane].finish();
    }
    if (first_col + tile_width == cols_) raw.resize(static_cast<size_t>((group - first_group_ + 1) * raw_row_bytes_));

    const size_t schedule_begin = schedule.size();
    schedule.resize(schedule_begin + static_cast<size_t>(tile_cols_ / segment_cols_));
    std::array<uint8_t, kMostSegments> blocks;
    const int lines = static_cast<int>(make_schedule(lanes_, std::span(blocks).first(static_cast<size_t>(segments))));
    for (int s = 0; s < segments; ++s)
      schedule[schedule_begin + static_cast<size_t>(s)] = static_cast<std::byte>(blocks[s]);
    lines_words_.assign(static_cast<size_t>(lines) * kLineWords, 0);
    std::array<int, kLanes> lane_words;
    for (int lane = 0; lane < kLanes; ++lane) lane_words[lane] = lay_lane(lane, segments);
    const int full = full_lines(lines, lane_words);
    append_count(tiles, codes.size() / kUnitBytes);
    append_count(tiles, static_cast<uint64_t>(patches.count()));
    append_count(tiles, static_cast<uint64_t>(patches.finish_tile()));
    append_count(tiles, static_cast<uint64_t>(full / kBlockLines) | static_cast<uint64_t>(lines - full) << 16);
    append_codes(lines, full, lane_words);
    return true;
  }

  // Takes what another one made of the row groups that follow.
  void take(Encoder&& next) {
    for (size_t at = 0; at < next.tiles.size(); at += kTileBytes) {
      append_count(tiles, codes.size() / kUnitBytes + modelling::load<uint32_t>(next.tiles, at));
      append_count(tiles, static_cast<uint64_t>(patches.count()) + modelling::load<uint32_t>(next.tiles, at + 4));
      modelling::append_bytes(tiles, std::span(next.tiles).subspan(at + 8, kTileBytes - 8));
    }
    modelling::append_bytes(schedule, next.schedule);
    modelling::append_bytes(codes, next.codes);
    modelling::append_bytes(raw, next.raw);
    patches.take(std::move(next.patches));
    code_bits += next.code_bits;
  }

  void finish() {
    append_count(tiles, codes.size() / kUnitBytes);
    append_count(tiles, static_cast<uint64_t>(patches.count()));
    append<uint32_t>(tiles, 0);
    append<uint32_t>(tiles, 0);
    raw.resize(raw.size() + static_cast<size_t>(raw_bytes_past_));
  }

  std::vector<std::byte> tiles, schedule, codes, raw;
  PatchEncoder patches;
  int64_t code_bits = 0;  // codes and masks, without symbols past the edges of the matrix

 private:
  static constexpr uint32_t kOutside = 1u << 16;

  // Splits a segment into elements, high parts and raw bits. Columns past the last one have the lowest element.
  void load_segment(int64_t first, int64_t there) {
    const auto lowest = static_cast<uint8_t>(model_.lowest);
    values_.fill(lowest), signs_.fill(0);
    if (form_.f8)
      for (int64_t i = 0; i < there; ++i) {
        const uint8_t bits = elements_[first + i];
        values_[i] = bits >> 3 & 15, signs_[i] = bits & 0x87;
      }
    else if (form_.floats)
      for (int64_t i = 0; i < there; ++i) {
        const uint32_t bits = load_u16(elements_ + 2 * (first + i));
        values_[i] = static_cast<uint8_t>(bits >> 7),
        signs_[i] = static_cast<uint8_t>((bits >> 8 & 0x80) | (bits & 0x7f));
      }
    else
      std::copy_n(elements_ + first, std::max<int64_t>(0, there), values_.data());
    for (int i = 0; i < segment_cols_; ++i) lows_[i] = low_[values_[i]];
  }

  void encode_codes(int64_t there, int lane, int first_col) {
    model_.symbol_cols == 8 ? encode_codes_of<8>(there, lane, first_col) : encode_codes_of<4>(there, lane, first_col);
  }
  template <int each>
  void encode_codes_of(int64_t there, int lane, int first_col) {
    constexpr int bits = high_bits(each);
    for (int col = 0; col < segment_cols_; col += each) {
      uint32_t symbol = 0, outside = 0;
      for (int k = 0; k < each; ++k) {
        const uint32_t high = high_[values_[col + k]];
        symbol |= (high & 0xffff) << (bits * k);
        outside |= high;
      }
      const int64_t left = there - col;
      const SymbolCode& code = left >= each ? model_.codes[symbol]
                               : left > 0   ? model_.partial[symbol & ((1u << (bits * left)) - 1)]
                                            : model_.shortest;
      strings_[lane].put(code.bits, code.length);
      if (left > 0) code_bits += code.length;
      if (((outside & kOutside) != 0 || code.coded != symbol) && left > 0)
        for (int k = 0; k < std::min<int64_t>(left, each); ++k)
          patch(lane, first_col + col + k, col + k, high_of_symbol(code.coded, each, k));
    }
  }

  // `i` counts in the segment.
  void patch(int row, int col, int i, int coded_high) {
    const uint8_t value = values_[i];
    if (!form_.floats) {
      const int w = static_cast<int8_t>(value), cells = model_.high(w) - coded_high;
      return patches.add(row, col, model_.is_negative(w) ? -cells : cells);
    }
    const int substitute = model_.lowest + (coded_high << cell_bits(form_)) + lows_[i];
    if (substitute != value || model_.always_patched(value)) patches.replace({row, col, value, substitute}, signs_[i]);
  }

  void store_raw(int lane, std::byte* raw_words) {
    const int each = model_.symbol_cols, planes = sign_mantissa_bits(form_);
    for (int group = 0; group < segment_cols_ / 32; ++group) {
      const uint8_t *lows = lows_.data() + 32 * group, *signs = signs_.data() + 32 * group;
      std::array<uint32_t, 8> quads;
      std::array<uint32_t, kMostPlaneWords> words{};
      for (int q = 0; q < 8; ++q) quads[q] = load_u32(lows + 4 * q);
      if (has_exponent_eights(each, form_)) {
        pack_eights_signs(form_.f8, signs, words.data());
        pack_eights(lows, words.data() + planes);
      } else {
        if (form_.f8) pack_f8(signs, words.data());
        for (int q = 0; q < 8 && form_.floats && !form_.f8; ++q) words[q] = load_u32(signs + 4 * q);
        pack_raw(planes_of(form_), has_nibble_entries(each, form_), quads.data(), words.data() + planes);
      }
      for (int j = 0; j < form_.raw_bits; ++j)
        store_u32(words[j],
                  raw_words + raw_word_offset(each, form_, group, j) + 4 * raw_unit_words(each, form_) * lane);
    }
  }

  // Returns the words that the lane's string reaches.
  int lay_lane(int lane, int segments) {
    const BitString& string = strings_[lane];
    const LaneBits& bits = lanes_[lane];
    uint32_t* words = lines_words_.data() + lane;
    const int32_t end = bits.begin[segments - 1] + bits.bits[segments - 1];
    if (end == string.size()) {  // moved nowhere
      for (int k = 0; 32 * k < string.size(); ++k) words[k * kLineWords] = string.words[k];
      return (end + 31) / 32;
    }
    int32_t from = 0;
    for (int s = 0; s < segments; ++s)
      for (int32_t to = bits.begin[s], left = bits.bits[s]; left > 0;) {
        const int32_t count = std::min(left, 32 - to % 32);
        words[to / 32 * kLineWords] |= string.get(from, count) << (to % 32);
        from += count, to += count, left -= count;
      }
    return (end + 31) / 32;
  }

  // Chooses the number of full lines, in blocks, with the fewest bytes; a partial line has a mask, and costs decoders
  // time, too.
  static int full_lines(int lines, const std::array<int, kLanes>& lane_words) {
    const auto words_of = [&](int line) {
      return static_cast<int>(
          std::count_if(lane_words.begin(), lane_words.end(), [&](int words) { return words > line; }));
    };
    const int least = std::max(0, (lines - kMostPartialLines + kBlockLines - 1) / kBlockLines * kBlockLines),
              most = lines / kBlockLines * kBlockLines;
    int best = least, cost = 0, best_cost = 0;  // words more than with `least`
    for (int full = least; full < most;) {
      for (int i = 0; i < kBlockLines; ++i, ++full) cost += kLineWords - words_of(full) - 1;
      if (cost <= best_cost) best = full, best_cost = cost;
    }
    return best;
  }

  void append_codes(int lines, int full, const std::array<int, kLanes>& lane_words) {
    const auto fill_unit = [&] { codes.resize((codes.size() + kUnitBytes - 1) / kUnitBytes * kUnitBytes); };
    for (int line = full; line < lines; ++line) {
      uint32_t mask = 0;
      for (int lane = 0; lane < kLanes; ++lane) mask |= (line < lane_words[lane] ? 1u : 0) << lane;
      append<uint32_t>(codes, mask);
    }
    code_bits += 32 * int64_t{lines - full};
    fill_unit();
    const size_t begin = codes.size();
    codes.resize(begin + static_cast<size_t>(full) * kLineBytes);
    for (int i = 0; i < full * kLineWords; ++i) store_u32(lines_words_[i], codes.data() + begin + 4 * i);
    for (int line = full; line < lines; ++line)
      for (int lane = 0; lane < kLanes; ++lane)
        if (line < lane_words[lane]) append<uint32_t>(codes, lines_words_[line * kLineWords + lane]);
    fill_unit();
  }

  int64_t first_group_;
  const uint8_t* elements_;
  int64_t rows_, cols_;
  const Model& model_;
  Form form_;
  int tile_cols_;
  int64_t raw_row_bytes_, raw_bytes_past_;
  int segment_cols_;
  std::array<uint32_t, 256> high_;  // high part by element or exponent, clamped; kOutside where clamping changed it
  std::array<uint8_t, 256> low_;    // its raw bits
  std::array<uint8_t, kMostSegmentCols> values_, lows_,
      signs_;  // the segment's elements or exponents, their raw bits, signs and mantissas
  std::array<BitString, kLanes> strings_;
  std::array<LaneBits, kLanes> lanes_;
  std::vector<uint32_t> lines_words_;  // the tile's, word `lane` of line after line
};

// In the first part, for the bytes of all and `past` more: growing as they come would copy them again and again.
void make_room(const std::vector<std::unique_ptr<Encoder>>& parts, std::vector<std::byte> Encoder::*bytes,
               int64_t past = 0) {
  auto all = static_cast<size_t>(past);
  for (const auto& part : parts) all += (*part.*bytes).size();
  std::vector<std::byte> whole;
  whole.reserve(all);
  datasets::prefer_huge_pages({whole.data(), whole.capacity()});
  modelling::append_bytes(whole, *parts.front().*bytes);
  *parts.front().*bytes = std::move(whole);
}

}  // namespace

bool encode_sections(datasets::MatrixView matrix, const Model& model, int tile_cols, Layout layout,
                     CompressedMatrix& compressed) {
  Header header{.form = model.form,
                .table_bits = model.table_bits,
                .lowest = model.lowest,
                .tile_segments = tile_cols / segment_cols(model.symbol_cols),
                .symbol_cols = model.symbol_cols,
                .layout = layout,
                .rotated = model.rotated};
  // Parts of row groups, one for each million elements, so that all threads have work.
  const int64_t groups = row_groups(matrix.shape.rows),
                part_groups =
                    std::max<int64_t>(1, (int64_t{1} << 20) / kLanes / std::max<int64_t>(1, matrix.shape.cols)),
                count = std::max<int64_t>(1, (groups + part_groups - 1) / part_groups);
  std::vector<std::unique_ptr<Encoder>> parts(static_cast<size_t>(count));
  std::atomic<bool> fits = true;
  backends::cpu::Team::for_each(count, [&](int64_t number) {
    const int64_t first = number * part_groups;
    auto part = std::make_unique<Encoder>(matrix, model, header, first);
    for (int64_t group = first; group < std::min(groups, first + part_groups); ++group)
      for (int64_t column = 0; column < column_tiles(matrix.shape.cols, tile_cols); ++column)
        if (!fits || !part->encode_tile(group, column)) fits = false;
    parts[static_cast<size_t>(number)] = std::move(part);
  });
  if (!fits) return false;
  Encoder& encoder = *parts.front();
  make_room(parts, &Encoder::codes);
  make_room(parts, &Encoder::raw, raw_bytes_past(header, matrix.shape.cols));
  for (size_t i = 1; i < parts.size(); ++i) encoder.take(std::move(*parts[i])), parts[i].reset();
  encoder.finish();

  std::vector<std::byte> table;
  for (const uint32_t entry : model.table) append<uint32_t>(table, entry);

  const int64_t code_padding = static_cast<int64_t>(encoder.codes.size()) - (encoder.code_bits + 7) / 8;
  const int64_t raw_padding =
      static_cast<int64_t>(encoder.raw.size()) - (matrix.shape.elements() * model.form.raw_bits + 7) / 8;
  header.largest_substitute = encoder.patches.largest_substitute();
  compressed.sections.push_back({"header", Role::table, 64, write_header(header)});
  compressed.sections.push_back({"table", Role::table, 64, std::move(table)});
  compressed.sections.push_back({"tiles", Role::index, 64, std::move(encoder.tiles)});
  compressed.sections.push_back({"schedule", Role::index, 64, std::move(encoder.schedule)});
  compressed.sections.push_back({"codes", Role::payload, 64, std::move(encoder.codes), code_padding});
  compressed.sections.push_back({"raw", Role::payload, 64, std::move(encoder.raw), raw_padding});
  compressed.sections.push_back({"patches", Role::payload, 64, encoder.patches.finish()});
  return true;
}

}  // namespace ecmv::codecs::quad_huffman

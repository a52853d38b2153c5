// Tile by tile: each lane's codes as a string of bits without gaps, its raw words and its patches; then the schedule, and the strings
// are laid into the tile's lines, in pieces of segments where a lane is moved.
#include "codecs/quad_huffman/encode.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "codecs/quad_huffman/raw_planes.h"
#include "codecs/quad_huffman/schedule.h"
#include "codecs/quad_huffman/stored.h"

namespace ecmv::codecs::quad_huffman {
namespace {

void append_u32(std::vector<std::byte>& bytes, uint64_t value) {
  if (value > UINT32_MAX) throw std::length_error("quad_huffman counts lines and patches in 32 bits; this matrix needs more.");
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
}

void store_u32(uint32_t value, std::byte* at) {
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  std::memcpy(at, &value, 4);
}

// A string of bits, first bit lowest. Room for a lane of the widest tile with the longest codes.
struct BitString {
  std::array<uint32_t, kMostTileCols / 4 * kMostTableBits / 32 + 3> words;
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
  // `count` (1..32) bits from bit `at` on.
  uint32_t get(int32_t at, int count) const {
    const uint64_t both = words[at / 32] | static_cast<uint64_t>(words[at / 32 + 1]) << 32;
    return static_cast<uint32_t>(both >> (at % 32) & ((uint64_t{1} << count) - 1));
  }
};

class Encoder {
 public:
  Encoder(datasets::MatrixView matrix, const Model& model, int tile_cols)
      : elements_(reinterpret_cast<const uint8_t*>(matrix.elements.data())), rows_(matrix.shape.rows), cols_(matrix.shape.cols), model_(model), tile_cols_(tile_cols) {
    for (int w = -128; w < 128; ++w) {
      const int high = model.high(w), clamped = std::clamp(high, 0, kHighValues - 1);
      high_[w & 255] = static_cast<uint32_t>(clamped) | (high == clamped ? 0 : kOutside);
    }
  }

  // Tile after tile in the order in which they are stored.
  void encode_tile(int64_t group, int64_t column) {
    const int64_t first_col = column * tile_cols_, tile_width = std::min<int64_t>(tile_cols_, cols_ - first_col);
    const int segments = static_cast<int>((tile_width + kSegmentCols - 1) / kSegmentCols);
    const size_t segment_bytes = raw_bytes_of_segment(model_.raw_bits), raw_begin = raw.size();
    raw.resize(raw_begin + segment_bytes * static_cast<size_t>(segments));
    patches_.clear();
    for (int lane = 0; lane < kLanes; ++lane) {
      strings_[lane].pending = 0, strings_[lane].pending_bits = 0, strings_[lane].filled = 0;
      const int64_t row = group * kLanes + lane;
      for (int s = 0; s < segments; ++s) {
        const int32_t before = strings_[lane].size();
        const int64_t col = first_col + int64_t{s} * kSegmentCols;
        const int64_t there = row < rows_ ? std::min<int64_t>(kSegmentCols, cols_ - col) : 0;
        encode_segment(there > 0 ? elements_ + row * cols_ + col : elements_, there, lane, s * kSegmentCols, raw.data() + raw_begin + segment_bytes * static_cast<size_t>(s));
        lanes_[lane].bits[s] = strings_[lane].size() - before;
        lanes_[lane].begin[s] = before;
      }
      strings_[lane].finish();
    }

    append_u32(tiles, static_cast<uint64_t>(lines_));
    append_u32(tiles, static_cast<uint64_t>(patch_count_));
    const size_t schedule_begin = schedule.size();
    schedule.resize(schedule_begin + static_cast<size_t>(tile_segments(tile_cols_)));
    std::array<uint8_t, kMostSegments> blocks;
    const int64_t lines = make_schedule(lanes_, std::span(blocks).first(static_cast<size_t>(segments)));
    for (int s = 0; s < segments; ++s) schedule[schedule_begin + static_cast<size_t>(s)] = static_cast<std::byte>(blocks[s]);
    codes.resize(codes.size() + static_cast<size_t>(lines) * kLineBytes);
    for (int lane = 0; lane < kLanes; ++lane) lay_lane(lane, segments, codes.data() + lines_ * kLineBytes);
    lines_ += lines;
    append_patches();
  }

  void finish() {
    append_u32(tiles, static_cast<uint64_t>(lines_));
    append_u32(tiles, static_cast<uint64_t>(patch_count_));
  }

  std::vector<std::byte> tiles, schedule, codes, raw, positions, deltas;
  int64_t code_bits = 0;

 private:
  static constexpr uint32_t kOutside = 1u << 16;

  void encode_segment(const uint8_t* w, int64_t there, int lane, int first_col, std::byte* raw_words) {
    std::array<uint8_t, kSegmentCols> filled;
    if (there < kSegmentCols) {
      filled.fill(static_cast<uint8_t>(model_.lowest));
      std::copy_n(w, there, filled.data());
      w = filled.data();
    }
    std::array<uint32_t, kSegmentCols / 4> raw_quads;
    const uint32_t raw_mask = low_bits_of_bytes(model_.raw_bits);
    const uint32_t offset = 0x01010101u * (static_cast<uint32_t>(-model_.lowest) & 0x7f);
    for (int col = 0; col < kSegmentCols; col += 4) {
      raw_quads[col / 4] = ((load_u32(w + col) & 0x7f7f7f7fu) + offset) & raw_mask;  // 7 bits each: no carry between bytes
      const uint32_t high = high_[w[col]] | high_[w[col + 1]] << 4 | high_[w[col + 2]] << 8 | high_[w[col + 3]] << 12;
      const uint32_t outside = high_[w[col]] | high_[w[col + 1]] | high_[w[col + 2]] | high_[w[col + 3]];
      const int64_t left = there - col;
      const uint32_t quad = high & 0xffff;
      const QuadCode& code = left >= 4 ? model_.codes[quad] : left > 0 ? model_.partial[quad & ((1u << (4 * left)) - 1)] : model_.shortest;
      strings_[lane].put(code.bits, code.length);
      if (((outside & kOutside) != 0 || code.coded != quad) && left > 0)
        for (int k = 0; k < std::min<int64_t>(left, 4); ++k)
          add_patches(lane + kLanes * (first_col + col + k), model_.high(static_cast<int8_t>(w[col + k])) - high_of_quad(code.coded, k));
    }
    for (int part = 0; part < kSegmentCols / 32; ++part) {
      std::array<uint32_t, kMostRawBits> words;
      pack_raw(model_.raw_bits, raw_quads.data() + 8 * part, words.data());
      for (int j = 0; j < model_.raw_bits; ++j) store_u32(words[j], raw_words + raw_word_offset(model_.raw_bits, part, j) + 8 * lane);
    }
  }

  void add_patches(int position, int delta) {
    while (delta != 0) {
      const int part = std::clamp(delta, -kMostDown, kMostUp);
      patches_.push_back(static_cast<uint32_t>(position) << 4 | (static_cast<uint32_t>(part) & 15));
      delta -= part;
    }
  }

  // Column by column: neighbouring records then are for different rows.
  void append_patches() {
    std::sort(patches_.begin(), patches_.end());
    for (const uint32_t patch : patches_) {
      positions.push_back(static_cast<std::byte>(patch >> 4 & 0xff));
      positions.push_back(static_cast<std::byte>(patch >> 12));
      const uint32_t delta = patch & 15;
      if (patch_count_ % 2 == 0)
        deltas.push_back(static_cast<std::byte>(delta));
      else
        deltas.back() |= static_cast<std::byte>(delta << 4);
      ++patch_count_;
    }
  }

  void lay_lane(int lane, int segments, std::byte* lines) {
    const BitString& string = strings_[lane];
    code_bits += string.size();
    const LaneBits& bits = lanes_[lane];
    std::byte* words = lines + 4 * lane;
    if (bits.begin[segments - 1] + bits.bits[segments - 1] == string.size()) {  // moved nowhere
      for (int k = 0; 32 * k < string.size(); ++k) store_u32(string.words[k], words + int64_t{k} * kLineBytes);
      return;
    }
    int32_t from = 0;
    for (int s = 0; s < segments; ++s)
      for (int32_t to = bits.begin[s], left = bits.bits[s]; left > 0;) {
        const int32_t count = std::min(left, 32 - to % 32);
        std::byte* word = words + int64_t{to / 32} * kLineBytes;
        store_u32(load_u32(reinterpret_cast<const uint8_t*>(word)) | string.get(from, count) << (to % 32), word);
        from += count, to += count, left -= count;
      }
  }

  const uint8_t* elements_;
  int64_t rows_, cols_;
  const Model& model_;
  int tile_cols_;
  std::array<uint32_t, 256> high_;  // of an element, clamped; kOutside where that changed it
  std::array<BitString, kLanes> strings_;
  std::array<LaneBits, kLanes> lanes_;
  std::vector<uint32_t> patches_;   // of the tile: position << 4 | delta
  int64_t lines_ = 0, patch_count_ = 0;
};

}  // namespace

void encode_sections(datasets::MatrixView matrix, const Model& model, int tile_cols, CompressedMatrix& compressed) {
  Encoder encoder(matrix, model, tile_cols);
  for (int64_t group = 0; group < row_groups(matrix.shape.rows); ++group)
    for (int64_t column = 0; column < column_tiles(matrix.shape.cols, tile_cols); ++column) encoder.encode_tile(group, column);
  encoder.finish();

  const auto byte = [](int value) { return static_cast<std::byte>(value & 0xff); };
  std::vector<std::byte> header = {byte(model.raw_bits), byte(model.table_bits), byte(model.lowest), byte(model.lowest >> 8), byte(std::countr_zero(static_cast<uint32_t>(tile_cols)))};
  std::vector<std::byte> table;
  for (const uint32_t entry : model.table) append_u32(table, entry);

  const int64_t code_padding = static_cast<int64_t>(encoder.codes.size()) - (encoder.code_bits + 7) / 8;
  compressed.sections.push_back({"header", Role::table, 64, std::move(header)});
  compressed.sections.push_back({"table", Role::table, 64, std::move(table)});
  compressed.sections.push_back({"tiles", Role::index, 64, std::move(encoder.tiles)});
  compressed.sections.push_back({"schedule", Role::index, 64, std::move(encoder.schedule)});
  compressed.sections.push_back({"codes", Role::payload, 64, std::move(encoder.codes), code_padding});
  compressed.sections.push_back({"raw", Role::payload, 64, std::move(encoder.raw)});
  compressed.sections.push_back({"positions", Role::index, 64, std::move(encoder.positions)});
  compressed.sections.push_back({"deltas", Role::payload, 64, std::move(encoder.deltas)});
}

}  // namespace ecmv::codecs::quad_huffman

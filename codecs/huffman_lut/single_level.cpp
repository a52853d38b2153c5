// Encoder and bounds-checked reference decoder of `single_level`. Each block of rows is coded by itself: S bit streams,
// raw bits row by row, and a list of patches. The encoder replaces each tuple that has no code by its substitute and
// patches the elements that then differ.
#include "codecs/compressed_matrix.h"
#include "codecs/huffman_lut/layouts.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "codecs/huffman_lut/format.h"
#include "codecs/huffman_lut/tuple_code.h"
#include "codecs/modelling/bytes.h"

namespace ecmv::codecs::huffman_lut::single_level {
namespace {

using modelling::append, modelling::load;

// Packs bits into bytes, the first bit least significant.
class LsbWriter {
 public:
  void put(uint32_t value, int bits) {
    pending_ |= uint64_t{value} << pending_bits_;
    pending_bits_ += bits;
    while (pending_bits_ >= 8) drop_byte();
  }
  // The bits that finish() adds to fill the last byte.
  int missing_bits() const { return -pending_bits_ & 7; }
  std::vector<std::byte> finish() {
    if (pending_bits_ > 0) drop_byte();
    pending_ = 0;
    pending_bits_ = 0;
    return std::exchange(bytes_, {});
  }

 private:
  void drop_byte() {
    bytes_.push_back(static_cast<std::byte>(pending_ & 0xff));
    pending_ >>= 8;
    pending_bits_ -= 8;
  }
  std::vector<std::byte> bytes_;
  uint64_t pending_ = 0;
  int pending_bits_ = 0;
};

struct Plan {
  int tuple, streams, table_bits;
  int64_t rows, cols, block_rows, blocks, units;
};

Plan plan_of(datasets::Shape shape, const Settings& settings) {
  Plan plan{static_cast<int>(settings.integer("tuple")),
            static_cast<int>(settings.integer("streams")),
            static_cast<int>(settings.integer("table_bits")),
            shape.rows,
            shape.cols,
            0,
            0,
            0};
  plan.block_rows = rows_per_block(plan.cols, settings.integer("block_elements"));
  plan.blocks = plan.cols == 0 ? 0 : (plan.rows + plan.block_rows - 1) / plan.block_rows;
  plan.units = units_of(plan.cols, plan.tuple);
  return plan;
}

// Encodes one block at a time, appending to the sections.
class BlockEncoder {
 public:
  BlockEncoder(const Plan& plan, const TupleCode& code)
      : plan_(plan), code_(code), offsets_(static_cast<size_t>(plan.cols)) {}

  std::vector<std::byte> streams, raw_bits, patches, blocks;
  int64_t stream_filler_bits = 0;  // up to whole bytes

  void encode(const int8_t* rows, int64_t row_count) {
    append<uint64_t>(blocks, streams.size());
    append<uint64_t>(blocks, patches.size() / kPatchBytes);
    since_patch_ = 0;
    for (int64_t row = 0; row < row_count; ++row) encode_row(rows + row * plan_.cols);
    for (int j = 0; j < plan_.streams; ++j) {
      stream_filler_bits += writers_[j].missing_bits();
      const std::vector<std::byte> bytes = writers_[j].finish();
      append<uint32_t>(blocks, bytes.size());
      streams.insert(streams.end(), bytes.begin(), bytes.end());
    }
  }

 private:
  void encode_row(const int8_t* row) {
    for (int64_t unit = 0; unit < plan_.units; ++unit) {
      const int64_t column = unit_column(unit, plan_.tuple);
      uint32_t tuple = 0;
      for (int i = 0; i < plan_.tuple; ++i) {
        const int64_t at = column + kColumnOfTuple[i];
        tuple |= code_.high_of(row[at < plan_.cols ? at : column]) << tuple_shift(i, plan_.tuple);
      }
      tuple = code_.substitute[tuple];
      writers_[unit % plan_.streams].put(code_.codes[tuple], code_.lengths[tuple]);
      for (int i = 0; i < plan_.tuple; ++i) {
        const int64_t at = column + kColumnOfTuple[i];
        if (at < plan_.cols)
          offsets_[static_cast<size_t>(at)] =
              offset_near(row[at], tuple >> tuple_shift(i, plan_.tuple) & (plan_.tuple == 2 ? 0xffu : 0xfu));
      }
    }
    for (int64_t column = 0; column < plan_.cols; ++column, ++since_patch_)
      patch(row[column] - (code_.lowest + offsets_[static_cast<size_t>(column)]));
    for (int64_t tile = 0; tile < plan_.cols; tile += kTileCols)
      put_raw(tile, std::min<int64_t>(kTileCols, plan_.cols - tile));
  }

  // The offset with that high part whose element is nearest to `element`, among the elements that int8 can hold.
  int32_t offset_near(int32_t element, uint32_t high) const {
    const int32_t first = static_cast<int32_t>(high << code_.raw_bits), last = first + (1 << code_.raw_bits) - 1;
    return std::clamp(element - code_.lowest, std::max(first, -128 - code_.lowest), std::min(last, 127 - code_.lowest));
  }

  void patch(int32_t difference) {
    while (difference != 0) {
      const int32_t addend = std::clamp(difference, -128, 127);
      for (; since_patch_ > 0xffff; since_patch_ -= 0xffff) put_patch(0xffff, 0);
      put_patch(static_cast<uint16_t>(since_patch_), addend);
      since_patch_ = 0;
      difference -= addend;
    }
  }
  void put_patch(uint16_t gap, int32_t addend) {
    append<uint16_t>(patches, gap);
    append<int8_t>(patches, addend);
  }

  void put_raw(int64_t first, int64_t cols) {
    int below = code_.raw_bits;
    for (int width = 4; width > 0; width /= 2) {
      if ((code_.raw_bits & width) == 0) continue;
      below -= width;
      const int64_t bytes = plane_bytes(cols, width);
      const size_t base = raw_bits.size();
      raw_bits.resize(base + static_cast<size_t>(bytes));
      for (int64_t column = 0; column < cols; ++column) {
        const int field = offsets_[static_cast<size_t>(first + column)] >> below & ((1 << width) - 1);
        raw_bits[base + static_cast<size_t>(column % bytes)] |=
            static_cast<std::byte>(field << (width * (column / bytes)));
      }
    }
  }

  const Plan plan_;
  const TupleCode& code_;
  LsbWriter writers_[kMaxStreams];
  std::vector<int32_t> offsets_;  // [cols] of the current row
  int64_t since_patch_ = 0;       // elements since the last patch of the block
};

// The reference decoder's table of a tuple code: length << 16 | tuple for every window of table_bits bits.
std::vector<uint32_t> read_code(std::span<const std::byte> bytes, const Plan& plan, CodeHeader& header) {
  if (bytes.size() < sizeof(CodeHeader)) throw MalformedStream("The tuple code is shorter than its header.");
  header.lowest = load<int32_t>(bytes, 0);
  header.raw_bits = load<uint32_t>(bytes, 4);
  int64_t codes = 0;
  uint64_t share = 0;
  for (int length = 0; length < kMaxTableBits + 2; ++length) {
    header.codes_of_length[length] = load<uint16_t>(bytes, 8 + 2 * length);
    codes += header.codes_of_length[length];
    if (length > plan.table_bits && header.codes_of_length[length] > 0)
      throw MalformedStream("The tuple code has codes longer than table_bits.");
    if (length <= plan.table_bits) share += uint64_t{header.codes_of_length[length]} << (plan.table_bits - length);
  }
  if (header.raw_bits > 7) throw MalformedStream("The tuple code names more than 7 raw bits.");
  if (header.lowest < -255 || header.lowest > 127)
    throw MalformedStream("The tuple code's lowest element is out of range.");
  if (bytes.size() != sizeof(CodeHeader) + 2 * static_cast<size_t>(codes))
    throw MalformedStream("The tuple code does not hold the tuples that its lengths name.");
  const size_t windows = size_t{1} << plan.table_bits;
  if (share != (plan.blocks == 0 ? 0 : windows))
    throw MalformedStream("The tuple code's lengths are not those of a complete prefix code.");
  std::vector<uint32_t> table(windows, 0);
  size_t next = 0;
  for (uint32_t length = 0, rank = 0; length <= static_cast<uint32_t>(plan.table_bits); ++length)
    for (int i = 0; i < header.codes_of_length[length]; ++i, ++rank) {
      const uint32_t tuple = load<uint16_t>(bytes, sizeof(CodeHeader) + 2 * rank);
      for (size_t fill = 0; fill < windows >> length; ++fill, ++next) {
        size_t reversed = 0;
        for (int bit = 0; bit < plan.table_bits; ++bit) reversed |= (next >> bit & 1) << (plan.table_bits - 1 - bit);
        table[reversed] = length << 16 | tuple;
      }
    }
  return table;
}

struct StreamReader {
  std::span<const std::byte> bytes;
  int64_t position = 0;  // in bits

  uint32_t take(const std::vector<uint32_t>& table, int table_bits) {
    uint64_t window = 0;
    const size_t first = static_cast<size_t>(position >> 3);
    for (size_t i = 0; i < 3 && first + i < bytes.size(); ++i)
      window |= std::to_integer<uint64_t>(bytes[first + i]) << (8 * i);
    const uint32_t entry = table[window >> (position & 7) & ((uint64_t{1} << table_bits) - 1)];
    position += entry >> 16;
    if (position > static_cast<int64_t>(bytes.size()) * 8)
      throw MalformedStream("A stream of tuples ends inside a code.");
    return entry & 0xffff;
  }
};

// Writes the rows of one block to `out` as int32, without patches.
void decode_rows(const CompressedView& compressed, const Plan& plan, const CodeHeader& header,
                 const std::vector<uint32_t>& table, StreamReader* readers, int64_t first_row, int64_t row_count,
                 std::vector<int32_t>& out) {
  const int raw_bits = static_cast<int>(header.raw_bits);
  const int64_t row_bytes = raw_row_bytes(plan.cols, raw_bits);
  const std::span<const std::byte> raw = compressed.sections[kRawBits].bytes;
  for (int64_t row = 0; row < row_count; ++row) {
    int32_t* elements = out.data() + row * plan.cols;
    for (int64_t unit = 0; unit < plan.units; ++unit) {
      const uint32_t tuple = readers[unit % plan.streams].take(table, plan.table_bits);
      for (int i = 0; i < plan.tuple; ++i) {
        const int64_t at = unit_column(unit, plan.tuple) + kColumnOfTuple[i];
        const uint32_t high = tuple >> tuple_shift(i, plan.tuple) & (plan.tuple == 2 ? 0xff : 0xf);
        if (at < plan.cols) elements[at] = header.lowest + static_cast<int32_t>(high << raw_bits);
      }
    }
    int64_t byte = (first_row + row) * row_bytes;
    for (int64_t tile = 0; tile < plan.cols; tile += kTileCols) {
      const int64_t cols = std::min<int64_t>(kTileCols, plan.cols - tile);
      int below = raw_bits;
      for (int width = 4; width > 0; width /= 2) {
        if ((raw_bits & width) == 0) continue;
        below -= width;
        const int64_t bytes = plane_bytes(cols, width);
        for (int64_t column = 0; column < cols; ++column)
          elements[tile + column] +=
              (std::to_integer<int32_t>(raw[static_cast<size_t>(byte + column % bytes)]) >> (width * (column / bytes)) &
               ((1 << width) - 1))
              << below;
        byte += bytes;
      }
    }
  }
  for (const int32_t element : std::span(out).first(static_cast<size_t>(row_count * plan.cols)))
    if (element < -128 || element > 127) throw MalformedStream("An unpatched element does not fit int8.");
}

}  // namespace

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  return matrix.type == datasets::ElementType::i8 ? "" : "huffman_lut stores int8 elements only.";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const Plan plan = plan_of(matrix.shape, settings);
  const TupleCode code =
      make_tuple_code(matrix, plan.tuple, plan.table_bits, static_cast<int>(settings.integer("raw_bits")));
  BlockEncoder encoder(plan, code);
  for (int64_t block = 0; block < plan.blocks; ++block)
    encoder.encode(matrix.i8().data() + block * plan.block_rows * plan.cols,
                   std::min(plan.block_rows, plan.rows - block * plan.block_rows));
  append<uint64_t>(encoder.blocks, encoder.streams.size());
  append<uint64_t>(encoder.blocks, encoder.patches.size() / kPatchBytes);
  encoder.blocks.resize(static_cast<size_t>((plan.blocks + 1) * block_record_bytes(plan.streams)));
  encoder.streams.resize(encoder.streams.size() + kStreamPadding);
  encoder.patches.resize(encoder.patches.size() + kPatchPadding);

  std::vector<std::byte> table;
  append<int32_t>(table, code.lowest);
  append<uint32_t>(table, code.raw_bits);
  uint16_t of_length[kMaxTableBits + 2] = {};
  for (const uint16_t tuple : code.order) ++of_length[code.lengths[tuple]];
  for (const uint16_t count : of_length) append<uint16_t>(table, count);
  for (const uint16_t tuple : code.order) append<uint16_t>(table, tuple);

  const int64_t raw_padding =
      static_cast<int64_t>(encoder.raw_bits.size()) - (matrix.shape.elements() * code.raw_bits + 7) / 8;
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections = {
      {"streams", Role::payload, 64, std::move(encoder.streams), kStreamPadding + encoder.stream_filler_bits / 8},
      {"raw_bits", Role::payload, 64, std::move(encoder.raw_bits), raw_padding},
      {"patches", Role::payload, 64, std::move(encoder.patches), kPatchPadding},
      {"code", Role::table, 64, std::move(table)},
      {"blocks", Role::index, 64, std::move(encoder.blocks)}};
  return compressed;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  const Plan plan = plan_of(compressed.shape, *compressed.settings);
  if (compressed.sections.size() != kSections) throw MalformedStream("A single_level stream has five sections.");
  CodeHeader header{};
  const std::vector<uint32_t> table = read_code(compressed.sections[kCode].bytes, plan, header);
  const std::span<const std::byte> streams = compressed.sections[kStreams].bytes,
                                   patches = compressed.sections[kPatches].bytes;
  const std::span<const std::byte> blocks = compressed.sections[kBlocks].bytes;
  const int64_t record = block_record_bytes(plan.streams);
  if (static_cast<int64_t>(blocks.size()) != (plan.blocks + 1) * record)
    throw MalformedStream("The block index does not have a record for every block.");
  if (static_cast<int64_t>(compressed.sections[kRawBits].bytes.size()) !=
      plan.rows * raw_row_bytes(plan.cols, static_cast<int>(header.raw_bits)))
    throw MalformedStream("The raw bits do not fill their rows.");
  if (streams.size() < kStreamPadding || patches.size() < kPatchPadding ||
      (patches.size() - kPatchPadding) % kPatchBytes != 0)
    throw MalformedStream("A section of the streams or patches lacks its spare bytes.");
  const uint64_t stream_end = streams.size() - kStreamPadding,
                 patch_end = (patches.size() - kPatchPadding) / kPatchBytes;
  const auto stream_begin = [&](int64_t block) { return load<uint64_t>(blocks, block * record); };
  const auto patch_begin = [&](int64_t block) { return load<uint64_t>(blocks, block * record + 8); };
  if (stream_begin(0) != 0 || patch_begin(0) != 0 || stream_begin(plan.blocks) != stream_end ||
      patch_begin(plan.blocks) != patch_end)
    throw MalformedStream("The block index does not span the streams and patches.");

  std::vector<int32_t> elements(static_cast<size_t>(std::min(plan.block_rows, plan.rows) * plan.cols));
  for (int64_t block = 0; block < plan.blocks; ++block) {
    const int64_t first_row = block * plan.block_rows, row_count = std::min(plan.block_rows, plan.rows - first_row);
    uint64_t position = stream_begin(block);
    if (position > stream_end || patch_begin(block) > patch_begin(block + 1) || patch_begin(block + 1) > patch_end)
      throw MalformedStream("The block index is not monotone.");
    StreamReader readers[kMaxStreams];
    for (int j = 0; j < plan.streams; ++j) {
      const uint32_t bytes = load<uint32_t>(blocks, block * record + 16 + 4 * j);
      if (bytes > stream_end - position) throw MalformedStream("A stream ends past its section.");
      readers[j].bytes = streams.subspan(static_cast<size_t>(position), bytes);
      position += bytes;
    }
    if (position != stream_begin(block + 1)) throw MalformedStream("The streams of a block do not fill it.");
    decode_rows(compressed, plan, header, table, readers, first_row, row_count, elements);
    for (int j = 0; j < plan.streams; ++j)
      if (readers[j].position + 8 <= static_cast<int64_t>(readers[j].bytes.size()) * 8)
        throw MalformedStream("A stream is longer than its codes.");

    uint64_t element = 0;
    for (uint64_t patch = patch_begin(block); patch < patch_begin(block + 1); ++patch) {
      element += load<uint16_t>(patches, patch * kPatchBytes);
      if (element >= static_cast<uint64_t>(row_count * plan.cols))
        throw MalformedStream("A patch lies past its block.");
      elements[element] += load<int8_t>(patches, patch * kPatchBytes + 2);
    }
    for (int64_t i = 0; i < row_count * plan.cols; ++i) {
      if (elements[static_cast<size_t>(i)] < -128 || elements[static_cast<size_t>(i)] > 127)
        throw MalformedStream("A patched element does not fit int8.");
      out[static_cast<size_t>(first_row * plan.cols + i)] = static_cast<std::byte>(elements[static_cast<size_t>(i)]);
    }
  }
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  const Plan plan = plan_of(shape, settings);
  if (plan.blocks == 0)
    return static_cast<int64_t>(sizeof(CodeHeader)) + 2 + block_record_bytes(plan.streams) + kStreamPadding +
           kPatchPadding;
  // At most: a code a unit, seven raw bits, three addends an element (a difference is at most 255), and an empty patch
  // for every 65535 elements.
  const int64_t payload = (plan.units * plan.table_bits + 7) / 8 * plan.rows + raw_row_bytes(plan.cols, 7) * plan.rows +
                          kPatchBytes * (3 * shape.elements() + shape.elements() / 0xffff) + kStreamPadding +
                          kPatchPadding;
  return payload + static_cast<int64_t>(sizeof(CodeHeader)) + (int64_t{2} << plan.table_bits) +
         plan.blocks * plan.streams + (plan.blocks + 1) * block_record_bytes(plan.streams);
}

}  // namespace ecmv::codecs::huffman_lut::single_level

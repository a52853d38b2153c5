// tans: table asymmetric numeral systems with a static model, many interleaved states, and single elements or pairs as
// symbols. Encoding runs backwards over a block; every lane starts in state 0, the lowest, so decoding must end there.
#include "codecs/codec.h"

#include <array>
#include <bit>
#include <string>

#include "codecs/tans/format.h"
#include "codecs/tans/model.h"

namespace ecmv::codecs::tans {
namespace {

std::string refuses(datasets::MatrixView matrix, const Settings& settings) {
  if (matrix.type != datasets::ElementType::i8) return "tans codes int8 elements only.";
  const int64_t lanes = settings.integer("lanes");
  if ((lanes & (lanes - 1)) != 0)
    return "tans interleaves 1, 2, 4, 8, 16, 32 or 64 lanes, not " + std::to_string(lanes) + ".";
  return "";
}

// The symbol number of each value, and each symbol's next state by occurrence.
struct EncoderTable {
  std::vector<uint16_t> symbol_of_value;
  std::vector<uint32_t> first;  // by symbol: where its occurrences begin in next_state
  std::vector<uint16_t> next_state;
  int padding = 0;  // the most frequent symbol that is no escape

  EncoderTable(const Model& model, const Layout& layout)
      : symbol_of_value(1 << 16, static_cast<uint16_t>(model.symbols - 1)), next_state(size_t{1} << model.table_bits) {
    const int listed = model.symbols - (model.has_escape ? 1 : 0);
    uint32_t begin = 0;
    for (int s = 0; s < model.symbols; ++s) {
      first.push_back(begin);
      begin += model.frequency[s];
      if (s < listed) symbol_of_value[model.value[s]] = static_cast<uint16_t>(s);
      if (s < listed && model.frequency[s] > model.frequency[padding]) padding = s;
    }
    std::vector<uint16_t> symbol_of_slot(next_state.size());
    spread_symbols(model, layout.even_spread, symbol_of_slot.data());
    std::vector<uint32_t> occurrence = first;
    for (size_t slot = 0; slot < symbol_of_slot.size(); ++slot)
      next_state[occurrence[symbol_of_slot[slot]]++] = static_cast<uint16_t>(slot);
  }
};

// The bits that one symbol adds to the stream.
struct Push {
  uint32_t bits;
  uint8_t count;
};

// Returns how many of the bits are filler: those up to a whole byte, and those of the last step's filling, where all
// lanes begin in the same state and so put out zeros for any symbol.
int64_t encode_block(std::span<const int8_t> elements, const Model& model, const EncoderTable& table,
                     const Layout& layout, std::vector<std::byte>& out) {
  const uint32_t size = 1u << model.table_bits;
  const int64_t count = static_cast<int64_t>(elements.size()), each = layout.elements_per_symbol();
  const int64_t steps = (count + layout.elements_per_step() - 1) / layout.elements_per_step();
  const uint32_t padding = model.symbols == 1 && model.has_escape ? 0 : model.value[table.padding];
  std::array<uint32_t, kMaxLanes> states;
  states.fill(size);
  int64_t filler = 0;
  std::vector<Push> pushes;
  pushes.reserve(static_cast<size_t>(steps * layout.lanes));
  for (int64_t i = steps * layout.lanes - 1; i >= 0; --i) {
    uint32_t value = padding;
    if (i * each < count) {
      const auto low = static_cast<uint8_t>(elements[i * each]);
      value = layout.pairs ? low | static_cast<uint8_t>(elements[std::min(2 * i + 1, count - 1)]) << 8 : low;
    }
    const uint32_t s = table.symbol_of_value[value], q = model.frequency[s];
    const bool escape = model.has_escape && static_cast<int>(s) == model.symbols - 1;
    uint32_t& x = states[i % layout.lanes];
    int bits = std::bit_width(x) - std::bit_width(q);
    if ((x >> bits) < q) --bits;
    Push push{x & ((1u << bits) - 1), static_cast<uint8_t>(bits)};
    if (escape) push = {push.bits | value << bits, static_cast<uint8_t>(bits + kEscapeBits)};
    pushes.push_back(push);
    if (i >= (steps - 1) * layout.lanes) filler += i * each < count ? bits : push.count;
    x = size + table.next_state[table.first[s] + (x >> bits) - q];
  }
  for (int lane = 0; lane < layout.lanes; ++lane) {
    out.push_back(static_cast<std::byte>((states[lane] - size) & 255));
    out.push_back(static_cast<std::byte>((states[lane] - size) >> 8));
  }
  uint64_t window = 0;
  int filled = 0;
  for (size_t i = pushes.size(); i-- > 0;) {
    window |= uint64_t{pushes[i].bits} << filled;
    filled += pushes[i].count;
    for (; filled >= 8; filled -= 8, window >>= 8) out.push_back(static_cast<std::byte>(window));
  }
  if (filled == 0) return filler;
  out.push_back(static_cast<std::byte>(window));
  return filler + 8 - filled;
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections = {
      {"alphabet", Role::table, 64, {}}, {"block_offsets", Role::index, 64, {}}, {"payload", Role::payload, 64, {}}};
  const Layout layout = layout_of(matrix.shape, settings);
  if (layout.blocks == 0) return compressed;
  const Model model = fit_model(matrix.i8(), matrix.shape.cols, layout);
  const EncoderTable table(model, layout);
  compressed.sections[kAlphabet].bytes = write_alphabet(model, layout);
  std::vector<std::byte>& payload = compressed.sections[kPayload].bytes;
  std::vector<std::byte>& offsets = compressed.sections[kBlockOffsets].bytes;
  const auto append_offset = [&] {
    for (int i = 0; i < 8; ++i)
      offsets.push_back(static_cast<std::byte>(static_cast<uint64_t>(payload.size()) >> (8 * i)));
  };
  int64_t begin = 0, filler_bits = 0;
  for (int64_t block = 0; block < layout.blocks; ++block) {
    append_offset();
    const int64_t count = block_elements(layout, matrix.shape, block);
    filler_bits += encode_block(matrix.i8().subspan(begin, count), model, table, layout, payload);
    begin += count;
  }
  append_offset();
  payload.resize(payload.size() + kPayloadPadding);
  compressed.sections[kPayload].padding_bytes = kPayloadPadding + filler_bits / 8;
  return compressed;
}

// Takes bits from the low end, never past the last byte.
struct BitCursor {
  std::span<const std::byte> bytes;
  size_t position = 0;  // in bits

  uint32_t take(uint32_t count) {
    if (count > 8 * bytes.size() - position) throw MalformedStream("A block of a tans stream ends too early.");
    uint32_t value = 0;
    for (uint32_t i = 0; i < count; ++i, ++position)
      value |= (static_cast<uint32_t>(bytes[position / 8]) >> (position % 8) & 1) << i;
    return value;
  }
};

void decode_block(std::span<const std::byte> bytes, const std::vector<Entry>& table, const Layout& layout,
                  std::span<std::byte> out) {
  if (bytes.size() < 2 * static_cast<size_t>(layout.lanes))
    throw MalformedStream("A block of a tans stream is shorter than its states.");
  std::array<uint32_t, kMaxLanes> states;
  for (int lane = 0; lane < layout.lanes; ++lane) {
    states[lane] = static_cast<uint32_t>(bytes[2 * lane]) | static_cast<uint32_t>(bytes[2 * lane + 1]) << 8;
    if (states[lane] >= table.size()) throw MalformedStream("A state of a tans stream is out of its range.");
  }
  BitCursor cursor{bytes.subspan(2 * static_cast<size_t>(layout.lanes))};
  const size_t each = layout.elements_per_symbol(), step = layout.elements_per_step();
  const size_t symbols = (out.size() + step - 1) / step * layout.lanes;
  for (size_t i = 0; i < symbols; ++i) {
    uint32_t& state = states[i % layout.lanes];
    const Entry entry = table[state];
    uint32_t value = entry & 0xFFFF, bits = entry >> 28;
    const bool escape = bits == kEscapeMark;
    if (escape) bits = value;
    state = (entry >> 16 & 0xFFF) + cursor.take(bits);
    if (escape) value = cursor.take(kEscapeBits);
    for (size_t j = 0; j < each; ++j)
      if (i * each + j < out.size()) out[i * each + j] = static_cast<std::byte>(value >> (8 * j) & 255);
  }
  for (int lane = 0; lane < layout.lanes; ++lane)
    if (states[lane] != 0) throw MalformedStream("A lane of a tans stream does not end in its start state.");
  const size_t left = 8 * cursor.bytes.size() - cursor.position;
  if (left >= 8 || cursor.take(static_cast<uint32_t>(left)) != 0)
    throw MalformedStream("A block of a tans stream holds more bits than its elements need.");
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  const Layout layout = layout_of(compressed.shape, *compressed.settings);
  if (compressed.sections.size() != 3) throw MalformedStream("A tans stream must have three sections.");
  const auto offsets = compressed.sections[kBlockOffsets].bytes, payload = compressed.sections[kPayload].bytes;
  if (layout.blocks == 0) {
    if (!compressed.sections[kAlphabet].bytes.empty() || !offsets.empty() || !payload.empty())
      throw MalformedStream("A tans stream without elements must have empty sections.");
    return;
  }
  Model model;
  read_model(compressed.sections[kAlphabet].bytes, layout, model);
  std::vector<Entry> table(size_t{1} << layout.table_bits);
  build_table(model, layout.even_spread, table.data());
  if (static_cast<int64_t>(offsets.size()) != 8 * (layout.blocks + 1))
    throw MalformedStream("The index of a tans stream must hold one offset a block and the end.");
  const auto offset = [&](int64_t block) {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(offsets[8 * block + i]) << (8 * i);
    return value;
  };
  if (offset(0) != 0 || payload.size() < kPayloadPadding || offset(layout.blocks) != payload.size() - kPayloadPadding)
    throw MalformedStream("The index of a tans stream does not cover the payload.");
  for (size_t i = payload.size() - kPayloadPadding; i < payload.size(); ++i)
    if (payload[i] != std::byte{0}) throw MalformedStream("The padding of a tans stream is not zero.");
  int64_t begin = 0;
  for (int64_t block = 0; block < layout.blocks; ++block) {
    if (offset(block) > offset(block + 1) || offset(block + 1) > payload.size())
      throw MalformedStream("The offsets of a tans stream do not ascend.");
    const int64_t count = block_elements(layout, compressed.shape, block);
    decode_block(payload.subspan(offset(block), offset(block + 1) - offset(block)), table, layout,
                 out.subspan(begin, count));
    begin += count;
  }
}

// A flat model of single elements costs 8 bits; a symbol of frequency 1 costs table_bits. Pairs at worst are all
// escapes.
int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  const Layout layout = layout_of(shape, settings);
  if (layout.blocks == 0) return 0;
  const int64_t padded = shape.elements() + layout.blocks * layout.elements_per_step();
  const int64_t worst_bits = layout.pairs ? (layout.table_bits + kEscapeBits + 1) / 2 : layout.table_bits;
  return 2 + (int64_t{4} << layout.table_bits) + 8 * (layout.blocks + 1) + layout.blocks * (2 * layout.lanes + 1) +
         (padded * worst_bits + 7) / 8 + kPayloadPadding;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "interleaved tANS, static model, single elements or pairs",
      .source = "Duda 2013 (tANS); Collet (FSE)",
      .settings = {number_setting("table_bits", "bits", "the table has 2^table_bits states", 12, 8, kMaxTableBits),
                   number_setting("lanes", "", "interleaved states of a block: 1, 2, 4, 8, 16, 32 or 64", 8, 1,
                                  kMaxLanes),
                   choice_setting("symbols", "what one table step decodes", "single", {"single", "pairs"}),
                   choice_setting("spread", "how the symbols are spread over the states", "even", {"even", "step"}),
                   number_setting("block_elements", "elements",
                                  "rows are gathered into blocks of about this many elements", 262144, 1,
                                  int64_t{1} << 40)},
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::tans

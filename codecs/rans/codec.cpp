// rans: range asymmetric numeral systems with a static order-0 model, many interleaved states and three sizes of state
// and word. Encoding runs backwards over a block and every lane starts at the lower bound, so decoding must end there.
// The reference decoder checks that, and thereby every word.
#include "codecs/codec.h"

#include <array>
#include <cmath>
#include <string>

#include "codecs/modelling/histogram.h"
#include "codecs/rans/format.h"
#include "codecs/rans/model.h"

namespace ecmv::codecs::rans {
namespace {

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i)));
}

template <class T>
T read_at(const std::byte* bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return static_cast<T>(value);
}

std::string refuses(datasets::MatrixView matrix, const Settings& settings) {
  if (matrix.type != datasets::ElementType::i8) return "rans codes int8 elements only.";
  const int64_t lanes = settings.integer("lanes"), prob_bits = settings.integer("prob_bits");
  if ((lanes & (lanes - 1)) != 0)
    return "rans interleaves 1, 2, 4, 8, 16, 32 or 64 lanes, not " + std::to_string(lanes) + ".";
  if (prob_bits < 8) {
    int used = 0;
    for (uint64_t count : modelling::histogram(matrix.i8())) used += count != 0;
    if (used > 1 << prob_bits)
      return "The matrix holds " + std::to_string(used) + " different values, more than the 2^" +
             std::to_string(prob_bits) + " slots of prob_bits=" + std::to_string(prob_bits) + ".";
  }
  return "";
}

// What the encoder needs to know about a symbol: its frequency and the slot of each of its ranks.
struct EncoderTable {
  std::array<uint32_t, 256> first{};  // by value + 128: where the symbol's ranks begin in `slots`
  std::array<uint32_t, 256> frequency{};
  std::vector<uint16_t> slots;
  uint8_t padding = 0;  // value + 128 of the most frequent symbol

  explicit EncoderTable(const Model& model) : slots(size_t{1} << model.prob_bits) {
    std::array<uint32_t, 256> begin{};
    uint32_t cumulative = 0;
    int most = 0;
    for (int s = 0; s < model.symbols; ++s) {
      const auto index = static_cast<uint8_t>(model.value[s] + 128);
      begin[s] = first[index] = cumulative;
      frequency[index] = model.frequency[s];
      cumulative += model.frequency[s];
      if (model.frequency[s] > model.frequency[most]) most = s;
    }
    padding = static_cast<uint8_t>(model.value[most] + 128);
    for (uint32_t slot = 0; slot < slots.size(); ++slot) {
      const Slot dealt = slot_of(model, slot);
      slots[begin[dealt.symbol] + dealt.rank] = static_cast<uint16_t>(slot);
    }
  }
};

template <class Form>
void encode_block(std::span<const int8_t> elements, const EncoderTable& table, int prob_bits, int lanes,
                  std::vector<std::byte>& out) {
  using State = typename Form::State;
  using Word = typename Form::Word;
  constexpr int kWordBits = 8 * sizeof(Word);
  const int64_t count = static_cast<int64_t>(elements.size());
  const int64_t padded = (count + lanes - 1) / lanes * lanes;
  std::array<State, kMaxLanes> states;
  states.fill(Form::kLower);
  std::vector<Word> words;
  words.reserve(elements.size() / sizeof(Word) + 64);
  for (int64_t i = padded - 1; i >= 0; --i) {
    State& x = states[i % lanes];
    const auto symbol = i < count ? static_cast<uint8_t>(elements[i] + 128) : table.padding;
    const uint32_t f = table.frequency[symbol];
    // x must stay below f * 2^(state bits - prob_bits). For f = 2^prob_bits that overflows, so both sides are shifted.
    while ((x >> kWordBits) >= ((Form::kLower >> prob_bits) * State{f})) {
      words.push_back(static_cast<Word>(x));
      x >>= kWordBits;
    }
    x = ((x / f) << prob_bits) + table.slots[table.first[symbol] + static_cast<uint32_t>(x % f)];
  }
  for (int lane = 0; lane < lanes; ++lane) append(out, states[lane]);
  for (size_t i = words.size(); i-- > 0;) append(out, words[i]);
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections = {
      {"alphabet", Role::table, 64, {}}, {"block_offsets", Role::index, 64, {}}, {"payload", Role::payload, 64, {}}};
  const Layout layout = layout_of(matrix.shape, settings);
  if (layout.blocks == 0) return compressed;
  const Model model = fit_model(matrix.i8(), layout.prob_bits);
  const EncoderTable table(model);
  compressed.sections[kAlphabet].bytes = write_alphabet(model);
  std::vector<std::byte>& payload = compressed.sections[kPayload].bytes;
  int64_t begin = 0, filled_up = 0;
  for (int64_t block = 0; block < layout.blocks; ++block) {
    append(compressed.sections[kBlockOffsets].bytes, static_cast<uint64_t>(payload.size()));
    const int64_t count = block_elements(layout, matrix.shape, block);
    const auto elements = matrix.i8().subspan(begin, count);
    begin += count;
    filled_up += (layout.lanes - count % layout.lanes) % layout.lanes;
    with_form(layout.state, [&](auto form) {
      encode_block<decltype(form)>(elements, table, layout.prob_bits, layout.lanes, payload);
    });
  }
  append(compressed.sections[kBlockOffsets].bytes, static_cast<uint64_t>(payload.size()));
  payload.resize(payload.size() + kPayloadPadding);
  // Filler: the bits that the model spends on symbols that fill the last steps.
  const double fill_bits = layout.prob_bits - std::log2(table.frequency[table.padding]);
  compressed.sections[kPayload].padding_bytes =
      kPayloadPadding + static_cast<int64_t>(static_cast<double>(filled_up) * fill_bits / 8);
  return compressed;
}

template <class Form>
void decode_block(std::span<const std::byte> bytes, const Model& model, int lanes, std::span<std::byte> out) {
  using State = typename Form::State;
  using Word = typename Form::Word;
  if (bytes.size() < lanes * sizeof(State))
    throw MalformedStream("A block of a rans stream is shorter than its states.");
  std::array<State, kMaxLanes> states;
  for (int lane = 0; lane < lanes; ++lane) {
    states[lane] = read_at<State>(&bytes[lane * sizeof(State)]);
    if (states[lane] < Form::kLower || (states[lane] >> (8 * sizeof(Word))) >= Form::kLower)
      throw MalformedStream("A state of a rans stream is out of its range.");
  }
  size_t position = lanes * sizeof(State);
  const size_t padded = (out.size() + lanes - 1) / lanes * lanes;
  const State slot_mask = (State{1} << model.prob_bits) - 1;
  for (size_t i = 0; i < padded; ++i) {
    State& x = states[i % lanes];
    const Slot slot = slot_of(model, static_cast<uint32_t>(x & slot_mask));
    if (i < out.size()) out[i] = static_cast<std::byte>(model.value[slot.symbol]);
    x = model.frequency[slot.symbol] * (x >> model.prob_bits) + slot.rank;
    while (x < Form::kLower) {
      if (bytes.size() - position < sizeof(Word)) throw MalformedStream("A block of a rans stream ends too early.");
      x = static_cast<State>(x << (8 * sizeof(Word)) | read_at<Word>(&bytes[position]));
      position += sizeof(Word);
    }
  }
  for (int lane = 0; lane < lanes; ++lane)
    if (states[lane] != Form::kLower) throw MalformedStream("A lane of a rans stream does not end in its start state.");
  if (position != bytes.size())
    throw MalformedStream("A block of a rans stream holds more words than its elements need.");
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  const Layout layout = layout_of(compressed.shape, *compressed.settings);
  if (compressed.sections.size() != 3) throw MalformedStream("A rans stream must have three sections.");
  const auto offsets = compressed.sections[kBlockOffsets].bytes, payload = compressed.sections[kPayload].bytes;
  if (layout.blocks == 0) {
    if (!compressed.sections[kAlphabet].bytes.empty() || !offsets.empty() || !payload.empty())
      throw MalformedStream("A rans stream without elements must have empty sections.");
    return;
  }
  const Model model = read_model(compressed.sections[kAlphabet].bytes, layout.prob_bits);
  if (static_cast<int64_t>(offsets.size()) != 8 * (layout.blocks + 1))
    throw MalformedStream("The index of a rans stream must hold one offset a block and the end.");
  const auto offset = [&](int64_t block) { return read_at<uint64_t>(&offsets[8 * block]); };
  if (offset(0) != 0 || payload.size() < kPayloadPadding || offset(layout.blocks) != payload.size() - kPayloadPadding)
    throw MalformedStream("The index of a rans stream does not cover the payload.");
  for (size_t i = payload.size() - kPayloadPadding; i < payload.size(); ++i)
    if (payload[i] != std::byte{0}) throw MalformedStream("The padding of a rans stream is not zero.");
  int64_t begin = 0;
  for (int64_t block = 0; block < layout.blocks; ++block) {
    if (offset(block) > offset(block + 1) || offset(block + 1) > payload.size())
      throw MalformedStream("The offsets of a rans stream do not ascend.");
    const auto bytes = payload.subspan(offset(block), offset(block + 1) - offset(block));
    const int64_t count = block_elements(layout, compressed.shape, block);
    const auto elements = out.subspan(begin, count);
    begin += count;
    with_form(layout.state, [&](auto form) { decode_block<decltype(form)>(bytes, model, layout.lanes, elements); });
  }
}

// The optimal model costs at most 8 bits an element, because a flat one would; flooring x / f adds less than one more.
int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  const Layout layout = layout_of(shape, settings);
  if (layout.blocks == 0) return 0;
  const int64_t padded = shape.elements() + layout.blocks * (layout.lanes - 1);
  return 3 * 256 + 8 * (layout.blocks + 1) + layout.blocks * layout.lanes * layout.state_bytes() +
         (padded * 9 + 7) / 8 + layout.blocks * layout.lanes * 4 + kPayloadPadding;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "interleaved rANS, static model, alias-dealt slots",
      .source = "Duda 2009 (ANS); Giesen 2014 (interleaving, alias method); Liguori (64-bit states)",
      .settings =
          {number_setting("prob_bits", "bits", "the frequencies of all symbols add up to 2^prob_bits", 12, 7, 16),
           choice_setting("state", "bits of a word and of a state", "w16s32", {"w16s32", "w32s64", "w8s32"}),
           number_setting("lanes", "", "interleaved states of a block: 1, 2, 4, 8, 16, 32 or 64", 32, 1, kMaxLanes),
           number_setting("block_elements", "elements", "rows are gathered into blocks of about this many elements",
                          262144, 1, int64_t{1} << 40)},
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::rans

// matvans_warp_per_row: the first layout of MatVANS, one wave a row, with a coder and words of its own for each of 32
// lanes. This file has the encoder and the reference decoder, chain_file.cpp the files. Source: MatVANS white paper
// (Ludwig, Bamler), section 3.1.
#include "codecs/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "codecs/matvans_warp_per_row/chain_file.h"
#include "codecs/matvans_warp_per_row/format.h"
#include "codecs/modelling/histogram.h"

namespace ecmv::codecs::matvans_warp_per_row {
namespace {

static_assert(std::endian::native == std::endian::little, "Stored words are little-endian and read in place.");

// Values min_value .. min_value + probs.size() - 1; the probabilities add up to 256, none is 256.
struct Model {
  int min_value = 0;
  std::vector<uint32_t> probs;
};

// The original encoder's rule: round(256 p) but at least 1. An excess is taken from the most frequent values, one each,
// round after round; a lack is given to the rarest value. A probability of 256 would read as 0 in a byte, so a matrix
// of one value gets a second value that never occurs.
Model fit_model(std::span<const int8_t> elements) {
  const modelling::Histogram counts = modelling::histogram(elements);
  std::vector<int> bins;
  for (int bin = 0; bin < 256; ++bin)
    if (counts[bin] != 0) bins.push_back(bin);
  if (bins.size() < 2) return {bins.empty() ? 0 : bins[0] - 128, {kSlots - 1, 1}};
  Model model{bins.front() - 128, std::vector<uint32_t>(bins.back() - bins.front() + 1, 0)};
  std::stable_sort(bins.begin(), bins.end(), [&](int a, int b) { return counts[a] < counts[b]; });
  std::reverse(bins.begin(), bins.end());  // most frequent first, of equal ones the largest value
  const double scale = double{kSlots} / static_cast<double>(elements.size());
  std::vector<int64_t> probs;
  int64_t excess = -kSlots;
  for (const int bin : bins) {
    probs.push_back(
        std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(static_cast<double>(counts[bin]) * scale))));
    excess += probs.back();
  }
  while (excess > 0) {
    const int64_t reducible = std::count_if(probs.begin(), probs.end(), [](int64_t prob) { return prob > 1; });
    const int64_t reduced = std::min(excess, reducible);
    for (int64_t k = 0; k < reduced; ++k) --probs[k];
    excess -= reduced;
  }
  for (; excess < 0; ++excess) ++probs[probs.size() + excess];
  for (size_t k = 0; k < bins.size(); ++k)
    model.probs[bins[k] - 128 - model.min_value] = static_cast<uint32_t>(probs[k]);
  return model;
}

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  if (matrix.type != datasets::ElementType::i8) return "matvans_warp_per_row codes int8 elements only.";
  if (matrix.shape.cols % kGroupCols != 0)
    return "matvans_warp_per_row gives each of 32 lanes 16 of every 512 columns; " + std::to_string(matrix.shape.cols) +
           " columns are no multiple of that.";
  const auto elements = matrix.i8();
  if (elements.empty()) return "";
  const auto [low, high] = std::minmax_element(elements.begin(), elements.end());
  if (*high - *low > 254)
    return "matvans_warp_per_row stores the number of values from the smallest to the largest in a byte; this matrix "
           "spans 256.";
  if (elements.size() + 128 * static_cast<uint64_t>(matrix.shape.rows) * 8 > UINT32_MAX)
    return "matvans_warp_per_row stores cursors in 32 bits, which may be too few for so large a matrix.";
  return "";
}

// The words of a row's lane in the order of decoding: the head, high word first, then the emitted words, the last one
// first.
std::vector<uint16_t> encode_lane(const int8_t* row, int64_t cols, int lane, const Model& model,
                                  const std::array<uint32_t, kSlots>& cdf) {
  std::vector<uint16_t> words;
  uint32_t head = kLowestHead;
  for (int64_t first = cols - kGroupCols + lane * kLaneCols; first >= 0; first -= kGroupCols)
    for (int i = kLaneCols - 1; i >= 0; --i) {
      const int value = row[first + i] - model.min_value;
      const uint32_t prob = model.probs[value];
      if (head >> (32 - kModelBits) >= prob) {
        words.push_back(static_cast<uint16_t>(head));
        head >>= 16;
      }
      head = head / prob << kModelBits | (cdf[value] + head % prob);
    }
  words.push_back(static_cast<uint16_t>(head));
  words.push_back(static_cast<uint16_t>(head >> 16));
  std::reverse(words.begin(), words.end());
  return words;
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const auto [rows, cols] = matrix.shape;
  const Model model = fit_model(matrix.i8());
  std::array<uint32_t, kSlots> cdf{};
  Section stored_cdf{"cdf", Role::table, 64, {std::byte{0}}}, ppf{"ppf", Role::table, 64, {}};
  for (size_t value = 0; value < model.probs.size(); ++value) {
    cdf[value] = static_cast<uint32_t>(ppf.bytes.size());
    ppf.bytes.resize(ppf.bytes.size() + model.probs[value], std::byte(value));
    stored_cdf.bytes.push_back(std::byte(ppf.bytes.size()));
  }
  Section payload{"payload", Role::payload, 64, {}}, cursors{"cursors", Role::index, 64, {}};
  for (int64_t row = 0; row < rows; ++row) {
    const size_t begin = payload.bytes.size();
    const uint32_t cursor = static_cast<uint32_t>(begin / 2);
    const auto cursor_bytes = std::as_bytes(std::span(&cursor, 1));
    cursors.bytes.insert(cursors.bytes.end(), cursor_bytes.begin(), cursor_bytes.end());
    for (int lane = 0; lane < kFormatLanes && cols > 0; ++lane) {
      const std::vector<uint16_t> words = encode_lane(matrix.i8().data() + row * cols, cols, lane, model, cdf);
      payload.padding_bytes -= static_cast<int64_t>(words.size()) * 2;
      const size_t units = (words.size() + kUnitWords - 1) / kUnitWords;
      payload.bytes.resize(std::max(payload.bytes.size(), begin + units * kUnitWords * kFormatLanes * 2));
      for (size_t j = 0; j < words.size(); ++j)
        std::memcpy(payload.bytes.data() + begin + word_position(static_cast<int64_t>(j), lane) * 2, &words[j], 2);
    }
  }
  payload.padding_bytes += static_cast<int64_t>(payload.bytes.size());  // less the words, taken off lane by lane
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections = {std::move(payload),
                         std::move(cursors),
                         std::move(stored_cdf),
                         std::move(ppf),
                         {"min_value", Role::table, 64, {std::byte(model.min_value)}}};
  return compressed;
}

[[noreturn]] void malformed(const std::string& what) {
  throw MalformedStream("The matvans_warp_per_row stream is damaged: " + what);
}

struct Slot {
  int8_t symbol = 0;
  uint32_t prob = 0, position = 0;  // position inside the symbol's slots
};

std::array<Slot, kSlots> read_slots(const CompressedView& compressed) {
  const auto cdf = compressed.sections[kCdf].bytes, ppf = compressed.sections[kPpf].bytes;
  if (cdf.size() < 2 || cdf.size() > 256 || ppf.size() != kSlots || compressed.sections[kMinValue].bytes.size() != 1)
    malformed("its tables have the wrong sizes.");
  const int min_value = static_cast<int8_t>(compressed.sections[kMinValue].bytes[0]);
  std::array<Slot, kSlots> slots;
  uint32_t first = 0;
  for (size_t value = 0; value + 1 < cdf.size(); ++value) {
    const uint32_t prob = (static_cast<uint32_t>(cdf[value + 1]) - static_cast<uint32_t>(cdf[value])) & 0xFF;
    if (static_cast<uint32_t>(cdf[value]) != first || prob > kSlots - first)
      malformed("the probabilities of its model do not add up to 256.");
    for (uint32_t slot = first; slot < first + prob; ++slot) {
      if (static_cast<size_t>(ppf[slot]) != value) malformed("its two tables contradict each other.");
      slots[slot] = {static_cast<int8_t>(min_value + static_cast<int>(value)), prob, slot - first};
    }
    first += prob;
  }
  if (first != kSlots) malformed("the probabilities of its model do not add up to 256.");
  return slots;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  const auto [rows, cols] = compressed.shape;
  if (compressed.sections.size() != kSections) malformed("it does not have five sections.");
  const std::array<Slot, kSlots> slots = read_slots(compressed);
  const auto payload = compressed.sections[kPayload].bytes, cursors = compressed.sections[kCursors].bytes;
  if (cursors.size() % 4 != 0 || static_cast<int64_t>(cursors.size() / 4) != rows)
    malformed("it does not have one cursor a row.");
  if (payload.size() % (kUnitWords * kFormatLanes * 2) != 0) malformed("its payload is no multiple of 512 bytes.");
  const int64_t stored = static_cast<int64_t>(payload.size() / 2);
  int64_t end = 0;  // of the rows so far, in words
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t begin = u32_at(cursors, row);
    if (begin != end) malformed("a row does not begin where the one before it ends.");
    int64_t units = 0;
    for (int lane = 0; lane < kFormatLanes && cols > 0; ++lane) {
      int64_t used = 0;
      const auto next_word = [&]() -> uint32_t {
        const int64_t position = begin + word_position(used++, lane);
        if (position >= stored) malformed("it ends inside a lane.");
        return u16_at(payload, position);
      };
      uint32_t head = next_word() << 16;
      head |= next_word();
      for (int64_t first = lane * kLaneCols; first < cols; first += kGroupCols)
        for (int i = 0; i < kLaneCols; ++i) {
          const Slot& slot = slots[head & (kSlots - 1)];
          out[row * cols + first + i] = static_cast<std::byte>(slot.symbol);
          head = (head >> kModelBits) * slot.prob + slot.position;
          if (head < kLowestHead) head = head << 16 | next_word();
        }
      if (head != kLowestHead) malformed("a lane does not end with the head with which the encoder began.");
      units = std::max(units, (used + kUnitWords - 1) / kUnitWords);
    }
    end = begin + units * kUnitWords * kFormatLanes;
  }
  if (end != stored) malformed("words follow the last row.");
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings&) {
  // A symbol of probability 1/256 makes a head of at least 2^16 longer by log2(256 (1 + 2^-8)) < 8.01 bits.
  const int64_t words = shape.cols == 0 ? 0 : 4 + shape.cols / kFormatLanes * 801 / 1600;
  return shape.rows * ((words + kUnitWords - 1) / kUnitWords * kUnitWords * kFormatLanes * 2 + 4) + 256 + kSlots + 1;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "MatVANS: 32 coders a row with words of their own, interleaved in 16-byte units",
      .source = "MatVANS white paper (Ludwig, Bamler), section 3.1",
      .format_version = kFormatVersion,
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
      .recognises_file = recognises_file,
      .read_file = read_file,
      .write_file = write_file,
  };
  return codec;
}

}  // namespace ecmv::codecs::matvans_warp_per_row

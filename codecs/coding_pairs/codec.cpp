// coding_pairs: any kind of number as (code, extra bits). One of five coders stores the codes, under one model for the
// matrix; the coder's (position, state) is saved every so many elements for random access. Encoding takes the pairs
// from the last to the first.
#include "codecs/codec.h"

#include <cmath>
#include <string>

#include "codecs/coding_pairs/coders.h"
#include "codecs/coding_pairs/format.h"
#include "codecs/coding_pairs/pairs.h"
#include "codecs/modelling/bytes.h"

namespace ecmv::codecs::coding_pairs {
namespace {

using modelling::append, modelling::append_word, modelling::load, modelling::load_word;
using modelling::BitReader;

const PairFormat& format_of(const Settings& settings) { return find_format(settings.text("pairs")); }

int64_t segment_elements(const Layout& layout, int64_t segment) {
  return std::min(layout.segment, layout.elements - segment * layout.segment);
}

struct Statistics {
  std::vector<uint64_t> counts;  // by code
  double extra_bits = 0;
};

Statistics count_codes(const datasets::MatrixView& matrix, const PairFormat& format, const Layout& layout) {
  Statistics statistics;
  statistics.counts.resize(format.codes(matrix.type));
  std::vector<Pair> pairs;
  for (int64_t segment = 0; segment < layout.segments; ++segment) {
    pairs.clear();
    format.append(matrix, segment * layout.segment, segment_elements(layout, segment), pairs);
    for (const Pair& pair : pairs) {
      ++statistics.counts[pair.code];
      statistics.extra_bits += pair.bits;
    }
  }
  return statistics;
}

std::string refuses(datasets::MatrixView matrix, const Settings& settings) {
  const PairFormat& format = format_of(settings);
  if (const std::string reason = format.refuses(matrix); !reason.empty()) return reason;
  const Layout layout = layout_of(matrix.shape, settings);
  if (format.codes(matrix.type) <= most_codes(layout.coder)) return "";
  const auto counts = count_codes(matrix, format, layout).counts;
  const auto used = std::count_if(counts.begin(), counts.end(), [](uint64_t n) { return n > 0; });
  if (used <= most_codes(layout.coder)) return "";
  return "The matrix has " + std::to_string(used) + " different codes, more than the " +
         std::to_string(most_codes(layout.coder)) + " that the coder " + settings.text("coder") + " can tell apart.";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections = {
      {"model", Role::table, 64, {}}, {"checkpoints", Role::index, 64, {}}, {"payload", Role::payload, 64, {}}};
  const Layout layout = layout_of(matrix.shape, settings);
  if (layout.segments == 0) return compressed;
  const PairFormat& format = format_of(settings);
  const Statistics statistics = count_codes(matrix, format, layout);

  std::vector<uint32_t> number(statistics.counts.size()), codes;  // of the used codes
  std::vector<uint64_t> counts;
  for (uint32_t code = 0; code < number.size(); ++code) {
    if (statistics.counts[code] == 0) continue;
    number[code] = static_cast<uint32_t>(codes.size());
    codes.push_back(code);
    counts.push_back(statistics.counts[code]);
  }
  const std::vector<uint32_t> weights = fit_weights(layout.coder, counts);
  std::vector<std::byte>& model = compressed.sections[kModel].bytes;
  append<uint32_t>(model, static_cast<uint32_t>(codes.size()));
  for (const uint32_t code : codes) append<uint16_t>(model, static_cast<uint16_t>(code));
  for (const uint32_t weight : weights)
    append_word(model, weight_bytes(layout.coder), weight_bytes(layout.coder) == 2 ? weight - 1 : weight);

  const std::unique_ptr<Coder> coder = make_coder(layout.coder, weights);
  BitStack bits;
  struct Checkpoint {
    int64_t bits_after;
    uint64_t state;
  };
  std::vector<Checkpoint> checkpoints(static_cast<size_t>(layout.segments));
  std::vector<Pair> pairs;
  for (int64_t segment = layout.segments - 1; segment >= 0; --segment) {
    pairs.clear();
    format.append(matrix, segment * layout.segment, segment_elements(layout, segment), pairs);
    for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
      bits.push(pair->extra, pair->bits);
      coder->encode(number[pair->code], bits);
    }
    checkpoints[static_cast<size_t>(segment)] = {bits.bits(), coder->state()};
  }
  compressed.sections[kPayload].bytes = bits.finish();
  const auto total = static_cast<int64_t>(compressed.sections[kPayload].bytes.size()) * 8;
  for (const Checkpoint& checkpoint : checkpoints) {
    append_word(compressed.sections[kCheckpoints].bytes, kPositionBytes,
                static_cast<uint64_t>(total - checkpoint.bits_after));
    append_word(compressed.sections[kCheckpoints].bytes, state_bytes(layout.coder), checkpoint.state);
  }
  return compressed;
}

class Reader final : public PairSource {
 public:
  Reader(const CompressedView& compressed, const Layout& layout, const PairFormat& format)
      : type_(compressed.type), format_(format), bits_(compressed.sections[kPayload].bytes) {
    const auto model = compressed.sections[kModel].bytes;
    const size_t each = 2 + static_cast<size_t>(weight_bytes(layout.coder));
    const uint64_t count = model.size() < 4 ? 0 : load<uint32_t>(model, 0);
    if (count == 0 || count > 65536 || model.size() != 4 + count * each)
      throw MalformedStream("The model of a pair stream has an impossible size.");
    std::vector<uint32_t> weights;
    for (size_t i = 0; i < count; ++i) {
      codes_.push_back(load<uint16_t>(model, 4 + 2 * i));
      if (codes_.back() >= format.codes(type_) || (i > 0 && codes_[i] <= codes_[i - 1]))
        throw MalformedStream("The codes of a pair stream's model do not ascend, or are none of its format.");
      const auto weight =
          static_cast<uint32_t>(load_word(model, 4 + 2 * count + (each - 2) * i, static_cast<int>(each) - 2));
      weights.push_back(each == 4 ? weight + 1 : weight);
    }
    check_weights(layout.coder, weights);
    coder_ = make_coder(layout.coder, weights);
  }
  Pair next() override {
    Pair pair;
    pair.code = codes_[coder_->decode(bits_)];
    pair.bits = format_.extra_bits(pair.code, type_);
    pair.extra = bits_.read(pair.bits);
    return pair;
  }
  void seek(int64_t position, uint64_t state) {
    bits_.seek(position);
    coder_->set_state(state);
  }
  bool stands_at(int64_t position, uint64_t state) const {
    return bits_.position() == position && coder_->state() == state;
  }
  bool at_end() const { return stands_at(bits_.size(), coder_->first_state()); }

 private:
  datasets::ElementType type_;
  const PairFormat& format_;
  std::vector<uint32_t> codes_;
  std::unique_ptr<Coder> coder_;
  BitReader bits_;
};

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  const Layout layout = layout_of(compressed.shape, *compressed.settings);
  if (compressed.sections.size() != 3) throw MalformedStream("A pair stream must have three sections.");
  const auto index = compressed.sections[kCheckpoints].bytes;
  if (layout.segments == 0) {
    for (const SectionView& section : compressed.sections)
      if (!section.bytes.empty()) throw MalformedStream("A pair stream without elements must have empty sections.");
    return;
  }
  if (static_cast<int64_t>(index.size()) != layout.segments * layout.entry_bytes())
    throw MalformedStream("The index of a pair stream must hold one entry a segment.");
  const PairFormat& format = format_of(*compressed.settings);
  Reader reader(compressed, layout, format);
  const int64_t width = datasets::element_bytes(compressed.type);
  for (int64_t segment = 0; segment < layout.segments; ++segment) {
    const auto at = static_cast<size_t>(segment * layout.entry_bytes());
    const auto position = static_cast<int64_t>(load_word(index, at, kPositionBytes));
    const uint64_t state = load_word(index, at + kPositionBytes, state_bytes(layout.coder));
    if (segment == 0) {
      if (position > 7) throw MalformedStream("A pair stream begins past its first byte.");
      if (BitReader(compressed.sections[kPayload].bytes).read(static_cast<int>(position)) != 0)
        throw MalformedStream("The bits before a pair stream are not zero.");
      reader.seek(position, state);
    } else if (!reader.stands_at(position, state)) {
      throw MalformedStream("The checkpoint of segment " + std::to_string(segment) +
                            " is not where the segment before it ends.");
    }
    const auto first = static_cast<size_t>(segment * layout.segment * width),
               bytes = static_cast<size_t>(segment_elements(layout, segment) * width);
    format.restore(reader, compressed.type, out.subspan(first, bytes));
  }
  if (!reader.at_end()) throw MalformedStream("A pair stream does not end with its last element.");
}

// A pair covers at least one element. Its code takes at most 24 bits, and all extra bits together
// take no more than the elements. A code's entry in the model takes at most 4 bytes.
int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  const Layout layout = layout_of(shape, settings);
  if (layout.segments == 0) return 0;
  return 4 + 4 * std::min<int64_t>(layout.elements, 65536) + layout.segments * layout.entry_bytes() +
         4 * layout.elements + 16;
}

ErrorBound error_bound(datasets::MatrixView matrix, const Settings& settings) {
  return format_of(settings).bound(matrix);
}

double ideal_bits_per_element(datasets::MatrixView matrix, const Settings& settings) {
  const Layout layout = layout_of(matrix.shape, settings);
  if (layout.segments == 0) return 0;
  const Statistics statistics = count_codes(matrix, format_of(settings), layout);
  double pairs = 0, bits = statistics.extra_bits;
  for (const uint64_t count : statistics.counts) pairs += static_cast<double>(count);
  for (const uint64_t count : statistics.counts)
    if (count > 0) bits += static_cast<double>(count) * std::log2(pairs / static_cast<double>(count));
  return bits / static_cast<double>(layout.elements);
}

std::vector<std::string_view> format_names() {
  std::vector<std::string_view> names;
  for (const NamedFormat& format : all_formats()) names.push_back(format.name);
  return names;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary =
          "numbers as code and raw extra bits: floats, posits, integers, ternary and binary weights, by any "
          "of five coders",
      .source = "Liguori 2024, compressed numeric data types; Duda 2013 (ANS)",
      .lossless = false,
      .settings = {{"pairs", "", "what a number's code and extra bits are", std::string("exponent"), 0, 0,
                    format_names()},
                   {"coder",
                    "",
                    "what codes are stored with",
                    std::string("rans16"),
                    0,
                    0,
                    {coder_names().begin(), coder_names().end()}},
                   {"checkpoint_elements", "elements",
                    "position and state are saved every this many elements; 0: only at the first", int64_t{0}, 0,
                    int64_t{1} << 40}},
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
      .error_bound = error_bound,
      .ideal_bits_per_element = ideal_bits_per_element,
  };
  return codec;
}

}  // namespace ecmv::codecs::coding_pairs

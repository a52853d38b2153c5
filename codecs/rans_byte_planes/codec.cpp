// rans_byte_planes: entropy coding for the speed of a memory bus. This file has the settings, the checked reference
// decoder and the size bound; encode.cpp has the encoder, format.h the layout, model.cpp the choice of a model.
#include "codecs/codec.h"

#include "codecs/rans_byte_planes/decode_block.h"
#include "codecs/rans_byte_planes/encode.h"
#include "codecs/rans_byte_planes/format.h"

namespace ecmv::codecs::rans_byte_planes {

Layout layout_of(datasets::Shape shape, datasets::ElementType type, const Settings& settings) {
  Layout layout{.rows = shape.rows, .cols = shape.cols};
  if (shape.elements() == 0) return layout;
  int64_t elements = settings.integer("block_elements");
  // 1 KiB of states a block is 0.002 bits an element at 4 Mi elements, and 8 blocks are work for 8 threads. A block of
  // bf16 also has an empty head: at 1 Mi elements that makes 0.012 of the 10.6 bits that an element takes.
  const int64_t most = int64_t{1} << (type == datasets::ElementType::bf16 ? 20 : 22);
  if (elements == 0) elements = std::clamp(shape.elements() / 8, int64_t{1} << 18, most);
  layout.rows_per_block = std::min(shape.rows, std::max<int64_t>(1, elements / shape.cols));
  layout.blocks = (shape.rows + layout.rows_per_block - 1) / layout.rows_per_block;
  return layout;
}

namespace {

std::string refuses(datasets::MatrixView matrix, const Settings& settings) {
  if (matrix.type != datasets::ElementType::i8 && matrix.type != datasets::ElementType::bf16)
    return "rans_byte_planes stores int8 and bf16 elements.";
  const int64_t values = settings.integer("values_per_symbol"), raw_bits = settings.integer("raw_bits");
  if (values != 0 && raw_bits > max_raw_bits(static_cast<int>(values)))
    return "rans_byte_planes with values_per_symbol=" + std::to_string(values) + " has at most " +
           std::to_string(max_raw_bits(static_cast<int>(values))) + " raw_bits.";
  return "";
}

// Checks the lengths and tables that kernels rely on unseen.
void check_sections(const CompressedView& compressed, const Layout& layout) {
  const bool floats = compressed.type == datasets::ElementType::bf16;
  if (compressed.sections.size() != size_t(kSectionCount + (floats ? 1 : 0)))
    throw MalformedStream("A rans_byte_planes matrix has seven sections, and of bf16 one more.");
  const auto size = [&](int n) { return compressed.sections[static_cast<size_t>(n)].bytes.size(); };
  if (floats && size(kFractions) != static_cast<uint64_t>(layout.rows * layout.cols + kFractionPadding))
    throw MalformedStream("A rans_byte_planes matrix of bf16 must hold a byte beside each exponent.");
  if (size(kTables) < sizeof(Header)) throw MalformedStream("The tables of a rans_byte_planes matrix have no header.");
  Header header;
  std::memcpy(&header, compressed.sections[kTables].bytes.data(), sizeof header);
  if (header.models > kMaxModels || header.first_share > 256 ||
      (header.models > 0 && (header.gap_bits < kMinGapBits || header.gap_bits > kMaxGapBits ||
                             header.delta_bits < kMinDeltaBits || header.delta_bits > kMaxDeltaBits)))
    throw MalformedStream("The header of a rans_byte_planes matrix is damaged.");
  if (size(kTables) != sizeof(Header) + header.models * sizeof(Model))
    throw MalformedStream("The tables of a rans_byte_planes matrix have the wrong length.");
  if (header.models == 0) {
    if (size(kElements) != static_cast<uint64_t>(layout.rows * layout.cols))
      throw MalformedStream("A matrix stored as it is must hold exactly rows x cols bytes.");
    return;
  }
  const Sections sections(compressed);
  for (int m = 0; m < header.models; ++m) {
    const Model& model = sections.models[m];
    if (model.form.values < 1 || model.form.values > 3 || model.form.raw_bits > max_raw_bits(model.form.values) ||
        model.form.runs >= kRunsCount)
      throw MalformedStream("A model of a rans_byte_planes matrix has an unknown form.");
    for (int slot = 0; slot < kSlots; ++slot) {
      const int symbol = model.symbol[slot];
      if (symbol >= 64 || model.frequency[symbol] > kMaxFrequency ||
          ((slot + model.minus_start[symbol]) & 255) >= model.frequency[symbol] ||
          model.symbol[first_of_run(model.form.runs, slot)] != symbol)
        throw MalformedStream("A slot of a rans_byte_planes model lies outside its symbol.");
    }
    // Kernels may look a value up with its neighbours' class bits still in the index.
    for (int position = 0; position < model.form.values; ++position) {
      const int known =
          class_mask(model.form.values, position) | raw_mask(model.form.values, model.form.raw_bits, position);
      for (int index = 0; index < 1 << index_bits(model.form); ++index)
        if (model.value[position][index] != model.value[position][index & known])
          throw MalformedStream("A value of a rans_byte_planes model depends on bits that do not name it.");
    }
  }
  if (size(kIndex) != (layout.blocks + 1) * sizeof(BlockIndex))
    throw MalformedStream("The index of a rans_byte_planes matrix has the wrong length.");
  if (size(kStates) != static_cast<uint64_t>(layout.blocks) * 2 * kFormatLanes)
    throw MalformedStream("A rans_byte_planes matrix has the wrong number of states.");
  if (size(kStream) < kStreamPadding || size(kExceptions) < kExceptionPadding)
    throw MalformedStream("A section of a rans_byte_planes matrix is too short.");
  BlockIndex last{};
  for (int64_t b = 0; b <= layout.blocks; ++b) {
    const BlockIndex entry = sections.block(b);
    if (entry.stream < last.stream || entry.raw < last.raw || entry.exceptions < last.exceptions)
      throw MalformedStream("The index of a rans_byte_planes matrix runs backwards.");
    last = entry;
  }
  if (last.stream != size(kStream) - kStreamPadding || last.raw != size(kRaw) ||
      last.exceptions > 8 * size(kExceptions) ||
      (last.exceptions * (header.gap_bits + header.delta_bits) + 7) / 8 + kExceptionPadding != size(kExceptions))
    throw MalformedStream("The index of a rans_byte_planes matrix does not end where its sections end.");
}

// The coded bytes: int8 elements or exponents.
void decode_bytes(const CompressedView& compressed, const Layout& layout, std::span<int8_t> out) {
  const Sections sections(compressed);
  if (sections.header.models == 0) {
    if (!out.empty()) std::memcpy(out.data(), compressed.sections[kElements].bytes.data(), out.size());
    return;
  }
  for (int64_t b = 0; b < layout.blocks; ++b)
    decode_block<true>(sections, layout, b, out.data() + b * layout.rows_per_block * layout.cols);
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  const Layout layout = layout_of(compressed.shape, compressed.type, *compressed.settings);
  check_sections(compressed, layout);
  if (compressed.type == datasets::ElementType::i8)
    return decode_bytes(compressed, layout, {reinterpret_cast<int8_t*>(out.data()), out.size()});
  std::vector<int8_t> exponents(out.size() / 2);
  decode_bytes(compressed, layout, exponents);
  join(exponents.data(), StoredMatrix(compressed).fractions, static_cast<int64_t>(exponents.size()), out.data());
}

// A matrix that would grow is stored as it is. The shape is in bytes.
int64_t max_stored_bytes(datasets::Shape shape, const Settings&) {
  return shape.elements() + static_cast<int64_t>(sizeof(Header)) + kFractionPadding;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "byte-plane rANS: 64 states a register, tables in registers, 1 to 3 values a symbol",
      .source = "this project; rANS: J. Duda, arXiv:1311.2540; interleaving: F. Giesen, arXiv:1402.3392",
      .format_version = 2,
      .settings = {number_setting("values_per_symbol", "", "elements whose classes one symbol names; 0 chooses", 0, 0,
                                  3),
                   {"raw_bits", "bits", "bits of an element that are stored as they are, beside its class; -1 chooses",
                    int64_t{-1}, -1, 5},
                   {"prob_bits",
                    "bits",
                    "probability bits; 7 saves operations and rounds more; fours: 8, the frequent symbols in steps of "
                    "four, which saves nearly as many",
                    std::string("auto"),
                    0,
                    0,
                    {"auto", "7", "8", "fours"}},
                   {"excess", "per mille",
                    "size above the order-0 entropy (of bf16: of the exponents) that may be spent on speed",
                    int64_t{10}, 0, 1000},
                   {"block_elements", "elements",
                    "elements of an independently decodable block, in whole rows; its states cost 1 KiB; 0: an eighth "
                    "of the matrix, 2^18 to 2^22 (of bf16 to 2^20)",
                    int64_t{0}, 0, 1 << 30}},
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::rans_byte_planes

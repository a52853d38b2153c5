// packed_exponents: bf16 in twelve bits, without loss. A window of 16 exponents gets codes of four bits; the elements
// outside are listed. There is no entropy code and nothing that a kernel must read in order, so this is what an entropy
// code of bf16 has to beat.
#include "codecs/codec.h"

#include <array>
#include <vector>

#include "codecs/modelling/bytes.h"
#include "codecs/packed_exponents/stored.h"

namespace ecmv::codecs::packed_exponents {
namespace {

// The window with the fewest elements outside, of equally good ones the lowest. Exponent 255 is outside of all.
int best_lowest(const datasets::MatrixView& matrix) {
  // Elements beside each other often have the same exponent, and a count waits for the one before it.
  constexpr int64_t kCounts = 4;
  std::array<std::array<int64_t, 256>, kCounts> counts{};
  for (int64_t i = 0; i < matrix.shape.elements(); ++i) {
    const auto element = modelling::load<uint16_t>(matrix.elements, static_cast<size_t>(2 * i));
    ++counts[static_cast<size_t>(i % kCounts)][static_cast<size_t>(exponent_of(element))];
  }
  std::array<int64_t, 256> count{};
  for (size_t exponent = 0; exponent < count.size(); ++exponent)
    for (const auto& some : counts) count[exponent] += some[exponent];
  int best = 0;
  int64_t inside = 0;
  for (int i = 0; i < kCodes; ++i) inside += count[static_cast<size_t>(i)];
  for (int64_t lowest = 1, most = inside; lowest <= kMostLowest; ++lowest) {
    inside += count[static_cast<size_t>(lowest + kCodes - 1)] - count[static_cast<size_t>(lowest - 1)];
    if (inside > most) most = inside, best = static_cast<int>(lowest);
  }
  return best;
}

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  if (matrix.type != datasets::ElementType::bf16) return "packed_exponents stores elements of bf16 only.";
  if (matrix.shape.cols > kMostCols)
    return "packed_exponents stores at most 2^20 columns, since records count them in 20 bits.";
  return "";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const int64_t rows = matrix.shape.rows, cols = matrix.shape.cols, stride = row_bytes(cols);
  const int lowest = best_lowest(matrix);
  std::vector<std::byte> blocks, records;
  Section fields{"fields", Role::payload, 64, {}, rows * (stride - (3 * cols + 1) / 2) + kFieldPadding};
  fields.bytes.resize(static_cast<size_t>(rows * stride + kFieldPadding));
  for (int64_t row = 0; row < rows; ++row) {
    if (row % kRowsPerBlock == 0) modelling::append<uint64_t>(blocks, records.size() / 4);
    for (int64_t first = 0; first < cols; first += kGroupCols) {
      const int64_t there = std::min(kGroupCols, cols - first);
      std::array<uint16_t, kGroupCols> elements, group;
      elements.fill(static_cast<uint16_t>(lowest << 7));
      std::memcpy(elements.data(), matrix.elements.data() + 2 * (row * cols + first), static_cast<size_t>(2 * there));
      unsigned outside = 0;
      for (size_t i = 0; i < elements.size(); ++i) {
        const uint16_t stored = clamped(elements[i], lowest);
        outside |= stored ^ elements[i];
        group[i] = static_cast<uint16_t>(stored - (lowest << 7));
      }
      for (int64_t i = 0; outside != 0 && i < there; ++i) {
        const uint16_t element = elements[static_cast<size_t>(i)];
        if (clamped(element, lowest) != element)
          modelling::append<uint32_t>(records, packed_record({row % kRowsPerBlock, first + i, exponent_of(element)}));
      }
      std::array<uint16_t, kLines * kStripCols> words;
      pack_group(group.data(), words.data());
      std::memcpy(fields.bytes.data() + group_offset(rows, cols, row, first), words.data(),
                  static_cast<size_t>(group_bytes(cols, first)));
    }
  }
  modelling::append<uint64_t>(blocks, records.size() / 4);

  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections.push_back({"header", Role::table, 4, {std::byte(lowest), {}, {}, {}}});
  compressed.sections.push_back(std::move(fields));
  compressed.sections.push_back({"blocks", Role::index, 8, std::move(blocks)});
  compressed.sections.push_back({"records", Role::payload, 64, std::move(records)});
  return compressed;
}

void require(bool condition, const char* sentence) {
  if (!condition) throw MalformedStream(sentence);
}

// Checks everything that could mislead a reader, except the records, which decode() follows one by one.
Stored open_checked(const CompressedView& view) {
  require(view.sections.size() == kSections, "A stream of packed_exponents has four sections.");
  const auto bytes = [&](int section) { return static_cast<int64_t>(view.sections[section].bytes.size()); };
  require(bytes(kHeader) == kHeaderBytes, "The header of a stream of packed_exponents has four bytes.");
  const Stored stored = stored_of(view);
  require(view.type == datasets::ElementType::bf16 && stored.cols <= kMostCols,
          "A stream of packed_exponents holds bf16 in at most 2^20 columns.");
  require(stored.lowest <= kMostLowest, "The window of a stream of packed_exponents reaches beyond finite numbers.");
  require(bytes(kFields) == stored.rows * row_bytes(stored.cols) + kFieldPadding,
          "The fields of a stream of packed_exponents do not have the size that the shape asks for.");
  const int64_t blocks = block_count(stored.rows);
  require(bytes(kBlocks) == 8 * (blocks + 1), "The block index of a stream of packed_exponents has a wrong size.");
  require(bytes(kRecords) % 4 == 0 && stored.first_record(0) == 0 &&
              stored.first_record(blocks) == static_cast<uint64_t>(bytes(kRecords) / 4),
          "The block index of a stream of packed_exponents does not cover its records.");
  for (int64_t block = 0; block < blocks; ++block)
    require(stored.first_record(block) <= stored.first_record(block + 1),
            "The block index of a stream of packed_exponents falls.");
  return stored;
}

void decode(const CompressedView& view, std::span<std::byte> out) {
  const Stored stored = open_checked(view);
  for (int64_t row = 0; row < stored.rows; ++row) stored.decode_row(row, out.data() + 2 * row * stored.cols);
  for (int64_t block = 0; block < block_count(stored.rows); ++block) {
    int64_t last = -1;  // place of a record
    for (uint64_t i = stored.first_record(block); i < stored.first_record(block + 1); ++i) {
      const Record record = stored.record(i);
      const int64_t row = block * kRowsPerBlock + record.row, place = row * stored.cols + record.col;
      require(row < stored.rows && record.col < stored.cols,
              "A record of a stream of packed_exponents lies outside the matrix.");
      require(place > last, "The records of a stream of packed_exponents are not in the order of their elements.");
      last = place;
      // Kernels may know what is stored of an outlier without reading it.
      const uint16_t field = stored.field(row, record.col), element = with_exponent(field, record.exponent),
                     whole = static_cast<uint16_t>(field + (stored.lowest << 7));
      require(element != whole && clamped(element, stored.lowest) == whole,
              "A record of a stream of packed_exponents does not fit what is stored of its element.");
      std::memcpy(out.data() + 2 * place, &element, 2);
    }
  }
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings&) {
  const int64_t cols = shape.cols / 2;  // each of which may have a record
  return kHeaderBytes + shape.rows * row_bytes(cols) + kFieldPadding + 8 * (block_count(shape.rows) + 1) +
         4 * shape.rows * cols;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "bf16 in 12 bits: exponents of four bits and a sparse list of others, no entropy code",
      .source = "after PFOR: Zukowski et al., Super-Scalar RAM-CPU Cache Compression, ICDE 2006",
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::packed_exponents

// Reader and writer walk the same fields in the same order. Recognising a file is the reader's walk without the
// contents.
#include "codecs/matvans_warp_per_row/chain_file.h"
#include "codecs/compressed_matrix.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "codecs/matvans_warp_per_row/format.h"
#include "codecs/modelling/bytes.h"

namespace ecmv::codecs::matvans_warp_per_row {

namespace {

using Bytes = std::vector<std::byte>;
using modelling::append, modelling::append_bytes;

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  std::span<const std::byte> take(uint64_t count) {
    if (count > left_.size()) throw MalformedStream("The matvansWarpPerRow file ends too early.");
    const auto taken = left_.first(static_cast<size_t>(count));
    left_ = left_.subspan(static_cast<size_t>(count));
    return taken;
  }
  uint32_t u32() { return u32_at(take(4), 0); }
  uint8_t u8() { return static_cast<uint8_t>(take(1)[0]); }
  size_t left() const { return left_.size(); }

 private:
  std::span<const std::byte> left_;
};

struct MatrixFields {
  uint32_t rows, cols, grid_spacing;
  std::span<const std::byte> cursors, min_value, cdf, ppf, payload;
};

struct FileFields {
  uint32_t hash, max_word_count;
  std::span<const std::byte> initial_vector;
  std::vector<MatrixFields> matrices;
};

// The original counts a matrix's 16-bit words like this; the file states the largest count.
uint64_t word_count(uint64_t rows, uint64_t cdf_bytes, uint64_t payload_words) {
  return (4 + rows) * 2 + (3 + cdf_bytes) / 2 + payload_words + payload_words % 2;
}

FileFields read_fields(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  FileFields file;
  const uint32_t layers = reader.u32();
  file.hash = reader.u32();
  file.max_word_count = reader.u32();
  const uint32_t length = reader.u32();
  file.initial_vector = reader.take(length);
  reader.take((4 - length % 4) % 4);
  if (layers == 0 || length == 0)
    throw MalformedStream("The matvansWarpPerRow file has no layers or an empty initial vector.");
  uint64_t max_word_count = 0;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    MatrixFields& matrix = file.matrices.emplace_back();
    matrix.rows = reader.u32();
    matrix.cols = reader.u32();
    matrix.grid_spacing = reader.u32();
    matrix.cursors = reader.take(uint64_t{matrix.rows} * 4);
    const uint32_t payload_words = reader.u32();
    matrix.min_value = reader.take(1);
    matrix.cdf = reader.take(uint64_t{reader.u8()} + 1);
    reader.take(matrix.cdf.size() % 2);
    matrix.ppf = reader.take(kSlots);
    matrix.payload = reader.take(uint64_t{payload_words} * 2);
    reader.take(payload_words % 2 * 2);
    max_word_count = std::max(max_word_count, word_count(matrix.rows, matrix.cdf.size(), payload_words));
  }
  if (reader.left() != 0) throw MalformedStream("Bytes follow the last matrix of the matvansWarpPerRow file.");
  if (max_word_count != file.max_word_count)
    throw MalformedStream("The matvansWarpPerRow file states a wrong size of its largest matrix.");
  return file;
}

Bytes bytes_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

bool recognises_file(std::span<const std::byte> bytes) {
  try {
    read_fields(bytes);
    return true;
  } catch (const MalformedStream&) {
    return false;
  }
}

ChainFile read_file(std::span<const std::byte> bytes) {
  const FileFields file = read_fields(bytes);
  ChainFile chain;
  chain.initial_vector.resize(file.initial_vector.size());
  std::memcpy(chain.initial_vector.data(), file.initial_vector.data(), file.initial_vector.size());
  size_t length = file.initial_vector.size();
  for (const MatrixFields& fields : file.matrices) {
    if (fields.cols != length || fields.rows == 0 || fields.cols % kGroupCols != 0)
      throw MalformedStream("A matrix of the matvansWarpPerRow file has " + std::to_string(fields.rows) + " rows and " +
                            std::to_string(fields.cols) + " columns, which does not fit the layout or the vector of " +
                            std::to_string(length) + " before it.");
    if (fields.grid_spacing != std::bit_cast<uint32_t>(1.0f))
      throw MalformedStream("The grid spacing of a matrix of the matvansWarpPerRow file is not 1.");
    if (fields.payload.size() / (kUnitWords * kFormatLanes * 2) < fields.rows)
      throw MalformedStream("The payload of a matrix of the matvansWarpPerRow file is too short for its rows.");
    CompressedMatrix layer;
    layer.codec = "matvans_warp_per_row";
    layer.format_version = kFormatVersion;
    layer.shape = {int64_t{fields.rows}, int64_t{fields.cols}};
    layer.sections = {
        {"payload", Role::payload, 64, bytes_of(fields.payload)},
        {"cursors", Role::index, 64, bytes_of(fields.cursors)},
        {"cdf", Role::table, 64, bytes_of(fields.cdf)},
        {"ppf", Role::table, 64, bytes_of(fields.ppf)},
        {"min_value", Role::table, 64, bytes_of(fields.min_value)},
    };
    chain.layers.push_back(std::move(layer));
    length = fields.rows;
  }
  chain.hashes[static_cast<int>(chain.layers.size()) - 1] = file.hash;
  return chain;
}

std::vector<std::byte> write_file(const ChainFile& chain) {
  const int last = static_cast<int>(chain.layers.size()) - 1;
  if (last < 0 || chain.initial_vector.empty() || !chain.hashes.contains(last))
    throw std::invalid_argument(
        "The matvansWarpPerRow file needs layers, an initial vector and the hash of the final vector.");
  if (!chain.scales.empty())
    throw std::invalid_argument("The matvansWarpPerRow file cannot hold scales: its chain finds them at run time.");
  Bytes out, matrices;
  uint64_t max_word_count = 0;
  for (const CompressedMatrix& layer : chain.layers) {
    if (layer.sections.size() != kSections)
      throw std::invalid_argument("A layer of the chain is no matvans_warp_per_row matrix.");
    const Bytes& payload = layer.sections[kPayload].bytes;
    const Bytes& cdf = layer.sections[kCdf].bytes;
    const uint64_t words = payload.size() / 2;
    if (layer.shape.rows > UINT32_MAX || layer.shape.cols > UINT32_MAX || words > UINT32_MAX)
      throw std::invalid_argument("The matvansWarpPerRow file stores rows, columns and words in 32 bits.");
    append<uint32_t>(matrices, static_cast<uint64_t>(layer.shape.rows));
    append<uint32_t>(matrices, static_cast<uint64_t>(layer.shape.cols));
    append<uint32_t>(matrices, std::bit_cast<uint32_t>(1.0f));
    append_bytes(matrices, layer.sections[kCursors].bytes);
    append<uint32_t>(matrices, words);
    append_bytes(matrices, layer.sections[kMinValue].bytes);
    matrices.push_back(std::byte(cdf.size() - 1));
    append_bytes(matrices, cdf);
    matrices.resize(matrices.size() + cdf.size() % 2);
    append_bytes(matrices, layer.sections[kPpf].bytes);
    append_bytes(matrices, payload);
    matrices.resize(matrices.size() + words % 2 * 2);
    max_word_count = std::max(max_word_count, word_count(static_cast<uint64_t>(layer.shape.rows), cdf.size(), words));
  }
  append<uint32_t>(out, chain.layers.size());
  append<uint32_t>(out, chain.hashes.at(last));
  append<uint32_t>(out, max_word_count);
  append<uint32_t>(out, chain.initial_vector.size());
  append_bytes(out, std::as_bytes(std::span(chain.initial_vector)));
  out.resize((out.size() + 3) / 4 * 4);
  append_bytes(out, matrices);
  return out;
}

}  // namespace ecmv::codecs::matvans_warp_per_row

// Blocks of rows for the library codecs.
#include "codecs/modelling/library_blocks.h"

#include <cstring>
#include <string>

namespace ecmv::codecs::modelling {
namespace {

uint64_t offset_at(const std::byte* offsets, int64_t block) {
  uint64_t offset;
  std::memcpy(&offset, offsets + 8 * block, 8);
  return offset;
}

}  // namespace

SettingInfo block_kib_setting(int64_t default_kib) {
  return {.name = "block_kib",
          .unit = "KiB",
          .help = "rows are compressed together in independent blocks of at most this size (at least one row)",
          .default_value = default_kib,
          .min = 1,
          .max = 65536};
}

int64_t library_rows_per_block(datasets::Shape shape, const Settings& settings) {
  return std::max<int64_t>(1, settings.integer("block_kib") * 1024 / std::max<int64_t>(1, shape.cols));
}

datasets::Shape library_shape(const CompressedView& view) {
  return {view.shape.rows, view.shape.cols * datasets::element_bytes(view.type)};
}

int64_t library_rows_per_block(const CompressedView& view) {
  return library_rows_per_block(library_shape(view), *view.settings);
}

int64_t library_block_bytes(datasets::Shape shape, const Settings& settings) {
  return std::min(library_rows_per_block(shape, settings), shape.rows) * shape.cols;
}

int64_t library_block_count(datasets::Shape shape, const Settings& settings) {
  if (shape.elements() == 0) return 0;
  const int64_t rows = library_rows_per_block(shape, settings);
  return (shape.rows + rows - 1) / rows;
}

std::string library_refuses(datasets::MatrixView matrix, const Settings& settings) {
  const datasets::Shape shape = shape_in_bytes(matrix);
  if (library_block_bytes(shape, settings) > kMaxBlockBytes)
    return "A block holds at least one row, and a row of " + std::to_string(shape.cols) +
           " bytes is longer than the library takes at once.";
  return "";
}

int64_t library_max_stored_bytes(datasets::Shape shape, const Settings& settings, int64_t spread, int64_t constant) {
  const int64_t blocks = library_block_count(shape, settings);
  return shape.elements() + shape.elements() / spread + blocks * (constant + 1 + 8) + 8;
}

CompressedMatrix library_encode(datasets::MatrixView matrix, const Settings& settings,
                                void (*compress)(std::span<const std::byte>, const Settings&,
                                                 std::vector<std::byte>&)) {
  const datasets::Shape shape = shape_in_bytes(matrix);
  const int64_t block_bytes = library_block_bytes(shape, settings), bytes = shape.elements();
  std::vector<std::byte> payload;
  std::vector<uint64_t> offsets = {0};
  for (int64_t first = 0; first < bytes; first += block_bytes) {
    compress(matrix.elements.subspan(first, std::min(block_bytes, bytes - first)), settings, payload);
    offsets.push_back(payload.size());
  }
  std::vector<std::byte> index(offsets.size() * 8);
  std::memcpy(index.data(), offsets.data(), index.size());

  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections.push_back({"payload", Role::payload, 64, std::move(payload)});
  compressed.sections.push_back({"offsets", Role::index, 8, std::move(index)});
  return compressed;
}

void library_decode(const CompressedView& view, std::span<std::byte> out,
                    bool (*decompress)(std::span<const std::byte>, std::span<std::byte>)) {
  const int64_t blocks = library_block_count(library_shape(view), *view.settings);
  if (view.sections.size() != 2 || static_cast<int64_t>(view.sections[kBlockOffsets].bytes.size()) != 8 * (blocks + 1))
    throw MalformedStream("The block index of the stream does not fit its shape.");
  const std::byte* const offsets = view.sections[kBlockOffsets].bytes.data();
  if (offset_at(offsets, 0) != 0 || offset_at(offsets, blocks) != view.sections[kBlockPayload].bytes.size())
    throw MalformedStream("The block index of the stream does not cover its payload.");
  const int64_t block_bytes = library_block_bytes(library_shape(view), *view.settings);
  for (int64_t block = 0; block < blocks; ++block) {
    if (offset_at(offsets, block) > offset_at(offsets, block + 1) ||
        offset_at(offsets, block + 1) > offset_at(offsets, blocks))
      throw MalformedStream("The block index of the stream falls at block " + std::to_string(block) + ".");
    const int64_t first = block * block_bytes;
    const std::span<std::byte> rows =
        out.subspan(first, std::min<int64_t>(block_bytes, static_cast<int64_t>(out.size()) - first));
    if (!decompress(library_block(view.sections[kBlockPayload].bytes.data(), offsets, block), rows))
      throw MalformedStream("Block " + std::to_string(block) + " of the stream is damaged.");
  }
}

std::span<const std::byte> library_block(const std::byte* payload, const std::byte* offsets, int64_t block) {
  const uint64_t begin = offset_at(offsets, block), end = offset_at(offsets, block + 1);
  return {payload + begin, static_cast<size_t>(end - begin)};
}

}  // namespace ecmv::codecs::modelling

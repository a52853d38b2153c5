#include "codecs/modelling/library_blocks.h"
#include "codecs/compressed_matrix.h"

#include <string>

#include "codecs/modelling/bytes.h"

namespace ecmv::codecs::modelling {
namespace {

uint64_t offset_at(const std::byte* offsets, int64_t block) { return load<uint64_t>({offsets + 8 * block, 8}, 0); }

int64_t library_rows_per_block(datasets::Shape shape, const Settings& settings) {
  return std::max<int64_t>(1, settings.integer("block_kib") * 1024 / std::max<int64_t>(1, shape.cols));
}

// Bytes of the largest block before compression.
int64_t library_block_bytes(datasets::Shape shape, const Settings& settings) {
  return std::min(library_rows_per_block(shape, settings), shape.rows) * shape.cols;
}

// 0 for matrices without elements.
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

CompressedMatrix library_encode(const BlockLibrary& library, datasets::MatrixView matrix, const Settings& settings) {
  const datasets::Shape shape = shape_in_bytes(matrix);
  const int64_t block_bytes = library_block_bytes(shape, settings), bytes = shape.elements();
  std::vector<std::byte> payload, offsets;
  append<uint64_t>(offsets, 0);
  for (int64_t first = 0; first < bytes; first += block_bytes) {
    library.compress(matrix.elements.subspan(first, std::min(block_bytes, bytes - first)), settings, payload);
    append<uint64_t>(offsets, payload.size());
  }

  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections.push_back({"payload", Role::payload, 64, std::move(payload)});
  compressed.sections.push_back({"offsets", Role::index, 8, std::move(offsets)});
  return compressed;
}

void library_decode(const BlockLibrary& library, const CompressedView& view, std::span<std::byte> out) {
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
    if (!library.decompress(library_block(view.sections[kBlockPayload].bytes.data(), offsets, block), *view.settings,
                            rows))
      throw MalformedStream("Block " + std::to_string(block) + " of the stream is damaged.");
  }
}

int64_t library_max_stored_bytes(const BlockLibrary& library, datasets::Shape shape, const Settings& settings) {
  const int64_t blocks = library_block_count(shape, settings);
  return shape.elements() + shape.elements() / library.spread + blocks * (library.constant + 1 + 8) + 8;
}

}  // namespace

datasets::Shape library_shape(const CompressedView& view) {
  return {view.shape.rows, view.shape.cols * datasets::element_bytes(view.type)};
}

int64_t library_rows_per_block(const CompressedView& view) {
  return library_rows_per_block(library_shape(view), *view.settings);
}

Codec make_library_codec(Codec description, const BlockLibrary& library) {
  description.portable_bytes = false;
  description.settings.push_back(number_setting(
      "block_kib", "KiB", "rows are compressed together in independent blocks of at most this size (at least one row)",
      128, 1, 65536));
  description.refuses = library_refuses;
  description.encode = [library](datasets::MatrixView matrix, const Settings& settings) {
    return library_encode(library, matrix, settings);
  };
  description.decode = [library](const CompressedView& view, std::span<std::byte> out) {
    library_decode(library, view, out);
  };
  description.max_stored_bytes = [library](datasets::Shape shape, const Settings& settings) {
    return library_max_stored_bytes(library, shape, settings);
  };
  return description;
}

std::span<const std::byte> library_block(const std::byte* payload, const std::byte* offsets, int64_t block) {
  const uint64_t begin = offset_at(offsets, block), end = offset_at(offsets, block + 1);
  return {payload + begin, static_cast<size_t>(end - begin)};
}

}  // namespace ecmv::codecs::modelling

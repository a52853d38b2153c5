// ans_warp_rows: the layout of MatVANS with one wave a row. A row is one queue of 32 coders; coder l has quad l of
// every chunk of 128 columns. Encoder, reference decoder and files are those of codecs/modelling/quad_ans/quad_ans.h. Source:
// MatVANS white paper (Ludwig, Bamler), section 3.2.
#include "codecs/codec.h"

#include "codecs/ans_warp_rows/format.h"
#include "codecs/modelling/quad_ans/quad_ans_file.h"

namespace ecmv::codecs::ans_warp_rows {
namespace {

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  if (matrix.type != datasets::ElementType::i8) return "ans_warp_rows codes int8 elements only.";
  if (matrix.shape.cols % kChunkCols != 0)
    return "ans_warp_rows cuts rows into chunks of 128 columns; " + std::to_string(matrix.shape.cols) +
           " columns are no multiple of that.";
  return modelling::refuses_quads(matrix, layout_of(matrix.shape));
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  return modelling::encode_quads(matrix, settings, layout_of(matrix.shape));
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  modelling::decode_quads(compressed, layout_of(compressed.shape), out);
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings&) {
  return modelling::max_quad_stored_bytes(layout_of(shape));
}

bool recognises_file(std::span<const std::byte> bytes) { return modelling::recognises_quad_file(bytes, layout_of); }

ChainFile read_file(std::span<const std::byte> bytes) {
  return modelling::read_quad_file(bytes, layout_of, kFormatVersion);
}

std::vector<std::byte> write_file(const ChainFile& chain) { return modelling::write_quad_file(chain, layout_of); }

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "MatVANS: 32 quad coders share the word queue of a row",
      .source = "MatVANS white paper (Ludwig, Bamler), section 3.2",
      .format_version = kFormatVersion,
      .lossless = true,
      .settings = {},
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

}  // namespace ecmv::codecs::ans_warp_rows

#include "codecs/modelling/quad_ans/quad_ans_codec.h"

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::modelling {

Codec make_quad_codec(Codec stated, QuadLayoutOf layout_of, std::string (*refuses_shape)(datasets::Shape)) {
  using Bytes = std::span<const std::byte>;
  stated.refuses = [=](datasets::MatrixView matrix, const Settings&) -> std::string {
    const QuadLayout layout = layout_of(matrix.shape);
    if (matrix.type != datasets::ElementType::i8) return std::string(layout.codec) + " codes int8 elements only.";
    const std::string reason = refuses_shape(matrix.shape);
    return reason.empty() ? refuses_quads(matrix, layout) : reason;
  };
  stated.encode = [=](datasets::MatrixView matrix, const Settings& settings) {
    return encode_quads(matrix, settings, layout_of(matrix.shape));
  };
  stated.decode = [=](const CompressedView& compressed, std::span<std::byte> out) {
    decode_quads(compressed, layout_of(compressed.shape), out);
  };
  stated.max_stored_bytes = [=](datasets::Shape shape, const Settings&) {
    return max_quad_stored_bytes(layout_of(shape));
  };
  stated.recognises_file = [=](Bytes file) { return recognises_quad_file(file, layout_of); };
  stated.read_file = [=, version = stated.format_version](Bytes file) {
    return read_quad_file(file, layout_of, version);
  };
  stated.write_file = [=](const ChainFile& chain) { return write_quad_file(chain, layout_of); };
  return stated;
}

}  // namespace ecmv::codecs::modelling

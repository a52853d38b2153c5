// huffman_lut: static Huffman codes decoded by table look-up, in two layouts (format.h, README.md).
#include "codecs/codec.h"

#include "codecs/huffman_lut/layouts.h"

namespace ecmv::codecs::huffman_lut {
namespace {

bool is_hierarchical(const Settings& settings) { return settings.text("layout") == "hierarchical"; }

std::string refuses(datasets::MatrixView matrix, const Settings& settings) {
  return is_hierarchical(settings) ? hierarchical::refuses(matrix, settings) : single_level::refuses(matrix, settings);
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  return is_hierarchical(settings) ? hierarchical::encode(matrix, settings) : single_level::encode(matrix, settings);
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  is_hierarchical(*compressed.settings) ? hierarchical::decode(compressed, out) : single_level::decode(compressed, out);
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  return is_hierarchical(settings) ? hierarchical::max_stored_bytes(shape, settings)
                                   : single_level::max_stored_bytes(shape, settings);
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary =
          "Huffman codes decoded by table look-up: DFloat11's hierarchical tables, or tuples through one "
          "table",
      .source =
          "DFloat11 (Zhang et al., arXiv 2504.11651) for the hierarchical layout; the single-level layout is "
          "our own",
      .settings = {choice_setting("layout", "which of the two stored layouts", "single_level",
                                  {"hierarchical", "single_level"}),
                   value_setting("tuple", "", "single_level: elements coded together by one look-up", 4, {2, 4}),
                   number_setting("raw_bits", "bit",
                                  "single_level: low bits of an element stored as they are; -1: as many as give "
                                  "the fewest bytes",
                                  -1, -1, 7),
                   number_setting("table_bits", "bit", "single_level: longest code, index width of the table", 12, 10,
                                  14),
                   value_setting("streams", "", "single_level: interleaved bit streams of a block of rows", 8,
                                 {4, 8, 16}),
                   number_setting("block_elements", "", "elements of an independently decodable block of rows, about",
                                  131072, 1, int64_t{1} << 30)},
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::huffman_lut

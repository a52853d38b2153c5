// huffman_lut: static Huffman codes decoded by table look-up, in two layouts (format.h, README.md).
#include "codecs/codec.h"

#include "codecs/huffman_lut/hierarchical.h"
#include "codecs/huffman_lut/single_level.h"

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
      .format_version = 1,
      .lossless = true,
      .settings = {{.name = "layout",
                    .unit = "",
                    .help = "which of the two stored layouts",
                    .default_value = "single_level",
                    .choices = {"hierarchical", "single_level"}},
                   {.name = "tuple",
                    .unit = "",
                    .help = "single_level: elements coded together by one look-up",
                    .default_value = int64_t{4},
                    .values = {2, 4}},
                   {.name = "raw_bits",
                    .unit = "bit",
                    .help = "single_level: low bits of an element stored as they are; -1: as many as give "
                            "the fewest bytes",
                    .default_value = int64_t{-1},
                    .min = -1,
                    .max = 7},
                   {.name = "table_bits",
                    .unit = "bit",
                    .help = "single_level: longest code, index width of the table",
                    .default_value = int64_t{12},
                    .min = 10,
                    .max = 14},
                   {.name = "streams",
                    .unit = "",
                    .help = "single_level: interleaved bit streams of a block of rows",
                    .default_value = int64_t{8},
                    .values = {4, 8, 16}},
                   {.name = "block_elements",
                    .unit = "",
                    .help = "elements of an independently decodable block of rows, about",
                    .default_value = int64_t{131072},
                    .min = 1,
                    .max = int64_t{1} << 30}},
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::huffman_lut

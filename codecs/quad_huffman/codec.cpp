// quad_huffman: one length-limited Huffman code for the high parts of 4 or 8 columns, low bits raw, patches for
// symbols without a code. A lane owns a row and decodes a symbol's columns by one look-up (README.md, FORMAT.md).
#include "codecs/codec.h"

#include "codecs/quad_huffman/encode/arrange.h"
#include "codecs/quad_huffman/encode/encode.h"
#include "codecs/quad_huffman/encode/model.h"
#include "codecs/quad_huffman/encode/settings.h"
#include "codecs/quad_huffman/format/decode.h"

namespace ecmv::codecs::quad_huffman {
namespace {

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  Wanted wanted = wanted_by(settings);
  const Layout layout = wanted.layout;
  const datasets::LargeBytes elements = arrange(matrix, layout);
  const datasets::MatrixView stored =
      layout == Layout::rows ? matrix
                             : datasets::MatrixView{stored_shape(matrix.shape, layout), matrix.type, elements.all()};
  CompressedMatrix compressed = make_compressed(matrix, settings);
  const auto encode_as_wanted = [&] {
    const Model model = make_model(stored, wanted);
    return encode_sections(stored, model, tile_cols_for(stored, settings, model), layout, compressed);
  };
  if (!encode_as_wanted()) {
    wanted.table_bits = kMostTableBits - kRotationBits;  // no codes of more than 13 bits
    encode_as_wanted();
  }
  if (settings.text("fallback") != "plain" ||
      compressed.stored_bytes() <= static_cast<int64_t>(matrix.elements.size() + kPlainHeaderBytes))
    return compressed;
  for (Section& section : compressed.sections) section.bytes.clear(), section.padding_bytes = 0;
  compressed.sections[kHeader].bytes = {std::byte{kPlain}};
  compressed.sections[kRaw].bytes.assign(matrix.elements.begin(), matrix.elements.end());
  return compressed;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary =
          "high parts of 4 or 8 columns (of bf16 and f8: exponents) in one Huffman code, low bits raw, patches; a "
          "lane a row, a symbol a look-up",
      .source =
          "our own; length limits by package-merge (Larmore and Hirschberg, J. ACM 1990), patches after PFOR (Zukowski "
          "et al., ICDE 2006)",
      .format_version = 2,
      .lossless = true,
      .settings = setting_infos(),
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::quad_huffman

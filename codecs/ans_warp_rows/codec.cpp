// ans_warp_rows: the layout of MatVANS with one warp a row. A row is one queue of 32 coders; coder l has quad l of
// every chunk of 128 columns. Source: MatVANS white paper (Ludwig, Bamler), section 3.2.
#include "codecs/ans_warp_rows/format.h"
#include "codecs/modelling/quad_ans/quad_ans_codec.h"

namespace ecmv::codecs::ans_warp_rows {
namespace {

std::string refuses_shape(datasets::Shape shape) {
  if (shape.cols % kChunkCols == 0) return "";
  return "ans_warp_rows cuts rows into chunks of 128 columns; " + std::to_string(shape.cols) +
         " columns are no multiple of that.";
}

}  // namespace

const Codec& codec() {
  static const Codec codec =
      modelling::make_quad_codec({.summary = "MatVANS: 32 quad coders share the word queue of a row",
                                  .source = "MatVANS white paper (Ludwig, Bamler), section 3.2",
                                  .format_version = kFormatVersion},
                                 layout_of, refuses_shape);
  return codec;
}

}  // namespace ecmv::codecs::ans_warp_rows

// ans_warp_stripes: the layout of MatVANS with one thread a row. A stripe of 32 rows is one queue of 32 coders; coder l
// has row l of the stripe. Source: MatVANS white paper (Ludwig, Bamler), section 3.3.
#include "codecs/ans_warp_stripes/format.h"
#include "codecs/modelling/quad_ans/quad_ans_codec.h"

namespace ecmv::codecs::ans_warp_stripes {
namespace {

std::string refuses_shape(datasets::Shape shape) {
  if (shape.rows % kStripeRows != 0)
    return "ans_warp_stripes needs stripes of 32 rows; " + std::to_string(shape.rows) +
           " rows are no multiple of that.";
  if (shape.cols % kChunkCols != 0)
    return "ans_warp_stripes codes four columns at a time; " + std::to_string(shape.cols) +
           " columns are no multiple of that.";
  return "";
}

}  // namespace

const Codec& codec() {
  static const Codec codec =
      modelling::make_quad_codec({.summary = "MatVANS: 32 quad coders, one a row, share the word queue of a stripe",
                                  .source = "MatVANS white paper (Ludwig, Bamler), section 3.3",
                                  .format_version = kFormatVersion},
                                 layout_of, refuses_shape);
  return codec;
}

}  // namespace ecmv::codecs::ans_warp_stripes

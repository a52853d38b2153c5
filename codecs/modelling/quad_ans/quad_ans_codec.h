// The codec of a layout of the quad coder: encoder, reference decoder and files are the same for both layouts.
#pragma once

#include "codecs/modelling/quad_ans/quad_ans_file.h"

namespace ecmv::codecs::modelling {

// `stated` has summary, source and format_version. `refuses_shape` returns "" if the layout's queues and chunks divide
// the shape, otherwise the reason.
Codec make_quad_codec(Codec stated, QuadLayoutOf layout_of, std::string (*refuses_shape)(datasets::Shape));

}  // namespace ecmv::codecs::modelling

// The kernels of the codec, one function a file of gpu/.
#pragma once

#include "backends/kernel.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

backends::Kernel vector_int8();     // int8 elements, a vector of int8: the fast path
backends::Kernel vector_units();    // the same, with equal work for all multiprocessors
backends::Kernel strips();          // the same, layout of strips
backends::Kernel chain();           // the same, all layers of a chain in one launch
backends::Kernel float_token();     // bf16 and f8 elements, tokens of float32
backends::Kernel one_token();       // int8 elements, tokens of bf16 one by one
backends::Kernel fragments();       // fragments, up to 16 tokens of bf16
backends::Kernel digits();          // the same, int8 elements as bytes
backends::Kernel fragments_many();  // fragments of bf16 and f8, up to 64 tokens of bf16
backends::Kernel fragment_slabs();  // the same, bf16 in symbols of eight, more tokens
backends::Kernel decode_rows();     // rows and fragments, to memory

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE

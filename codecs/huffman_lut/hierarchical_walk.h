// Portable kernels of `hierarchical`. A block of 4096 coded bytes is entered through its output position and
// its first gap; four blocks are decoded at once, one code each in turn, into a buffer that then holds
// consecutive elements. Launches that begin inside a block decode and drop the elements before their first
// row. Assumes a verified stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "backends/kernel.h"
#include "codecs/huffman_lut/format.h"

namespace ecmv::codecs::huffman_lut::hierarchical {

std::string refuses_layout(const CompressedView& matrix, const backends::DeviceInfo&, int tuning);
int64_t kernel_rows_per_block(const CompressedView& matrix);
int64_t kernel_scratch_bytes(const CompressedView& matrix, int tuning);
void run_decode(const backends::KernelCall& call);
void run_matvec(const backends::KernelCall& call);

}  // namespace ecmv::codecs::huffman_lut::hierarchical

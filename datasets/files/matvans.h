// The uncompressed files of the MatVANS experiments, in both layouts: a safetensors container with the tensors
// `matrices` and `initial_vector`, and a headerless .bin file. The content tells which one a file is.
#pragma once

#include <span>
#include <vector>

#include "datasets/source.h"

namespace ecmv::datasets {

struct MatvansFile {
  std::vector<Matrix> layers;
  std::vector<int8_t> initial_vector;
  // Container: [layers] factors of the requantisation and hashes of each layer's output vector.
  // .bin: no factors (each layer scales by 127 / its largest absolute output), one hash of the final vector.
  std::vector<float> scales;
  std::vector<uint32_t> hashes;
};

// Throws DatasetError with a sentence about the error if the bytes have neither layout; names compressed twins as such.
MatvansFile parse_matvans_uncompressed(std::span<const std::byte> bytes);

// The hash that these files store for a vector.
uint32_t matvans_hash(std::span<const int8_t> vector);

}  // namespace ecmv::datasets

// What a weight file holds and what an ideal order-0 code would take for it: the figures of `ecmv inspect`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/tensor.h"

namespace ecmv::datasets {

struct TensorSummary {
  std::string name;
  std::string dtype;  // as in the safetensors format
  std::vector<int64_t> shape;
  int64_t elements = 0;
  int64_t stored_bytes = 0;

  // Absent for no elements and for types without a numeric reading here (F8_*, F6_*, F4, C64).
  std::optional<double> mean, sigma, min, max;  // sigma: population standard deviation about the mean
  int64_t not_finite = 0;                       // infinities and NaN, which the four leave out

  // For one-byte types only: how many of the 256 bytes occur, order-0 entropy in bits per element, and
  // ceil(entropy * elements / 8). Each matrix counts by itself: a tensor [n, rows, cols] is n of them, as for the sources
  // that read it. So this is the least that a code takes which has one model of single elements for a matrix, tables not
  // counted. Codes with more models (of rows, blocks, contexts) or other symbols can take less.
  std::optional<int64_t> distinct_values;
  std::optional<double> entropy_bits;
  std::optional<int64_t> order0_bytes;

  // For BF16, F16, F32 and F64: how many exponent fields occur, and their order-0 entropy in bits per element, matrix by
  // matrix: what an ideal code of exponents beside raw signs and fractions would take for them.
  std::optional<int64_t> distinct_exponents;
  std::optional<double> exponent_entropy_bits;
};

TensorSummary summarize(const TensorView& tensor);

// Every tensor of a safetensors, npy or uncompressed MatVANS .bin file; the content decides which it is.
// Throws DatasetError with the path for other files and for malformed ones.
std::vector<TensorSummary> inspect_file(const std::string& path);

}  // namespace ecmv::datasets

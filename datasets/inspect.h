// The figures of `ecmv inspect`: what a weight file holds, and what an ideal order-0 code would take for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/files/weight_files.h"
#include "datasets/layers/layer_kind.h"
#include "datasets/tensor.h"

namespace ecmv::datasets {

struct TensorSummary {
  std::string name;
  LayerKind kind = LayerKind::other;
  std::string dtype;  // as in TensorView
  std::vector<int64_t> shape;
  int64_t elements = 0;
  int64_t stored_bytes = 0;
  int64_t scale_bytes = 0;  // scales and minimums of blocks, which stored_bytes counts

  // For blocks and packed codes: statistics of the numbers without their scales. Absent for tensors without elements
  // and for types without a numeric reading here (F6_*, C64, words of codes, and blocks that are not unpacked).
  std::optional<double> mean, sigma, min, max;  // sigma: population standard deviation about the mean
  int64_t not_finite = 0;                       // infinities and NaN, which the four leave out

  // For elements of up to two bytes: how many patterns occur, and their order-0 entropy in bits per element. Each
  // matrix counts by itself: a stack of n (matrices_of) is n matrices, as for the sources that read it.
  std::optional<int64_t> distinct_values;
  std::optional<double> entropy_bits;

  // For scales of blocks: their order-0 entropy in bits per scale, matrix by matrix.
  std::optional<double> scale_entropy_bits;

  // For BF16, F16, F32 and F64: how many exponent fields occur, and their order-0 entropy in bits per element, matrix
  // by matrix. An ideal code of exponents beside raw signs and fractions would take as much for them.
  std::optional<int64_t> distinct_exponents;
  std::optional<double> exponent_entropy_bits;

  // The least that a code with one model of single elements for a matrix takes, without tables: for elements of one and
  // up to two bytes their entropy, with scales of one byte likewise and of two as they are; for wider floats the
  // entropy of the exponents, with signs and fractions as they are. Codes with more models (of rows, blocks, contexts)
  // or other symbols can take less.
  std::optional<int64_t> order0_bytes;
};

TensorSummary summarize(const TensorView& tensor);

// Summarises all tensors, several at once.
std::vector<TensorSummary> summarize_all(std::span<const TensorView> tensors);

// All tensors of one kind and type, or all of a file. Entropies are means over elements, each matrix with its own, and
// absent unless every tensor (of floats) has one.
struct KindSummary {
  std::string kind;   // "q", ..., or "total"
  std::string dtype;  // "" of a total of several types
  int64_t tensors = 0, elements = 0, stored_bytes = 0, scale_bytes = 0;
  std::optional<double> entropy_bits, exponent_entropy_bits;
  int64_t minimum_bytes = 0;  // order0_bytes, or stored_bytes of tensors that have none

  double stored_bits() const { return elements == 0 ? 0 : 8.0 * double(stored_bytes) / double(elements); }
  double minimum_bits() const { return elements == 0 ? 0 : 8.0 * double(minimum_bytes) / double(elements); }
};

// A row for each kind and type that occurs, in the order of LayerKind, then the total.
std::vector<KindSummary> summarize_kinds(std::span<const TensorSummary> tensors);

// Summarises every tensor of a file or folder that open_weights reads. Throws DatasetError as it does.
std::vector<TensorSummary> inspect_file(const std::string& path);

}  // namespace ecmv::datasets

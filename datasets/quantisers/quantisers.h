// Quantisers: named steps from float weights to elements of few bits with scales. A config names them beside any source
// (`quantise`); README.md describes each.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "datasets/parameters.h"
#include "datasets/quantisers/distortion.h"
#include "datasets/scales.h"
#include "datasets/source.h"

namespace ecmv::datasets {

// A quantiser and its parameters as the caller requests it. Without an id nothing is quantised.
struct QuantiserChoice {
  std::string id;
  std::map<std::string, double> numbers = {};
  std::map<std::string, std::string> texts = {};
  // "absmax[bits=4,group=128]": every parameter that has a value. Throws DatasetError if one is wrong.
  std::string name() const;
  friend bool operator==(const QuantiserChoice&, const QuantiserChoice&) = default;
};

struct Quantised {
  Matrix matrix;
  Scales scales;
};

struct Quantiser {
  std::string_view id, summary;
  std::span<const ParameterInfo> parameters;
  // Takes a matrix of floats that are finite and at most 2^100, neither side 0. Throws DatasetError with a sentence.
  Quantised (*quantise)(const Matrix&, const Parameters&);
  // Throws DatasetError for parameters that do not fit each other; null if all do.
  void (*check)(const Parameters&) = nullptr;
  // Columns of a row that share a scale; 0 if all of a row do. Null if that is always so.
  int64_t (*group_cols)(const Parameters&) = nullptr;
};

std::span<const Quantiser> all_quantisers();
const Quantiser* find_quantiser(std::string_view id);  // nullptr: no such quantiser

// Throws DatasetError for an unknown id and for parameters that the quantiser does not take.
void check_quantiser(const QuantiserChoice& choice);

// Throws DatasetError for elements that are no floats.
void expect_floats(const Matrix& matrix);

// Columns that share a scale if scales differ along a row, so that a product cannot apply them to its sums; else 0.
int64_t group_cols(const QuantiserChoice& choice);

// The dataset with quantised layers, their scales, and the floats as sources. Throws DatasetError for elements that are
// no floats, for NaN and infinities, and for weights beyond 2^100.
Dataset quantise(Dataset floats, const QuantiserChoice& choice);

}  // namespace ecmv::datasets

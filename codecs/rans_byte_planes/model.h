// The model of rans_byte_planes: elements ranked by how often they occur, 2^raw_bits neighbours in rank make a class,
// and the classes of 1 to 3 elements make a symbol. More values a symbol are faster and lose more; the choice trades
// the two.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "codecs/modelling/histogram.h"
#include "codecs/rans_byte_planes/format.h"

namespace ecmv::codecs::rans_byte_planes {

// Settings that restrict the encoder's choice; -1 (raw_bits, runs) and 0 leave it free.
struct Constraints {
  int values = 0;
  int raw_bits = -1;
  int runs = -1;                  // of Form
  int64_t excess_per_mille = 10;  // stored size over the order-0 entropy that the fastest forms may cost
  int64_t block_elements = 0;
};

// The forms chosen; none: the matrix is best stored as it is.
struct Choice {
  std::vector<Form> forms;  // 0..2
  int first_share = 256;    // of 256 rows those coded with forms[0]
  bool smallest = false;    // no form that is allowed is smaller
  double cycles = 0;        // expected, of 64 elements
  bool operator==(const Choice&) const = default;
};
// The fastest form, or mixture of two, of at most `limit` bits an element; the smallest if there is none.
Choice choose_forms(const modelling::Histogram& histogram, const Constraints& constraints, double limit);

// Bits an element: the order-0 entropy, and the excess allowed above it.
double size_limit(const modelling::Histogram& histogram, int64_t excess_per_mille);

// Class and raw bits of each element value (index value + 128); class -1: no class, an exception.
struct Classes {
  std::array<int16_t, 256> class_of;
  std::array<uint8_t, 256> raw_of;
};
Classes rank_values(const modelling::Histogram& histogram, Form form);

// Tables for symbols that occur that often. A symbol too rare for a slot gets frequency 0. If there are too few symbols
// for the runs of `form`, the model's form has none.
Model make_model(const modelling::Histogram& histogram, Form form, const std::array<uint64_t, 64>& symbol_counts);

// log2(value) in units of 2^-16, the same on every platform; value >= 1.
int64_t log2_fixed(uint64_t value);

}  // namespace ecmv::codecs::rans_byte_planes

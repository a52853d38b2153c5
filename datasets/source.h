// DataSource: a name and settings in, matrices out. Each source has a file, and `all_sources()` lists them. A source is
// deterministic: the same settings and seed give the same bytes on every platform and for every number of threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/matrix.h"
#include "datasets/printable.h"
#include "datasets/scales.h"

namespace ecmv::datasets {

// A caller's request to a source. Numbers and texts are kept apart; a source checks both.
struct SourceRequest {
  Shape shape;                               // ignored by sources that read files
  int layers = 1;                            // number of matrices; sources that read files give all of theirs
  uint64_t seed = 1;                         // layer i of the same seed is always the same matrix, whatever `layers` is
  std::map<std::string, double> numbers;     // e.g. {"sigma", 4.0}
  std::map<std::string, std::string> texts;  // e.g. {"file", "weights.safetensors"}
};

// Matrices and, where the source fixes it, the first vector of the chain.
struct Dataset {
  std::vector<Matrix> layers;
  std::vector<int8_t> initial_vector;  // [cols of layer 0]; sources draw or read it
  // [layers], or empty: the scales of a quantised dataset (quantisers.h), or those of a file (unpack.h).
  std::vector<Scales> scales = {};
  std::vector<Matrix> sources = {};  // [layers] of a quantised dataset: the floats that the layers were
  int64_t unsigned_layers = 0;       // layers of int8 that the file has as unsigned numbers, greater by 128
  // The scales of a layer; empty if it has none.
  const Scales& scales_of(size_t layer) const {
    static const Scales kNone;
    return scales.empty() ? kNone : scales[layer];
  }
};

// A source's statement about its file, made without the elements.
struct SourceFacts {
  int64_t bytes = 0;         // of all elements
  int64_t group_cols = 0;    // of the smallest groups of columns that have scales of their own; 0 if there are none
  int64_t bytes_beside = 0;  // of scales that are counted and not applied
  struct OfType {
    ElementType type = ElementType::i8;
    int64_t cols = 0;   // of the first matrix
    int64_t bytes = 0;  // of all elements of the type
  };
  std::vector<OfType> types = {};
  std::vector<std::string> remarks = {};  // sentences about what the source leaves out, or what the file lacks
};

struct ParameterInfo {
  std::string_view name;
  std::string_view help;  // with the unit
  bool is_text = false;
  std::optional<double> default_value = {}, min = {}, max = {};
  bool is_integer = false;  // a number without a fraction
  bool required = false;
  std::string_view default_text = {};  // of a text; "": it has none
};

struct DataSource {
  std::string_view id, summary;
  bool uses_shape = true;  // false: shapes come from a file
  std::span<const ParameterInfo> parameters;
  Dataset (*load)(const SourceRequest&);  // throws DatasetError with a full sentence
  int64_t element_bytes = 1;              // of the widest elements that it makes of a requested shape
  // For sources without a requested shape: throws what load would say about the parameters and the file, so that a run
  // of hours neither begins with a wrong name nor ends for want of memory.
  SourceFacts (*check)(const SourceRequest&) = nullptr;
};

// Its sentence may quote what a file says, so control characters are written out.
struct DatasetError : std::runtime_error {
  explicit DatasetError(const std::string& sentence) : std::runtime_error(printable(sentence)) {}
};

std::span<const DataSource> all_sources();
const DataSource* find_source(std::string_view id);  // nullptr: no such source

}  // namespace ecmv::datasets

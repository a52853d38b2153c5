// Summaries of tensors. One-byte types go through a histogram; wider ones are read twice (mean, then squares
// about it), because one pass over squares loses the digits of a small spread about a large mean.
#include "datasets/inspect.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "datasets/file_bytes.h"
#include "datasets/matvans.h"
#include "datasets/npy.h"
#include "datasets/numbers.h"
#include "datasets/safetensors.h"
#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

// Calls visit(double) for every element of a type T, stored little-endian and unaligned.
template <typename T, typename ToDouble, typename Visit>
void visit_elements(std::span<const std::byte> bytes, ToDouble to_double, Visit visit) {
  static_assert(std::endian::native == std::endian::little, "elements are read as the machine stores them");
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    visit(to_double(value));
  }
}

// The same by the name of the type; no calls if it has no numeric reading here.
template <typename Visit>
void visit_numbers(const TensorView& tensor, Visit visit) {
  const auto plain = [](auto value) { return double(value); };
  const std::string_view type = tensor.dtype;
  if (type == "I16") return visit_elements<int16_t>(tensor.bytes, plain, visit);
  if (type == "U16") return visit_elements<uint16_t>(tensor.bytes, plain, visit);
  if (type == "I32") return visit_elements<int32_t>(tensor.bytes, plain, visit);
  if (type == "U32") return visit_elements<uint32_t>(tensor.bytes, plain, visit);
  if (type == "I64") return visit_elements<int64_t>(tensor.bytes, plain, visit);
  if (type == "U64") return visit_elements<uint64_t>(tensor.bytes, plain, visit);
  if (type == "F32") return visit_elements<float>(tensor.bytes, plain, visit);
  if (type == "F64") return visit_elements<double>(tensor.bytes, plain, visit);
  if (type == "F16") return visit_elements<uint16_t>(tensor.bytes, f16_value, visit);
  if (type == "BF16") return visit_elements<uint16_t>(tensor.bytes, bf16_value, visit);
}

// Mean, spread and extremes of whatever `visit_all` visits (twice) with a value and how often it occurs.
template <typename VisitAll>
void set_moments(TensorSummary& summary, VisitAll visit_all) {
  int64_t count = 0;
  double sum = 0, squares = 0, min = INFINITY, max = -INFINITY;
  visit_all([&](double value, int64_t times) {
    if (!std::isfinite(value)) {
      summary.not_finite += times;
      return;
    }
    count += times;
    sum += value * double(times);
    min = std::min(min, value);
    max = std::max(max, value);
  });
  if (count == 0) return;
  const double mean = sum / double(count);
  visit_all([&](double value, int64_t times) {
    if (std::isfinite(value)) squares += (value - mean) * (value - mean) * double(times);
  });
  summary.mean = mean;
  summary.sigma = std::sqrt(squares / double(count));
  summary.min = min;
  summary.max = max;
}

// What a histogram says: how many of its symbols occur, and the bits of an ideal order-0 code for all of them.
struct Order0 {
  int64_t distinct = 0;
  double bits = 0;
};
Order0 order0(std::span<const int64_t> counts) {
  Order0 out;
  int64_t all = 0;
  for (const int64_t count : counts) all += count;
  for (const int64_t count : counts) {
    if (count == 0) continue;
    ++out.distinct;
    out.bits += double(count) * std::log2(double(all) / double(count));
  }
  return out;
}

// Histograms of the tensor's matrices, each of `symbols` counts: symbol_at(i) for every element i. Returns the bits of
// ideal codes with a model for each matrix, and the symbols that occur in any; `pooled` gets the sum of the histograms.
template <typename SymbolAt>
Order0 order0_of_matrices(const TensorView& tensor, int64_t elements, SymbolAt symbol_at,
                          std::vector<int64_t>& pooled) {
  const int64_t matrices = tensor.shape.size() == 3 && elements > 0 ? tensor.shape[0] : 1;
  Order0 sum;
  std::vector<int64_t> counts(pooled.size());
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    std::fill(counts.begin(), counts.end(), 0);
    for (int64_t i = elements / matrices * matrix; i < elements / matrices * (matrix + 1); ++i) ++counts[symbol_at(i)];
    sum.bits += order0(counts).bits;
    for (size_t symbol = 0; symbol < counts.size(); ++symbol) pooled[symbol] += counts[symbol];
  }
  sum.distinct = order0(pooled).distinct;
  return sum;
}

void summarize_bytes(const TensorView& tensor, TensorSummary& summary) {
  std::vector<int64_t> counts(256);
  const Order0 found = order0_of_matrices(
      tensor, summary.elements, [&](int64_t i) { return size_t(tensor.bytes[size_t(i)]); }, counts);
  summary.distinct_values = found.distinct;
  summary.entropy_bits = summary.elements == 0 ? 0.0 : found.bits / double(summary.elements);
  summary.order0_bytes = int64_t(std::ceil(found.bits / 8));
  if (tensor.dtype != "I8" && tensor.dtype != "U8" && tensor.dtype != "BOOL") return;
  set_moments(summary, [&](auto visit) {
    for (int byte = 0; byte < 256; ++byte) {
      const int64_t count = counts[size_t(byte)];
      if (count > 0) visit(tensor.dtype == "I8" ? int8_t(byte) : byte, count);
    }
  });
}

// Position and width of the exponent field; width 0 for types without one.
struct ExponentField {
  size_t bytes = 0;
  int shift = 0, bits = 0;
};
ExponentField exponent_field(std::string_view type) {
  if (type == "BF16") return {2, 7, 8};
  if (type == "F16") return {2, 10, 5};
  if (type == "F32") return {4, 23, 8};
  if (type == "F64") return {8, 52, 11};
  return {};
}

void summarize_exponents(const TensorView& tensor, const ExponentField& field, TensorSummary& summary) {
  std::vector<int64_t> counts(size_t{1} << field.bits);
  const auto exponent_at = [&](int64_t i) {
    uint64_t pattern = 0;
    // Little-endian, as visit_elements demands.
    std::memcpy(&pattern, tensor.bytes.data() + size_t(i) * field.bytes, field.bytes);
    return size_t(pattern >> field.shift) & (counts.size() - 1);
  };
  const Order0 found = order0_of_matrices(tensor, summary.elements, exponent_at, counts);
  summary.distinct_exponents = found.distinct;
  summary.exponent_entropy_bits = summary.elements == 0 ? 0.0 : found.bits / double(summary.elements);
}

std::vector<TensorView> matvans_tensors(const MatvansFile& file) {
  std::vector<TensorView> tensors;
  for (const Matrix& matrix : file.layers) {
    tensors.push_back({matrix.name, "I8", {matrix.shape.rows, matrix.shape.cols}, matrix.elements});
  }
  tensors.push_back(
      {"initial_vector", "I8", {int64_t(file.initial_vector.size())}, std::as_bytes(std::span(file.initial_vector))});
  return tensors;
}

std::vector<TensorSummary> summarize_all(std::span<const TensorView> tensors) {
  std::vector<TensorSummary> summaries;
  for (const TensorView& tensor : tensors) summaries.push_back(summarize(tensor));
  return summaries;
}

}  // namespace

TensorSummary summarize(const TensorView& tensor) {
  TensorSummary summary;
  summary.name = tensor.name;
  summary.dtype = tensor.dtype;
  summary.shape = tensor.shape;
  summary.stored_bytes = int64_t(tensor.bytes.size());
  const int bits = dtype_bits(tensor.dtype);
  if (bits == 0) throw DatasetError("The tensor \"" + tensor.name + "\" has an unknown dtype.");
  summary.elements = summary.stored_bytes / bits * 8 + summary.stored_bytes % bits * 8 / bits;
  if (bits == 8) {
    summarize_bytes(tensor, summary);
  } else {
    set_moments(summary, [&](auto visit) { visit_numbers(tensor, [&](double value) { visit(value, 1); }); });
    if (const ExponentField field = exponent_field(tensor.dtype); field.bits > 0)
      summarize_exponents(tensor, field, summary);
  }
  return summary;
}

std::vector<TensorSummary> inspect_file(const std::string& path) {
  const FileBytes file(path);
  try {
    if (looks_like_npy(file.bytes())) return {summarize(parse_npy(file.bytes(), "array"))};
    if (looks_like_safetensors(file.bytes())) return summarize_all(parse_safetensors(file.bytes()).tensors);
  } catch (const DatasetError& error) {
    throw DatasetError("In the file \"" + path + "\": " + error.what());
  }
  try {
    return summarize_all(matvans_tensors(parse_matvans_uncompressed(file.bytes())));
  } catch (const DatasetError& error) {
    throw DatasetError("The file \"" + path + "\" is neither safetensors nor npy, nor an uncompressed MatVANS file. (" +
                       error.what() + ")");
  }
}

}  // namespace ecmv::datasets

// Summaries of tensors. Elements of one byte go through a histogram; wider ones are read twice (mean, then squares
// about it), because one pass over squares loses the digits of a small spread about a large mean.
#include "datasets/inspect.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "datasets/chunks.h"
#include "datasets/layers/unpack.h"
#include "datasets/numbers.h"

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

// The same by the name of the type; makes no calls if the type has no numeric reading here.
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

// Mean, spread and extremes of the values that `visit_all` visits. It runs twice and passes each value with its count.
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

// Adds up the bits of ideal order-0 codes for the symbols of each matrix of a tensor, and counts symbols over all.
struct Order0 {
  double bits = 0;
  std::vector<std::pair<size_t, int64_t>> counts;  // of the symbols that occur, in their order
};

// Adds a symbol that occurs `count` times in a matrix of that many elements.
void add_symbol(Order0& found, int64_t count, int64_t elements) {
  found.bits += double(count) * std::log2(double(elements) / double(count));
}

// Calls use(symbol, count) for the runs of a sorted list.
template <typename Use>
void for_each_run(std::span<const uint32_t> sorted, Use use) {
  for (size_t first = 0, end = 0; first < sorted.size(); first = end) {
    while (end < sorted.size() && sorted[end] == sorted[first]) ++end;
    use(sorted[first], int64_t(end - first));
  }
}

// symbol_at(i) < symbols for every element i. Time and memory grow with the elements: neither many small matrices nor
// many small tensors cost a histogram each.
template <typename SymbolAt>
Order0 order0_of_matrices(const TensorView& tensor, int64_t elements, size_t symbols, SymbolAt symbol_at) {
  Order0 found;
  const int64_t matrices =
      tensor.shape.size() > 1 && elements > 0 ? matrices_of(tensor.name, tensor.shape).matrices : 1;
  const int64_t each = elements / matrices;
  if (elements < int64_t(symbols)) {
    std::vector<uint32_t> sorted;
    for (int64_t i = 0; i < elements; ++i) sorted.push_back(uint32_t(symbol_at(i)));
    for (int64_t first = 0; first < elements; first += each) {
      const auto matrix = std::span(sorted).subspan(size_t(first), size_t(each));
      std::sort(matrix.begin(), matrix.end());
      for_each_run(matrix, [&](uint32_t, int64_t count) { add_symbol(found, count, each); });
    }
    std::sort(sorted.begin(), sorted.end());
    for_each_run(sorted, [&](uint32_t symbol, int64_t count) { found.counts.emplace_back(symbol, count); });
    return found;
  }
  std::vector<int64_t> counts(symbols), all(symbols);
  const auto close = [&](size_t symbol) {
    const int64_t count = std::exchange(counts[symbol], 0);
    if (count == 0) return;
    all[symbol] += count;
    add_symbol(found, count, each);
  };
  for (int64_t first = 0; first < elements; first += each) {
    for (int64_t i = first; i < first + each; ++i) ++counts[symbol_at(i)];
    if (each < int64_t(symbols))
      for (int64_t i = first; i < first + each; ++i) close(symbol_at(i));
    else
      for (size_t symbol = 0; symbol < symbols; ++symbol) close(symbol);
  }
  for (size_t symbol = 0; symbol < symbols; ++symbol)
    if (all[symbol] > 0) found.counts.emplace_back(symbol, all[symbol]);
  return found;
}

int64_t bytes_of(double bits) { return int64_t(std::ceil(bits / 8)); }

// Only for whole elements of one or two bytes.
Order0 summarize_patterns(const TensorView& tensor, TensorSummary& summary) {
  const std::byte* const bytes = tensor.bytes.data();
  const bool wide = dtype_bits(tensor.dtype) == 16;
  const Order0 found =
      wide ? order0_of_matrices(tensor, summary.elements, 65536,
                                [&](int64_t i) {
                                  uint16_t pattern;
                                  std::memcpy(&pattern, bytes + 2 * i, 2);
                                  return size_t{pattern};
                                })
           : order0_of_matrices(tensor, summary.elements, 256, [&](int64_t i) { return size_t(bytes[i]); });
  summary.distinct_values = int64_t(found.counts.size());
  summary.entropy_bits = summary.elements == 0 ? 0.0 : found.bits / double(summary.elements);
  summary.order0_bytes = bytes_of(found.bits) + summary.scale_bytes;
  return found;
}

// The number of an element of one byte or less; nothing for types without numbers here.
std::optional<double (*)(uint8_t)> number_of_byte(const TensorView& stored) {
  const std::string_view type = stored.dtype;
  const BlockFormat* const blocks = find_block_format(type);
  const PackedType* const packed = find_packed_type(type);
  if ((blocks != nullptr && blocks->code == Code::e2m1) || (packed != nullptr && packed->code == Code::e2m1))
    return [](uint8_t code) { return element_of_code(Code::e2m1, 4, code) / 2.0; };
  if (type == "F8_E4M3") return f8_e4m3_value;
  if (type == "F8_E5M2") return f8_e5m2_value;
  if (type == "F8_E4M3FNUZ") return f8_e4m3fnuz_value;
  if (type == "F8_E5M2FNUZ") return f8_e5m2fnuz_value;
  if (type == "F8_E8M0") return f8_e8m0_value;
  if (type == "INT4") return [](uint8_t code) { return double(element_of_code(Code::signed_number, 4, code)); };
  if (type == "INT2") return [](uint8_t code) { return double(element_of_code(Code::signed_number, 2, code)); };
  if (type == "NF4" || type == "FP4") return std::nullopt;  // places in a code book
  if (blocks != nullptr || type == "I8") return [](uint8_t byte) { return double(int8_t(byte)); };
  if (packed != nullptr || type == "U8" || type == "BOOL") return [](uint8_t byte) { return double(byte); };
  return std::nullopt;
}

void set_moments_of_bytes(const TensorView& stored, const Order0& found, TensorSummary& summary) {
  const auto number = number_of_byte(stored);
  if (!number) return;
  set_moments(summary, [&](auto visit) {
    for (const auto& [byte, count] : found.counts) visit((*number)(uint8_t(byte)), count);
  });
}

// The entropy of scales in blocks. Those of one byte count in order0_bytes with it.
void summarize_scales(const TensorView& stored, TensorSummary& summary) {
  if (summary.scale_bytes == 0) return;
  std::vector<std::byte> room;
  const TensorView scales = block_scales(stored, room);
  const int width = dtype_bits(scales.dtype) / 8;
  const auto count = int64_t(scales.bytes.size()) / width;
  const Order0 found = order0_of_matrices(scales, count, size_t{1} << (8 * width), [&](int64_t i) {
    uint16_t pattern = 0;
    std::memcpy(&pattern, scales.bytes.data() + i * width, size_t(width));
    return size_t{pattern};
  });
  summary.scale_entropy_bits = found.bits / double(count);
  if (width == 1) *summary.order0_bytes += bytes_of(found.bits) - summary.scale_bytes;
}

// Position and width of the exponent field; the width is 0 for types without one.
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
  const size_t symbols = size_t{1} << field.bits;
  const auto exponent_at = [&](int64_t i) {
    uint64_t pattern = 0;
    // Stores little-endian elements, as visit_elements demands.
    std::memcpy(&pattern, tensor.bytes.data() + size_t(i) * field.bytes, field.bytes);
    return size_t(pattern >> field.shift) & (symbols - 1);
  };
  const Order0 found = order0_of_matrices(tensor, summary.elements, symbols, exponent_at);
  summary.distinct_exponents = int64_t(found.counts.size());
  summary.exponent_entropy_bits = summary.elements == 0 ? 0.0 : found.bits / double(summary.elements);
  if (field.bytes > 2)
    summary.order0_bytes = bytes_of(found.bits + double(summary.elements) * double(8 * int(field.bytes) - field.bits));
}

// A mean over elements that exists only if every part has one.
struct Mean {
  double sum = 0, elements = 0;
  bool complete = true;
  void add(const std::optional<double>& value, int64_t weight) {
    complete = complete && value.has_value();
    sum += value.value_or(0) * double(weight);
    elements += double(weight);
  }
  std::optional<double> value() const {
    return complete && elements > 0 ? std::optional<double>(sum / elements) : std::nullopt;
  }
};

KindSummary sum_of(std::span<const TensorSummary* const> tensors, std::string_view kind) {
  KindSummary sum;
  sum.kind = kind;
  sum.dtype = tensors.empty() ? "" : tensors.front()->dtype;
  Mean entropy, exponents;
  for (const TensorSummary* tensor : tensors) {
    if (tensor->dtype != sum.dtype) sum.dtype.clear();
    ++sum.tensors;
    sum.elements += tensor->elements;
    sum.stored_bytes += tensor->stored_bytes;
    sum.scale_bytes += tensor->scale_bytes;
    sum.minimum_bytes += tensor->order0_bytes.value_or(tensor->stored_bytes);
    entropy.add(tensor->entropy_bits, tensor->elements);
    if (exponent_field(tensor->dtype).bits > 0) exponents.add(tensor->exponent_entropy_bits, tensor->elements);
  }
  sum.entropy_bits = entropy.value();
  sum.exponent_entropy_bits = exponents.value();
  return sum;
}

}  // namespace

TensorSummary summarize(const TensorView& stored) {
  TensorSummary summary;
  summary.name = stored.name;
  summary.kind = layer_kind(stored.name);
  summary.dtype = stored.dtype;
  summary.shape = stored.shape;
  summary.elements = tensor_elements(stored.name, stored.shape);
  // Numbers that the file stores one by one, such as ONNX's varints, count with the size of their type.
  summary.stored_bytes = stored_bytes(stored);
  summary.scale_bytes = scale_bytes(stored);
  std::vector<std::byte> room;
  const TensorView tensor = unpack(stored, room, true);
  const int bits = dtype_bits(tensor.dtype);
  if (bits == 0) return summary;  // known by name and size only
  if (bits == 8) {
    set_moments_of_bytes(stored, summarize_patterns(tensor, summary), summary);
    summarize_scales(stored, summary);
  } else {
    if (bits == 16) summarize_patterns(tensor, summary);
    set_moments(summary, [&](auto visit) { visit_numbers(tensor, [&](double value) { visit(value, 1); }); });
    if (const ExponentField field = exponent_field(tensor.dtype); field.bits > 0)
      summarize_exponents(tensor, field, summary);
  }
  return summary;
}

std::vector<TensorSummary> summarize_all(std::span<const TensorView> tensors) {
  std::vector<TensorSummary> summaries(tensors.size());
  std::exception_ptr failure;
  std::mutex lock;
  for_each_chunk(int64_t(tensors.size()), 0, [&](int64_t i) {
    try {
      summaries[size_t(i)] = summarize(tensors[size_t(i)]);
    } catch (...) {
      const std::scoped_lock locked(lock);
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
  return summaries;
}

std::vector<KindSummary> summarize_kinds(std::span<const TensorSummary> tensors) {
  std::map<std::pair<LayerKind, std::string>, std::vector<const TensorSummary*>> groups;
  std::vector<const TensorSummary*> all;
  for (const TensorSummary& tensor : tensors) {
    groups[{tensor.kind, tensor.dtype}].push_back(&tensor);
    all.push_back(&tensor);
  }
  std::vector<KindSummary> kinds;
  for (const auto& [key, group] : groups) kinds.push_back(sum_of(group, layer_kind_name(key.first)));
  kinds.push_back(sum_of(all, "total"));
  return kinds;
}

std::vector<TensorSummary> inspect_file(const std::string& path) { return summarize_all(open_weights(path).tensors); }

}  // namespace ecmv::datasets

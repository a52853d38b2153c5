// What the formats share.
#include "codecs/coding_pairs/pairs.h"

#include <stdexcept>

namespace ecmv::codecs::coding_pairs {

void ElementFormat::append(const datasets::MatrixView& matrix, int64_t first, int64_t count,
                           std::vector<Pair>& pairs) const {
  for (int64_t i = first; i < first + count; ++i) pairs.push_back(pair_of(element_at(matrix, i), matrix.type));
}

void ElementFormat::restore(PairSource& source, datasets::ElementType type, std::span<std::byte> out) const {
  const auto width = static_cast<size_t>(datasets::element_bytes(type));
  for (size_t at = 0; at < out.size(); at += width) {
    const uint64_t pattern = pattern_of(source.next(), type);
    for (size_t byte = 0; byte < width; ++byte) out[at + byte] = static_cast<std::byte>(pattern >> (8 * byte));
  }
}

std::vector<NamedFormat> all_formats() {
  std::vector<NamedFormat> all;
  for (const auto formats : {float_formats(), posit_formats(), integer_formats(), sparse_formats()})
    all.insert(all.end(), formats.begin(), formats.end());
  return all;
}

const PairFormat& find_format(std::string_view name) {
  for (const auto formats : {float_formats(), posit_formats(), integer_formats(), sparse_formats()})
    for (const NamedFormat& format : formats)
      if (format.name == name) return *format.format;
  throw std::logic_error("There is no pair format " + std::string(name) + ".");
}

}  // namespace ecmv::codecs::coding_pairs

// See encoding.h.
#include "experiments/library/encoding.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "backends/cpu/team.h"
#include "datasets/large_bytes.h"

namespace ecmv::library {
namespace {

// "" if the decoded elements are what the codec promises.
std::string difference(const codecs::Codec& codec, const datasets::MatrixView& matrix,
                       const backends::Settings& settings, std::span<const std::byte> decoded) {
  codecs::ErrorBound bound;
  if (!codec.lossless && codec.error_bound != nullptr) bound = codec.error_bound(matrix, settings);
  if (!bound.exact()) return codecs::check_bound(matrix, decoded, bound).violation;
  // std::mismatch alone compares byte by byte.
  if (decoded.empty() || std::memcmp(decoded.data(), matrix.elements.data(), decoded.size()) == 0) return {};
  const auto [got, expected] = std::mismatch(decoded.begin(), decoded.end(), matrix.elements.begin());
  const int64_t element = (got - decoded.begin()) / datasets::element_bytes(matrix.type);
  return "The decoded element at row " + std::to_string(element / matrix.shape.cols) + ", column " +
         std::to_string(element % matrix.shape.cols) + " is another one.";
}

}  // namespace

backends::Settings parse_settings(const codecs::CodecEntry& entry, const std::string& text) {
  std::map<std::string, std::string> given;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Failure(ECMV_INVALID_ARGUMENT, "Settings are 'name=value,name=value', not '" + text + "'.");
    if (!given.emplace(part.substr(0, equals), part.substr(equals + 1)).second)
      throw Failure(ECMV_INVALID_ARGUMENT, "The setting '" + part.substr(0, equals) + "' is given twice.");
    begin = end + 1;
  }
  std::vector<std::string> errors;
  backends::Settings settings = codecs::resolve_settings(entry.codec->settings, given, errors);
  std::string all;
  for (const std::string& error : errors) all += (all.empty() ? "" : " ") + error;
  if (!all.empty()) throw Failure(ECMV_INVALID_ARGUMENT, all);
  return settings;
}

backends::CompressedMatrix encode_and_compare(const codecs::CodecEntry& entry, const datasets::MatrixView& matrix,
                                              const backends::Settings& settings) {
  const backends::cpu::Team::Share share;
  const codecs::Codec& codec = *entry.codec;
  if (const std::string reason = codec.refuses == nullptr ? "" : codec.refuses(matrix, settings); !reason.empty())
    throw Failure(ECMV_REFUSED, reason);
  backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix, settings);
  datasets::LargeBytes decoded(matrix.elements.size());
  codec.decode(compressed.view(), decoded.all());
  const std::string who = "The codec '" + std::string(entry.id) + "' ";
  if (const std::string violation = difference(codec, matrix, settings, decoded.all()); !violation.empty())
    throw Failure(ECMV_INCORRECT, who + "does not reproduce this matrix: " + violation);
  if (codec.max_stored_bytes != nullptr &&
      compressed.stored_bytes() > codec.max_stored_bytes(codecs::shape_in_bytes(matrix), settings))
    throw Failure(ECMV_INCORRECT, who + "stores more bytes than it declares.");
  return compressed;
}

}  // namespace ecmv::library

// Codec: the description of a codec that its folder's codec.cpp provides. The harness knows no codec and no codec knows
// the harness; they meet in this header, in compressed_matrix.h and in backends/kernel.h.
//
// A folder codecs/ID/ has namespace ecmv::codecs::ID and defines
//   const Codec& codec();                          in codec.cpp (required)
//   std::span<const backends::Kernel> cpu_kernels();   in cpu.cpp  (optional: backend `scalar`)
//   std::span<const backends::Kernel> simd_kernels();  in simd.cpp (optional: backend `simd`)
//   namespace ECMV_GPU_NAMESPACE { std::span<const backends::Kernel> gpu_kernels(); }  in gpu.cu (optional: cuda, hip,
//   emulator)
// CMake finds the folder and generates the registry; nothing else names the codec.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "datasets/matrix.h"

namespace ecmv::codecs {

// Thrown by reference decoders (and chain file readers) on damaged or foreign bytes; a full sentence.
struct MalformedStream : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A value that one choice of a setting implies for another setting. `layout: strips` alone is then enough: other
// settings that strips need get their values from here unless the user gave them.
struct Companion {
  std::string_view value, setting, its_value;
};

// One setting. Integers lie between min and max or are one of `values`; texts are one of `choices`. resolve_settings()
// checks them.
struct SettingInfo {
  std::string_view name;
  std::string_view unit;  // "" for texts and pure numbers
  std::string_view help;
  SettingValue default_value;
  int64_t min = 0, max = 0;                    // inclusive, for integers without `values`
  std::vector<std::string_view> choices = {};  // for texts
  std::vector<int64_t> values = {};            // for integers that allow a few values only
  std::vector<Companion> brings = {};
  // The value that leaves the choice to the codec, if it has one. `ecmv tune` tries the others: all that are listed, or
  // all of the range.
  std::string_view open = {};
};

// A setting that a codec no longer has. Configs may still give the value that is left, if any; others are refused with
// the reason, a sentence.
struct FormerSetting {
  std::string_view name, value_left, reason;
};

// The three common kinds: an integer from min to max, an integer from a list, and a text from a list.
inline SettingInfo number_setting(std::string_view name, std::string_view unit, std::string_view help,
                                  int64_t default_value, int64_t min, int64_t max) {
  return {name, unit, help, default_value, min, max};
}
inline SettingInfo value_setting(std::string_view name, std::string_view unit, std::string_view help,
                                 int64_t default_value, std::vector<int64_t> values) {
  return {name, unit, help, default_value, 0, 0, {}, std::move(values)};
}
inline SettingInfo choice_setting(std::string_view name, std::string_view help, std::string default_value,
                                  std::vector<std::string_view> choices) {
  return {name, "", help, std::move(default_value), 0, 0, std::move(choices)};
}

// The values of a setting as configs write them, if there is a list of them; none for a range of integers.
std::vector<std::string> listed_values(const SettingInfo& info);

// A foreign file: either a chain as the original programs store it (compressed layers, first vector, and what the file
// promises about the results), or the modules of a model by name. Modules have no first vector, and their shapes need
// not fit together. Only codecs that reproduce a foreign file format use it.
struct ChainFile {
  std::vector<CompressedMatrix> layers;
  std::vector<std::string> names;  // [layers] for modules; empty for a chain
  bool has_more = false;           // the file has other tensors too, which write_file does not write
  std::vector<int8_t> initial_vector;
  // v_i = int8(round_half_even(float(acc) * scales[i])) where given; where empty, the file's chain requantises by
  // 127 / max|acc| found at run time.
  std::vector<float> scales;
  // layer -> hash of v_i after that layer (the MatVANS rotating hash), for the layers whose hash the file states.
  std::map<int, uint32_t> hashes;
};

// The size of every block of a matrix under one rule of counting. Only memory compression codecs have it: their blocks
// decode alone, and their literature counts bits a block, sometimes fewer than a decoder would need.
struct BlockSizes {
  std::string_view accounting;  // the rule's name, e.g. "stream"
  int64_t block_bytes = 0;      // of the source; the last block is filled up with zeros
  std::vector<uint32_t> bits;   // [blocks]
  int64_t side_bits = 0;        // tables and models that all blocks share; not contained in `bits`
};

// A bound for lossy codecs: |decoded - source| <= max(relative * |source|, absolute). NaN stays a NaN, infinities stay
// themselves.
struct ErrorBound {
  double relative = 0, absolute = 0;
  bool exact() const { return relative == 0 && absolute == 0; }  // then equal byte for byte
};

// Codecs of the tree assign plain functions; codecs of a loaded library carry its tables (codecs/loaded/adapt.h).
struct Codec {
  std::string_view summary;     // one line
  std::string_view source;      // paper or repository the method comes from
  uint32_t format_version = 1;  // +1 whenever a stored byte changes
  bool lossless = true;         // with every setting; otherwise error_bound gives the bound
  bool portable_bytes = true;   // false: a library's version decides what encode() writes, so it is not frozen
  std::vector<SettingInfo> settings = {};
  std::vector<FormerSetting> former_settings = {};

  // Optional, for codecs that look for a library or device at run time: why they cannot work here, as a sentence; "" if
  // they can. Such codecs have no golden streams, because these could not be decoded everywhere.
  std::function<std::string()> unavailable = nullptr;
  // "" if the matrix can be encoded with these settings, otherwise the reason as a sentence. The default takes every
  // matrix.
  std::function<std::string(datasets::MatrixView, const Settings&)> refuses =
      [](datasets::MatrixView, const Settings&) { return std::string(); };
  // Deterministic: the same input gives the same bytes on every platform. Only called after refuses() said "".
  std::function<CompressedMatrix(datasets::MatrixView, const Settings&)> encode = nullptr;
  // The reference: plain loops, every access bounds checked, throws MalformedStream. `out` has exactly
  // shape.elements() * element_bytes bytes, row-major.
  std::function<void(const CompressedView&, std::span<std::byte> out)> decode = nullptr;
  // Upper bound of stored_bytes() over all matrices with that shape in bytes (see shape_in_bytes; for i8 elements it is
  // their shape). Conformance tests and every run hold the codec to it.
  std::function<int64_t(datasets::Shape, const Settings&)> max_stored_bytes = nullptr;
  // Optional, see BlockSizes: one entry a rule; the first counts what encode() stores.
  std::function<std::vector<BlockSizes>(datasets::MatrixView, const Settings&)> block_sizes = nullptr;

  // Only for lossy codecs: the bound for this matrix with these settings. Every reference decode is held to it.
  std::function<ErrorBound(datasets::MatrixView, const Settings&)> error_bound = nullptr;
  // Optional: bits per element that an ideal entropy coder would take for this codec's symbols, plus the bits that the
  // codec stores raw; tables and indices do not count.
  std::function<double(datasets::MatrixView, const Settings&)> ideal_bits_per_element = nullptr;

  // Optional: foreign chain files. `recognises_file` looks at the content only; `read_file` finds the layers and is
  // called by read_stream.h, which decodes them; `write_file` gives what the original reads (nullptr: only read).
  std::function<bool(std::span<const std::byte>)> recognises_file = nullptr;
  std::function<ChainFile(std::span<const std::byte>)> read_file = nullptr;
  std::function<std::vector<std::byte>(const ChainFile&)> write_file = nullptr;
};

// Resolves settings: fills in implied values and defaults, and checks names, types, ranges and choices. Values are text
// ("12", "w32s64"). All errors are appended to `errors` as full sentences; an unknown name gets a did-you-mean.
Settings resolve_settings(std::span<const SettingInfo> infos, const std::map<std::string, std::string>& given,
                          std::vector<std::string>& errors);
Settings default_settings(const Codec& codec);

// The shape with columns counted in bytes: [rows, bytes of a row].
datasets::Shape shape_in_bytes(const datasets::MatrixView& matrix);

// How well decoded elements keep a bound.
struct BoundCheck {
  std::string violation;  // "" if all do, otherwise a sentence about the first that does not
  double used = 0;        // the largest error as a fraction of the bound, 0..1; 0 for exact bounds
};
// `decoded` holds a matrix of the source's shape and type.
BoundCheck check_bound(const datasets::MatrixView& source, std::span<const std::byte> decoded, const ErrorBound& bound);

// Fills the fields that all encoders fill alike: settings, shape, type and source_hash, but no sections.
// encode_matrix() adds codec id and format_version.
CompressedMatrix make_compressed(datasets::MatrixView matrix, const Settings& settings);

}  // namespace ecmv::codecs

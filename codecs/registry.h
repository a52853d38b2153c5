// The registry lists every codec folder with its kernels by backend. CMake generates the table from the folder names as
// explicit calls, so a folder with a wrong namespace fails at link with the missing name spelled out. Codecs of shared
// objects (loaded/library.h) are appended while the program runs.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/kernel.h"
#include "codecs/codec.h"

namespace ecmv::codecs {

struct CodecEntry {
  std::string_view id;
  const Codec* codec = nullptr;
  std::span<const backends::Kernel> cpu_kernels = {};   // backend `scalar`
  std::span<const backends::Kernel> simd_kernels = {};  // backend `simd`
  // For codecs of a shared object: its absolute path, and the content hash of the file. Empty for codecs of the tree.
  std::string library_path = {}, library_hash = {};
  // A loaded codec's kernels on backends of GPUs, whose plugins do not know it.
  std::map<std::string, std::span<const backends::Kernel>, std::less<>> gpu_kernels = {};
  bool loaded() const { return !library_path.empty(); }

  // The kernels for a backend's id; empty if this codec has none there.
  std::span<const backends::Kernel> kernels(std::string_view backend) const;
};

// Sorted by id; loaded codecs follow in the order of loading. Entries never move.
std::span<const CodecEntry> all_codecs();
const CodecEntry* find_codec(std::string_view id);  // nullptr: no such codec

// The backends that are plugins, for which loaded codecs may bring kernels.
std::vector<std::string_view> gpu_backends();

// Registers loaded codecs, which live until the program ends. No other thread may use the registry meanwhile.
inline constexpr size_t kMaxLoadedCodecs = 256;
void append_codecs(std::vector<CodecEntry> entries);

// Encodes, checks the form of what came out and fills in codec id and format version. Throws std::runtime_error where a
// codec encodes another matrix than it was given, or hands on more than its sections hold.
CompressedMatrix encode_matrix(const CodecEntry& entry, datasets::MatrixView matrix, const Settings& settings);

}  // namespace ecmv::codecs

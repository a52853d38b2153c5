// The generated table behind registry.h.
#include "codecs/registry.h"

#include <vector>

#include "backends/plugins.h"

#include "registry_table.inc"

namespace ecmv::codecs {

std::span<const backends::Kernel> CodecEntry::kernels(std::string_view backend) const {
  if (backend == "scalar") return cpu_kernels;
  if (backend == "simd") return simd_kernels;
  return backends::plugin_kernels(backend, id);
}

std::span<const CodecEntry> all_codecs() { return registry_table(); }

const CodecEntry* find_codec(std::string_view id) {
  for (const CodecEntry& entry : registry_table())
    if (entry.id == id) return &entry;
  return nullptr;
}

CompressedMatrix encode_matrix(const CodecEntry& entry, datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = entry.codec->encode(matrix, settings);
  compressed.codec = entry.id;
  compressed.format_version = entry.codec->format_version;
  return compressed;
}

}  // namespace ecmv::codecs

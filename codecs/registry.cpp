// Holds the generated table of registry.h.
#include "codecs/registry.h"
#include "codecs/compressed_matrix.h"

#include <stdexcept>
#include <vector>

#include "backends/plugins/plugins.h"

#include "registry_table.inc"

namespace ecmv::codecs {
namespace {

// The generated table. Room at its end keeps entries in place when loaded codecs are appended.
std::vector<CodecEntry>& entries() {
  static std::vector<CodecEntry> all = [] {
    std::vector<CodecEntry> copy;
    copy.reserve(registry_table().size() + kMaxLoadedCodecs);
    copy.insert(copy.end(), registry_table().begin(), registry_table().end());
    return copy;
  }();
  return all;
}

}  // namespace

std::span<const backends::Kernel> CodecEntry::kernels(std::string_view backend) const {
  if (backend == "scalar") return cpu_kernels;
  if (backend == "simd") return simd_kernels;
  if (loaded()) {
    const auto found = gpu_kernels.find(backend);
    return found == gpu_kernels.end() ? std::span<const backends::Kernel>() : found->second;
  }
  return backends::plugin_kernels(backend, id);
}

std::span<const CodecEntry> all_codecs() { return entries(); }

const CodecEntry* find_codec(std::string_view id) {
  for (const CodecEntry& entry : entries())
    if (entry.id == id) return &entry;
  return nullptr;
}

std::vector<std::string_view> gpu_backends() {
  std::vector<std::string_view> ids;
  for (const backends::Backend& backend : backends::plugin_backends()) ids.push_back(backend.id);
  return ids;
}

void append_codecs(std::vector<CodecEntry> more) {
  if (entries().size() + more.size() > entries().capacity())
    throw std::length_error("There are more loaded codecs than the registry has room for.");
  for (CodecEntry& entry : more) entries().push_back(std::move(entry));
}

}  // namespace ecmv::codecs

// See placed_matrix.h.
#include "experiments/library/product/placed_matrix.h"

#include <algorithm>
#include <cstring>

#include "datasets/content_hash.h"

namespace ecmv::library {
namespace {

// Whether kernels can use the caller's memory; before any of it is read.
class Places {
 public:
  explicit Places(Workspace& workspace)
      : lock_(lock_gpu(workspace.devices)),
        executor_(*workspace.engines.front().executor),
        least_(is_gpu(*workspace.devices.front()) ? 256 : 64) {
    executor_.wait();  // for what the caller put there
  }
  void expect(std::span<const std::byte> given, int64_t align_bytes, const std::string& what) {
    if (given.empty()) return;
    if (given.data() == nullptr) throw Failure(ECMV_INVALID_ARGUMENT, what + " is at NULL.");
    expect_aligned(given.data(), std::max(least_, align_bytes), what);
    const std::string why = executor_.why_unusable(given.data(), static_cast<int64_t>(given.size()), what);
    if (!why.empty()) throw Failure(ECMV_INVALID_ARGUMENT, why);
  }

 private:
  const std::unique_lock<std::mutex> lock_;
  backends::Executor& executor_;
  const int64_t least_;
};

std::string section_called(std::string_view name) { return "The section '" + std::string(name) + "'"; }

PlacedMatrix without_places(const codecs::CodecEntry& entry, const backends::CompressedMatrix& matrix) {
  PlacedMatrix placed;
  placed.entry = &entry;
  placed.settings = std::make_unique<const backends::Settings>(matrix.settings);
  placed.view = matrix.view();
  placed.view.settings = placed.settings.get();
  return placed;
}

// A launch reads headers on the host: a copy of a device's.
void show(PlacedMatrix& placed, size_t number, std::span<const std::byte> section, bool on_gpu,
          std::span<const std::byte> header) {
  backends::SectionView& view = placed.view.sections[number];
  view.bytes = view.host = section;
  if (!on_gpu) return;
  view.host = {};
  if (section.size() <= backends::kHostCopyBytes) view.host = placed.headers.emplace_back(header.begin(), header.end());
}

}  // namespace

PlacedMatrix in_own_copy(const ecmv_compressed_matrix& matrix, backends::Device& device) {
  PlacedMatrix placed = without_places(*matrix.entry, matrix.matrix);
  placed.uploaded = upload(matrix, device);
  placed.view = placed.uploaded->view();
  return placed;
}

PlacedMatrix in_callers_memory(const ecmv_compressed_matrix& matrix,
                               const std::vector<std::span<const std::byte>>& sections, Workspace& workspace) {
  const std::vector<backends::Section>& stored = matrix.matrix.sections;
  if (sections.size() != stored.size())
    throw Failure(ECMV_INVALID_ARGUMENT, "The matrix has " + std::to_string(stored.size()) + " sections, not " +
                                             std::to_string(sections.size()) + ".");
  {
    Places places(workspace);
    for (size_t i = 0; i < stored.size(); ++i) {
      const std::string what = section_called(stored[i].name);
      if (sections[i].size() != stored[i].bytes.size())
        throw Failure(ECMV_INVALID_ARGUMENT, what + " has " + std::to_string(stored[i].bytes.size()) + " bytes, not " +
                                                 std::to_string(sections[i].size()) + ".");
      places.expect(sections[i], stored[i].align_bytes, what);
    }
  }
  PlacedMatrix placed = without_places(*matrix.entry, matrix.matrix);
  for (size_t i = 0; i < stored.size(); ++i) {
    const std::byte* expected = stored[i].bytes.data();
    workspace.readers.read(sections[i], [&](std::span<const std::byte> piece) {
      if (!piece.empty() && std::memcmp(piece.data(), expected, piece.size()) != 0)
        throw Failure(ECMV_INVALID_ARGUMENT,
                      section_called(stored[i].name) + " in the caller's memory has other bytes than the matrix.");
      expected += piece.size();
    });
    show(placed, i, sections[i], is_gpu(*workspace.devices.front()), stored[i].bytes);
  }
  return placed;
}

PlacedMatrix in_callers_memory(const MatrixParts& parts, uint64_t hash, Workspace& workspace) {
  const std::unique_ptr<ecmv_compressed_matrix> matrix = join(parts, Trust::elsewhere);
  {
    Places places(workspace);
    for (const MatrixParts::Part& part : parts.sections)
      places.expect(part.bytes, part.align_bytes, section_called(part.name));
  }
  PlacedMatrix placed = without_places(*matrix->entry, matrix->matrix);
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i < parts.sections.size(); ++i) {
    const std::span<const std::byte> section = parts.sections[i].bytes;
    // As backends::hash_of(section).
    datasets::ContentHash of_section(datasets::ElementType::i8, {1, static_cast<int64_t>(section.size())});
    std::vector<std::byte> header;
    workspace.readers.read(section, [&](std::span<const std::byte> piece) {
      of_section.add(piece);
      if (section.size() <= backends::kHostCopyBytes) header.assign(piece.begin(), piece.end());
    });
    hashes.push_back(of_section.value());
    show(placed, i, section, is_gpu(*workspace.devices.front()), header);
  }
  if (hash_of(matrix->matrix, hashes) != hash)
    throw Failure(ECMV_MALFORMED, "The sections are not those that the description's hash is of.");
  return placed;
}

}  // namespace ecmv::library

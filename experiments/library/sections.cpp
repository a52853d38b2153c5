// The boundary of the library for sections and files: arguments and handles. matrix_parts.h and matrix_file.h do the
// work.
#include <algorithm>
#include <cstring>

#include "experiments/library/handles.h"
#include "experiments/library/matrix_file.h"
#include "experiments/library/matrix_parts.h"

namespace backends = ecmv::backends;
using namespace ecmv::library;

struct ecmv_file {
  explicit ecmv_file(const std::string& path) : file(path) {}
  MatrixFile file;
};

namespace {

// Fills in the fields that the caller knows, and zeros where the library knows nothing.
template <typename Struct>
void hand_out(const Struct& all, Struct* to) {
  const size_t bytes = to->struct_bytes;
  std::memset(to, 0, bytes);
  std::memcpy(to, &all, std::min(bytes, sizeof(all)));
  to->struct_bytes = bytes;
}

void make_texts(const ecmv_compressed_matrix& matrix) {
  std::call_once(matrix.texts_made, [&] {
    matrix.settings_text = matrix.matrix.settings.to_string();
    for (const backends::Section& section : matrix.matrix.sections) matrix.section_names.emplace_back(section.name);
  });
}

const char* role_text(backends::Role role) {
  constexpr const char* kTexts[] = {"payload", "table", "index", "scale"};
  return kTexts[static_cast<size_t>(role)];
}

// Computed when it is first asked for.
uint64_t stored_hash(const ecmv_compressed_matrix& matrix) {
  std::call_once(matrix.hash_made, [&] { matrix.hash = hash_of(matrix.matrix); });
  return matrix.hash;
}

ecmv_status load(const ecmv_file* file, const char* name, Trust trust, ecmv_compressed_matrix** matrix) {
  if (matrix != nullptr) *matrix = nullptr;
  return guarded([&] {
    need(matrix, "matrix");
    *matrix = given(file, "file").file.load(&given(name, "name"), trust).release();
  });
}

}  // namespace

extern "C" {

size_t ecmv_section_count(const ecmv_compressed_matrix* matrix) {
  return matrix == nullptr ? 0 : matrix->matrix.sections.size();
}

ecmv_status ecmv_section_of(const ecmv_compressed_matrix* matrix, size_t number, ecmv_stored_section* section) {
  return guarded([&] {
    const auto& sections = given(matrix, "matrix").matrix.sections;
    expect_struct(given(section, "section").struct_bytes, kFirstSectionBytes, "section");
    if (number >= sections.size())
      throw Failure(ECMV_INVALID_ARGUMENT, "There is no section " + std::to_string(number) + "; the matrix has " +
                                               std::to_string(sections.size()) + ".");
    make_texts(*matrix);
    const backends::Section& one = sections[number];
    hand_out({sizeof(ecmv_stored_section), matrix->section_names[number].c_str(), role_text(one.role), one.bytes.data(),
              one.bytes.size(), static_cast<size_t>(one.padding_bytes), one.align_bytes},
             section);
  });
}

ecmv_status ecmv_describe(const ecmv_compressed_matrix* matrix, ecmv_description* description) {
  return guarded([&] {
    const backends::CompressedMatrix& one = given(matrix, "matrix").matrix;
    expect_struct(given(description, "description").struct_bytes, kFirstDescriptionBytes, "description");
    make_texts(*matrix);
    hand_out({sizeof(ecmv_description), one.codec.c_str(), matrix->settings_text.c_str(),
              ecmv::datasets::element_type_name(one.type).data(), one.shape.rows, one.shape.cols, one.format_version,
              knows_hash(*description) ? stored_hash(*matrix) : 0},
             description);
  });
}

ecmv_status ecmv_from_sections(const ecmv_description* description, const ecmv_stored_section* sections, size_t count,
                               ecmv_compressed_matrix** matrix) {
  if (matrix != nullptr) *matrix = nullptr;
  return guarded([&] {
    need(matrix, "matrix");
    const MatrixParts parts = parts_of(given(description, "description"), sections, count);
    const uint64_t hash = known_hash(*description);
    auto made = join(parts, hash == 0 ? Trust::none : Trust::known);
    if (hash != 0 && hash_of(made->matrix) != hash)
      throw Failure(ECMV_MALFORMED, "The sections are not those that the description's hash is of.");
    *matrix = made.release();
  });
}

ecmv_status ecmv_save(const char* path, const char* const* names, const ecmv_compressed_matrix* const* matrices,
                      size_t count) {
  return guarded([&] {
    need(path, "path");
    if (count > 0) need(names, "names"), need(matrices, "matrices");
    std::vector<NamedMatrix> all;
    for (size_t i = 0; i < count; ++i)
      all.push_back({&given(names[i], "names[]"), &given(matrices[i], "matrices[]").matrix});
    save_matrices(path, all);
  });
}

ecmv_status ecmv_describe_in_file(const ecmv_compressed_matrix* matrix, const char* name, char* text,
                                  size_t text_bytes) {
  return guarded([&] {
    const std::string made = description_text({&given(name, "name"), &given(matrix, "matrix").matrix});
    need(text, "text");
    if (made.size() >= text_bytes)
      throw Failure(ECMV_INVALID_ARGUMENT, "The description takes " + std::to_string(made.size() + 1) + " bytes.");
    std::memcpy(text, made.c_str(), made.size() + 1);
  });
}

ecmv_status ecmv_open_file(const char* path, ecmv_file** file) {
  if (file != nullptr) *file = nullptr;
  return guarded([&] {
    need(file, "file");
    *file = new ecmv_file(&given(path, "path"));
  });
}

const char* ecmv_file_name(const ecmv_file* file, size_t number) {
  return file == nullptr ? nullptr : file->file.name(number);
}

ecmv_status ecmv_load(const ecmv_file* file, const char* name, ecmv_compressed_matrix** matrix) {
  return load(file, name, Trust::none, matrix);
}

ecmv_status ecmv_load_trusted(const ecmv_file* file, const char* name, ecmv_compressed_matrix** matrix) {
  return load(file, name, Trust::known, matrix);
}

void ecmv_close_file(ecmv_file* file) { delete file; }

}  // extern "C"

// Many named compressed matrices in one safetensors file: a tensor of bytes for every section, and a description of all
// matrices in JSON in the metadata, with a hash of the bytes of each.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "datasets/files/file_bytes.h"
#include "experiments/library/matrix_parts.h"

namespace ecmv::library {

struct NamedMatrix {
  std::string name;
  const backends::CompressedMatrix* matrix = nullptr;
};

// The description of one of them in the metadata, as JSON. Throws Failure.
std::string description_text(const NamedMatrix& named);

// Writes beside `path` first and then takes its place. Throws Failure.
void save_matrices(const std::string& path, const std::vector<NamedMatrix>& matrices);

class MatrixFile {
 public:
  // Reads and checks the header and the descriptions. Throws Failure.
  explicit MatrixFile(const std::string& path);
  const char* name(size_t number) const { return number < all_.size() ? all_[number].name.c_str() : nullptr; }
  // Throws Failure.
  std::unique_ptr<ecmv_compressed_matrix> load(const std::string& name, Trust trust) const;

 private:
  struct Stored {
    std::string name, hash, description;  // the description as JSON
    MatrixParts parts;                    // sections show the file's bytes
  };
  datasets::FileBytes bytes_;
  std::vector<Stored> all_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace ecmv::library

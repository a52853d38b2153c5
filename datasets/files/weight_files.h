// Weights from a file of any format that is read, or from a folder with a model. The content decides.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/files/file_bytes.h"
#include "datasets/tensor.h"

namespace ecmv::datasets {

// The tensors in the order of their files and bytes, and what their views look into.
struct WeightFiles {
  std::string_view format;  // of the last file: "safetensors", "npy", "gguf", ...: the list is in weight_files.cpp
  std::vector<TensorView> tensors;
  std::vector<FileBytes> files;
  std::shared_ptr<const void> kept;  // of MatVANS files, which are not stored as tensors
  // What was left out, is missing or was read although an index does not name it: sentences for whoever asked.
  std::vector<std::string> remarks = {};
  struct Parts {
    std::string path;
    uint64_t part = 0, parts = 1;
  };
  Parts parts = {};  // of a GGUF model in several files: the one that was named
};

// All parts of a GGUF model are read, whichever is named. Throws DatasetError with the path for what cannot be read.
// Where a format is wanted, nothing else is tried.
WeightFiles open_weights(const std::string& path, std::string_view wanted = {});

}  // namespace ecmv::datasets

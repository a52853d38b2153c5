// Weights from a file of any format that is read, or from a folder with a model. The content decides.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/files/file_bytes.h"
#include "datasets/tensor.h"

namespace ecmv::datasets {

enum class WeightFormat { any, safetensors, npy, gguf, onnx, matvans };

// The tensors in the order of their files and bytes, and the memory that their views point to.
struct WeightFiles {
  WeightFormat format = WeightFormat::any;
  std::vector<TensorView> tensors;
  std::vector<FileBytes> files;
  std::shared_ptr<const void> kept;  // of MatVANS files, which are not stored as tensors
};

// Throws DatasetError with the path for unreadable files. If a format is wanted, no other is tried.
WeightFiles open_weights(const std::string& path, WeightFormat wanted = WeightFormat::any);

}  // namespace ecmv::datasets

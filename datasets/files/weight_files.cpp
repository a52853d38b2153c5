// See weight_files.h.
#include "datasets/files/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "datasets/files/gguf.h"
#include "datasets/files/matvans.h"
#include "datasets/files/model_folder.h"
#include "datasets/files/npy.h"
#include "datasets/files/onnx.h"
#include "datasets/files/safetensors.h"
#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

WeightFormat format_of(std::span<const std::byte> bytes, const std::string& path) {
  if (looks_like_npy(bytes)) return WeightFormat::npy;
  if (looks_like_gguf(bytes)) return WeightFormat::gguf;
  if (looks_like_safetensors(bytes)) return WeightFormat::safetensors;
  if (path.ends_with(".onnx") || looks_like_onnx(bytes)) return WeightFormat::onnx;
  return WeightFormat::matvans;  // which has no magic either
}

// Formats of weights that are not read: most need a Python program to be unpacked.
std::string unread_container(std::span<const std::byte> bytes) {
  static constexpr std::pair<std::string_view, std::string_view> kContainers[] = {
      {"PK\3\4", "a zip archive, as torch.save, torch.jit and numpy.savez write them"},
      {"\x80\2", "a pickle, as PyTorch wrote them before 1.6"},
      {"\x89HDF", "an HDF5 file, as Keras writes them"}};
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 8));
  for (const auto& [magic, what] : kContainers)
    if (start.starts_with(magic))
      return std::string(what) + ", which is not read; save its tensors as safetensors or npy.";
  return "";
}

std::vector<TensorView> matvans_tensors(const MatvansFile& file) {
  std::vector<TensorView> tensors;
  for (const Matrix& matrix : file.layers)
    tensors.push_back({matrix.name, "I8", {matrix.shape.rows, matrix.shape.cols}, matrix.elements});
  tensors.push_back(
      {"initial_vector", "I8", {int64_t(file.initial_vector.size())}, std::as_bytes(std::span(file.initial_vector))});
  return tensors;
}

std::vector<TensorView> parse(std::span<const std::byte> bytes, WeightFormat format, WeightFiles& weights) {
  switch (format) {
    case WeightFormat::npy: return {parse_npy(bytes, "array")};
    case WeightFormat::gguf: return parse_gguf(bytes);
    case WeightFormat::onnx: return parse_onnx(bytes);
    case WeightFormat::matvans: {
      const auto file = std::make_shared<const MatvansFile>(parse_matvans_uncompressed(bytes));
      weights.kept = file;
      return matvans_tensors(*file);
    }
    default: return parse_safetensors(bytes).tensors;
  }
}

// Adds the tensors of one more file: all, or the named ones (sorted), which must all be there.
void add_file(const std::string& path, const std::vector<std::string>& names, WeightFormat wanted,
              WeightFiles& weights) {
  FileBytes file(path);
  const WeightFormat format = wanted == WeightFormat::any ? format_of(file.bytes(), path) : wanted;
  std::vector<TensorView> tensors;
  try {
    tensors = parse(file.bytes(), format, weights);
    size_t found = 0;
    const auto unnamed = [&](const TensorView& tensor) {
      const bool named = std::binary_search(names.begin(), names.end(), tensor.name);
      found += named;
      return !named;
    };
    if (!names.empty()) std::erase_if(tensors, unnamed);
    if (found < names.size())
      throw DatasetError("it lacks " + std::to_string(names.size() - found) + " of the " +
                         std::to_string(names.size()) + " tensors that the index names there.");
  } catch (const DatasetError& error) {
    if (wanted != WeightFormat::any || format != WeightFormat::matvans)
      throw DatasetError("In the file \"" + path + "\": " + error.what());
    if (const std::string container = unread_container(file.bytes()); !container.empty())
      throw DatasetError("The file \"" + path + "\" is " + container);
    throw DatasetError("The file \"" + path +
                       "\" is neither safetensors nor npy, GGUF or ONNX, nor an uncompressed MatVANS file. (" +
                       error.what() + ")");
  }
  weights.format = format;
  weights.files.push_back(std::move(file));
  weights.tensors.insert(weights.tensors.end(), std::make_move_iterator(tensors.begin()),
                         std::make_move_iterator(tensors.end()));
}

}  // namespace

WeightFiles open_weights(const std::string& path, WeightFormat wanted) {
  WeightFiles weights;
  std::error_code error;
  if (wanted != WeightFormat::any || !std::filesystem::is_directory(path, error)) {
    add_file(path, {}, wanted, weights);
    return weights;
  }
  for (const auto& [shard, names] : model_shards(path))
    add_file((std::filesystem::path(path) / shard).string(), names, WeightFormat::safetensors, weights);
  return weights;
}

}  // namespace ecmv::datasets

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

// What people keep weights in that is not read: most need a program of Python's to be unpacked.
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

std::vector<TensorView> parse_matvans(std::span<const std::byte> bytes, WeightFiles& weights) {
  const auto kept = std::make_shared<const MatvansFile>(parse_matvans_uncompressed(bytes));
  weights.kept = kept;
  const MatvansFile& file = *kept;
  std::vector<TensorView> tensors;
  for (const Matrix& matrix : file.layers)
    tensors.push_back({matrix.name, "I8", {matrix.shape.rows, matrix.shape.cols}, matrix.elements});
  tensors.push_back(
      {"initial_vector", "I8", {int64_t(file.initial_vector.size())}, std::as_bytes(std::span(file.initial_vector))});
  return tensors;
}

using Bytes = std::span<const std::byte>;

// A file is of the first format that recognises it. MatVANS files have no magic, so they are what is left.
struct FileFormat {
  std::string_view name;
  bool (*recognises)(Bytes, std::string_view path);
  std::vector<TensorView> (*parse)(Bytes, WeightFiles&);
};

constexpr FileFormat kFormats[] = {
    {"npy", [](Bytes bytes, std::string_view) { return looks_like_npy(bytes); },
     [](Bytes bytes, WeightFiles&) { return std::vector{parse_npy(bytes, "array")}; }},
    {"gguf", [](Bytes bytes, std::string_view) { return looks_like_gguf(bytes); },
     [](Bytes bytes, WeightFiles&) { return parse_gguf(bytes); }},
    {"safetensors", [](Bytes bytes, std::string_view) { return looks_like_safetensors(bytes); },
     [](Bytes bytes, WeightFiles&) { return parse_safetensors(bytes).tensors; }},
    {"onnx", [](Bytes bytes, std::string_view path) { return path.ends_with(".onnx") || looks_like_onnx(bytes); },
     [](Bytes bytes, WeightFiles&) { return parse_onnx(bytes); }},
    {"matvans", [](Bytes, std::string_view) { return true; }, parse_matvans},
};

const FileFormat& format_of(Bytes bytes, std::string_view path, std::string_view wanted) {
  for (const FileFormat& format : kFormats)
    if (wanted.empty() ? format.recognises(bytes, path) : format.name == wanted) return format;
  throw std::logic_error("There is no file format '" + std::string(wanted) + "'.");
}

// The tensors of one more file: all, or the ones named (sorted); each named tensor must be there.
void add_file(const std::string& path, const std::vector<std::string>& names, std::string_view wanted,
              WeightFiles& weights) {
  FileBytes file(path);
  const FileFormat& format = format_of(file.bytes(), path, wanted);
  std::vector<TensorView> tensors;
  try {
    tensors = format.parse(file.bytes(), weights);
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
    if (!wanted.empty() || format.name != "matvans")
      throw DatasetError("In the file \"" + path + "\": " + error.what());
    if (const std::string container = unread_container(file.bytes()); !container.empty())
      throw DatasetError("The file \"" + path + "\" is " + container);
    throw DatasetError("The file \"" + path +
                       "\" is neither safetensors nor npy, GGUF or ONNX, nor an uncompressed MatVANS file. (" +
                       error.what() + ")");
  }
  weights.format = format.name;
  weights.files.push_back(std::move(file));
  weights.tensors.insert(weights.tensors.end(), std::make_move_iterator(tensors.begin()),
                         std::make_move_iterator(tensors.end()));
}

}  // namespace

WeightFiles open_weights(const std::string& path, std::string_view wanted) {
  WeightFiles weights;
  std::error_code error;
  if (!wanted.empty() || !std::filesystem::is_directory(path, error)) {
    add_file(path, {}, wanted, weights);
    return weights;
  }
  for (const auto& [shard, names] : model_shards(path))
    add_file((std::filesystem::path(path) / shard).string(), names, "safetensors", weights);
  return weights;
}

}  // namespace ecmv::datasets

// See weight_files.h.
#include "datasets/files/weight_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "datasets/files/gguf.h"
#include "datasets/files/matvans.h"
#include "datasets/files/model_folder.h"
#include "datasets/files/npy.h"
#include "datasets/files/onnx.h"
#include "datasets/files/safetensors.h"
#include "datasets/layers/quantised_weights.h"
#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

// What people have in place of weights that are read, as the end of a sentence. Most need a program of Python's to be
// unpacked.
std::string unread_container(std::span<const std::byte> bytes) {
  enum End { save, unpack, convert, fetch, answer, none };
  constexpr const char* kEnds[] = {", which is not read; save its tensors as safetensors or npy.",
                                   ", which is not read; unpack it first.",
                                   ", which is not read; convert it to GGUF.",
                                   ": the weights were not fetched; `git lfs pull` does it.",
                                   ", perhaps a server's answer in place of the weights.",
                                   " and holds no weights."};
  struct Container {
    std::string_view magic, what;
    End end = save;
    size_t at = 0;
  };
  constexpr Container kContainers[] = {{"PK\3\4", "a zip archive, as torch.save, torch.jit and numpy.savez write them"},
                                       {"\x80\2", "a pickle, as PyTorch wrote them before 1.6"},
                                       {"\x80\3", "a pickle of Python"},
                                       {"\x80\4", "a pickle of Python"},
                                       {"\x80\5", "a pickle of Python"},
                                       {"\x89HDF", "an HDF5 file, as Keras writes them"},
                                       {"TFL3", "a model of TensorFlow Lite", save, 4},
                                       {"ORTM", "a model in ONNX Runtime's own format", save, 4},
                                       {"tjgg", "a file of llama.cpp from before GGUF", convert},
                                       {"lmgg", "a file of llama.cpp from before GGUF", convert},
                                       {"fmgg", "a file of llama.cpp from before GGUF", convert},
                                       {"\x1F\x8B", "compressed by gzip", unpack},
                                       {"\x28\xB5\x2F\xFD", "compressed by zstd", unpack},
                                       {"\xFD\x37zXZ", "compressed by xz", unpack},
                                       {"BZh", "compressed by bzip2", unpack},
                                       {"ustar", "a tar archive", unpack, 257},
                                       {"version https://git-lfs", "a pointer of Git LFS", fetch},
                                       {"<!DOCTYPE", "a web page", answer},
                                       {"<!doctype", "a web page", answer},
                                       {"<html", "a web page", answer},
                                       {"<?xml", "an XML text", answer},
                                       {"{", "a JSON text", none}};
  if (bytes.empty()) return "empty.";
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 512));
  if (start.size() > 8 && start.substr(6, 3) == std::string_view("\0\0{", 3)) return "";  // the start of safetensors
  for (const Container& one : kContainers)
    if (start.substr(std::min(one.at, start.size())).starts_with(one.magic))
      return std::string(one.what) + kEnds[one.end];
  return "";
}

std::vector<TensorView> parse_matvans(std::span<const std::byte> bytes, const std::string&, WeightFiles& weights) {
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
  std::vector<TensorView> (*parse)(Bytes, const std::string& path, WeightFiles&);
};

std::vector<TensorView> parse_part(Bytes bytes, const std::string& path, WeightFiles& weights);

constexpr FileFormat kFormats[] = {
    {"npy", [](Bytes bytes, std::string_view) { return looks_like_npy(bytes); },
     [](Bytes bytes, const std::string&, WeightFiles&) { return parse_npy(bytes); }},
    {"gguf", [](Bytes bytes, std::string_view) { return looks_like_gguf(bytes); }, parse_part},
    {"safetensors", [](Bytes bytes, std::string_view) { return looks_like_safetensors(bytes); },
     [](Bytes bytes, const std::string&, WeightFiles&) { return parse_safetensors(bytes).tensors; }},
    {"onnx", [](Bytes bytes, std::string_view path) { return path.ends_with(".onnx") || looks_like_onnx(bytes); },
     [](Bytes bytes, const std::string& path, WeightFiles& weights) {
       return parse_onnx(bytes, std::filesystem::path(path).parent_path(), weights.files);
     }},
    {"matvans", [](Bytes, std::string_view) { return true; }, parse_matvans},
};

const FileFormat& format_of(Bytes bytes, std::string_view path, std::string_view wanted) {
  // A damaged file whose name says what it was is refused as one of these.
  const std::string extension = std::filesystem::path(path).extension().string();
  const bool is_known = std::ranges::any_of(
      kFormats, [&](const FileFormat& format) { return format.name != "matvans" && format.recognises(bytes, path); });
  for (const FileFormat& format : kFormats)
    if (!wanted.empty() ? format.name == wanted
                        : format.recognises(bytes, path) || (!is_known && extension == "." + std::string(format.name)))
      return format;
  throw std::logic_error("There is no file format '" + std::string(wanted) + "'.");
}

std::string count_text(size_t count, const char* what, const std::string& first) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s") + (count == 1 ? ", " : ", such as ") + "\"" +
         first + "\"";
}

// Which file an index names for each tensor.
using Index = std::map<std::string_view, std::string_view>;

// Leaves out the tensors that the index has in another file. Those that it has nowhere stay, with a remark.
void keep_own(const Index& index, const std::string& shard, std::vector<TensorView>& tensors, WeightFiles& weights) {
  std::vector<std::string> elsewhere, nowhere;
  std::erase_if(tensors, [&](const TensorView& tensor) {
    const auto named = index.find(tensor.name);
    if (named == index.end()) nowhere.push_back(tensor.name);
    if (named == index.end() || named->second == shard) return false;
    elsewhere.push_back(tensor.name);
    return true;
  });
  if (!elsewhere.empty())
    weights.remarks.push_back("Left out of " + shard + ": " + count_text(elsewhere.size(), "tensor", elsewhere[0]) +
                              ", for which the index names another file.");
  if (!nowhere.empty())
    weights.remarks.push_back("The index does not name " + count_text(nowhere.size(), "tensor", nowhere[0]) + ", of " +
                              shard + ": read all the same.");
}

// The tensors of one more file. Those that an index names there (sorted) must be in it.
void add_file(const std::string& path, const std::vector<std::string>& names, const Index& index,
              std::string_view wanted, WeightFiles& weights) {
  FileBytes file(path);
  const FileFormat& format = format_of(file.bytes(), path, wanted);
  std::vector<TensorView> tensors;
  try {
    tensors = format.parse(file.bytes(), path, weights);
    const auto is_named = [&](const TensorView& tensor) {
      return std::binary_search(names.begin(), names.end(), tensor.name);
    };
    if (const auto found = size_t(std::ranges::count_if(tensors, is_named)); found < names.size())
      throw DatasetError("it lacks " + std::to_string(names.size() - found) + " of the " +
                         std::to_string(names.size()) + " tensors that the index names there.");
    if (!names.empty()) keep_own(index, std::filesystem::path(path).filename().string(), tensors, weights);
  } catch (const DatasetError& error) {
    // ONNX has no magic, so that a name decides.
    const bool is_certain = format.name != "matvans" && format.name != "onnx" && format.recognises(file.bytes(), path);
    const std::string container = is_certain ? std::string() : unread_container(file.bytes());
    if (!container.empty()) throw DatasetError("The file \"" + path + "\" is " + container);
    if (!wanted.empty() || format.name != "matvans")
      throw DatasetError("In the file \"" + path + "\": " + error.what());
    throw DatasetError("The file \"" + path +
                       "\" is neither safetensors nor npy, GGUF or ONNX, nor an uncompressed MatVANS file. (" +
                       error.what() + ")");
  }
  weights.format = format.name;
  weights.files.push_back(std::move(file));
  weights.tensors.insert(weights.tensors.end(), std::make_move_iterator(tensors.begin()),
                         std::make_move_iterator(tensors.end()));
}

// Such a name with another number; others as they are.
std::string part_name(std::string name, uint64_t part) {
  const size_t of = place_of_parts(name);
  const std::string number = std::to_string(part + 1);
  if (of == name.npos || number.size() > kPartDigits) return name;
  return name.replace(of - kPartDigits, kPartDigits, std::string(kPartDigits - number.size(), '0') + number);
}

// A file of GGUF, and how many files the model has.
std::vector<TensorView> parse_part(Bytes bytes, const std::string& path, WeightFiles& weights) {
  GgufSplit split;
  std::vector<TensorView> tensors = parse_gguf(bytes, &split);
  if (split.parts > 1 && weights.parts.parts <= 1) weights.parts = {path, split.part, split.parts};
  return tensors;
}

void remark_missing(uint64_t parts, const std::string& one, WeightFiles& weights) {
  weights.remarks.push_back("The model has " + std::to_string(parts) + " files, and " +
                            std::to_string(parts - weights.files.size()) + " of them, such as \"" + one +
                            "\", are missing: totals are those of a part.");
}

// Where no index says how many files there are, their names do.
void remark_uncounted(const std::filesystem::path& folder, WeightFiles& weights) {
  const std::vector<std::string> parts = counted_parts(folder);
  uint64_t count = 0;
  if (parts.empty()) return;
  const size_t of = place_of_parts(parts[0]) + 4;
  std::from_chars(parts[0].data() + of, parts[0].data() + parts[0].size(), count);
  for (uint64_t part = 0; part < count && parts.size() < count; ++part)
    if (const std::string name = part_name(parts[0], part); std::ranges::find(parts, name) == parts.end())
      return remark_missing(count, name, weights);
}

// All parts of a model, as far as they lie beside the one that was named.
WeightFiles read_parts(const WeightFiles::Parts& own) {
  constexpr uint64_t kMostParts = 1024;
  const std::filesystem::path path = own.path;
  WeightFiles weights;
  std::vector<std::string> missing;
  std::error_code error;
  const uint64_t parts = std::min(own.parts, kMostParts);
  for (uint64_t part = 0; part < parts; ++part) {
    const auto other = part == own.part ? path : path.parent_path() / part_name(path.filename().string(), part);
    if (part != own.part && (other == path || !std::filesystem::exists(other, error)))
      missing.push_back(other == path ? "number " + std::to_string(part + 1) : other.filename().string());
    else
      add_file(other.string(), {}, {}, "gguf", weights);
  }
  if (!missing.empty() || own.parts > parts)
    remark_missing(own.parts, missing.empty() ? "the last" : missing[0], weights);
  return weights;
}

WeightFiles read_folder(const std::filesystem::path& path) {
  WeightFiles weights;
  const auto shards = model_shards(path);
  Index index;
  for (const auto& [shard, names] : shards)
    for (const std::string& name : names) index.emplace(name, shard);
  for (const auto& [shard, names] : shards) add_file((path / shard).string(), names, index, "safetensors", weights);
  if (index.empty() && shards.begin()->first != "model.safetensors") remark_uncounted(path, weights);
  if (const std::vector<std::string> others = unnamed_files(path, shards); !others.empty())
    weights.remarks.push_back("The folder has " + count_text(others.size(), "other file", others[0]) +
                              ", of weights that are no part of its model as it is described: not read.");
  return weights;
}

// What a config.json says of groups, in the folder with the weights. One that cannot be read says nothing.
QuantisedGroups groups_beside(const std::filesystem::path& weights) {
  std::error_code error;
  const auto config = (std::filesystem::is_directory(weights, error) ? weights : weights.parent_path()) / "config.json";
  if (!std::filesystem::exists(config, error)) return {};
  try {
    const FileBytes file(config.string());
    return quantised_groups({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  } catch (const DatasetError&) {
    return {};
  }
}

}  // namespace

WeightFiles open_weights(const std::string& path, std::string_view wanted) {
  WeightFiles weights;
  std::error_code error;
  if (wanted.empty() && std::filesystem::is_directory(path, error)) {
    weights = read_folder(path);
  } else {
    add_file(path, {}, {}, wanted, weights);
    if (const WeightFiles::Parts named = weights.parts; named.parts > 1) weights = read_parts(named);
    if (weights.format == "safetensors" && place_of_parts(std::filesystem::path(path).filename().string()) != path.npos)
      weights.remarks.emplace_back(
          "By its name this is one of several files of a model, and totals are those of a part: the folder gives all.");
  }
  for (std::string& remark : find_quantised_weights(weights.tensors, [&] { return groups_beside(path); }))
    weights.remarks.push_back(std::move(remark));
  for (TensorView& tensor : weights.tensors) {
    tensor.name = printable(tensor.name);
    tensor.dtype = printable(tensor.dtype);
  }
  for (std::string& remark : weights.remarks) remark = printable(remark);
  return weights;
}

}  // namespace ecmv::datasets

// See model_folder.h. The index is read event by event, so that only names are held in memory.
#include "datasets/files/model_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "datasets/files/file_bytes.h"
#include "datasets/files/zero_bytes.h"
#include "datasets/source.h"
#include "datasets/tensor.h"

namespace ecmv::datasets {
namespace {

using nlohmann::json;

constexpr std::string_view kWeights = "model.safetensors", kIndex = "model.safetensors.index.json";
constexpr size_t kMaxShards = 1024, kMaxIndexBytes = 64 << 20;

[[noreturn]] void bad_index(const std::string& what) { throw DatasetError("Not a readable index of weights: " + what); }

// Accepts files of this very folder and nothing that leads elsewhere.
void expect_file_name(const std::string& shard) {
  if (shard.empty() || shard == "." || shard == ".." || shard.size() > 255 ||
      shard.find_first_of(std::string_view("/\\\0", 3)) != shard.npos)
    bad_index("it names the file " + json(shard.substr(0, 300)).dump(-1, ' ', true) +
              ", which is no file of its own folder.");
}

class IndexReader final : public nlohmann::json_sax<json> {
 public:
  std::map<std::string, std::vector<std::string>> shards;

  bool start_object(size_t) override {
    expect_text(false);
    if (++depth_ == 1) return true;
    if (depth_ == 2 && key_ == "weight_map") {
      if (has_map_) bad_index("weight_map is there twice.");
      in_map_ = has_map_ = true;
    }
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }
  bool key(string_t& key) override {
    if (key.size() > kMaxNameBytes)
      bad_index("it has a name of " + std::to_string(key.size()) + " bytes, more than " +
                std::to_string(kMaxNameBytes) + ".");
    key_ = key;
    return true;
  }
  bool string(string_t& text) override {
    expect_text(true);
    if (!in_map_) return true;
    expect_file_name(text);
    if (++tensors_ > kMaxTensors) bad_index("it names more than " + std::to_string(kMaxTensors) + " tensors.");
    shards[text].push_back(key_);
    if (shards.size() > kMaxShards) bad_index("it names more than " + std::to_string(kMaxShards) + " files.");
    return true;
  }
  bool start_array(size_t) override {
    expect_text(false);
    ++depth_;
    return true;
  }
  bool end_array() override { return --depth_, true; }
  bool number_unsigned(number_unsigned_t) override { return expect_text(false); }
  bool number_integer(number_integer_t) override { return expect_text(false); }
  bool number_float(number_float_t, const string_t&) override { return expect_text(false); }
  bool boolean(bool) override { return expect_text(false); }
  bool null() override { return expect_text(false); }
  bool binary(binary_t&) override { return expect_text(false); }
  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    bad_index(std::string("it is not correct JSON (") + error.what() + ").");
  }

 private:
  // The values of weight_map are texts; weight_map is an object inside the outermost one.
  bool expect_text(bool is_text) const {
    if (in_map_ && !is_text) bad_index("the file of " + json(key_).dump(-1, ' ', true) + " is not a text.");
    if (depth_ == 1 && key_ == "weight_map" && is_text) bad_index("weight_map is not an object.");
    return true;
  }

  int depth_ = 0;
  size_t tensors_ = 0;
  bool in_map_ = false, has_map_ = false;
  std::string key_;
};

// The name of a file of the folder that can be given itself; "" if there is none.
std::string first_weights(const std::filesystem::path& folder) {
  std::string first;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string(), kind = entry.path().extension().string();
    const bool is_read = kind == ".safetensors" || kind == ".gguf" || kind == ".onnx" || kind == ".npy";
    if (is_read && (first.empty() || name < first)) first = name;
  }
  return first;
}

}  // namespace

std::map<std::string, std::vector<std::string>> parse_weight_index(std::string_view text) {
  if (text.size() > kMaxIndexBytes)
    bad_index("it has " + std::to_string(text.size()) + " bytes, more than " + std::to_string(kMaxIndexBytes) + ".");
  expect_no_zero_bytes(text, bad_index);
  IndexReader reader;
  json::sax_parse(text, &reader);
  if (reader.shards.empty()) bad_index("it has no weight_map with tensors.");
  std::vector<std::string_view> names;
  for (auto& [shard, tensors] : reader.shards) {
    std::sort(tensors.begin(), tensors.end());
    names.insert(names.end(), tensors.begin(), tensors.end());
  }
  std::sort(names.begin(), names.end());
  if (const auto again = std::adjacent_find(names.begin(), names.end()); again != names.end())
    bad_index("it names the tensor " + json(*again).dump(-1, ' ', true) + " twice.");
  return std::move(reader.shards);
}

std::vector<std::string> unnamed_files(const std::filesystem::path& folder,
                                       const std::map<std::string, std::vector<std::string>>& shards) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".safetensors" && !shards.contains(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

size_t place_of_parts(const std::string& name) {
  const size_t of = name.rfind("-of-");
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool is_part =
      of != name.npos && of > kPartDigits && name[of - kPartDigits - 1] == '-' &&
      std::all_of(name.begin() + std::ptrdiff_t(of - kPartDigits), name.begin() + std::ptrdiff_t(of), is_digit);
  return is_part ? of : name.npos;
}

std::vector<std::string> counted_parts(const std::filesystem::path& folder) {
  std::vector<std::string> parts;
  for (const std::string& name : unnamed_files(folder, {})) {
    const size_t of = place_of_parts(name);
    if (of == name.npos) continue;
    const auto is_of_one = [&](const std::string& other) {
      return other.size() == name.size() && other.substr(0, of - kPartDigits) == name.substr(0, of - kPartDigits) &&
             other.substr(of) == name.substr(of);
    };
    if (!parts.empty() && !is_of_one(parts.front())) return {};
    parts.push_back(name);
  }
  return parts;
}

std::map<std::string, std::vector<std::string>> model_shards(const std::filesystem::path& folder) {
  std::error_code error;
  if (const std::filesystem::path index = folder / kIndex; std::filesystem::exists(index, error)) {
    const FileBytes file(index.string());
    try {
      return parse_weight_index({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
    } catch (const DatasetError& bad) {
      throw DatasetError("In the file \"" + index.string() + "\": " + bad.what());
    }
  }
  if (std::filesystem::exists(folder / kWeights, error)) return {{std::string(kWeights), {}}};
  std::map<std::string, std::vector<std::string>> parts;
  for (const std::string& part : counted_parts(folder)) parts[part];
  if (!parts.empty()) return parts;
  const std::string other = first_weights(folder);
  throw DatasetError("The folder \"" + folder.string() + "\" has neither " + std::string(kIndex) + " nor " +
                     std::string(kWeights) + "; a file of another name can be given itself" +
                     (other.empty() ? "." : ": \"" + other + "\"."));
}

}  // namespace ecmv::datasets

// A folder with a model as Hugging Face stores it: model.safetensors, or shards that model.safetensors.index.json
// names, or shards whose names count them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ecmv::datasets {

// The names of the tensors of each shard in an index, sorted. Throws DatasetError for bad JSON, a missing or empty
// weight_map, doubled tensors, more than 200000 tensors or 1024 shards, and shards outside the index's own folder.
std::map<std::string, std::vector<std::string>> parse_weight_index(std::string_view text);

// The safetensors files of the folder that are not among the shards, sorted.
std::vector<std::string> unnamed_files(const std::filesystem::path& folder,
                                       const std::map<std::string, std::vector<std::string>>& shards);

inline constexpr size_t kPartDigits = 5;  // of a part's number

// The place of "-of-" in "model-00002-of-00003.gguf"; npos in other names.
size_t place_of_parts(const std::string& name);

// The files of one model in such a folder that has no index, as their names count them,
// "NAME-00001-of-00002.safetensors", sorted. Several models give none.
std::vector<std::string> counted_parts(const std::filesystem::path& folder);

// The shards of the folder's model, each with the tensors that the index names; without an index none. Throws
// DatasetError if there is no model, and as above.
std::map<std::string, std::vector<std::string>> model_shards(const std::filesystem::path& folder);

}  // namespace ecmv::datasets

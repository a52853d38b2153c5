// A folder with a model as Hugging Face keeps it: model.safetensors, or shards that model.safetensors.index.json names.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ecmv::datasets {

// The names of the tensors of each shard in an index, sorted. Throws DatasetError for bad JSON, an index without
// weight_map or with an empty one, tensors that are named twice, more than 200000 of them, more than 1024 shards, and
// shards that do not lie in the index's own folder.
std::map<std::string, std::vector<std::string>> parse_weight_index(std::string_view text);

// The shards of the folder's model with the tensors that are meant in each; no names: all that are there. Throws
// DatasetError where there is no model, and as above.
std::map<std::string, std::vector<std::string>> model_shards(const std::filesystem::path& folder);

}  // namespace ecmv::datasets

// Reader and writer of the safetensors container. JSON is nlohmann's; what it would accept silently
// (duplicate keys, deep nesting) is refused in the callback of its parser, the rest is checked in the order
// of the header.
#include "datasets/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation
constexpr std::string_view kMetadataKey = "__metadata__";

[[noreturn]] void bad_safetensors(const std::string& what) {
  throw DatasetError("Not a valid safetensors file: " + what);
}

uint64_t header_length(std::span<const std::byte> bytes) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t(bytes[i]) << (8 * i);
  return length;
}

json parse_header(std::string_view text) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > 3) bad_safetensors("the header is nested too deeply.");
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      bad_safetensors("the key " + parsed.dump() + " appears twice in one object of the header.");
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    bad_safetensors(std::string("the header is not correct JSON (") + error.what() + ").");
  }
}

// An unsigned integer below 2^63; everything else in this place is an error of the file.
int64_t read_size(const json& value, const std::string& where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t(INT64_MAX)) {
    bad_safetensors(where + " contains " + value.dump() + ", which is not an integer from 0 to 2^63 - 1.");
  }
  return value.get<int64_t>();
}

struct Entry {
  TensorView tensor;
  int64_t begin, end;
};

Entry read_entry(const std::string& name, const json& info) {
  const std::string who = "the tensor " + json(name).dump();
  if (!info.is_object()) bad_safetensors(who + " is not described by an object.");
  for (const auto& [key, value] : info.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      bad_safetensors(who + " has the unknown field " + json(key).dump() + ".");
    }
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!info.contains(key)) bad_safetensors(who + " has no " + key + ".");
  }
  if (!info["dtype"].is_string()) bad_safetensors("the dtype of " + who + " is not a text.");
  if (!info["shape"].is_array()) bad_safetensors("the shape of " + who + " is not a list.");
  const json& offsets = info["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) {
    bad_safetensors("the data_offsets of " + who + " are not a list of two numbers.");
  }
  Entry entry;
  entry.tensor.name = name;
  entry.tensor.dtype = info["dtype"].get<std::string>();
  for (const json& size : info["shape"]) entry.tensor.shape.push_back(read_size(size, "the shape of " + who));
  entry.begin = read_size(offsets[0], "data_offsets of " + who);
  entry.end = read_size(offsets[1], "data_offsets of " + who);
  if (entry.begin > entry.end) bad_safetensors("the data_offsets of " + who + " end before they begin.");
  const int64_t size = tensor_bytes(name, entry.tensor.dtype, entry.tensor.shape);
  if (entry.end - entry.begin != size) {
    bad_safetensors(who + " of dtype " + entry.tensor.dtype + " and shape " + shape_text(entry.tensor.shape) +
                    " takes " + std::to_string(size) + " bytes, but its data_offsets span " +
                    std::to_string(entry.end - entry.begin) + ".");
  }
  return entry;
}

std::map<std::string, std::string> read_metadata(const json& value) {
  if (!value.is_object()) bad_safetensors("__metadata__ is not an object.");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) bad_safetensors("the value of " + json(key).dump() + " in __metadata__ is not a text.");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Python's spacing, as the common writers produce it.
std::string entry_text(const TensorView& tensor, int64_t begin, int64_t end) {
  return json(tensor.name).dump() + ": {\"dtype\": " + json(tensor.dtype).dump() +
         ", \"shape\": " + shape_text(tensor.shape) + ", \"data_offsets\": " + shape_text({begin, end}) + "}";
}

}  // namespace

const TensorView* Safetensors::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const TensorView& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

bool looks_like_safetensors(std::span<const std::byte> bytes) {
  return bytes.size() > kLengthBytes && bytes[kLengthBytes] == std::byte{'{'} &&
         header_length(bytes) <= bytes.size() - kLengthBytes;
}

Safetensors parse_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) {
    bad_safetensors("it has " + std::to_string(bytes.size()) + " bytes, less than the 8 of the header's length.");
  }
  const uint64_t length = header_length(bytes);
  if (length > kMaxHeaderBytes) {
    bad_safetensors("the header's length " + std::to_string(length) + " is over the limit of 100000000 bytes.");
  }
  if (length > bytes.size() - kLengthBytes) {
    bad_safetensors("the header has " + std::to_string(length) + " bytes, but only " +
                    std::to_string(bytes.size() - kLengthBytes) + " follow its length.");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (text.empty() || text.front() != '{') bad_safetensors("the header does not begin with '{'.");
  const json header = parse_header(text);
  const auto data = bytes.subspan(kLengthBytes + length);

  Safetensors result;
  std::vector<Entry> entries;
  for (const auto& [name, info] : header.items()) {
    if (name == kMetadataKey) {
      result.metadata = read_metadata(info);
    } else {
      entries.push_back(read_entry(name, info));
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t covered = 0;
  for (Entry& entry : entries) {
    const std::string who = "the tensor " + json(entry.tensor.name).dump();
    if (entry.end > int64_t(data.size())) {
      bad_safetensors(who + " ends at byte " + std::to_string(entry.end) + " of the data, which has only " +
                      std::to_string(data.size()) + " bytes.");
    }
    if (entry.begin < covered) bad_safetensors(who + " overlaps the one before it.");
    if (entry.begin > covered) {
      bad_safetensors("there is a hole of " + std::to_string(entry.begin - covered) + " bytes before " + who + ".");
    }
    entry.tensor.bytes = data.subspan(size_t(entry.begin), size_t(entry.end - entry.begin));
    covered = entry.end;
    result.tensors.push_back(std::move(entry.tensor));
  }
  if (covered != int64_t(data.size())) {
    bad_safetensors(std::to_string(int64_t(data.size()) - covered) + " bytes follow the last tensor.");
  }
  return result;
}

std::vector<std::byte> write_safetensors(std::span<const TensorView> tensors,
                                         const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names;
  std::string header;
  int64_t offset = 0;
  try {
    if (!metadata.empty()) {
      std::string texts;
      for (const auto& [key, text] : metadata) {
        texts += (texts.empty() ? "" : ", ") + json(key).dump() + ": " + json(text).dump();
      }
      header = "\"__metadata__\": {" + texts + "}";
    }
    for (const TensorView& tensor : tensors) {
      if (tensor.name == kMetadataKey || !names.insert(tensor.name).second) {
        throw DatasetError("A safetensors file cannot hold another tensor named \"" + tensor.name + "\".");
      }
      const int64_t size = tensor_bytes(tensor.name, tensor.dtype, tensor.shape);
      if (size != int64_t(tensor.bytes.size())) {
        throw DatasetError("The tensor \"" + tensor.name + "\" of dtype " + tensor.dtype + " and shape " +
                           shape_text(tensor.shape) + " takes " + std::to_string(size) + " bytes, not " +
                           std::to_string(tensor.bytes.size()) + ".");
      }
      header += (header.empty() ? "" : ", ") + entry_text(tensor, offset, offset + size);
      offset += size;
    }
  } catch (const json::exception&) {
    throw DatasetError("A name or text for a safetensors file is not correct UTF-8.");
  }
  header = "{" + header + "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');

  std::vector<std::byte> file(kLengthBytes + header.size() + size_t(offset));
  for (size_t i = 0; i < kLengthBytes; ++i) file[i] = std::byte(uint64_t(header.size()) >> (8 * i));
  std::memcpy(file.data() + kLengthBytes, header.data(), header.size());
  std::byte* next = file.data() + kLengthBytes + header.size();
  for (const TensorView& tensor : tensors) {
    next = std::copy(tensor.bytes.begin(), tensor.bytes.end(), next);
  }
  return file;
}

}  // namespace ecmv::datasets

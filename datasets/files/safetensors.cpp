// Reader and writer of the safetensors container. nlohmann's parser reports JSON event by event: a tree of a large
// header would take ten times its bytes, and would not show doubled keys. As in the reference implementation the last
// tensor of a name counts, and the last text of a key of the metadata; doubled fields are refused.
#include "datasets/files/safetensors.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "datasets/files/zero_bytes.h"
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

// The deepest nesting of objects and lists, as in the reference implementation. Functions that recurse into them are
// never reached beyond it.
constexpr int kDeepest = 127;

constexpr std::string_view kJsonSpace = " \t\r\n";

void expect_shallow(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
    } else if (text[i] == '{' || text[i] == '[') {
      if (++depth > kDeepest) bad_safetensors("the header is nested too deeply.");
    } else if (text[i] == '}' || text[i] == ']') {
      --depth;
    }
  }
}

struct Entry {
  TensorView tensor;
  int64_t begin = 0, end = 0;
};

// Checks that size and offsets agree.
void check_entry(const Entry& entry) {
  const std::string& name = entry.tensor.name;
  const std::string who = "the tensor " + json(name).dump();
  if (entry.begin > entry.end) bad_safetensors("the data_offsets of " + who + " end before they begin.");
  tensor_elements(name, entry.tensor.shape);        // throws for sizes that overflow
  if (dtype_bits(entry.tensor.dtype) == 0) return;  // a type of newer writers: as many bytes as it says
  const int64_t size = tensor_bytes(name, entry.tensor.dtype, entry.tensor.shape);
  if (entry.end - entry.begin != size) {
    bad_safetensors(who + " of dtype " + entry.tensor.dtype + " and shape " + shape_text(entry.tensor.shape) +
                    " takes " + std::to_string(size) + " bytes, but its data_offsets span " +
                    std::to_string(entry.end - entry.begin) + ".");
  }
}

// Receives the header's events; the names are the parser's.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

  bool start_object(size_t) override {
    if (++depth_ == 1 || is_ignored()) return true;
    if (depth_ > 2) misplaced(depth_ - 1, json::object());
    in_metadata_ = key_ == kMetadataKey;
    fields_ = 0;
    field_ = kNone;
    if (in_metadata_) return true;
    if (entries.size() >= kMaxTensors)
      bad_safetensors("the header names more than " + std::to_string(kMaxTensors) + " tensors.");
    entries.emplace_back().tensor.name = key_;
    return true;
  }
  bool end_object() override {
    if (--depth_ != 1 || in_metadata_) return true;
    field_ = kNone;
    for (int i = 0; i < 3; ++i)
      if ((fields_ >> i & 1) == 0) bad_safetensors(who() + " has no " + kFields[i] + ".");
    return true;
  }
  bool key(string_t& key) override {
    if (key.size() > kMaxNameBytes)
      bad_safetensors("the header has a name of " + std::to_string(key.size()) + " bytes, more than " +
                      std::to_string(kMaxNameBytes) + ".");
    key_ = key;
    if (depth_ == 1) {
      if (key == kMetadataKey && std::exchange(has_metadata_, true)) twice(key);
      return true;
    }
    if (in_metadata_ || depth_ > 2) return true;  // the latter inside of a field that is ignored
    field_ = static_cast<int>(std::find(std::begin(kFields), std::end(kFields), key) - std::begin(kFields));
    if (field_ == kIgnored) return true;
    if ((fields_ >> field_ & 1) != 0) twice(key);
    fields_ |= 1 << field_;
    return true;
  }
  bool start_array(size_t) override {
    ++depth_;
    if (is_ignored()) return true;
    if (depth_ == 3 && !in_metadata_ && field_ != kDtype) {
      numbers_ = 0;
      return true;
    }
    misplaced(depth_ - 1, json::array());
  }
  bool end_array() override {
    --depth_;
    if (field_ == kOffsets && numbers_ != 2) two_offsets();
    return true;
  }
  bool string(string_t& text) override {
    if (is_ignored()) return true;
    if (depth_ == 2 && in_metadata_) {
      metadata[key_] = text;
      return true;
    }
    if (depth_ != 2 || field_ != kDtype) misplaced(depth_, text);
    entries.back().tensor.dtype = text;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (is_ignored()) return true;
    if (depth_ != 3 || value > uint64_t(INT64_MAX)) misplaced(depth_, value);
    Entry& entry = entries.back();
    if (field_ == kShape)
      entry.tensor.shape.push_back(int64_t(value));
    else if (numbers_ < 2)
      (numbers_ == 0 ? entry.begin : entry.end) = int64_t(value);
    ++numbers_;
    return true;
  }
  bool number_integer(number_integer_t value) override { return is_ignored() || (misplaced(depth_, value), true); }
  bool number_float(number_float_t value, const string_t& text) override {
    return is_ignored() || (misplaced(depth_, value, text), true);
  }
  bool boolean(bool value) override { return is_ignored() || (misplaced(depth_, value), true); }
  bool null() override {
    if (is_ignored() || (depth_ == 1 && key_ == kMetadataKey)) return true;
    misplaced(depth_, nullptr);
  }
  bool binary(binary_t&) override { misplaced(depth_, nullptr); }
  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    bad_safetensors(std::string("the header is not correct JSON (") + error.what() + ").");
  }

 private:
  static constexpr const char* kFields[] = {"dtype", "shape", "data_offsets"};
  enum { kDtype, kShape, kOffsets, kIgnored, kNone };

  // Other fields of a tensor, and all that they contain, are left to whoever wrote them.
  bool is_ignored() const { return field_ == kIgnored && depth_ >= 2 && !in_metadata_; }

  // The entry that is being read.
  std::string who() const { return "the tensor " + json(entries.back().tensor.name).dump(); }
  [[noreturn]] static void twice(const std::string& key) {
    bad_safetensors("the key " + json(key).dump() + " appears twice in one object of the header.");
  }
  [[noreturn]] void two_offsets() const {
    bad_safetensors("the data_offsets of " + who() + " are not a list of two numbers.");
  }
  // Refuses a value where it does not belong: at this depth of objects and lists.
  [[noreturn]] void misplaced(int within, const json& value, const std::string& text = "") const {
    if (within == 1 && key_ == kMetadataKey) bad_safetensors("__metadata__ is not an object.");
    if (within == 1) bad_safetensors("the tensor " + json(key_).dump() + " is not described by an object.");
    if (in_metadata_) bad_safetensors("the value of " + json(key_).dump() + " in __metadata__ is not a text.");
    if (within == 2 && field_ == kDtype) bad_safetensors("the dtype of " + who() + " is not a text.");
    if (within == 2 && field_ == kShape) bad_safetensors("the shape of " + who() + " is not a list.");
    if (within == 2) two_offsets();
    bad_safetensors(std::string(field_ == kShape ? "the shape of " : "data_offsets of ") + who() + " contains " +
                    (text.empty() ? value.dump() : text) + ", which is not an integer from 0 to 2^63 - 1.");
  }

  int depth_ = 0, field_ = kNone, fields_ = 0, numbers_ = 0;
  bool in_metadata_ = false, has_metadata_ = false;
  std::string key_;
};

// Places of tensors, sorted by name.
std::vector<uint32_t> sorted_by_name(const std::vector<TensorView>& tensors) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
  return order;
}

// Keeps the last of several tensors with one name.
void keep_last(std::vector<Entry>& entries) {
  std::ranges::reverse(entries);
  std::ranges::stable_sort(entries, {}, [](const Entry& entry) -> const std::string& { return entry.tensor.name; });
  const auto same = [](const Entry& a, const Entry& b) { return a.tensor.name == b.tensor.name; };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
}

// Spaces JSON as Python does, like the common writers.
std::string entry_text(const TensorView& tensor, int64_t begin, int64_t end) {
  return json(tensor.name).dump() + ": {\"dtype\": " + json(tensor.dtype).dump() +
         ", \"shape\": " + shape_text(tensor.shape) + ", \"data_offsets\": " + shape_text({begin, end}) + "}";
}

}  // namespace

const TensorView* Safetensors::find(std::string_view name) const {
  const auto found = std::lower_bound(by_name.begin(), by_name.end(), name,
                                      [&](uint32_t i, std::string_view wanted) { return tensors[i].name < wanted; });
  return found == by_name.end() || tensors[*found].name != name ? nullptr : &tensors[*found];
}

bool looks_like_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() <= kLengthBytes || header_length(bytes) > bytes.size() - kLengthBytes) return false;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, header_length(bytes));
  const size_t first = text.find_first_not_of(kJsonSpace);
  return first != text.npos && text[first] == '{';
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
  const size_t first = text.find_first_not_of(kJsonSpace);
  if (first == text.npos || text[first] != '{') bad_safetensors("the header does not begin with '{'.");
  expect_no_zero_bytes(text, bad_safetensors);
  expect_shallow(text);
  HeaderReader header;
  json::sax_parse(text, &header);
  const auto data = bytes.subspan(kLengthBytes + length);

  Safetensors result;
  result.metadata = std::move(header.metadata);
  std::vector<Entry>& entries = header.entries;
  keep_last(entries);
  std::ranges::for_each(entries, check_entry);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  int64_t covered = 0;
  for (Entry& entry : entries) {
    const auto who = [&] { return "the tensor " + json(entry.tensor.name).dump(); };
    if (entry.end > int64_t(data.size())) {
      bad_safetensors(who() + " ends at byte " + std::to_string(entry.end) + " of the data, which has only " +
                      std::to_string(data.size()) + " bytes.");
    }
    if (entry.begin < covered) bad_safetensors(who() + " overlaps the one before it.");
    if (entry.begin > covered) {
      bad_safetensors("there is a hole of " + std::to_string(entry.begin - covered) + " bytes before " + who() + ".");
    }
    entry.tensor.bytes = data.subspan(size_t(entry.begin), size_t(entry.end - entry.begin));
    covered = entry.end;
    result.tensors.push_back(std::move(entry.tensor));
  }
  if (covered != int64_t(data.size())) {
    bad_safetensors(std::to_string(int64_t(data.size()) - covered) + " bytes follow the last tensor.");
  }
  result.by_name = sorted_by_name(result.tensors);
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

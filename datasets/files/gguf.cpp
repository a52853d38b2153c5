// See gguf.h. Only general.alignment and split.* are used of the key-value pairs; the others are skipped.
#include "datasets/files/gguf.h"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>

#include "datasets/files/byte_reader.h"
#include "datasets/layers/unpack.h"

namespace ecmv::datasets {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";
constexpr std::string_view kNoGguf = "Not a readable GGUF file";
constexpr uint64_t kMostGgufDimensions = 4, kMaxAlignment = 1 << 20;
constexpr int kDeepestArray = 4;

enum ValueType : uint32_t { kU32 = 4, kF32Value = 6, kText = 8, kArray = 9 };

// Bytes of a value of type 0 to 12; 0 for texts, arrays and unknown types.
uint64_t fixed_bytes(uint32_t type) {
  static constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

// The types of tensors by ggml's numbers. Missing numbers are of types that ggml has dropped, or of newer ones.
std::string tensor_type(uint32_t number) {
  static constexpr std::string_view kTypes[] = {
      "F32",   "F16",    "Q4_0",  "Q4_1", "",     "",        "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
      "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
      "IQ2_S", "IQ4_XS", "I8",    "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16",  "",       "",
      "",      "TQ1_0",  "TQ2_0", "",     "",     "",        "MXFP4",  "NVFP4",   "Q1_0"};
  const std::string_view known = number < std::size(kTypes) ? kTypes[number] : "";
  return known.empty() ? "GGML_" + std::to_string(number) : std::string(known);
}

std::string gguf_text(ByteReader& reader, std::string_view what) {
  const uint64_t length = reader.u64(what);
  const auto bytes = reader.take(length, what);
  if (length > kMaxNameBytes)
    reader.fail(std::string(what) + " has " + std::to_string(length) + " bytes, more than " +
                std::to_string(kMaxNameBytes) + ".");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Skips `count` values of a type.
void skip_values(ByteReader& reader, uint32_t type, uint64_t count, int depth) {
  constexpr std::string_view kValue = "the value of a key";
  if (const uint64_t bytes = fixed_bytes(type); bytes > 0) {
    if (count > reader.left() / bytes) reader.fail("it ends inside the value of a key.");
    reader.take(count * bytes, kValue);
    return;
  }
  if (type != kText && type != kArray) reader.fail("the type " + std::to_string(type) + " of a value is unknown.");
  if (depth > kDeepestArray) reader.fail("its arrays are nested too deeply.");
  for (uint64_t i = 0; i < count; ++i) {
    if (type == kText) {
      reader.take(reader.u64(kValue), kValue);
      continue;
    }
    const uint32_t inner = reader.u32(kValue);
    skip_values(reader, inner, reader.u64(kValue), depth + 1);
  }
}

struct GgufFacts {
  uint64_t alignment = 32;
  GgufSplit split;
};

GgufFacts read_pairs(ByteReader& reader, uint64_t pairs) {
  GgufFacts facts;
  for (uint64_t i = 0; i < pairs; ++i) {
    const std::string key = gguf_text(reader, "a key");
    const uint32_t type = reader.u32("the type of a value");
    const bool is_split = (key == "split.no" || key == "split.count") && type < kF32Value;
    if (is_split) {
      (key == "split.no" ? facts.split.part : facts.split.parts) = reader.little(fixed_bytes(type), "a value");
      continue;
    }
    if (key != "general.alignment") {
      skip_values(reader, type, 1, 0);
      continue;
    }
    if (type != kU32) reader.fail("general.alignment is not a number of 32 bits.");
    facts.alignment = reader.u32("general.alignment");
    if (!std::has_single_bit(facts.alignment) || facts.alignment > kMaxAlignment)
      reader.fail("general.alignment is " + std::to_string(facts.alignment) + ", which is no power of two up to " +
                  std::to_string(kMaxAlignment) + ".");
  }
  return facts;
}

struct GgufEntry {
  TensorView tensor;
  uint64_t offset = 0, size = 0;  // in the data
  bool is_known = true;           // the type; else the size is what lies before the next tensor
};

GgufEntry read_entry(ByteReader& reader) {
  constexpr std::string_view kEntry = "the description of a tensor";
  GgufEntry entry;
  TensorView& tensor = entry.tensor;
  tensor.name = gguf_text(reader, "the name of a tensor");
  const std::string who = "the tensor \"" + tensor.name + "\"";
  const uint32_t dimensions = reader.u32(kEntry);
  if (dimensions > kMostGgufDimensions)
    reader.fail(who + " has " + std::to_string(dimensions) + " dimensions, more than " +
                std::to_string(kMostGgufDimensions) + ".");
  for (uint32_t i = 0; i < dimensions; ++i) tensor.shape.push_back(int64_t(reader.u64(kEntry)));
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  const uint32_t type = reader.u32(kEntry);
  tensor.dtype = tensor_type(type);
  entry.is_known = find_block_format(tensor.dtype) != nullptr || dtype_bits(tensor.dtype) > 0;
  entry.offset = reader.u64(kEntry);
  tensor_elements(tensor.name, tensor.shape);  // throws for sizes that overflow
  if (entry.is_known) entry.size = uint64_t(tensor_bytes(tensor.name, tensor.dtype, tensor.shape));
  return entry;
}

void expect_names_once(const std::vector<GgufEntry>& entries, const ByteReader& reader) {
  std::vector<std::string_view> names;
  for (const GgufEntry& entry : entries) names.push_back(entry.tensor.name);
  std::sort(names.begin(), names.end());
  if (const auto again = std::adjacent_find(names.begin(), names.end()); again != names.end())
    reader.fail("the tensor \"" + std::string(*again) + "\" is there twice.");
}

}  // namespace

bool looks_like_gguf(std::span<const std::byte> bytes) {
  return bytes.size() >= kGgufMagic.size() &&
         std::string_view(reinterpret_cast<const char*>(bytes.data()), kGgufMagic.size()) == kGgufMagic;
}

std::vector<TensorView> parse_gguf(std::span<const std::byte> bytes, GgufSplit* split) {
  ByteReader reader(bytes, kNoGguf);
  if (!looks_like_gguf(bytes)) reader.fail("it does not begin with the GGUF magic.");
  reader.take(kGgufMagic.size(), "its magic");
  const uint32_t version = reader.u32("its header");
  if (version != 0 && version % 65536 == 0) reader.fail("it is big-endian.");
  if (version != 2 && version != 3) reader.fail("its version " + std::to_string(version) + " is not 2 or 3.");
  const uint64_t tensors = reader.u64("its header"), pairs = reader.u64("its header");
  if (tensors > kMaxTensors)
    reader.fail("it has " + std::to_string(tensors) + " tensors, more than " + std::to_string(kMaxTensors) + ".");
  const GgufFacts facts = read_pairs(reader, pairs);
  const uint64_t alignment = facts.alignment;
  if (split != nullptr) *split = facts.split;
  std::vector<GgufEntry> entries;
  for (uint64_t i = 0; i < tensors; ++i) entries.push_back(read_entry(reader));
  expect_names_once(entries, reader);

  const uint64_t header = bytes.size() - reader.left();
  reader.take(std::min<uint64_t>((alignment - header % alignment) % alignment, reader.left()), "its padding");
  const auto data = bytes.last(reader.left());
  std::stable_sort(entries.begin(), entries.end(),
                   [](const GgufEntry& a, const GgufEntry& b) { return a.offset < b.offset; });
  std::vector<TensorView> views;
  uint64_t covered = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    GgufEntry& entry = entries[i];
    const auto who = [&] { return "the tensor \"" + entry.tensor.name + "\""; };
    if (entry.offset % alignment != 0)
      reader.fail(who() + " begins at byte " + std::to_string(entry.offset) + ", which is no multiple of " +
                  std::to_string(alignment) + ".");
    if (const uint64_t end = i + 1 < entries.size() ? entries[i + 1].offset : data.size();
        !entry.is_known && entry.offset < end && !entry.tensor.shape.empty())
      entry.size = end - entry.offset;
    if (entry.offset > data.size() || entry.size > data.size() - entry.offset)
      reader.fail(who() + " takes " + std::to_string(entry.size) + " bytes from byte " + std::to_string(entry.offset) +
                  " of the data, which has only " + std::to_string(data.size()) + " bytes.");
    if (entry.size > 0 && entry.offset < covered) reader.fail(who() + " overlaps the one before it.");
    covered = std::max(covered, entry.offset + entry.size);
    entry.tensor.bytes = data.subspan(size_t(entry.offset), size_t(entry.size));
    views.push_back(std::move(entry.tensor));
  }
  return views;
}

}  // namespace ecmv::datasets

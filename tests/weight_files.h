// Writes small weight files as other programs do: GGUF, ONNX, safetensors and npy, each part under the test's control.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ecmv::tests {

// The low bytes of a number.
inline std::string little(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
  return out;
}
inline std::string u32(uint64_t value) { return little(value, 4); }
inline std::string u64(uint64_t value) { return little(value, 8); }

// --- GGUF ---

enum GgufType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ8_0 = 8,
  kQ4_K = 12,
  kBF16 = 30,
  kMxfp4 = 39,
  kNvfp4 = 40
};

inline std::string gguf_text(std::string_view text) { return u64(text.size()).append(text); }

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> dims;  // innermost first
  uint32_t type = kF32;
  std::string data;
};

struct GgufFile {
  std::vector<GgufTensor> tensors;
  std::vector<std::string> pairs;  // key, type and value of each
  uint64_t alignment = 32;
  uint32_t version = 3;
  std::vector<uint64_t> offsets = {};  // of the tensors, if they shall be wrong

  std::string bytes() const {
    std::string infos, data;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const GgufTensor& tensor = tensors[i];
      infos += gguf_text(tensor.name) + u32(tensor.dims.size());
      for (const uint64_t dim : tensor.dims) infos += u64(dim);
      infos += u32(tensor.type) + u64(offsets.empty() ? data.size() : offsets[i]);
      data += tensor.data;
      while (data.size() % alignment != 0) data += '\0';
    }
    std::string file = "GGUF" + u32(version) + u64(tensors.size()) + u64(pairs.size());
    for (const std::string& pair : pairs) file += pair;
    file += infos;
    while (file.size() % alignment != 0) file += '\0';
    return file + data;
  }
};

// A block of 32 elements: an f16 scale, a minimum if the type has one, and the numbers.
inline std::string q8_block(uint16_t scale, const std::vector<int>& numbers) {
  std::string block = little(scale, 2);
  for (const int number : numbers) block += static_cast<char>(number);
  return block;
}
inline std::string q4_block(const std::string& scales, const std::vector<int>& numbers) {
  std::string block = scales;
  for (size_t j = 0; j < 16; ++j) block += static_cast<char>(numbers[j] | numbers[16 + j] << 4);
  return block;
}

// --- ONNX ---

inline std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>((value & 127) | 128);
  return out + static_cast<char>(value);
}
inline std::string proto_number(uint32_t field, uint64_t value) { return varint(field << 3) + varint(value); }
inline std::string proto_bytes(uint32_t field, std::string_view bytes) {
  return (varint(field << 3 | 2) + varint(bytes.size())).append(bytes);
}

enum OnnxType : uint32_t {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kHalf = 10,
  kBfloat = 16
};

// `rest`: the fields with the data, and others.
inline std::string onnx_tensor(std::string_view name, const std::vector<int64_t>& dims, uint64_t type,
                               const std::string& rest) {
  std::string tensor;
  for (const int64_t dim : dims) tensor += proto_number(1, static_cast<uint64_t>(dim));
  return tensor + proto_number(2, type) + proto_bytes(8, name) + rest;
}
inline std::string onnx_initializer(const std::string& tensor) { return proto_bytes(5, tensor); }
// A node that gives a constant; or, with field 6, one that has a graph of its own.
inline std::string onnx_node(std::string_view output, const std::string& attribute, uint32_t field = 5) {
  return proto_bytes(1,
                     proto_bytes(2, output) + proto_bytes(5, proto_bytes(1, "value") + proto_bytes(field, attribute)));
}
inline std::string onnx_model(const std::string& graph) {
  return proto_number(1, 8) + proto_bytes(2, "a test") + proto_bytes(7, graph);
}

// --- safetensors and npy ---

inline std::string safetensors_file(const std::string& header, const std::string& data) {
  return u64(header.size()) + header + data;
}
// Matrices of one dtype with given bytes.
struct SafetensorsEntry {
  std::string name, dtype, shape, data;  // the shape as JSON
};
inline std::string safetensors_file(const std::vector<SafetensorsEntry>& entries) {
  std::string header = "{", data;
  for (const SafetensorsEntry& entry : entries) {
    header += (header.size() > 1 ? ", \"" : "\"") + entry.name + "\": {\"dtype\": \"" + entry.dtype +
              "\", \"shape\": " + entry.shape + ", \"data_offsets\": [" + std::to_string(data.size()) + ", " +
              std::to_string(data.size() + entry.data.size()) + "]}";
    data += entry.data;
  }
  return safetensors_file(header + "}", data);
}

inline std::string npy_file(const std::string& dictionary, const std::string& data) {
  return "\x93NUMPY\x01" + std::string(1, '\0') + little(dictionary.size() + 1, 2) + dictionary + "\n" + data;
}

}  // namespace ecmv::tests

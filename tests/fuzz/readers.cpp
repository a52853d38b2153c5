// Files from anywhere, opened like `ecmv inspect`, `ecmv verify FILE` and the sources that read files do: the content
// decides on the reader, which reports an error or gives the content.
#include <sys/mman.h>
#include <unistd.h>

#include "codecs/registry.h"
#include "datasets/files/model_folder.h"
#include "datasets/files/onnx.h"
#include "datasets/files/safetensors.h"
#include "datasets/inspect.h"
#include "datasets/layers/model_shape.h"
#include "datasets/quantisers/quantisers.h"
#include "datasets/source.h"
#include "experiments/check/verify_files.h"
#include "tests/fuzz/target.h"
#include "tests/test_matrices.h"
#include "tests/weight_files.h"

namespace ecmv::tests::fuzz {
namespace {

// A file that is in memory only.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const uint8_t> bytes) : file_(memfd_create("fuzzed", MFD_CLOEXEC)) {
    if (file_ < 0 || write(file_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      broken("A file can be written in memory");
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

Bytes to_bytes(std::span<const std::byte> bytes) {
  Bytes out;
  for (const std::byte byte : bytes) out.push_back(static_cast<uint8_t>(byte));
  return out;
}

Bytes npy(const std::string& dictionary, size_t data_bytes, int version) {
  std::string file = "\x93NUMPY";
  file.append(1, static_cast<char>(version)).append(1, '\0').append(1, static_cast<char>(dictionary.size()));
  file.append(version == 1 ? 1 : 3, '\0').append(dictionary);
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return {file.begin(), file.end()};
}

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// Tensors in every element format.
Bytes gguf() {
  GgufFile file{{{"blk.0.attn_q.weight", {32, 1}, kQ8_0, q8_block(0x3C00, std::vector<int>(32, 1))},
                 {"blk.0.ffn_up.weight", {32}, kQ4_0, q4_block(little(0, 2), std::vector<int>(32, 7))},
                 {"output.weight", {32, 1, 1}, kQ4_1, q4_block(u32(0), std::vector<int>(32, 9))},
                 {"x", {2, 2}, kBF16, "abcdefgh"},
                 {"y", {256}, kQ4_K, std::string(144, 'y')}},
                {gguf_text("general.alignment") + u32(4) + u32(32),
                 gguf_text("texts") + u32(9) + u32(8) + u64(1) + gguf_text("a")}};
  return bytes_of(file.bytes());
}

Bytes onnx() {
  return bytes_of(
      onnx_model(onnx_initializer(onnx_tensor("w", {2, 2}, kInt8, proto_bytes(9, "abcd"))) +
                 onnx_initializer(onnx_tensor("h", {2, 1}, kHalf, proto_bytes(5, varint(300) + varint(7)))) +
                 onnx_initializer(onnx_tensor("f", {1, 1}, kFloat, proto_bytes(4, u32(7)))) +
                 onnx_node("c", proto_number(2, kInt8) + proto_bytes(9, "")) +
                 onnx_node("g", onnx_initializer(onnx_tensor("d", {1}, kInt64, proto_bytes(7, "a"))), 6)));
}

// A chain of that many layers of the smallest square matrices that the codec takes, or modules; {} if it takes none.
Bytes chain_file(const codecs::CodecEntry& entry, const datasets::Matrix& matrix, bool with_scales, bool modules) {
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  if (!entry.codec->refuses(matrix.view(), settings).empty()) return {};
  codecs::ChainFile chain;
  for (int layer = 0; layer < 2; ++layer) {
    chain.layers.push_back(codecs::encode_matrix(entry, matrix.view(), settings));
    if (modules) chain.names.push_back("layers." + std::to_string(layer));
    if (with_scales) chain.scales.push_back(0.5f);
    if (with_scales || layer == 1) chain.hashes[layer] = 0xDEADBEEFu;
  }
  if (!modules) chain.initial_vector.assign(static_cast<size_t>(matrix.shape.cols), 3);
  try {
    return to_bytes(entry.codec->write_file(chain));
  } catch (const std::invalid_argument&) {  // its files hold other chains
    return {};
  }
}

}  // namespace

std::vector<Bytes> seeds() {
  std::vector<Bytes> out;
  for (const int version : {1, 2, 3})
    out.push_back(npy("{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3, 2), }\n", 24, version));
  out.push_back(npy("{'descr': '|i1', 'fortran_order': False, 'shape': (3, 4), }\n", 12, 1));
  out.push_back(npy("{\"shape\": (), \"fortran_order\": True, \"descr\": \"<f8\"}", 8, 1));
  out.push_back(npy("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }\n", 12, 1));
  out.push_back(gguf());
  out.push_back(onnx());
  out.push_back(bytes_of(R"({"metadata": {"total_size": 1}, "weight_map": {"a": "one", "b": "two"}})"));
  out.push_back(
      bytes_of(R"({"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 2, "vocab_size": 20})"));
  const std::vector<datasets::Matrix> matrices = typed_matrices();
  std::vector<datasets::TensorView> tensors;
  for (const datasets::Matrix& matrix : matrices)
    if (matrix.shape.elements() == 1)
      tensors.push_back({matrix.name, std::string(datasets::dtype_of(matrix.type)), {1, 1}, matrix.elements});
  for (size_t i = 1; i < tensors.size(); ++i) tensors[i].name += std::to_string(i);
  out.push_back(to_bytes(datasets::write_safetensors(tensors, {{"made by", "the seeds"}})));
  for (const codecs::CodecEntry& entry : codecs::all_codecs())
    if (entry.codec->write_file != nullptr)
      for (const bool with_scales : {false, true})
        for (const bool modules : {false, true}) {
          Bytes file;
          for (int64_t d = 32; d <= 512 && file.empty(); d *= 2)
            file = chain_file(entry, gaussian_matrix({d, d}, 0.5), with_scales, modules);
          if (file.empty()) file = chain_file(entry, bf16_matrix({2, 32}), with_scales, modules);
          if (!file.empty()) out.push_back(file);
        }
  return out;
}

void try_input(std::span<const uint8_t> input) {
  const MemoryFile file(input);
  try {
    (void)datasets::inspect_file(file.path());
  } catch (const datasets::DatasetError&) {
  }
  for (const datasets::DataSource& source : datasets::all_sources()) {
    if (source.uses_shape || source.parameters.empty()) continue;
    const std::string place(source.parameters[0].name);
    if (place != "file" && place != "model") continue;
    datasets::SourceRequest request;
    request.texts[place] = file.path();
    try {
      (void)datasets::quantise(source.load(request), {"absmax"});  // it refuses integers
    } catch (const datasets::DatasetError&) {
    }
  }
  (void)experiments::verify_file(file.path());
  try {
    (void)datasets::parse_weight_index({reinterpret_cast<const char*>(input.data()), input.size()});
  } catch (const datasets::DatasetError&) {
  }
  try {
    (void)datasets::parse_model_config({reinterpret_cast<const char*>(input.data()), input.size()});
  } catch (const datasets::DatasetError&) {
  }
  try {  // bytes that do not begin as a model, too
    std::vector<datasets::FileBytes> files;
    (void)datasets::summarize_all(datasets::parse_onnx(std::as_bytes(input), "", files));
  } catch (const datasets::DatasetError&) {
  }
}

}  // namespace ecmv::tests::fuzz

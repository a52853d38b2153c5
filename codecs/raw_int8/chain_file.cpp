// datasets/files/matvans.h reads these files as data; here they become chains, and chains become bytes again.
#include "codecs/raw_int8/chain_file.h"
#include "codecs/compressed_matrix.h"

#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

#include "codecs/modelling/bytes.h"
#include "codecs/modelling/plain_elements.h"
#include "datasets/files/matvans.h"
#include "datasets/files/safetensors.h"
#include "datasets/source.h"

namespace ecmv::codecs::raw_int8 {
namespace {

using Bytes = std::vector<std::byte>;
using modelling::append, modelling::append_bytes, modelling::load;

// The .bin has no magic: the sizes in it must lead exactly to its end.
bool walks_to_the_end(std::span<const std::byte> bytes) {
  if (bytes.size() < 12) return false;
  const uint32_t layers = load<uint32_t>(bytes, 0);
  uint64_t at = 12 + (uint64_t{load<uint32_t>(bytes, 8)} + 3) / 4 * 4;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (at + 12 > bytes.size()) return false;
    const uint64_t rows = load<uint32_t>(bytes, at), cols = load<uint32_t>(bytes, at + 4);
    if (cols != 0 && rows > bytes.size() / cols) return false;
    at += 12 + rows * cols;
  }
  return layers > 0 && at == bytes.size();
}

uint32_t hash_of(const ChainFile& chain, int layer) {
  const auto found = chain.hashes.find(layer);
  if (found == chain.hashes.end())
    throw std::invalid_argument("The MatVANS file needs the hash of the vector after layer " + std::to_string(layer) +
                                ".");
  return found->second;
}

std::span<const std::byte> elements_of(const CompressedMatrix& layer) {
  if (layer.sections.size() != 1 ||
      static_cast<int64_t>(layer.sections[modelling::kPlainElements].bytes.size()) != layer.shape.elements())
    throw std::invalid_argument("A layer of the chain is no raw_int8 matrix.");
  return layer.sections[modelling::kPlainElements].bytes;
}

Bytes write_container(const ChainFile& chain) {
  const int64_t count = static_cast<int64_t>(chain.layers.size());
  const int64_t d = static_cast<int64_t>(chain.initial_vector.size());
  if (chain.scales.size() != chain.layers.size())
    throw std::invalid_argument("The MatVANS container needs one scale for each layer.");
  Bytes matrices, scales, hashes;
  for (int64_t layer = 0; layer < count; ++layer) {
    if (chain.layers[layer].shape != datasets::Shape{d, d})
      throw std::invalid_argument("The MatVANS container holds square matrices of the initial vector's size only.");
    append_bytes(matrices, elements_of(chain.layers[layer]));
    append<uint32_t>(scales, std::bit_cast<uint32_t>(chain.scales[layer]));
    append<uint32_t>(hashes, hash_of(chain, static_cast<int>(layer)));
  }
  const datasets::TensorView tensors[] = {
      {"matrices", "I8", {count, d, d}, matrices},
      {"initial_vector", "I8", {d}, std::as_bytes(std::span(chain.initial_vector))},
      {"scales", "F32", {count}, scales},
      {"hashes", "U32", {count}, hashes},
  };
  return datasets::write_safetensors(tensors);
}

Bytes write_bin(const ChainFile& chain) {
  Bytes out;
  append<uint32_t>(out, static_cast<uint32_t>(chain.layers.size()));
  append<uint32_t>(out, hash_of(chain, static_cast<int>(chain.layers.size()) - 1));
  append<uint32_t>(out, static_cast<uint32_t>(chain.initial_vector.size()));
  append_bytes(out, std::as_bytes(std::span(chain.initial_vector)));
  out.resize((out.size() + 3) / 4 * 4);
  for (const CompressedMatrix& layer : chain.layers) {
    if (layer.shape.rows > UINT32_MAX || layer.shape.cols > UINT32_MAX)
      throw std::invalid_argument("The MatVANS .bin file stores rows and columns in 32 bits.");
    append<uint32_t>(out, static_cast<uint32_t>(layer.shape.rows));
    append<uint32_t>(out, static_cast<uint32_t>(layer.shape.cols));
    append<uint32_t>(out, std::bit_cast<uint32_t>(1.0f));
    append_bytes(out, elements_of(layer));
  }
  return out;
}

}  // namespace

bool recognises_file(std::span<const std::byte> bytes) {
  if (!datasets::looks_like_safetensors(bytes)) return walks_to_the_end(bytes);
  try {
    const datasets::Safetensors file = datasets::parse_safetensors(bytes);
    return file.find("matrices") != nullptr && file.find("initial_vector") != nullptr;
  } catch (const datasets::DatasetError&) {
    return false;
  }
}

ChainFile read_file(std::span<const std::byte> bytes) {
  try {
    datasets::MatvansFile file = datasets::parse_matvans_uncompressed(bytes);
    ChainFile chain;
    for (datasets::Matrix& matrix : file.layers) {
      CompressedMatrix layer = make_compressed(matrix.view(), {});
      layer.codec = "raw_int8";
      layer.format_version = 1;
      layer.sections.push_back({"elements", Role::payload, 64, std::move(matrix.elements)});
      chain.layers.push_back(std::move(layer));
    }
    chain.initial_vector = std::move(file.initial_vector);
    chain.scales = std::move(file.scales);
    // A .bin states one hash, that of the last vector.
    const int first = static_cast<int>(chain.layers.size() - file.hashes.size());
    for (size_t i = 0; i < file.hashes.size(); ++i) chain.hashes[first + static_cast<int>(i)] = file.hashes[i];
    return chain;
  } catch (const datasets::DatasetError& error) {
    throw MalformedStream(error.what());
  }
}

std::vector<std::byte> write_file(const ChainFile& chain) {
  if (chain.layers.empty()) throw std::invalid_argument("A MatVANS file needs at least one layer.");
  return chain.scales.empty() ? write_bin(chain) : write_container(chain);
}

}  // namespace ecmv::codecs::raw_int8

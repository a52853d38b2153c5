// The container concatenates the sections of all layers: payloads into `compressed`, offsets (counted from the start of
// the whole) into `all_warp_offsets`, and each of the three tables.
#include "codecs/modelling/quad_ans/quad_ans_file.h"
#include "codecs/compressed_matrix.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "codecs/modelling/bytes.h"
#include "datasets/files/safetensors.h"
#include "datasets/source.h"

namespace ecmv::codecs::modelling {
namespace {

using datasets::TensorView;
using Bytes = std::vector<std::byte>;

constexpr const char* kTableTensors[3] = {"all_ppfs", "all_ppfs_cum", "all_ppfs_prob"};
constexpr int64_t kTableWords = kQuadSlots / 4;

[[noreturn]] void fail(const std::string& what) {
  throw MalformedStream("Not a compressed MatVANS container: " + what);
}

const TensorView& require(const datasets::Safetensors& file, const char* name, const char* dtype,
                          const std::vector<int64_t>& shape) {
  const TensorView* tensor = file.find(name);
  if (tensor == nullptr) fail("it has no tensor \"" + std::string(name) + "\".");
  if (tensor->dtype != dtype || tensor->shape != shape)
    fail("its tensor \"" + std::string(name) + "\" is " + tensor->dtype + datasets::shape_text(tensor->shape) +
         ", not " + dtype + datasets::shape_text(shape) + ".");
  return *tensor;
}

std::span<const std::byte> vector_of(const datasets::Safetensors& file, const char* name, const char* dtype) {
  const TensorView* tensor = file.find(name);
  if (tensor == nullptr || tensor->shape.size() != 1)
    fail("it has no one-dimensional tensor \"" + std::string(name) + "\".");
  return require(file, name, dtype, tensor->shape).bytes;
}

// The offsets, counted from another start.
Bytes moved_offsets(std::span<const std::byte> offsets, uint32_t distance) {
  Bytes moved;
  for (size_t i = 0; i < offsets.size() / 4; ++i) {
    append<uint32_t>(moved, load_word32(offsets, i) + distance);
  }
  return moved;
}

}  // namespace

bool recognises_quad_file(std::span<const std::byte> bytes, QuadLayoutOf layout_of) {
  if (!datasets::looks_like_safetensors(bytes)) return false;
  try {
    const datasets::Safetensors file = datasets::parse_safetensors(bytes);
    const TensorView* const offsets = file.find("all_warp_offsets");
    if (offsets == nullptr || offsets->shape.size() != 2 || file.find("compressed") == nullptr) return false;
    const int64_t d = static_cast<int64_t>(vector_of(file, "initial_vector", "I8").size());
    return offsets->shape[1] == layout_of({d, d}).queues;
  } catch (const std::runtime_error&) {
    return false;
  }
}

ChainFile read_quad_file(std::span<const std::byte> bytes, QuadLayoutOf layout_of, uint32_t format_version) try {
  const datasets::Safetensors file = datasets::parse_safetensors(bytes);
  const auto vector = vector_of(file, "initial_vector", "I8");
  const auto scales = vector_of(file, "scales", "F32");
  const auto compressed = vector_of(file, "compressed", "U32");
  const int64_t d = static_cast<int64_t>(vector.size()), layers = static_cast<int64_t>(scales.size() / 4);
  const QuadLayout layout = layout_of({d, d});
  if (layers == 0 || layout.queues == 0) fail("it has no layers or an empty initial vector.");
  const auto hashes = require(file, "hashes", "U32", {layers}).bytes;
  const auto offsets = require(file, "all_warp_offsets", "U32", {layers, layout.queues}).bytes;

  ChainFile chain;
  chain.initial_vector.resize(vector.size());
  std::memcpy(chain.initial_vector.data(), vector.data(), vector.size());
  chain.scales.resize(static_cast<size_t>(layers));
  std::memcpy(chain.scales.data(), scales.data(), scales.size());
  // A layer's words end where the next one's begin.
  const auto begin_of = [&](int64_t layer) {
    return layer == layers ? compressed.size()
                           : size_t{quad_u32(offsets, layer * layout.queues)} * 4 * kQuadOffsetWords;
  };
  if (static_cast<int64_t>(compressed.size()) / (layers * layout.queues) < 4 * kQuadGroupWords)
    fail("it has fewer words than its queues' states.");
  if (begin_of(0) != 0) fail("its first layer does not begin with the first word.");
  for (int64_t layer = 0; layer < layers; ++layer) {
    const size_t begin = begin_of(layer), end = begin_of(layer + 1);
    if (begin > end || end > compressed.size())
      fail("the offsets of layer " + std::to_string(layer) + " lie outside the words.");
    const uint32_t distance = static_cast<uint32_t>(begin / (4 * kQuadOffsetWords));
    const auto payload = compressed.subspan(begin, end - begin);
    CompressedMatrix matrix;
    matrix.codec = layout.codec;
    matrix.format_version = format_version;
    matrix.shape = {d, d};
    matrix.sections = {
        {"compressed", Role::payload, 64, {payload.begin(), payload.end()}},
        {"warp_offsets", Role::index, 64,
         moved_offsets(offsets.subspan(layer * layout.queues * 4, layout.queues * 4), 0u - distance)},
    };
    constexpr std::string_view kNames[3] = {"ppf", "ppf_cum", "ppf_prob"};
    for (int i = 0; i < 3; ++i) {
      const auto table =
          require(file, kTableTensors[i], "U32", {layers, kTableWords}).bytes.subspan(layer * kQuadSlots, kQuadSlots);
      matrix.sections.push_back({kNames[i], Role::table, 64, {table.begin(), table.end()}});
    }
    chain.layers.push_back(std::move(matrix));
    chain.hashes[static_cast<int>(layer)] = quad_u32(hashes, layer);
  }
  return chain;
} catch (const datasets::DatasetError& error) {
  throw MalformedStream(error.what());
}

std::vector<std::byte> write_quad_file(const ChainFile& chain, QuadLayoutOf layout_of) {
  const int64_t layers = static_cast<int64_t>(chain.layers.size()),
                d = static_cast<int64_t>(chain.initial_vector.size());
  const QuadLayout layout = layout_of({d, d});
  if (layers == 0 || d == 0 || chain.scales.size() != chain.layers.size())
    throw std::invalid_argument("The MatVANS container needs layers, an initial vector and one scale for each layer.");
  Bytes compressed, offsets, tables[3], scales, hashes;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const CompressedMatrix& matrix = chain.layers[layer];
    if (matrix.shape != datasets::Shape{d, d} || matrix.sections.size() != kQuadSections ||
        static_cast<int64_t>(matrix.sections[kQuadWarpOffsets].bytes.size()) != layout.queues * 4)
      throw std::invalid_argument("The MatVANS container holds square " + std::string(layout.codec) +
                                  " matrices of the initial vector's size only.");
    if (!chain.hashes.contains(static_cast<int>(layer)))
      throw std::invalid_argument("The MatVANS container needs the hash of the vector after layer " +
                                  std::to_string(layer) + ".");
    const size_t distance = compressed.size() / (4 * kQuadOffsetWords);
    append_bytes(compressed, matrix.sections[kQuadCompressed].bytes);
    if (compressed.size() / (4 * kQuadOffsetWords) > UINT32_MAX)
      throw std::invalid_argument("The MatVANS container's 32-bit offsets cannot reach all layers of this chain.");
    append_bytes(offsets, moved_offsets(matrix.sections[kQuadWarpOffsets].bytes, static_cast<uint32_t>(distance)));
    for (int i = 0; i < 3; ++i) append_bytes(tables[i], matrix.sections[kQuadPpf + i].bytes);
    append<uint32_t>(scales, std::bit_cast<uint32_t>(chain.scales[layer]));
    append<uint32_t>(hashes, chain.hashes.at(static_cast<int>(layer)));
  }
  const TensorView tensors[] = {
      {"initial_vector", "I8", {d}, std::as_bytes(std::span(chain.initial_vector))},
      {"scales", "F32", {layers}, scales},
      {"hashes", "U32", {layers}, hashes},
      {"compressed", "U32", {static_cast<int64_t>(compressed.size() / 4)}, compressed},
      {"all_warp_offsets", "U32", {layers, layout.queues}, offsets},
      {kTableTensors[0], "U32", {layers, kTableWords}, tables[0]},
      {kTableTensors[1], "U32", {layers, kTableWords}, tables[1]},
      {kTableTensors[2], "U32", {layers, kTableWords}, tables[2]},
  };
  return datasets::write_safetensors(tensors);
}

}  // namespace ecmv::codecs::modelling

// See read_stream.h.
#include "codecs/read_stream.h"
#include "codecs/compressed_matrix.h"

#include <stdexcept>
#include <string>

#include "codecs/guarded_output.h"

namespace ecmv::codecs {
namespace {

// A constant matrix takes no bits an element, so a few bytes could claim any size. Real weights take more than a bit;
// small files may claim what they like.
constexpr int64_t kMostExpansion = 8, kAnySizeBytes = int64_t{256} << 20;
// Limits the work: every kernel of a codec is tried with every layer, whatever it holds.
constexpr size_t kMostLayers = 1024;

// Bytes of the elements; -1 if the number is invalid or overflows.
int64_t decoded_bytes(datasets::Shape shape, datasets::ElementType type) {
  int64_t bytes = 0;
  if (shape.rows < 0 || shape.cols < 0 || __builtin_mul_overflow(shape.rows, shape.cols, &bytes) ||
      __builtin_mul_overflow(bytes, datasets::element_bytes(type), &bytes))
    return -1;
  return bytes;
}

void expect_plausible_size(int64_t decoded, int64_t stored) {
  if (decoded < 0) throw MalformedStream("Its shape is none that a matrix has.");
  if (decoded > kAnySizeBytes && decoded - kAnySizeBytes > kMostExpansion * stored)
    throw MalformedStream("It claims " + std::to_string(decoded) + " bytes of elements in " + std::to_string(stored) +
                          " stored ones, which is more than can be meant.");
}

int64_t stored_bytes(const CompressedView& stored) {
  int64_t bytes = 0;
  for (const SectionView& section : stored.sections) bytes += static_cast<int64_t>(section.bytes.size());
  return bytes;
}

// Checks that every setting of the codec is given, with a legal value.
void expect_settings(const Codec& codec, const Settings& settings) {
  std::map<std::string, std::string> given;
  for (const auto& [name, value] : settings.values())
    given[name] = std::holds_alternative<int64_t>(value) ? std::to_string(std::get<int64_t>(value))
                                                         : std::get<std::string>(value);
  std::vector<std::string> problems;
  const Settings resolved = resolve_settings(codec.settings, given, problems);
  if (!problems.empty()) throw MalformedStream(problems.front());
  if (!(resolved == settings)) throw MalformedStream("It lacks settings of its codec.");
}

// Decodes a stream, and checks all that read_stream demands.
GuardedOutput decode_checked(const Codec& codec, const CompressedView& stored) {
  if (stored.settings == nullptr) throw MalformedStream("It has no settings.");
  expect_settings(codec, *stored.settings);
  // Codecs refuse a matrix without elements for its type alone. A decoder of one type does not check others.
  if (codec.refuses != nullptr)
    if (const std::string reason = codec.refuses({{}, stored.type, {}}, *stored.settings); !reason.empty())
      throw MalformedStream("It has elements of a type that the codec does not store. " + reason);
  const int64_t bytes = decoded_bytes(stored.shape, stored.type);
  expect_plausible_size(bytes, stored_bytes(stored));
  GuardedOutput out(static_cast<size_t>(bytes));
  const auto expect_no_more = [&] {
    if (out.written_outside()) throw std::logic_error("the decoder wrote outside the matrix");
  };
  try {
    codec.decode(stored, out.elements());
  } catch (const MalformedStream&) {
    expect_no_more();  // a decoder that refuses the stream may still have damaged memory
    throw;
  }
  expect_no_more();
  const datasets::MatrixView matrix{stored.shape, stored.type, out.elements()};
  if (const std::string reason = codec.refuses == nullptr ? "" : codec.refuses(matrix, *stored.settings);
      !reason.empty())
    throw MalformedStream("It holds a matrix that the codec does not store. " + reason);
  return out;
}

}  // namespace

datasets::Matrix read_stream(const Codec& codec, const CompressedView& stored) {
  GuardedOutput out = decode_checked(codec, stored);
  datasets::Matrix matrix;
  matrix.shape = stored.shape;
  matrix.type = stored.type;
  matrix.elements = out.take();
  matrix.content_hash = datasets::content_hash(matrix.view());
  return matrix;
}

uint64_t check_stream(const Codec& codec, const CompressedView& stored) {
  GuardedOutput out = decode_checked(codec, stored);
  return datasets::content_hash({stored.shape, stored.type, out.elements()});
}

ReadFile read_chain_file(const Codec& codec, std::span<const std::byte> bytes) {
  ReadFile file{codec.read_file(bytes), {}};
  if (file.chain.layers.size() > kMostLayers)
    throw MalformedStream("It has " + std::to_string(file.chain.layers.size()) + " layers; at most " +
                          std::to_string(kMostLayers) + " are read together.");
  int64_t decoded = 0, stored = 0;
  for (const CompressedMatrix& layer : file.chain.layers) {
    const int64_t more = decoded_bytes(layer.shape, layer.type);
    if (more < 0 || __builtin_add_overflow(decoded, more, &decoded)) decoded = -1;
    stored += layer.stored_bytes();
    expect_plausible_size(decoded, stored);
  }
  for (CompressedMatrix& layer : file.chain.layers) {
    file.matrices.push_back(read_stream(codec, layer.view()));
    layer.source_hash = file.matrices.back().content_hash;
  }
  return file;
}

}  // namespace ecmv::codecs

// A fuzz target over the registry: the input chooses a codec, a small matrix and damage to its stream (or gives the
// sections outright); the reference decoder must return or throw MalformedStream. With clang: -fsanitize=fuzzer links
// it as a libFuzzer target. Without, the main() below drives it with a fixed pseudo-random sequence, which is what
// ctest runs.
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "codecs/registry.h"
#include "tests/test_matrices.h"
#include "tests/test_settings.h"

using namespace ecmv;

namespace {

// Reads values off the fuzzer's bytes; zeros past the end.
struct Input {
  const uint8_t* data;
  size_t size;
  uint32_t take(int bytes) {
    uint32_t value = 0;
    for (int i = 0; i<bytes; ++i, size -= size> 0) value = value << 8 | (size > 0 ? *data++ : 0);
    return value;
  }
};

datasets::Shape pick_shape(uint32_t choice) {
  static const datasets::Shape shapes[] = {{32, 512}, {1, 1}, {3, 65}, {0, 4}, {64, 128}, {2, 1000}};
  return shapes[choice % std::size(shapes)];
}

void damage(std::vector<std::byte>& bytes, Input& input) {
  switch (input.take(1) % 4) {
    case 0:  // cut
      if (!bytes.empty()) bytes.resize(input.take(2) % bytes.size());
      break;
    case 1:  // foreign bytes
      bytes.assign(reinterpret_cast<const std::byte*>(input.data),
                   reinterpret_cast<const std::byte*>(input.data) + std::min<size_t>(input.size, 512));
      break;
    default:
      for (uint32_t n = 1 + input.take(1) % 8; n > 0 && !bytes.empty(); --n)
        bytes[input.take(2) % bytes.size()] = static_cast<std::byte>(input.take(1));
  }
  bytes.shrink_to_fit();  // the sanitizer then sees every access past the end
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input{data, size};
  const auto codecs = codecs::all_codecs();
  const codecs::CodecEntry& entry = codecs[input.take(1) % codecs.size()];
  const auto settings = tests::settings_to_test(*entry.codec);
  const codecs::Settings& chosen = settings[input.take(1) % settings.size()];
  datasets::Matrix matrix = tests::gaussian_matrix(pick_shape(input.take(1)), 1 + input.take(1) % 40, 5);
  // Codecs that want others than int8 elements of any value.
  const auto refused = [&] { return !entry.codec->refuses(matrix.view(), chosen).empty(); };
  if (refused()) matrix = tests::bf16_matrix(matrix.shape);
  if (refused()) matrix = tests::ternary_matrix(matrix.shape);
  if (refused()) matrix = tests::ternary_matrix(matrix.shape, true);
  if (!entry.codec->refuses(matrix.view(), chosen).empty()) return 0;
  codecs::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), chosen);
  for (uint32_t n = input.take(1) % 3; n > 0 && !compressed.sections.empty(); --n)
    damage(compressed.sections[input.take(1) % compressed.sections.size()].bytes, input);
  if (input.take(1) % 16 == 0) compressed.shape = pick_shape(input.take(1));
  std::vector<std::byte> out(compressed.shape.elements() * datasets::element_bytes(compressed.type));
  try {
    entry.codec->decode(compressed.view(), out);
  } catch (const codecs::MalformedStream&) {
  }
  return 0;
}

#ifndef ECMV_LIBFUZZER
int main(int argc, char** argv) {
  const int inputs = argc > 1 ? std::atoi(argv[1]) : 3000;
  tests::Random random{2026};
  for (int i = 0; i < inputs; ++i) {
    std::vector<uint8_t> bytes(16 + random.next() % 64);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::cout << inputs << " damaged streams, every one decoded or refused\n";
  return inputs > 0 ? 0 : 1;
}
#endif

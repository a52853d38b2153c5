// The tests of huffman_exponents share this: matrices whose codes are hard on decoders, their streams, and a check of
// all decode kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/pass.h"
#include "codecs/compressed_matrix.h"
#include "codecs/registry.h"
#include "tests/test_matrices.h"

namespace ecmv::codecs::huffman_exponents::test_streams {

using datasets::ElementType;
using datasets::Matrix;
using Bytes = std::vector<std::byte>;

inline const CodecEntry& entry() { return *find_codec("huffman_exponents"); }

inline CompressedMatrix encode(const Matrix& matrix) {
  const Settings settings = default_settings(*entry().codec);
  REQUIRE(entry().codec->refuses(matrix.view(), settings) == "");
  return encode_matrix(entry(), matrix.view(), settings);
}

inline Bytes decoded(const CompressedMatrix& compressed) {
  Bytes out(static_cast<size_t>(compressed.shape.elements() * datasets::element_bytes(compressed.type)),
            std::byte{0x80});
  entry().codec->decode(compressed.view(), out);
  return out;
}

inline std::string refusal(const Matrix& matrix) {
  return entry().codec->refuses(matrix.view(), default_settings(*entry().codec));
}

inline Matrix bf16(datasets::Shape shape, const std::function<uint64_t(int64_t)>& bits) {
  return tests::make_typed_matrix("bf16", ElementType::bf16, shape, bits);
}

// Exponents whose frequencies halve: codes up to `depth` bits and more than 16 of them.
inline Matrix deep_matrix(int depth, int64_t cols) {
  tests::Random random{3};
  return bf16({std::max<int64_t>(1, (int64_t{1} << depth) / cols), cols}, [&](int64_t i) {
    const int exponent = i < depth ? static_cast<int>(i) : std::countr_zero(random.next() | uint64_t{1} << (depth - 1));
    return static_cast<uint64_t>(60 + exponent) << 7 | (random.next() & 0x807F);
  });
}

inline Matrix f8_matrix(datasets::Shape shape, uint64_t seed = 2) {
  tests::Random random{seed};
  return tests::make_typed_matrix("f8", ElementType::f8_e4m3, shape, [&](int64_t) {
    const int exponent = std::clamp(static_cast<int>(std::log2(std::fabs(random.normal()) + 1e-9) + 12), 0, 15);
    return static_cast<uint64_t>(exponent) << 3 | (random.next() & 0x87);
  });
}

inline std::vector<int> values(const Section& section) {
  std::vector<int> out;
  for (const std::byte byte : section.bytes) out.push_back(std::to_integer<int>(byte));
  return out;
}

inline double bits_per_element(const CompressedMatrix& compressed) {
  return 8.0 * static_cast<double>(compressed.stored_bytes()) / static_cast<double>(compressed.shape.elements());
}

inline void set_u32(Section& section, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) section.bytes[at + i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
}

// Every decode kernel on every device of the backend; how many ran.
inline int check_decoders(std::string_view backend_id, const CompressedMatrix& compressed, const Bytes& elements) {
  const backends::Backend* backend = backends::find_backend(backend_id);
  int ran = 0;
  for (const backends::DeviceInfo& info : backend->devices()) {
    if (!info.unavailable.empty()) continue;
    const auto device = backend->open({.threads = 2, .simd_target = info.simd_target});
    const auto uploaded = device->upload(compressed);
    device->select();
    for (const backends::Kernel& kernel : entry().kernels(backend_id))
      for (const backends::Policy& policy : kernel.policies) {
        if (kernel.op != backends::Op::decode || !kernel.refuses(uploaded->view(), device->info(), policy).empty())
          continue;
        CAPTURE(backend_id, kernel.variant, policy.name, info.simd_target);
        backends::PassPlan plan;
        plan.kernel = &kernel;
        plan.op = kernel.op;
        plan.policy = &policy;
        plan.layers = {uploaded.get()};
        const auto pass = backends::prepare(*device, plan);
        for (int round = 0; round < 2; ++round) {
          pass->poison_outputs(round);
          pass->run();
          const auto out = std::as_bytes(pass->decoded());
          CHECK((std::ranges::equal(out, elements) && pass->broken_guards().empty()));
        }
        ++ran;
      }
  }
  return ran;
}

// Streams that are hard on kernels: codes of up to 18 bits, of one bit, of 8, of all exponents; several blocks, odd
// shapes; f8.
inline std::vector<Matrix> hard_cases() {
  tests::Random random{6};
  const Matrix deep = deep_matrix(18, 1000),
               constant = bf16({5, 20011}, [&](int64_t) { return 120 << 7 | (random.next() & 0x807F); });
  const Matrix binary =
      bf16({3, 33333}, [&](int64_t) { return (120 + random.next() % 2) << 7 | (random.next() & 0x807F); });
  const Matrix flat = bf16({77, 555}, [&](int64_t) { return (random.next() % 240) << 7 | (random.next() & 0x807F); });
  // One row of one-bit codes beside rows of long ones.
  const Matrix uneven = bf16({40, 1030}, [&](int64_t i) {
    return (i / 1030 % 7 == 0 ? 120 : 60 + std::min(31, std::countr_zero(random.next() | 1u << 31))) << 7 |
           (random.next() & 0x807F);
  });
  const Matrix groups = bf16({64, 2008}, [&](int64_t i) {
    return (i / 2008 % 7 == 0 ? 120 : 60 + std::min(31, std::countr_zero(random.next() | 1u << 31))) << 7 |
           (random.next() & 0x807F);
  });
  return {deep,
          constant,
          binary,
          flat,
          uneven,
          groups,
          tests::bf16_matrix({96, 1003}),
          tests::bf16_matrix({1, 50000}),
          tests::bf16_matrix({3000, 17}),
          f8_matrix({70, 1001}),
          f8_matrix({1, 50001}),
          f8_matrix({3001, 3}),
          tests::make_typed_matrix("f8", ElementType::f8_e4m3, {64, 1024}, [](int64_t i) { return i; })};
}

// To be called outside of assertions, which take a skip for a failure.
inline void skip_without_emulator() {
  for (const backends::DeviceInfo& info : backends::find_backend("emulator")->devices())
    if (!info.unavailable.empty()) SKIP(info.unavailable);
}

}  // namespace ecmv::codecs::huffman_exponents::test_streams

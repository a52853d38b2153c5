// Claims about kernels that decode less than a matrix once they are timed, or are wrong now and then: whichever layer,
// call or byte it is.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "tests/experiments/check/measured.h"

using namespace ecmv;
using namespace ecmv::tests;
using reports::Status;

namespace {

constexpr int64_t kPlain = 1000;  // a byte that is in no row of marks which is always there

// The number of the layer, in the order in which layers were seen first.
size_t layer_of(const Stored& stored) {
  static std::vector<const int8_t*> layers;
  if (memory.calls == 0) layers.clear();
  const auto found = std::ranges::find(layers, stored.elements);
  if (found != layers.end()) return static_cast<size_t>(found - layers.begin());
  layers.push_back(stored.elements);
  return layers.size() - 1;
}

bool is_wiped(const std::byte* bytes, size_t count) {
  return (bytes[0] == std::byte{128} || bytes[0] == std::byte{127}) &&
         std::all_of(bytes, bytes + count, [&](std::byte b) { return b == bytes[0]; });
}

// Decodes the lines of the last layer that were wiped out, and leaves the others as they are.
void decode_what_is_wiped(const Stored& stored, const DecodeArgs& args) {
  const size_t layer = layer_of(stored);
  if (!memory.timed()) return decode(stored, args);
  const auto bytes = static_cast<size_t>(args.rows.count() * stored.shape.cols);
  if (layer + 1 < kLayers) {
    if (is_wiped(args.out, bytes)) decode(stored, args);
    return;
  }
  for (size_t at = 0; at < bytes; at += 64)
    if (is_wiped(args.out + at, std::min<size_t>(64, bytes - at)))
      std::memcpy(args.out + at, stored.elements + at, std::min<size_t>(64, bytes - at));
}
// Leaves the first layer as it finds it.
void decode_all_but_the_first_layer(const Stored& stored, const DecodeArgs& args) {
  const size_t layer = layer_of(stored);
  if (!memory.timed() || layer > 0) decode(stored, args);
}
template <size_t kLayer>
void decode_wrongly_in_each_tenth(const Stored& stored, const DecodeArgs& args) {
  static int64_t calls = 0;
  const size_t layer = layer_of(stored);
  decode(stored, args);
  if (memory.timed() && layer == kLayer && ++calls % 10 == 0) args.out[kPlain] ^= std::byte{1};
}
template <int64_t kCalls>
void decode_a_plain_byte_wrongly(const Stored& stored, const DecodeArgs& args) {
  decode(stored, args);
  if (memory.timed() && memory.calls % kCalls == 0) args.out[kPlain] ^= std::byte{1};
}

// Products: junk but for one call in eight, or one wrong number.
void multiply_one_of_eight(const Stored& stored, const MatvecArgs& args) {
  if (!memory.timed() || memory.calls / kLayers % 8 == 0) return multiply(stored, args);
  std::fill(args.y + args.rows.begin, args.y + args.rows.end, 1);
}
void multiply_tokens_one_of_eight(const Stored& stored, const MatmulArgs& args, int batch) {
  if (!memory.timed() || memory.calls / kLayers % 8 == 0) return multiply_tokens(stored, args, batch);
  for (int token = 0; token < batch; ++token)
    std::fill(args.y + token * args.y_stride + args.rows.begin, args.y + token * args.y_stride + args.rows.end, 1.f);
}
template <int64_t kCalls>
void multiply_tokens_wrongly_now_and_then(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  if (memory.timed() && memory.calls % kCalls == 0) args.y[7] += 1000;
}
// Wrong by one, which requantisation hides from the layers after it.
void multiply_the_first_layer_wrongly(const Stored& stored, const MatvecArgs& args) {
  const size_t layer = layer_of(stored);
  multiply(stored, args);
  if (memory.timed() && layer == 0 && memory.calls / kLayers % 10 == 0) args.y[7] += 1;
}

// Results by the vector that they are of, and by the first of the stored bytes.
struct Kept {
  std::vector<int8_t> x, begin;
  std::vector<int32_t> y;
};
void multiply_what_is_new(const Stored& stored, const MatvecArgs& args) {
  static std::map<const int8_t*, std::vector<Kept>> all;
  if (memory.calls++ == 0) all.clear();
  const std::span x(args.x, static_cast<size_t>(stored.shape.cols)), begin(stored.elements, 16);
  for (const Kept& kept : all[stored.elements])
    if (std::ranges::equal(kept.x, x) && std::ranges::equal(kept.begin, begin)) {
      std::ranges::copy(kept.y, args.y);
      return;
    }
  multiply(stored, args);
  all[stored.elements].push_back(
      {{x.begin(), x.end()}, {begin.begin(), begin.end()}, {args.y, args.y + stored.shape.rows}});
}

}  // namespace

TEST_CASE("a decoder that repairs what was wiped out is found out") {
  for (int time = 0; time < 3; ++time)
    expect_caught(make_kernel<decode_what_is_wiped>("repairs"), "the decoded matrix");
}

TEST_CASE("a layer that is not decoded, or wrong in each tenth pass, is found out, whichever it is") {
  expect_caught(make_kernel<decode_all_but_the_first_layer>("all but the first"), "layer 0: the decoded matrix");
  expect_caught(make_kernel<decode_wrongly_in_each_tenth<0>>("the first"), "layer 0: the decoded matrix differs");
  expect_caught(make_kernel<decode_wrongly_in_each_tenth<2>>("in the middle"), "layer 2: the decoded matrix differs");
  expect_caught(make_kernel<decode_wrongly_in_each_tenth<4>>("the last"), "layer 4: the decoded matrix differs");
}

TEST_CASE("a byte that is wrong in one of hundreds of calls is found out, wherever it is") {
  expect_caught(make_kernel<decode_a_plain_byte_wrongly<101>>("1 of 101 decodes"), "the decoded matrix differs");
  expect_caught(make_kernel<decode_a_plain_byte_wrongly<997>>("1 of 997 decodes"), "the decoded matrix differs");
}

TEST_CASE("products of timed passes are compared, not those of the last one alone") {
  expect_caught(make_kernel<multiply_one_of_eight>("1 of 8"), "differs");
  expect_caught(make_kernel<multiply_tokens_one_of_eight>("1 of 8, tokens"), "layer ");
  expect_caught(make_kernel<multiply_the_first_layer_wrongly>("the first layer"), "layer 0: W x differs at row 7");
  expect_caught(make_kernel<multiply_tokens_wrongly_now_and_then<997>>("1 of 997 products"), "layer ");
}

TEST_CASE("results that are kept for a vector, as long as a few stored bytes are the same, are found out") {
  expect_caught(make_kernel<multiply_what_is_new>("kept"), "keeps a copy", 256);
}

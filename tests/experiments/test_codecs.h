// Codecs and kernels that exist to be caught: each breaks one promise. All of them store the bytes of the matrix themselves.
#pragma once

#include <cstring>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "backends/kernel.h"
#include "codecs/registry.h"

namespace ecmv::tests {

using backends::KernelCall;
using backends::Op;

inline std::string accepts(datasets::MatrixView, const codecs::Settings&) { return {}; }
inline std::string rejects(datasets::MatrixView, const codecs::Settings&) { return "This codec refuses every matrix."; }

inline codecs::CompressedMatrix store(datasets::MatrixView matrix, const codecs::Settings& settings) {
  codecs::CompressedMatrix compressed = codecs::make_compressed(matrix, settings);
  compressed.sections.push_back({"elements", codecs::Role::payload, 64, {matrix.elements.begin(), matrix.elements.end()}});
  return compressed;
}

inline codecs::CompressedMatrix throw_on_encode(datasets::MatrixView, const codecs::Settings&) { throw std::runtime_error("The encoder gave up."); }

inline void restore(const codecs::CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != 1 || compressed.sections[0].bytes.size() != out.size()) throw codecs::MalformedStream("The stream has a wrong length.");
  if (!out.empty()) std::memcpy(out.data(), compressed.sections[0].bytes.data(), out.size());
}
inline void restore_wrongly(const codecs::CompressedView& compressed, std::span<std::byte> out) {
  restore(compressed, out);
  if (!out.empty()) out.back() ^= std::byte{1};
}
inline void throw_on_decode(const codecs::CompressedView&, std::span<std::byte>) { throw codecs::MalformedStream("The decoder gave up."); }
inline void throw_something_else(const codecs::CompressedView&, std::span<std::byte>) { throw std::out_of_range("vector::_M_range_check"); }

// Lossy: the lowest bit of each byte goes, so decoded elements are at most 1 below the source.
inline codecs::CompressedMatrix store_even(datasets::MatrixView matrix, const codecs::Settings& settings) {
  codecs::CompressedMatrix compressed = store(matrix, settings);
  for (std::byte& byte : compressed.sections[0].bytes) byte &= std::byte{0xFE};
  return compressed;
}
inline codecs::ErrorBound within_one(datasets::MatrixView, const codecs::Settings&) { return {0, 1}; }
inline codecs::ErrorBound within_a_tenth(datasets::MatrixView, const codecs::Settings&) { return {0, 0.1}; }
inline codecs::ErrorBound no_error(datasets::MatrixView, const codecs::Settings&) { return {}; }
inline double three_bits(datasets::MatrixView, const codecs::Settings&) { return 3; }

inline int64_t bound(datasets::Shape shape, const codecs::Settings&) { return shape.elements(); }
inline int64_t broken_bound(datasets::Shape shape, const codecs::Settings&) { return shape.elements() - 1; }

inline codecs::Codec make_codec() {
  codecs::Codec codec;
  codec.summary = "test only";
  codec.source = "tests/experiments";
  codec.refuses = accepts;
  codec.encode = store;
  codec.decode = restore;
  codec.max_stored_bytes = bound;
  return codec;
}

inline const int8_t* first_row(const KernelCall& call) {
  return reinterpret_cast<const int8_t*>(call.matrix->sections[0].bytes.data()) + call.row_begin * call.matrix->shape.cols;
}
inline int64_t elements_of(const KernelCall& call) { return (call.row_end - call.row_begin) * call.matrix->shape.cols; }

inline void decode(const KernelCall& call) { std::memcpy(call.decoded, first_row(call), elements_of(call)); }
inline void multiply(const KernelCall& call) {
  const int64_t cols = call.matrix->shape.cols;
  for (int64_t row = call.row_begin; row < call.row_end; ++row) {
    int32_t sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += first_row(call)[(row - call.row_begin) * cols + c] * call.x[c];
    call.y[row] = sum;
  }
}

// Each is right but for one thing.
inline void decode_beyond_the_end(const KernelCall& call) {
  decode(call);
  if (call.row_end == call.matrix->shape.rows) call.decoded[elements_of(call)] = 1;
}
inline void decode_all_but_one(const KernelCall& call) {
  if (call.row_begin > 0) return decode(call);
  std::memcpy(call.decoded, first_row(call), elements_of(call) - 1);
}
inline void decode_wrongly(const KernelCall& call) {
  decode(call);
  call.decoded[0] ^= 4;
}
inline void multiply_beyond_the_end(const KernelCall& call) {
  multiply(call);
  if (call.row_end == call.matrix->shape.rows) call.y[call.row_end] = 1;
}
inline void multiply_all_but_one(const KernelCall& call) {
  KernelCall less = call;
  if (call.row_begin == 0) less.row_begin = 1;
  multiply(less);
}
inline void multiply_wrongly(const KernelCall& call) {
  multiply(call);
  if (call.row_begin == 0) call.y[0] += 1;
}
inline void scribble_on_x(const KernelCall& call) {
  multiply(call);
  const_cast<int8_t*>(call.x)[call.matrix->shape.cols] = 1;
}
// Right for the first calls (those of tier 2a), wrong or idle later; the counter is reset by the test.
inline int calls_made = 0;
inline int right_calls = 0;
inline void throw_later(const codecs::CompressedView& compressed, std::span<std::byte> out) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (++calls_made > right_calls) throw codecs::MalformedStream("The decoder was called too often.");
  restore(compressed, out);
}
inline void multiply_wrongly_later(const KernelCall& call) {
  multiply(call);
  if (call.row_begin == 0 && ++calls_made > right_calls) call.y[0] += 1;
}
inline void multiply_lazily_later(const KernelCall& call) {
  if (call.row_begin > 0 || ++calls_made <= right_calls) multiply(call);
}

inline std::string kernel_rejects(const codecs::CompressedView&, const backends::DeviceInfo&, int) { return "This kernel refuses every matrix."; }

inline backends::Kernel make_kernel(Op op, void (*launch)(const KernelCall&)) {
  backends::Kernel kernel;
  kernel.op = op;
  kernel.variant = "test";
  kernel.tunings = backends::kDefaultTuning;
  kernel.refuses = backends::refuses_nothing;
  kernel.launch = launch;
  return kernel;
}

}  // namespace ecmv::tests

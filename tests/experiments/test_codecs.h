// Codecs and kernels made to be caught: each breaks one promise. All of them store the bytes of the matrix unchanged.
#pragma once

#include <cstring>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "backends/kernel.h"
#include "codecs/registry.h"

namespace ecmv::tests {

using backends::DecodeArgs;
using backends::MatmulArgs;
using backends::MatvecArgs;
using backends::Op;

inline std::string accepts(datasets::MatrixView, const backends::Settings&) { return {}; }
inline std::string rejects(datasets::MatrixView, const backends::Settings&) {
  return "This codec refuses every matrix.";
}

inline backends::CompressedMatrix store(datasets::MatrixView matrix, const backends::Settings& settings) {
  backends::CompressedMatrix compressed = codecs::make_compressed(matrix, settings);
  compressed.sections.push_back(
      {"elements", backends::Role::payload, 64, {matrix.elements.begin(), matrix.elements.end()}});
  return compressed;
}

inline backends::CompressedMatrix throw_on_encode(datasets::MatrixView, const backends::Settings&) {
  throw std::runtime_error("The encoder gave up.");
}

inline void restore(const backends::CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != 1 || compressed.sections[0].bytes.size() != out.size())
    throw codecs::MalformedStream("The stream has a wrong length.");
  if (!out.empty()) std::memcpy(out.data(), compressed.sections[0].bytes.data(), out.size());
}
inline void restore_wrongly(const backends::CompressedView& compressed, std::span<std::byte> out) {
  restore(compressed, out);
  if (!out.empty()) out.back() ^= std::byte{1};
}
inline void throw_on_decode(const backends::CompressedView&, std::span<std::byte>) {
  throw codecs::MalformedStream("The decoder gave up.");
}
inline void throw_something_else(const backends::CompressedView&, std::span<std::byte>) {
  throw std::out_of_range("vector::_M_range_check");
}

// Lossy: it drops the lowest bit of each byte, so decoded elements are at most 1 below the source.
inline backends::CompressedMatrix store_even(datasets::MatrixView matrix, const backends::Settings& settings) {
  backends::CompressedMatrix compressed = store(matrix, settings);
  for (std::byte& byte : compressed.sections[0].bytes) byte &= std::byte{0xFE};
  return compressed;
}
inline codecs::ErrorBound within_one(datasets::MatrixView, const backends::Settings&) { return {0, 1}; }
inline codecs::ErrorBound within_a_tenth(datasets::MatrixView, const backends::Settings&) { return {0, 0.1}; }
inline codecs::ErrorBound no_error(datasets::MatrixView, const backends::Settings&) { return {}; }
inline double three_bits(datasets::MatrixView, const backends::Settings&) { return 3; }

inline int64_t bound(datasets::Shape shape, const backends::Settings&) { return shape.elements(); }
inline int64_t broken_bound(datasets::Shape shape, const backends::Settings&) { return shape.elements() - 1; }

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

// --- kernels, as functions of the stored bytes and of the args of an op
// ------------------------------------------------
struct Stored {
  const int8_t* elements;
  datasets::Shape shape;
  const int8_t* row(int64_t row) const { return elements + row * shape.cols; }
};

inline void decode(const Stored& stored, const DecodeArgs& args) {
  std::memcpy(args.out, stored.row(args.rows.begin), args.rows.count() * stored.shape.cols);
}
inline void multiply(const Stored& stored, const MatvecArgs& args) {
  for (int64_t row = args.rows.begin; row < args.rows.end; ++row) {
    int32_t sum = 0;
    for (int64_t c = 0; c < stored.shape.cols; ++c) sum += stored.row(row)[c] * args.x[c];
    args.y[row] = sum;
  }
}
inline void multiply_tokens(const Stored& stored, const MatmulArgs& args, int batch) {
  for (int64_t row = args.rows.begin; row < args.rows.end; ++row)
    for (int token = 0; token < batch; ++token) {
      float sum = 0;
      for (int64_t c = 0; c < stored.shape.cols; ++c)
        sum += static_cast<float>(stored.row(row)[c]) * args.x[token * args.x_stride + c];
      args.y[token * args.y_stride + row] = sum;
    }
}

// Each kernel makes one mistake.
inline void decode_beyond_the_end(const Stored& stored, const DecodeArgs& args) {
  decode(stored, args);
  if (args.rows.end == stored.shape.rows) args.out[args.rows.count() * stored.shape.cols] ^= std::byte{1};
}
inline void decode_all_but_one(const Stored& stored, const DecodeArgs& args) {
  if (args.rows.begin > 0) return decode(stored, args);
  std::memcpy(args.out, stored.elements, args.rows.count() * stored.shape.cols - 1);
}
inline void decode_wrongly(const Stored& stored, const DecodeArgs& args) {
  decode(stored, args);
  args.out[0] ^= std::byte{4};
}
inline void multiply_beyond_the_end(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  if (args.rows.end == stored.shape.rows) args.y[args.rows.end] = 1;
}
inline void multiply_all_but_one(const Stored& stored, const MatvecArgs& args) {
  MatvecArgs less = args;
  if (args.rows.begin == 0) less.rows.begin = 1;
  multiply(stored, less);
}
inline void multiply_wrongly(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  if (args.rows.begin == 0) args.y[0] += 1;
}
inline void scribble_on_x(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  const_cast<int8_t*>(args.x)[stored.shape.cols] = 1;
}
// Right for the first calls (tier 2a), wrong or idle later; the counter is reset by the test.
inline int calls_made = 0;
inline int right_calls = 0;
inline void throw_later(const backends::CompressedView& compressed, std::span<std::byte> out) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (++calls_made > right_calls) throw codecs::MalformedStream("The decoder was called too often.");
  restore(compressed, out);
}
inline void multiply_wrongly_later(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  if (args.rows.begin == 0 && ++calls_made > right_calls) args.y[0] += 1;
}
inline void multiply_lazily_later(const Stored& stored, const MatvecArgs& args) {
  if (args.rows.begin > 0 || ++calls_made <= right_calls) multiply(stored, args);
}

inline std::string kernel_rejects(const backends::CompressedView&, const backends::DeviceInfo&,
                                  const backends::Policy&) {
  return "This kernel refuses every matrix.";
}

inline Op op_of(void (*)(const Stored&, const DecodeArgs&)) { return Op::decode; }
inline Op op_of(void (*)(const Stored&, const MatvecArgs&)) { return Op::matvec; }
inline Op op_of(void (*)(const Stored&, const MatmulArgs&, int batch)) { return Op::matmul; }

template <auto kRun>
struct Body;
template <typename Args, void (*kRun)(const Stored&, const Args&)>
struct Body<kRun> {
  Stored stored;
  int batch;
  void operator()(void*, const Args& args) const { kRun(stored, args); }
};
template <void (*kRun)(const Stored&, const MatmulArgs&, int batch)>
struct Body<kRun> {
  Stored stored;
  int batch;
  void operator()(void*, const MatmulArgs& args) const { kRun(stored, args, batch); }
};

template <auto kRun>
backends::BoundKernel bind(const backends::Policy&, backends::Layers layers, int batch, backends::Place&) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  return Body<kRun>{{reinterpret_cast<const int8_t*>(matrix.sections[0].bytes.data()), matrix.shape}, batch};
}

template <auto kRun>
backends::Kernel make_kernel(std::string_view variant = "test") {
  return {.op = op_of(kRun), .variant = variant, .bind = bind<kRun>};
}

}  // namespace ecmv::tests

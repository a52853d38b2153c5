// Kernel: what cpu.cpp, simd.cpp and gpu.cu of a codec's folder hand out. On CPUs a kernel works on a range of rows that
// begins at a multiple of its block of rows; on GPUs one launch covers the whole matrix and ends in the requantised
// vector. The backend owns threads, streams, memory and time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "codecs/compressed_matrix.h"

namespace ecmv::backends {

// decode: the elements themselves, [rows, cols].   matvec: y = W x with int32 accumulation, of int8 elements.
// matmul: Y = W X in float32 for a batch of tokens (one: a float matvec), elements of any type taken as numbers.
// size: nothing runs, an experiment only records what is stored; no kernel has it and no backend is asked for it.
enum class Op : uint8_t { decode, matvec, matmul, size };
std::string_view op_name(Op op);

// A compile-time variant of a kernel; its position in Kernel::tunings is the number a launch gets.
struct Tuning {
  std::string_view name;  // e.g. "rows4"; "default" where there is only one
};

// What a kernel may ask about the place it shall run.
struct DeviceInfo {
  std::string backend;      // "scalar", "simd", "cuda", ...
  std::string name;         // model name of the CPU or GPU
  // The instruction set in use: Highway's name, a GPU's architecture ("sm_90", "gfx90a"), the emulator's width
  // ("wave64"); empty where there is none.
  std::string simd_target;
  int threads = 1;          // of the host; 1 on GPUs
  int64_t l1d_bytes = 0;      // of one core; 0: unknown
  int64_t l2_bytes = 0;       // of one core; of a GPU, where it is the last level, the whole
  int64_t llc_bytes = 0;      // last-level cache, shared
  int64_t memory_bytes = 0;   // total
  std::string unavailable;    // why it cannot be used; empty if it can
  bool emulated = false;      // verified, but never timed against others
  // GPUs only.
  int wave_size = 0;          // lanes that run in step: 32 or 64
  int compute_units = 0;      // streaming multiprocessors
  int64_t shared_bytes = 0;   // of memory that a thread block may ask for
  double clock_hz = 0;        // highest of the compute units; 0: unknown
  double memory_clock_hz = 0; // highest; 0: unknown
  std::string driver;         // its version and the runtime's
};

// Readable (not writable) zero bytes behind the last element of x: kernels may load whole vectors.
inline constexpr int64_t kVectorPaddingBytes = 64;
// Tokens that one matmul multiplies at most.
inline constexpr int kMaxBatch = 64;

// One call. All pointers are in the backend's memory. Elements of x beyond cols read as zero up to
// kVectorPaddingBytes; nothing may be read outside the sections, x and the scratch, or written outside the
// rows' results and the scratch. On GPUs the call is for all rows (row_begin is 0, row_end the rows), a matvec kernel
// writes both y and v, and the launch is asynchronous on the stream.
struct KernelCall {
  const codecs::CompressedView* matrix = nullptr;
  int tuning = 0;
  int64_t row_begin = 0;          // multiple of rows_per_block()
  int64_t row_end = 0;            // multiple of rows_per_block(), or matrix->shape.rows
  const int8_t* x = nullptr;      // [cols] matvec only; 64-byte aligned
  int32_t* y = nullptr;           // [rows] matvec only: y[row_begin..row_end) are written; the whole vector's base
  int8_t* decoded = nullptr;      // decode only: bytes; row_begin's first element is written to decoded[0]
  // matmul only.
  int batch = 0;                  // tokens, 1 to kMaxBatch
  const float* x_tokens = nullptr;  // [batch, cols]: token t begins at x_tokens + t * x_stride, 64-byte aligned, zeros behind its cols elements
  int64_t x_stride = 0;           // a multiple of 16, at least cols + kVectorPaddingBytes / 4
  float* y_tokens = nullptr;      // [batch, rows], the whole result's base: y_tokens[t * rows + row] is written for the call's rows
  // scratch_bytes() bytes of this thread's own, 64-byte aligned; on GPUs of the launch's, 256-byte aligned.
  std::byte* scratch = nullptr;
  // GPUs only.
  int8_t* v = nullptr;            // [rows] matvec: requantise(y, scale)
  float scale = 0;
  void* stream = nullptr;         // the backend's stream (gpu::Stream)
  const DeviceInfo* device = nullptr;
};

// How far results of a matmul kernel may lie from the exact product of the decoded elements: with n = cols + more_roundings, u = 2^-24 and
// g = n u / (1 - n u), |y - W x| <= (g + narrowing) * sum over the columns of (|w| + offset) * |x|. By default: float32 products summed in any
// order (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
struct ProductRounding {
  int more_roundings = 0;  // e.g. of a scale that is applied to the sum
  double offset = 0;       // what the kernel multiplies apart from the elements and adds, e.g. twice the magnitude of a zero point
  double narrowing = 0;    // relative error of rounding factors to a narrower type before they are multiplied
};

struct Kernel {
  Op op = Op::decode;
  std::string_view variant;  // names a method ("interleaved"), not a machine
  std::span<const Tuning> tunings;
  // "" if this kernel can run this matrix on this device, otherwise the reason as a sentence. Never null. On the
  // backend `simd` it is asked with the instruction set already chosen, so it may go through dynamic dispatch.
  std::string (*refuses)(const codecs::CompressedView&, const DeviceInfo&, int tuning) = nullptr;
  // Rows of one independently decodable block (the last may be shorter); null means 1. At least 1.
  int64_t (*rows_per_block)(const codecs::CompressedView&) = nullptr;
  // Bytes of scratch for each thread; null means none.
  int64_t (*scratch_bytes)(const codecs::CompressedView&, int tuning) = nullptr;
  // matmul: null means a ProductRounding{}.
  ProductRounding (*rounding)(const codecs::CompressedView&, int tuning) = nullptr;
  // Runs on one thread; several threads run disjoint row ranges at once. Never allocates, synchronises or throws. The
  // stream has been verified by the reference decoder before.
  void (*launch)(const KernelCall&) = nullptr;

  // GPUs only, op matvec, and instead of `launch` and `scratch_bytes`, which are null: all layers of a chain in one launch. Layer k's x is
  // layer k-1's v (at least one layer; `refuses` is asked for each). Every layer's y and v are written as by `launch`; the kernel
  // may hand results on by another way. All calls have the same tuning, stream, device and scratch.
  // Bytes of scratch for such a chain; of the calls only matrix, tuning and device are set.
  int64_t (*chain_scratch_bytes)(std::span<const KernelCall>) = nullptr;
  // Once and untimed, on the stream, before the first launch_chain with the same calls: writes to scratch what the launches need to find
  // there, however many follow. Not inside a capture.
  void (*prepare_chain)(std::span<const KernelCall>) = nullptr;
  // Like `launch`; may be captured and replayed, one launch of a scratch after the other.
  void (*launch_chain)(std::span<const KernelCall>) = nullptr;
  bool runs_chains() const { return launch_chain != nullptr; }
};

// The tunings of a kernel with one form only.
inline constexpr Tuning kDefaultTuning[] = {{"default"}};

// A `refuses` for kernels that run everything everywhere.
std::string refuses_nothing(const codecs::CompressedView&, const DeviceInfo&, int tuning);

}  // namespace ecmv::backends

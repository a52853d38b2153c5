// Memory images: the arrays that small programs leave in memory, with the type of their elements. Every workload really
// runs. It uses + - * / and square roots of IEEE numbers and integers in a fixed order, so that the same seed gives the
// same bytes on every platform (floating-point contraction is off in the build). Each family of workloads has a file
// workloads_*.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "datasets/matrix.h"

namespace ecmv::datasets {

// A cache line, the least that memory transfers: four sectors of 32 bytes. Arrays begin and end at its borders.
inline constexpr size_t kCacheLineBytes = 128;

template <class T>
constexpr ElementType element_type_of() {
  static_assert(std::is_arithmetic_v<T>);
  if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? ElementType::f32 : ElementType::f64;
  constexpr bool is_signed = std::is_signed_v<T>;
  switch (sizeof(T)) {
    case 1: return is_signed ? ElementType::i8 : ElementType::u8;
    case 2: return is_signed ? ElementType::i16 : ElementType::u16;
    case 4: return is_signed ? ElementType::i32 : ElementType::u32;
    default: return is_signed ? ElementType::i64 : ElementType::u64;
  }
}

struct MemoryArray {
  std::string name;
  ElementType type = ElementType::u8;
  std::vector<std::byte> bytes;  // filled up with zeros to whole cache lines
};

struct MemoryImage {
  std::vector<MemoryArray> arrays;

  // Keeps a copy of the array as it is now.
  template <class T>
  void capture(std::string name, const std::vector<T>& elements) {
    MemoryArray array{std::move(name), element_type_of<T>(),
                      std::vector<std::byte>((elements.size() * sizeof(T) + kCacheLineBytes - 1) / kCacheLineBytes *
                                             kCacheLineBytes)};
    if (!elements.empty()) std::memcpy(array.bytes.data(), elements.data(), elements.size() * sizeof(T));
    arrays.push_back(std::move(array));
  }
  // Several arrays, each after its name.
  template <class T, class... More>
  void capture(std::string name, const std::vector<T>& elements, const More&... more) {
    capture(std::move(name), elements);
    capture(more...);
  }
};

template <class... NamesAndArrays>
MemoryImage image_of(const NamesAndArrays&... names_and_arrays) {
  MemoryImage image;
  image.capture(names_and_arrays...);
  return image;
}

// The random numbers of all workloads: SplitMix64.
class WorkloadRandom {
 public:
  explicit WorkloadRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t bound) { return static_cast<int64_t>(next() % static_cast<uint64_t>(bound)); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double normal() {  // the sum of 12 uniforms, near enough to a normal variate
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

struct Workload {
  std::string_view name, summary;
  // Seen workloads may train a codec, on a part of their blocks; unseen ones never do. workload.cpp has the rule.
  bool seen = true;
  MemoryImage (*run)(uint64_t seed) = nullptr;
};

// The programs, by family; workload.cpp lists them.
namespace workloads {
using Program = MemoryImage(uint64_t seed);
Program gemm, lu, covariance, fft, nbody, molecular_dynamics, gemm_int8;                                     // dense
Program spmv, conjugate_gradient, spmm;                                                                      // sparse
Program heat, fdtd, life, sobel, integral_image;                                                             // stencil
Program bfs, shortest_paths, pagerank, union_find;                                                           // graph
Program histogram, radix_sort, merge_logs, smith_waterman, fir, kmeans, hash_join, monte_carlo, mandelbrot;  // integer
Program convolution, quantised_mlp, attention, backpropagation;                                              // neural
}  // namespace workloads

}  // namespace ecmv::datasets

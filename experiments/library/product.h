// A product of a stored matrix on memory that the caller owns: kernels for every number of tokens, bound once, with
// memory for them. It uses the backends' kernels and steps without a pass, which would copy its inputs and results.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "backends/executor.h"
#include "backends/pass/pass_place.h"
#include "experiments/library/handles.h"

namespace ecmv::library {

struct ProductRequest {
  int64_t max_tokens = 1;
  backends::Activations x = backends::Activations::f32, y = backends::Activations::f32;
  const std::byte* bias = nullptr;
  std::vector<std::span<const std::byte>> sections;  // in the device's memory; none: the library's copy
};

// The place of a call's tokens or results. Strides are in elements.
struct Tokens {
  const std::byte* place = nullptr;
  int64_t stride = 0;
};

class Product {
 public:
  // Throws Failure, OutOfMemory.
  Product(const Devices& devices, const ecmv_compressed_matrix& matrix, ProductRequest request);
  Product(const Product&) = delete;
  ~Product();
  // One call at a time. Throws Failure.
  void enqueue(void* stream, Tokens x, int64_t tokens, Tokens y);
  // Waits for all work of the devices.
  void wait();
  int64_t scratch_bytes() const { return scratch_bytes_; }
  // nullptr: not so many tokens.
  const char* kernel(int64_t tokens) const;

 private:
  // A device with its executor. The devices of one product use the same memory.
  struct Engine {
    explicit Engine(std::shared_ptr<backends::Device> of)
        : device(std::move(of)), executor(device->executor(false)), place(*executor) {}
    std::shared_ptr<backends::Device> device;
    std::unique_ptr<backends::Executor> executor;
    backends::PassPlace place;
  };
  // The kernel for up to `batch` tokens at once.
  struct Part {
    int batch = 0;
    Engine* engine = nullptr;
    backends::Activations activations = backends::Activations::f32;  // that it reads
    backends::BoundKernel decode, product;
    std::string kernel;
  };

  void take_sections(const ecmv_compressed_matrix& matrix);
  void expect_same_bytes(std::span<const std::byte> section, const backends::Section& stored);
  void bind_part(int batch);
  bool try_kernels(Part& part, Engine& engine, backends::Op op, backends::Activations activations);
  bool try_policy(Part& part, Engine& engine, const backends::Kernel& kernel, const backends::Policy& policy);
  void use_reference(Part& part);
  void multiply_decoded(Part& part);
  void allocate();
  void run_all_once();
  const Part& part_for(int64_t tokens) const;
  void enqueue_part(const Part& part, void* stream, Tokens x, int tokens, Tokens y);
  void expect_usable(const std::byte* place, int64_t bytes, const std::string& what) const;
  void expect_call(const Tokens& x, int64_t tokens, const Tokens& y) const;

  const codecs::CodecEntry& entry_;
  const ProductRequest request_;
  backends::Settings settings_;
  std::deque<std::vector<std::byte>> headers_;  // that the view shows, of sections on a device
  backends::CompressedView own_view_;           // of the caller's sections
  std::shared_ptr<backends::UploadedMatrix> uploaded_;
  const backends::CompressedView* view_ = nullptr;
  std::deque<Engine> engines_;
  std::deque<Part> parts_;  // ascending; kernels point into them
  std::string first_reason_;
  // Of the first engine's memory.
  std::array<std::unique_ptr<backends::Buffer>, 2> tokens_;  // by activations, [batch, token_stride]
  std::unique_ptr<backends::Buffer> sums_;
  std::vector<std::unique_ptr<backends::Buffer>> scratch_;
  int64_t scratch_bytes_ = 0;
};

}  // namespace ecmv::library

// A product of a stored matrix on memory that the caller owns: kernels for every number of tokens, bound once, with
// memory for them. It uses the backends' kernels and steps without a pass, which would copy its inputs and results.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/pass/pass_place.h"
#include "experiments/library/product/placed_matrix.h"
#include "experiments/library/product/workspace.h"

namespace ecmv::library {

struct ProductRequest {
  int64_t max_tokens = 1;
  backends::Activations x = backends::Activations::f32, y = backends::Activations::f32;
  const std::byte* bias = nullptr;
  bool measure = false;  // kernels, and take the fastest
};

// The place of a call's tokens or results. Strides are in elements.
struct Tokens {
  const std::byte* place = nullptr;
  int64_t stride = 0;
};

class Product {
 public:
  // Throws Failure, OutOfMemory.
  Product(std::shared_ptr<Workspace> workspace, PlacedMatrix matrix, ProductRequest request);
  Product(const Product&) = delete;
  ~Product();
  // One call at a time. Throws Failure.
  void enqueue(void* stream, Tokens x, int64_t tokens, Tokens y);
  void wait() { workspace_->wait(); }
  int64_t scratch_bytes() const { return piece_->bytes(); }
  // nullptr: not so many tokens.
  const char* kernel(int64_t tokens) const;

 private:
  using Engine = Workspace::Engine;
  // The kernel for up to `batch` tokens at once.
  struct Part {
    int batch = 0;
    Engine* engine = nullptr;                                        // of the workspace
    backends::Activations activations = backends::Activations::f32;  // that it reads
    backends::BoundKernel decode, product;
    std::unique_ptr<backends::PassPlace> place;  // of the bindings
    std::string kernel;
    bool is_unfused = false;  // it decodes the matrix, and a BLAS or plain loops multiply
  };
  // A way to multiply: a kernel of an engine with one of its policies.
  struct Candidate {
    Engine* engine;
    const backends::Kernel* kernel;
    const backends::Policy* policy;
    std::string name() const;
  };

  std::vector<Candidate> candidates(int batch);
  bool is_affordable(const Part& part) const;
  std::unique_ptr<Part> bind_part(int batch);
  std::unique_ptr<Part> first_part(const std::vector<Candidate>& candidates, int batch);
  std::unique_ptr<Part> fastest_part(const std::vector<Candidate>& candidates, int batch);
  std::string key_of(int batch) const;
  double measured_seconds(const Part& part);
  // nullptr: the kernel does not take the matrix.
  std::unique_ptr<Part> try_candidate(const Candidate& candidate, int batch);
  std::unique_ptr<Part> reference_part(int batch);
  void multiply_decoded(Part& part);
  Workspace::Needs needs_of(const Part& part) const;
  Workspace::Needs needs() const;
  void run_all_once();
  const Part& part_for(int64_t tokens) const;
  backends::MatmulArgs product_args(const Part& part, const Workspace::Piece& piece) const;
  bool reads_in_place(const Part& part, Tokens x, int tokens) const;
  bool stores_in_place(const Part& part, int tokens, Tokens y) const;
  static bool takes(const Part& part, int tokens);
  // `in_place`: where the kernel can.
  void enqueue_part(const Part& part, void* stream, Tokens x, int tokens, Tokens y, bool in_place = true);
  void expect_usable(const std::byte* place, int64_t bytes, const std::string& what) const;
  void expect_call(const Tokens& x, int64_t tokens, const Tokens& y) const;

  const std::shared_ptr<Workspace> workspace_;
  const PlacedMatrix matrix_;
  const codecs::CodecEntry& entry_;
  const backends::CompressedView* const view_;
  const ProductRequest request_;
  std::vector<std::unique_ptr<Part>> parts_;  // ascending; kernels point into them
  std::string first_reason_;
  std::shared_ptr<Workspace::Piece> piece_;
};

}  // namespace ecmv::library

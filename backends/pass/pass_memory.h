// The memory of a pass: all that its layers read and write, each buffer between guard zones. For pass.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/pass/pass_plan.h"

namespace ecmv::backends {

// Outputs hold these values before a checked run, so that an element nobody wrote is not right by chance. Four bytes of
// this one are a NaN.
inline constexpr int kPoisonFloat = 0xFF;
// As int32 it lies beyond every sum of fewer than 125,000 products of bytes.
inline constexpr int kPoison32 = 0x85;
// Neither zero nor a likely symbol, so that no table or offset left in the scratch is still valid.
inline constexpr int kPoisonScratch = 0xA7;
constexpr int poison8(int round) { return round == 0 ? -128 : 127; }

inline int64_t matrix_bytes(const CompressedView& view) {
  return view.shape.elements() * datasets::element_bytes(view.type);
}

struct LayerMemory {
  const CompressedView* view = nullptr;
  int64_t vector_rows = 0;  // elements of v
  int64_t first_row = 0;    // where this rank's rows begin in v
  // Where ranks gather: the byte at which each rank's part of v or y begins, and the end, [ranks + 1]. In y every
  // rank's products are [batch, its rows], aligned like a buffer of their own.
  std::vector<int64_t> gathered = {};
  int64_t first_float = 0;              // where this rank's products begin in y
  const int8_t* x = nullptr;            // matvec: the input, or the v of the layer before
  std::unique_ptr<Buffer> y;            // matvec: [rows] int32; matmul: [batch, rows] float, or as `gathered` says
  std::unique_ptr<Buffer> v;            // matvec: [vector_rows] int8 and kVectorPaddingBytes zeros
  std::unique_ptr<Buffer> tokens;       // matmul: [batch, token_stride(cols)] activations
  Activations kind = Activations::f32;  // of the tokens in memory
  std::unique_ptr<Buffer> scales;       // matmul of quantised elements: their scales as stored

  int32_t* sums() const { return reinterpret_cast<int32_t*>(y->data()); }
  int8_t* own_rows() const { return reinterpret_cast<int8_t*>(v->data()) + first_row; }
  float* own_products() const { return reinterpret_cast<float*>(y->data()) + first_float; }
  int64_t rows() const { return view->shape.rows; }
};

class PassMemory {
 public:
  // Allocates all but the scratch and writes the inputs. `plan` outlives this: guards compare with its values, and
  // set_input changes them.
  PassMemory(PassPlan& plan, Executor& executor);

  const std::vector<LayerMemory>& layers() const { return layers_; }
  const LayerMemory& operator[](size_t layer) const { return layers_[layer]; }
  const Buffer* decoded() const { return decoded_.get(); }

  // Takes [workers] sizes. From now on every enqueue gets its worker's scratch.
  void allocate_scratch(std::span<const int64_t> bytes);
  // See Pass::set_input and Pass::poison_outputs.
  void set_input(size_t layer, std::span<const std::byte> bytes);
  void poison_outputs(int round) const;
  void poison_scratch() const;
  // The marks of a round whose places change: the second row of a decoded matrix, and the scratch, each worker's by
  // itself. The host's scratch is small and filled as a whole; a device's gets a row of marks. (H200: with a fill of
  // cuBLAS's workspace its pass of two layers of 8192 x 8192, 64 tokens, took 84 us, without 77.)
  std::vector<Step> moving_marks(int round) const;
  // "" while every guard zone is intact and nobody wrote to an input.
  std::string broken() const;

 private:
  std::unique_ptr<Buffer> filled(std::span<const std::byte> bytes, int64_t zeros, const std::string& what);
  void add_layer(size_t index, const CompressedView& view);
  void add_vectors(LayerMemory& layer, size_t index);
  void add_products(LayerMemory& layer, size_t index);
  std::string broken_outputs(size_t index) const;
  std::string broken_vectors() const;
  std::string broken_tokens() const;

  PassPlan& plan_;
  Executor& executor_;
  std::vector<std::unique_ptr<Buffer>> inputs_, scratch_;
  std::unique_ptr<Buffer> decoded_;  // of decode, as large as the largest layer
  std::vector<LayerMemory> layers_;
};

}  // namespace ecmv::backends

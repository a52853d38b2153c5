// A pass on the CPU: one parallel region over all layers with a barrier behind each, rows split into contiguous runs of
// whole blocks, one run a thread. Requantisation follows on the rows a thread has just computed.
#pragma once

#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/guarded_buffer.h"
#include "backends/cpu/team.h"

namespace ecmv::backends::cpu {

// The second halves of unfused products, see dense_matvec.h and dense_matmul.h.
struct DenseProducts {
  void (*matvec)(const int8_t* w, int64_t rows, int64_t cols, const int8_t* x, int32_t* y);
  void (*matmul)(datasets::ElementType type, const std::byte* w, int64_t rows, int64_t cols, const float* x, int64_t x_stride, int batch, float* y, int64_t y_stride);
};

// Makes dynamic dispatch choose this instruction set (a bit of Highway's) for the whole process; 0 lets the best supported one be
// chosen again.
void select_target(int64_t target);

class CpuPass final : public Pass {
 public:
  // `dense` multiplies tiles of unfused products; `target` is the instruction set to select before anything runs.
  CpuPass(const PassPlan& plan, Team team, DenseProducts dense, int64_t target);
  double run() override;
  void run_layer(int layer) override;
  void poison_outputs(int round) override;
  std::span<const int32_t> accumulators(int layer) override;
  std::span<const int8_t> outputs(int layer) override;
  std::span<const float> products(int layer) override;
  std::span<const int8_t> decoded() override;
  std::string broken_guards() const override;

 private:
  struct Layer {
    const codecs::CompressedView* view = nullptr;
    const int8_t* x = nullptr;
    GuardedBuffer y, v;  // [rows] int32; [rows] int8 and kVectorPaddingBytes zeros
    GuardedBuffer x_tokens, y_tokens;  // matmul: [batch, x_stride] and [batch, rows] float
    int64_t x_stride = 0;
    int64_t rows_per_block = 1;
    int64_t rows_per_tile = 0;  // unfused products: rows decoded to the scratch at a time
  };
  void add_layer(const UploadedMatrix& uploaded);
  void run_rows(Layer& layer, int layer_index, int thread);
  void multiply_tiles(const Layer& layer, KernelCall call, int64_t row_begin, int64_t row_end, std::byte* tile);
  void multiply_dense(const Layer& layer, const std::byte* w, int64_t row, int64_t rows);
  void requantise_rows(Layer& layer, int layer_index, int64_t row_begin, int64_t row_end);
  void run_reference(Layer& layer);
  std::string broken_inputs() const;
  bool unfused() const { return plan_.op != Op::decode && (plan_.kernel == nullptr || plan_.kernel->op == Op::decode); }

  PassPlan plan_;
  Team team_;
  DenseProducts dense_;
  int64_t target_;
  std::vector<Layer> layers_;
  std::vector<GuardedBuffer> inputs_;
  std::vector<GuardedBuffer> scratch_, tiles_;  // one a thread
  GuardedBuffer decoded_;
  int64_t decoded_bytes_ = 0;  // of the layer that ran last
  std::vector<int8_t> downloaded_;
  std::vector<float> downloaded_products_;
};

}  // namespace ecmv::backends::cpu

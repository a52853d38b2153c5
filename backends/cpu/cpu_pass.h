// A pass on the CPU: one parallel region over all layers with a barrier behind each, rows split into contiguous runs of
// whole blocks, one run a thread. Requantisation follows on the rows a thread has just computed.
#pragma once

#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/guarded_buffer.h"
#include "backends/cpu/team.h"

namespace ecmv::backends::cpu {

using DenseProduct = void (*)(const int8_t* w, int64_t rows, int64_t cols, const int8_t* x, int32_t* y);

// Makes dynamic dispatch choose this instruction set (a bit of Highway's) for the whole process; 0 lets the best supported one be
// chosen again.
void select_target(int64_t target);

class CpuPass final : public Pass {
 public:
  // `dense` multiplies tiles of unfused products; `target` is the instruction set to select before anything runs.
  CpuPass(const PassPlan& plan, Team team, DenseProduct dense, int64_t target);
  double run() override;
  void run_layer(int layer) override;
  void poison_outputs(int round) override;
  std::span<const int32_t> accumulators(int layer) override;
  std::span<const int8_t> outputs(int layer) override;
  std::span<const int8_t> decoded() override;
  std::string broken_guards() const override;

 private:
  struct Layer {
    const codecs::CompressedView* view = nullptr;
    const int8_t* x = nullptr;
    GuardedBuffer y, v;  // [rows] int32; [rows] int8 and kVectorPaddingBytes zeros
    int64_t rows_per_block = 1;
    int64_t rows_per_tile = 0;  // unfused products: rows decoded to the scratch at a time
  };
  void run_rows(Layer& layer, int layer_index, int thread);
  void multiply_tiles(const Layer& layer, KernelCall call, int64_t row_begin, int64_t row_end, std::byte* tile);
  void run_reference(Layer& layer);
  bool unfused() const { return plan_.op == Op::matvec && (plan_.kernel == nullptr || plan_.kernel->op == Op::decode); }

  PassPlan plan_;
  Team team_;
  DenseProduct dense_;
  int64_t target_;
  std::vector<Layer> layers_;
  std::vector<GuardedBuffer> inputs_;
  std::vector<GuardedBuffer> scratch_, tiles_;  // one a thread
  GuardedBuffer decoded_;
  int64_t decoded_bytes_ = 0;  // of the layer that ran last
  std::vector<int8_t> downloaded_;
};

}  // namespace ecmv::backends::cpu

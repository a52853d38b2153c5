// A pass on a GPU: one launch a layer (decode and product where it is unfused), or one for all layers where the kernel runs chains, on a
// stream of its own, the last vector copied to page-locked memory at the end, all of it replayed as one captured graph. Seconds
// are the device's, between two events.
#pragma once

#include <vector>

#include "backends/backend.h"
#include "backends/gpu/gpu_buffer.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

class GpuPass final : public Pass {
 public:
  // `device` must outlive the pass; `index` is its number among the backend's devices. Throws OutOfMemory, and
  // std::invalid_argument where there is no kernel: a GPU does not run reference decoders.
  GpuPass(const PassPlan& plan, const DeviceInfo& device, int index);
  ~GpuPass() override;
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
    GpuBuffer y, v;  // [rows] int32; [rows] int8 and kVectorPaddingBytes zeros
    GpuBuffer x_tokens, y_tokens;  // matmul: [batch, token_stride(cols)] and [batch, rows] float
    std::vector<float> host_products;
    std::vector<int32_t> host_y;
    std::vector<int8_t> host_v;
  };
  // Layers that one launch of a kernel that runs chains is for, and what it was prepared with.
  struct Chain {
    std::vector<KernelCall> calls;
    GpuBuffer scratch;
  };
  bool unfused() const { return plan_.op != Op::decode && plan_.kernel->op == Op::decode; }
  bool runs_chains() const { return plan_.kernel->runs_chains(); }
  void add_layer(const UploadedMatrix& uploaded);
  int64_t result_bytes(const Layer& layer) const;  // of what run() downloads
  KernelCall call_of(size_t index);
  // Makes and prepares a chain of these layers, if that has not been done.
  Chain& prepared(Chain& chain, size_t first, size_t count);
  void prepare_chains();
  void launch_layer(size_t index);
  void launch_all();
  std::string broken_vector(const GpuBuffer& vector, int64_t used) const;
  std::string broken_inputs() const;
  std::string broken_outputs() const;

  PassPlan plan_;
  const DeviceInfo& device_;
  int index_;
  Stream stream_;
  Timer timer_;
  Graph graph_;
  std::vector<Layer> layers_;
  std::vector<GpuBuffer> inputs_;
  GpuBuffer decoded_;  // of decode, and what an unfused product multiplies
  GpuBuffer scratch_;
  Chain whole_;                // all layers, if they are chained
  std::vector<Chain> singles_;  // [layers], one layer each
  std::byte* downloaded_ = nullptr;  // page-locked
  int64_t decoded_bytes_ = 0;        // of the layer that ran last
  std::vector<int8_t> host_decoded_;
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

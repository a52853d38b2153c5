// See cpu_executor.h.
#include "backends/cpu/cpu_executor.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <vector>

#include "backends/activations.h"
#include "backends/cpu/crew.h"
#include "backends/cpu/foreign/surroundings.h"
#include "backends/cpu/guarded_buffer.h"
#include "backends/cpu/products/element_numbers.h"
#include "backends/cpu/products/panel_product.h"
#include "datasets/numbers.h"

#include "hwy/targets.h"

namespace ecmv::backends::cpu {
namespace {

// Decoded bytes of an unfused product before it multiplies them: a quarter of a typical L2, so that the tile is still
// cached; never less than one block.
constexpr int64_t kTileBytes = int64_t{256} << 10;

class CpuBuffer final : public Buffer {
 public:
  explicit CpuBuffer(int64_t bytes) : buffer_(bytes) {}
  std::byte* data() const override { return buffer_.data(); }
  int64_t size() const override { return buffer_.size(); }
  void write(std::span<const std::byte> host, int64_t offset) override {
    if (!host.empty()) std::memcpy(buffer_.data() + offset, host.data(), host.size());
  }
  void read(std::span<std::byte> host, int64_t offset) const override {
    if (!host.empty()) std::memcpy(host.data(), buffer_.data() + offset, host.size());
  }
  void fill(int value, int64_t bytes) override {
    if (bytes > 0) std::memset(buffer_.data(), value, static_cast<size_t>(bytes));
  }
  std::span<const std::byte> view(int64_t bytes, std::vector<std::byte>&) const override {
    return buffer_.bytes().first(static_cast<size_t>(bytes));
  }
  bool guards_intact() const override { return buffer_.guards_intact(); }

 private:
  GuardedBuffer buffer_;
};

// Decodes the call's rows tile by tile to the scratch and multiplies each tile while a near cache holds it. The tile
// lies past the decoder's own scratch, so a decoder that writes past the tile hits the guard zone.
struct UnfusedProduct {
  const BoundKernel* decode;
  DenseProducts dense;
  datasets::ElementType type;
  int64_t cols, row_bytes, rows_per_tile, tile_offset;

  template <typename Args, typename MultiplyTile>
  void for_each_tile(const Args& args, MultiplyTile multiply) const {
    std::byte* tile = args.scratch + tile_offset;
    for (int64_t row = args.rows.begin; row < args.rows.end; row += rows_per_tile) {
      const Rows rows{row, std::min(row + rows_per_tile, args.rows.end)};
      decode->enqueue(nullptr, DecodeArgs{rows, tile, args.scratch});
      multiply(tile, rows);
    }
  }
};
struct UnfusedMatvec : UnfusedProduct {
  void operator()(void*, const MatvecArgs& args) const {
    for_each_tile(args, [&](const std::byte* tile, Rows rows) {
      dense.matvec(reinterpret_cast<const int8_t*>(tile), rows.count(), cols, args.x, args.y + rows.begin);
    });
  }
};
// Float products. A batch of more than a few tokens is packed once a call, into the scratch after the tile.
struct UnfusedFloats : UnfusedProduct {
  PanelForm form;
  int batch;
  int64_t packed_offset;

  bool in_panels() const { return dense.panels && batch > kFewTokens; }
  void pack(const MatmulArgs& args) const {
    if (in_panels()) pack_tokens(form, args, batch, cols, args.scratch + packed_offset);
  }
  void multiply(const MatmulArgs& args, datasets::ElementType of, const std::byte* elements, Rows rows) const {
    float* const y = args.y + rows.begin;
    if (in_panels())
      multiply_panels(form, {of, elements, cols * datasets::element_bytes(of), rows.count(), cols},
                      args.scratch + packed_offset, batch, y, args.y_stride);
    else
      dense.matmul(of, elements, rows.count(), cols, args.x, args.x_stride, batch, y, args.y_stride);
  }
};
struct UnfusedMatmul : UnfusedFloats {
  void operator()(void*, const MatmulArgs& args) const {
    pack(args);
    for_each_tile(args, [&](const std::byte* tile, Rows rows) { multiply(args, type, tile, rows); });
  }
};

float scale_number(datasets::ScaleType type, const std::byte* stored, int64_t index) {
  using enum datasets::ScaleType;
  switch (type) {
    case e4m3: return f8_e4m3_number(static_cast<uint8_t>(stored[index]));
    case e8m0: return std::bit_cast<float>(static_cast<uint32_t>(stored[index]) << 23);
    case bf16:
    case f16: break;
  }
  uint16_t bits;
  std::memcpy(&bits, stored + 2 * index, sizeof(bits));
  return type == f16 ? f16_number(bits) : bf16_number(bits);
}

// Elements with scales of groups of columns: a decoded tile becomes float32 numbers in a second tile after it. They are
// exact, so the product rounds as any other.
struct UnfusedScaledMatmul : UnfusedFloats {
  datasets::ScaleType scale_type;
  const std::byte* stored;
  int64_t scale_rows, groups, group_cols, numbers_offset;
  float factor;
  bool has_minimums;

  void operator()(void*, const MatmulArgs& args) const {
    auto* const numbers = reinterpret_cast<float*>(args.scratch + numbers_offset);
    pack(args);
    for_each_tile(args, [&](const std::byte* tile, Rows rows) {
      for (int64_t r = 0; r < rows.count(); ++r) {
        float* const row = numbers + r * cols;
        elements_to_floats(type, tile + r * row_bytes, cols, row);
        const int64_t first = scale_rows == 1 ? 0 : (rows.begin + r) * groups;
        for (int64_t g = 0; g < groups; ++g) {
          const float scale = scale_number(scale_type, stored, first + g) * factor;
          const int64_t end = std::min(cols, (g + 1) * group_cols);
          for (int64_t c = g * group_cols; c < end; ++c) row[c] *= scale;
          if (!has_minimums) continue;
          const float minimum = scale_number(scale_type, stored, scale_rows * groups + first + g);
          for (int64_t c = g * group_cols; c < end; ++c) row[c] += minimum;
        }
      }
      multiply(args, datasets::ElementType::f32, reinterpret_cast<const std::byte*>(numbers), rows);
    });
  }
};

// Number i of an array of either type, and the way back.
float number_of(Activations type, const std::byte* numbers, int64_t i) {
  if (type == Activations::f32) return reinterpret_cast<const float*>(numbers)[i];
  return bf16_number(reinterpret_cast<const uint16_t*>(numbers)[i]);
}
void store_number(Activations type, std::byte* numbers, int64_t i, float number) {
  if (type == Activations::f32)
    reinterpret_cast<float*>(numbers)[i] = number;
  else
    reinterpret_cast<uint16_t*>(numbers)[i] = datasets::nearest_bf16(number);
}

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const DeviceInfo& info, DenseProducts dense, int64_t target, const std::vector<int>& cores)
      : info_(info), dense_(dense), target_(target), crew_(Crew::of(info.threads, cores)) {}
  const DeviceInfo& device() const override { return info_; }
  int workers() const override { return crew_->threads(); }
  std::unique_ptr<Buffer> allocate(int64_t bytes, const std::string&) override {
    return std::make_unique<CpuBuffer>(bytes);
  }
  std::byte* allocate_host(int64_t bytes) override { return host_.emplace_back(bytes).data(); }
  bool runs_host_code() const override { return true; }
  void set_scratch(std::span<std::byte* const> scratch) override { scratch_.assign(scratch.begin(), scratch.end()); }
  void select() override { select_target(target_); }

  BoundKernel multiply_decoded(Op op, const BoundKernel& decode, const CompressedView& matrix,
                               const GroupScales& scales, Activations activations, int batch) override {
    UnfusedProduct product{
        &decode, dense_, matrix.type, matrix.shape.cols, matrix.shape.cols * datasets::element_bytes(matrix.type),
        0,       0};
    const bool pairs =
        dense_.panels && op == Op::matmul && scales.layout == nullptr && activations == Activations::bf16;
    const PanelForm form = pairs ? fastest_pairs(matrix.type) : PanelForm::widened;
    const int64_t number_bytes = scales.layout == nullptr ? 0 : product.cols * static_cast<int64_t>(sizeof(float));
    const int64_t rows = std::max<int64_t>(1, kTileBytes / std::max<int64_t>(1, product.row_bytes + number_bytes)),
                  block = decode.facts.rows_per_block;
    product.rows_per_tile = std::max<int64_t>(1, rows / block) * block;
    product.tile_offset = (decode.facts.scratch_bytes + 63) / 64 * 64;
    const int64_t tile_rows = std::min(product.rows_per_tile, matrix.shape.rows);
    const int64_t tile_bytes = tile_rows * product.row_bytes;
    KernelFacts facts{.rows_per_block = block, .scratch_bytes = product.tile_offset + tile_bytes};
    if (op == Op::matvec) return {UnfusedMatvec{product}, facts};
    const int64_t packed_offset = (facts.scratch_bytes + 63) / 64 * 64;
    if (dense_.panels) {
      facts.scratch_bytes = packed_offset + packed_bytes(product.cols);
      facts.rounding = panel_rounding(form);
    }
    const UnfusedFloats floats{product, form, batch, packed_offset};
    if (const datasets::Scales* layout = scales.layout) {
      const int64_t numbers_offset = (facts.scratch_bytes + 63) / 64 * 64;
      facts.scratch_bytes = numbers_offset + tile_rows * number_bytes;
      return {UnfusedScaledMatmul{floats, layout->type, scales.stored, layout->rows, layout->groups, layout->group_cols,
                                  numbers_offset, layout->factor, layout->has_minimums},
              facts};
    }
    return {UnfusedMatmul{floats}, facts};
  }

  void run(std::span<const Step> steps) override { time(steps); }
  void enqueue(std::span<const Step> steps) override { time(steps); }

  // The clock runs from the moment when all threads have started to the moment when all are done: how soon the system
  // starts a thread says nothing about a product.
  double time(std::span<const Step> steps) override {
    select();
    fault_ = nullptr;
    std::chrono::steady_clock::time_point end;
    crew_->run([&](int thread) {
      const DefaultFloats floats;
      crew_->barrier();
      if (thread == 0) start_ = std::chrono::steady_clock::now();
      for (size_t i = 0; i < steps.size(); ++i) {
        if (i > 0 && !needs_no_barrier(steps[i])) crew_->barrier();
        try {
          std::visit([&](const auto& step) { carry_out(step, thread); }, steps[i]);
        } catch (...) {
          const std::scoped_lock lock(mutex_);
          if (fault_ == nullptr) fault_ = std::current_exception();
        }
      }
      crew_->barrier();
      if (thread == 0) end = std::chrono::steady_clock::now();
    });
    if (fault_ != nullptr) std::rethrow_exception(std::exchange(fault_, nullptr));
    return std::chrono::duration<double>(end - start_).count();
  }

 private:
  // The thread that computed rows requantises, scales and stores them; fills touch other memory.
  static bool needs_no_barrier(const Step& step) {
    return std::holds_alternative<Requantise>(step) || std::holds_alternative<ScaleRows>(step) ||
           std::holds_alternative<StoreProducts>(step) || std::holds_alternative<Fill>(step);
  }

  Rows rows_of(const BoundKernel& kernel, int64_t rows, int thread) const {
    return rows_of_worker(rows, kernel.facts.rows_per_block, thread, crew_->threads());
  }

  void carry_out(const Enqueue& step, int thread) const {
    const Rows rows = rows_of(*step.kernel, step.rows, thread);
    if (rows.count() <= 0) return;
    std::visit(
        [&]<typename ArgsOfOp>(ArgsOfOp args) {
          args.scratch = scratch_[static_cast<size_t>(thread)];
          if constexpr (std::is_same_v<ArgsOfOp, ChainArgs>) {
            throw std::invalid_argument("CPU backends run layer by layer, and the kernel takes a whole chain.");
          } else {
            args.rows = rows;
            if constexpr (std::is_same_v<ArgsOfOp, DecodeArgs>) args.out += rows.begin * step.row_bytes;
            step.kernel->enqueue(nullptr, args);
          }
        },
        step.args);
  }
  void carry_out(const Requantise& step, int thread) const {
    const Rows rows = rows_of(*step.kernel, step.rows, thread);
    for (int64_t row = rows.begin; row < rows.end; ++row) step.v[row] = requantise(step.y[row], step.scale);
  }
  void carry_out(const ScaleRows& step, int thread) const {
    const Rows rows = rows_of(*step.kernel, step.rows, thread);
    for (int token = 0; token < step.batch; ++token)
      for (int64_t row = rows.begin; row < rows.end; ++row)
        step.y[token * step.rows + row] *= bf16_number(step.scales[step.one_for_all ? 0 : row]);
  }
  // Every thread brings a part of each token.
  void carry_out(const LoadTokens& step, int thread) const {
    const Rows part = rows_of_worker(step.to_stride, kMarkBytes, thread, crew_->threads());
    const int64_t from_bytes = bytes_of(step.from_type), to_bytes = bytes_of(step.to_type),
                  end = std::min(part.end, step.cols), zeros = std::max(part.begin, step.cols);
    for (int64_t token = 0; token < step.tokens; ++token) {
      const std::byte* const from = step.from + token * step.from_stride * from_bytes;
      std::byte* const to = step.to + token * step.to_stride * to_bytes;
      if (part.begin < end && step.from_type == step.to_type)
        std::memcpy(to + part.begin * to_bytes, from + part.begin * to_bytes,
                    static_cast<size_t>((end - part.begin) * to_bytes));
      else
        for (int64_t col = part.begin; col < end; ++col)
          store_number(step.to_type, to, col, number_of(step.from_type, from, col));
      if (zeros < part.end) std::memset(to + zeros * to_bytes, 0, static_cast<size_t>((part.end - zeros) * to_bytes));
    }
  }
  void carry_out(const StoreProducts& step, int thread) const {
    const Rows rows = rows_of(*step.kernel, step.rows, thread);
    for (int64_t token = 0; token < step.tokens; ++token)
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        const float sum = step.y[token * step.rows + row];
        store_number(step.type, step.to, token * step.to_stride + row,
                     step.bias == nullptr ? sum : sum + number_of(step.type, step.bias, row));
      }
  }
  void carry_out(const Download& step, int thread) const {
    if (thread == 0 && step.bytes > 0) std::memcpy(step.to, step.from, static_cast<size_t>(step.bytes));
  }

  // The thread that began the pass talks to other ranks; the others wait for it at the barrier before the next step.
  void carry_out(const Gather& step, int thread) const {
    if (thread == 0) step.ranks->gather(nullptr, step.data, *step.offsets);
  }
  void carry_out(const Reduce& step, int thread) const {
    if (thread == 0) step.ranks->reduce(nullptr, step.data, step.count);
  }
  void carry_out(const Meet& step, int thread) {
    if (thread != 0) return;
    step.ranks->meet(nullptr);
    start_ = std::chrono::steady_clock::now();
  }

  // Each thread fills its part, so that lines stay in the cache of the core that writes them.
  void carry_out(const Fill& step, int thread) const {
    if (step.worker >= 0) {
      if (thread == step.worker) std::memset(step.to, step.value, static_cast<size_t>(step.bytes));
      return;
    }
    const int64_t unit = step.stride > 0 ? step.stride : kMarkBytes;
    const Rows part = rows_of_worker(step.bytes, unit, thread, crew_->threads());
    if (step.stride == 0) {
      if (part.count() > 0) std::memset(step.to + part.begin, step.value, static_cast<size_t>(part.count()));
      return;
    }
    for (int64_t at = part.begin; at < part.end; at += step.stride) mark(step, at);
  }
  static void mark(const Fill& step, int64_t at) {
    const int64_t bytes = std::min(kMarkBytes, step.bytes - at);
    const int64_t from = at + step.shift + bytes <= step.bytes ? at + step.shift : at - step.shift;
    if (step.shift == 0 || from < 0)
      std::memset(step.to + at, step.value, static_cast<size_t>(bytes));
    else
      std::memcpy(step.to + at, step.to + from, static_cast<size_t>(bytes));
  }

  const DeviceInfo& info_;
  DenseProducts dense_;
  int64_t target_;
  std::shared_ptr<Crew> crew_;
  std::vector<std::byte*> scratch_;
  std::vector<GuardedBuffer> host_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point start_;  // of the pass; thread 0 alone
  std::exception_ptr fault_;                     // of the first step that threw
};

}  // namespace

void select_target(int64_t target) {
  static std::mutex mutex;
  static int64_t selected = 0;
  const std::scoped_lock lock(mutex);
  if (target == selected) return;
  selected = target;
  hwy::SetSupportedTargetsForTest(target);
  // Choose here, before threads run: the first dispatch of a thread would otherwise choose anew.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

std::unique_ptr<Executor> make_executor(const DeviceInfo& info, DenseProducts dense, int64_t target,
                                        const std::vector<int>& cores) {
  return std::make_unique<CpuExecutor>(info, dense, target, cores);
}

}  // namespace ecmv::backends::cpu

// GPU kernels of packed_ternary. In the product a stored block of 16 rows is operand A of matrix units. A lane loads 16
// bytes of two rows of a group. Multiplied by 3^(s + 1), their upper halves are the digits of strips 0 to s as one
// number, L(s), and digit s is L(s) - 3 L(s - 1). Nothing is masked off: operand B has x of strip s in its first column
// and of strip s + 1 in its second, so a unit sums L(s) x(s) and L(s) x(s + 1), and three times the second sum is
// subtracted. For 20 columns of a row a lane has 10 multiplications, 7 byte permutations and masks, and a quarter of
// five products: one operation a column.
#include <algorithm>
#include <string>
#include <vector>

#include "backends/gpu/products/int8_inputs.h"
#include "backends/gpu/products/matrix_units.h"
#include "backends/gpu/products/requantise.h"
#include "codecs/packed_ternary/format.h"

namespace ecmv::codecs::packed_ternary::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;
using LaneGroup = gpu::Lanes<32>;

constexpr int kRows = static_cast<int>(kRowsOfBlock), kCols = static_cast<int>(kGroupCols),
              kStrip = static_cast<int>(kStripCols);

// The division of a thread block's rows among its lane groups: a power of two of them, the splits, have the same rows
// and different groups of columns.
struct Layout {
  int log2_splits;
  int64_t row_blocks, groups;
  // Shared memory holds x, zeros up to the end of the last group and 64 bytes more, the sum of x, and sums of rows.
  int inputs() const { return static_cast<int>(groups) * kCols + kStrip; }
};

// A lane's part of a group: 16 bytes of two rows, eight apart.
struct TwoRows {
  gpu::uint4 upper, lower;
};

// The sums of the first four strips, and of the last strip, which none follows.
struct Sums {
  int32_t strips[4] = {}, last[4] = {};
};

// The upper bytes of even and odd 16-bit products, in the bytes' order.
ECMV_GPU_DEVICE uint32_t upper_bytes(uint32_t even, uint32_t odd) { return gpu::byte_permute(even, odd, 0x7351); }

// Adds the products of a group. `x` is the lane's place in the first strip of its columns, or in the second. The
// products take 8 bytes of each row: words 0 and 1 of both rows, then words 2 and 3.
ECMV_GPU_DEVICE void multiply_group(const TwoRows& codes, gpu::Pointer<const std::byte> x, Sums& sums) {
  const uint32_t words[8] = {codes.upper.x, codes.lower.x, codes.upper.y, codes.lower.y,
                             codes.upper.z, codes.lower.z, codes.upper.w, codes.lower.w};
  uint32_t even[8], odd[8];
  ECMV_GPU_UNROLL
  for (int i = 0; i < 8; ++i) {
    even[i] = words[i] & 0x00FF00FF;
    odd[i] = gpu::byte_permute(words[i], 0, 0x4341);
  }
  uint32_t power = 3;
  ECMV_GPU_UNROLL
  for (int strip = 0; strip < kDigits; ++strip, power *= 3) {
    const gpu::uint4 b = *gpu::cast<const gpu::uint4>(x + strip * kStrip);
    const auto leading = [&](int i) { return upper_bytes(even[i] * power, odd[i] * power); };
    int32_t(&own)[4] = strip + 1 < kDigits ? sums.strips : sums.last;
    gpu::multiply_panels(gpu::uint4{leading(0), leading(1), leading(2), leading(3)}, gpu::uint2{b.x, b.y}, own);
    gpu::multiply_panels(gpu::uint4{leading(4), leading(5), leading(6), leading(7)}, gpu::uint2{b.z, b.w}, own);
  }
}

template <int kLaneGroups, int kBlocks, int kAhead>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kLaneGroups * 32, kBlocks) void multiply_blocks(gpu::Pointer<const std::byte> codes,
                                                                                Layout layout, int64_t rows, int cols,
                                                                                gpu::Pointer<const int8_t> x,
                                                                                gpu::Epilogue epilogue) {
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group()),
            parts = kLaneGroups >> layout.log2_splits, part = lane_group >> layout.log2_splits,
            split = lane_group - (part << layout.log2_splits), groups = static_cast<int>(layout.groups),
            first = groups * split >> layout.log2_splits, end = groups * (split + 1) >> layout.log2_splits;
  const int64_t first_block = gpu::block_index() * parts,
                own_block = first_block + part < layout.row_blocks ? first_block + part : layout.row_blocks - 1;
  const gpu::Pointer<const std::byte> own = codes + (own_block * groups * kGroupBytes + lane * 16);
  const auto load = [&](int group) {
    const gpu::Pointer<const std::byte> at = own + int64_t{group} * kGroupBytes;
    return TwoRows{gpu::load_streaming_before_sync(gpu::cast<const gpu::uint4>(at)),
                   gpu::load_streaming_before_sync(gpu::cast<const gpu::uint4>(at + kGroupBytes / 2))};
  };
  gpu::let_next_begin();
  TwoRows ahead[kAhead] = {};
  ECMV_GPU_UNROLL
  for (int k = 0; k < kAhead; ++k)
    if (first + k < end) ahead[k] = load(first + k);

  const gpu::Pointer<std::byte> inputs = gpu::shared_memory();
  const int stored = groups * kCols + kStrip;
  const gpu::Pointer<int32_t> sums_of = gpu::cast<int32_t>(inputs + stored);  // the sum of x, then the sums of rows
  for (int i = gpu::thread_index(); i <= kLaneGroups * kRows; i += gpu::block_size()) sums_of[i] = 0;
  gpu::sync_block();
  gpu::wait_for_previous();
  gpu::load_inputs(x, cols, stored, inputs, sums_of);
  gpu::sync_block();

  Sums sums;
  // Lanes of odd columns of operand B read x a strip further. Columns from the third on are unused.
  const gpu::Pointer<const std::byte> own_inputs = inputs + (lane / 4 % 2 * kStrip + lane % 4 * 16);
  for (int group = first; group < end; group += kAhead) {
    ECMV_GPU_UNROLL
    for (int k = 0; k < kAhead; ++k) {
      if (group + k >= end) break;
      const TwoRows now = ahead[k];
      const gpu::Pointer<const std::byte> at = own_inputs + (group + k) * kCols;
      multiply_group(now, at, sums);
      if (group + k + kAhead < end) ahead[k] = load(group + k + kAhead);
      LaneGroup::sync();
    }
  }
  if (lane % 4 == 0) {
    gpu::atomic_add(sums_of + (1 + part * kRows + lane / 4), sums.strips[0] + sums.last[0] - 3 * sums.strips[1]);
    gpu::atomic_add(sums_of + (1 + part * kRows + lane / 4 + 8), sums.strips[2] + sums.last[2] - 3 * sums.strips[3]);
  }
  gpu::sync_block();
  for (int i = gpu::thread_index(); i < parts * kRows; i += gpu::block_size())
    if (const int64_t row = first_block * kRows + i; row < rows) epilogue.store(row, sums_of[1 + i] - sums_of[0]);
}

constexpr int kDecodeLaneGroups = 8;

// Each lane group decodes a group of a block of rows; a lane has 16 columns of each strip, in two rows.
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kDecodeLaneGroups * 32, 1) void decode_groups(gpu::Pointer<const std::byte> codes,
                                                                              int64_t row_blocks, int64_t groups,
                                                                              int64_t rows, int64_t cols,
                                                                              gpu::Pointer<std::byte> out) {
  const int64_t number = gpu::block_index() * kDecodeLaneGroups + LaneGroup::group();
  if (number >= row_blocks * groups) return;
  const int lane = LaneGroup::lane();
  const gpu::Pointer<const std::byte> own = codes + (number * kGroupBytes + lane * 16);
  for (int half = 0; half < 2; ++half) {
    const int64_t row = number / groups * kRows + lane / 4 + 8 * half;
    const gpu::uint4 loaded = gpu::load_streaming(gpu::cast<const gpu::uint4>(own + half * (kGroupBytes / 2)));
    const uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
    uint32_t even[4], odd[4], before[4] = {};
    for (int i = 0; i < 4; ++i) {
      even[i] = words[i] & 0x00FF00FF;
      odd[i] = gpu::byte_permute(words[i], 0, 0x4341);
    }
    uint32_t power = 3;
    ECMV_GPU_UNROLL
    for (int strip = 0; strip < kDigits; ++strip, power *= 3) {
      const int64_t col = number % groups * kGroupCols + strip * kStrip + lane % 4 * 16;
      uint32_t elements[4];
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        const uint32_t leading = upper_bytes(even[i] * power, odd[i] * power);
        // No byte borrows from the next: a digit is 0 to 2, and its highest bit is set before 1 is taken off.
        const uint32_t digits = leading - 3 * before[i];
        before[i] = leading;
        elements[i] = ((digits | 0x80808080) - 0x01010101) ^ 0x80808080;
      }
      if (row >= rows || col >= cols) continue;
      const gpu::Pointer<std::byte> to = out + (row * cols + col);
      if (cols % 16 == 0)
        *gpu::cast<gpu::uint4>(to) = gpu::uint4{elements[0], elements[1], elements[2], elements[3]};
      else
        for (int i = 0; i < 16 && col + i < cols; ++i) to[i] = static_cast<std::byte>(elements[i / 4] >> (i % 4 * 8));
    }
  }
}

// Lane groups of a thread block, blocks that should fit on a multiprocessor, groups that a lane group loads ahead.
struct BlockPolicy : backends::Policy {
  int lane_groups, blocks;
  void (*kernel)(gpu::Pointer<const std::byte>, Layout, int64_t, int, gpu::Pointer<const int8_t>, gpu::Epilogue);
};
template <int kLaneGroups, int kBlocks, int kAhead>
constexpr BlockPolicy block_policy(std::string_view name) {
  return {{name}, kLaneGroups, kBlocks, multiply_blocks<kLaneGroups, kBlocks, kAhead>};
}
// On an H200 the first is the fastest in all published runs; the second is within 2 % in two of three.
constexpr BlockPolicy kPolicies[] = {block_policy<16, 2, 2>("groups16_ahead2_fit2"),
                                     block_policy<8, 2, 4>("groups8_ahead4_fit2")};

// The number of splits that finishes first. The estimate is rounds of blocks, each as long as its longest lane group's
// work; a round's beginning and end take as long as some groups of columns.
Layout layout_of(datasets::Shape shape, const BlockPolicy& policy, int compute_units) {
  constexpr int64_t kOwnTime = 3;
  Layout best{0, row_blocks(shape.rows), column_groups(shape.cols)};
  int64_t least = INT64_MAX;
  for (int log2 = 0; policy.lane_groups >> log2 > 0; ++log2) {
    const int64_t splits = int64_t{1} << log2, parts = policy.lane_groups / splits,
                  blocks = (best.row_blocks + parts - 1) / parts,
                  at_once = std::max<int64_t>(1, int64_t{compute_units} * policy.blocks),
                  rounds = (blocks + at_once - 1) / at_once,
                  time = rounds * ((best.groups + splits - 1) / splits + kOwnTime);
    if (time < least) best.log2_splits = log2, least = time;
  }
  return best;
}

int64_t shared_bytes_of(const Layout& layout, const BlockPolicy& policy) {
  return layout.inputs() + (int64_t{policy.lane_groups} * kRows + 4) * static_cast<int64_t>(sizeof(int32_t));
}

struct Multiply {
  const std::byte* codes;
  datasets::Shape shape;
  Layout layout;
  const BlockPolicy* policy;
  bool early;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    const int64_t parts = policy->lane_groups >> layout.log2_splits;
    gpu::launch(
        policy->kernel,
        {(layout.row_blocks + parts - 1) / parts, policy->lane_groups * 32, shared_bytes_of(layout, *policy), early},
        stream, codes, layout, shape.rows, static_cast<int>(shape.cols), args.x, gpu::epilogue_of(args));
  }
};

struct Decode {
  const std::byte* codes;
  datasets::Shape shape;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    const int64_t blocks = row_blocks(shape.rows), groups = column_groups(shape.cols);
    gpu::launch(decode_groups,
                {(blocks * groups + kDecodeLaneGroups - 1) / kDecodeLaneGroups, kDecodeLaneGroups * 32, 0}, stream,
                codes, blocks, groups, shape.rows, shape.cols, args.out);
  }
};

std::string refuses(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  const auto& policy = named.as<BlockPolicy>();
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (matrix.shape.cols >= int64_t{1} << 30) return "The kernel counts columns in 32 bits: at most 2^30 of them.";
  if (shared_bytes_of(layout_of(matrix.shape, policy, device.compute_units), policy) > device.shared_bytes)
    return "The vector does not fit the shared memory of a thread block.";
  return "";
}

backends::BoundKernel bind(const backends::Policy& named, backends::Layers layers, int, backends::Place& place) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  const auto& policy = named.as<BlockPolicy>();
  const backends::DeviceInfo& device = place.device();
  return {Multiply{matrix.sections[kCodes].bytes.data(), matrix.shape,
                   layout_of(matrix.shape, policy, device.compute_units), &policy, gpu::have_early_launches(device)},
          {.requantises = true}};
}

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  return Decode{matrix.sections[kCodes].bytes.data(), matrix.shape};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "groups", .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "row_blocks", .policies = kPolicies, .refuses = refuses, .bind = bind},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_ternary::ECMV_GPU_NAMESPACE

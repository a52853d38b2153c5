// Decodes int8, bf16 and f8 elements to memory; bf16 also from fragments, for products by a BLAS. A lane that
// stored its own row would send 16 bytes to each of 32 rows, which memory takes at a fifth of its speed. So a lane
// group collects rows of 256 bytes in shared memory (tile/rows.h), and lanes store each row together, 16 bytes a lane.
// Longer runs of a row are faster, though lines have 128 bytes (H200, bf16: 1.00 T elements/s with 128 bytes, 1.10 with
// 256). Raw bits of int8 elements are loaded early (16384 x 16384, K = 8: B = 3, T = 12 119.5 us, 123.9 without; B = 4,
// T = 8 117.2 us, 120.6 without).
#include <algorithm>

#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/takes.h"
#include "codecs/quad_huffman/gpu/tile/rows.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

inline constexpr int64_t kStoredPieceBytes = int64_t{kLanes} * kStoredBytes;

// Stores the piece at `decoded`: `rows` rows, row_bytes apart in the result, `bytes` bytes each. Stores 16 bytes at
// once where all rows begin at a multiple of 16.
ECMV_GPU_DEVICE void store_piece(gpu::Pointer<const std::byte> piece, gpu::Pointer<std::byte> decoded,
                                 int64_t row_bytes, int rows, int bytes, bool aligned) {
  constexpr int kRowBytes = kStoredBytes, kChunks = kRowBytes / 16, kRowsAtOnce = kLanes / kChunks;
  const int first_row = LaneGroup::lane() / kChunks, chunk = LaneGroup::lane() % kChunks;
  if (aligned) {
    if (chunk * 16 >= bytes) return;
    gpu::Pointer<std::byte> to = decoded + (first_row * row_bytes + chunk * 16);
    ECMV_GPU_UNROLL
    for (int i = 0; i < kChunks; ++i, to += kRowsAtOnce * row_bytes) {
      const int row = first_row + i * kRowsAtOnce;
      if (row < rows) *gpu::cast<gpu::uint4>(to) = *gpu::cast<const gpu::uint4>(piece + place_in_piece(row, chunk));
    }
    return;
  }
  ECMV_GPU_NO_UNROLL
  for (int row = 0; row < rows; ++row) {
    ECMV_GPU_NO_UNROLL
    for (int i = LaneGroup::lane(); i < bytes; i += kLanes)
      decoded[row * row_bytes + i] = piece[place_in_piece(row, i / 16) + i % 16];
  }
}

// The same for a piece of fragments of bf16: 16 rows of twice as many columns. A lane puts 16 bytes of a row together
// from four stored rows, and all lanes store 512 bytes of a row.
ECMV_GPU_DEVICE void store_fragments(gpu::Pointer<const std::byte> piece, gpu::Pointer<std::byte> decoded,
                                     int64_t row_bytes, int rows, int bytes, bool aligned) {
  const int lane = LaneGroup::lane(), left = bytes - lane * 16, unit = lane / 2, half = lane % 2;
  if (left <= 0) return;
  ECMV_GPU_NO_UNROLL
  for (int row = 0; row < rows; ++row) {
    uint32_t words[4];
    ECMV_GPU_UNROLL
    for (int t = 0; t < 4; ++t)
      words[t] = gpu::cast<const uint32_t>(piece + place_in_piece(row % 8 * 4 + t, unit))[half + row / 8 * 2];
    const gpu::uint4 whole{words[0], words[1], words[2], words[3]};
    const gpu::Pointer<std::byte> to = decoded + (row * row_bytes + lane * 16);
    if (aligned) {
      *gpu::cast<gpu::uint4>(to) = whole;
    } else {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 16; ++i)
        if (i < left) to[i] = static_cast<std::byte>(gpu::word_of(whole, i / 4) >> (i % 4 * 8));
    }
  }
}

// A lane group decodes one tile after the other. Pieces begin at plan.inputs. `cols`: the matrix's, which fragments do
// not store so.
template <int kSymbolCols, int kForm, int kSymbolsOfWindow, bool kFragments>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(24 * kLanes, 1) void decode(Matrix matrix, BlockPlan plan, Hidden hidden, int cols,
                                                            gpu::Pointer<std::byte> decoded) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow, kEarlyForm<kForm>>;
  using Piece = RowsPiece<TileOf>;
  constexpr int kRows = kFragments ? kUnitRows : kLanes, kOfStored = kFragments ? 2 : 1;
  const int lane_group = LaneGroup::uniform(LaneGroup::group());
  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  Piece piece{gpu::shared_memory() + (plan.inputs + lane_group * Piece::kBytes), Piece::in_all_elements(matrix.lowest)};
  fill_table(matrix, plan, load_own_entries(matrix));
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  const int64_t row_bytes = int64_t{cols} * Piece::kElementBytes;
  const bool aligned = row_bytes % 16 == 0;
  for (int64_t number = gpu::block_index() * plan.lane_groups + lane_group;
       number < matrix.row_groups * matrix.column_tiles; number += gpu::grid_size() * plan.lane_groups) {
    const int64_t group = number / matrix.column_tiles, first_row = group * kRows;
    tile.begin(matrix.streams, group, static_cast<int>(number % matrix.column_tiles), matrix.column_tiles, matrix.cols);
    const int rows = matrix.rows - first_row < kRows ? static_cast<int>(matrix.rows - first_row) : kRows,
              bytes_before = kOfStored * tile.first_col() * Piece::kElementBytes;
    gpu::Pointer<std::byte> to = decoded + (first_row * row_bytes + bytes_before);
    int bytes_left = static_cast<int>(row_bytes) - bytes_before;
    PatchWalk patches = tile.patch_walk();
    for (int s = 0; s < tile.segments(); ++s) {
      LaneGroup::sync();
      tile.fetch(s);
      gpu::commit_copies();
      gpu::wait_copies<kAhead>();
      LaneGroup::sync();
      piece.decode(tile, table, s, patches, [&](int, int stored_cols) {
        const int bytes = kOfStored * stored_cols * Piece::kElementBytes, own = bytes_left < bytes ? bytes_left : bytes;
        if constexpr (kFragments)
          store_fragments(piece.bytes, to, row_bytes, rows, own, aligned);
        else
          store_piece(piece.bytes, to, row_bytes, rows, own, aligned);
        to += bytes;
        bytes_left -= bytes;
      });
    }
  }
}

// Two blocks of 8 lane groups run at 1.05x to 1.08x the speed at 5120, equally fast at 8192 and 16384 for int8 elements
// (2026-11-23-h200/decode), and take 1.03 to 1.25 times as long for bf16 at 5760 x 2880 and 8192.
constexpr RingPolicy kPolicies[] = {
    {{"groups16"}, 16, 32, 1},
    {{"groups8_fit2"}, 8, 16, 2},
#ifdef ECMV_SEARCH
    {{"groups24"}, 24, 16, 1},  // H100: 1.02x to 1.06x the speed for bf16 at 5760 x 2880, slower elsewhere
#endif
};

std::string_view choose(const backends::CompressedView& view, const backends::DeviceInfo&, int) {
  return kPolicies[has_floats(view) || view.shape.cols >= 8192 ? 0 : 1].name;
}

BlockPlan plan_decode(const RingPolicy& policy, const Header& code, datasets::Shape shape, int64_t shared_bytes) {
  return plan_of(policy, code, shape, InputType::none, shared_bytes, kStoredPieceBytes);
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  if (is_plain(view)) return kRefusesPlain;
  const bool fragments = header_of(view).layout == Layout::fragments && view.type == datasets::ElementType::bf16;
  if (!fragments)  // no BLAS multiplies others
    if (std::string reason = refuses_matrix(view, Layout::rows, Elements::any); !reason.empty()) return reason;
  const BlockPlan plan = plan_decode(named.as<RingPolicy>(), header_of(view), stored_shape(view), device.shared_bytes);
  return plan.lane_groups == 0 ? kRefusesSharedMemory : "";
}

using Kernel = void (*)(Matrix, BlockPlan, Hidden, int, gpu::Pointer<std::byte>);

struct Decode {
  Matrix matrix;
  BlockPlan plan;
  gpu::LaunchShape launch_shape;
  Kernel kernel;
  int cols;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    gpu::launch(kernel, launch_shape, stream, matrix, plan, hidden_of(plan), cols, args.out);
  }
};

constexpr bool has_short_windows(int symbol_cols, int form) {
  return is_folded(form) && is_chosen_code(symbol_cols, form);
}

Kernel kernel_of(const Header& code) {
  const auto kernel = [&](auto symbol_cols, auto form, auto symbols) -> Kernel {
    constexpr int kSymbolCols = decltype(symbol_cols)::value, kForm = decltype(form)::value,
                  kSymbols = decltype(symbols)::value;
    if constexpr (is_float(kForm) && !is_f8(kForm) && kSymbols == 2)
      if (code.layout == Layout::fragments) return decode<kSymbolCols, kForm, kSymbols, true>;
    return decode<kSymbolCols, kForm, kSymbols, false>;
  };
  if (code.layout == Layout::fragments)  // one window for all tables
    return code.symbol_cols == 8 ? kernel(Constant<8>{}, Constant<float_raw_bits(8)>{}, Constant<2>{})
                                 : kernel(Constant<4>{}, Constant<float_raw_bits(4)>{}, Constant<2>{});
  return is_float(code.form) ? for_float_code(code, kernel) : for_code<has_short_windows>(code, kernel);
}

backends::BoundKernel bind(const backends::Policy& named, Layers layers, int, backends::Place& place) {
  const auto& policy = named.as<RingPolicy>();
  const backends::CompressedView& view = *layers[0].matrix;
  const Header code = header_of(view);
  const Matrix matrix = matrix_of(view, code);
  const BlockPlan plan = plan_decode(policy, code, stored_shape(view), place.device().shared_bytes);
  const int64_t blocks = (matrix.row_groups * matrix.column_tiles + plan.lane_groups - 1) / plan.lane_groups;
  return Decode{matrix,
                plan,
                {std::min<int64_t>(blocks, int64_t{place.device().compute_units} * policy.blocks),
                 plan.lane_groups * kLanes, plan.bytes},
                kernel_of(code),
                static_cast<int>(view.shape.cols)};
}

}  // namespace

backends::Kernel decode_rows() {
  return {.op = backends::Op::decode,
          .variant = "rings",
          .policies = kPolicies,
          .refuses = refuses,
          .bind = bind,
          .choose = choose};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE

// Portable kernels of matvans_warp_per_row. A lane's symbols depend on each other through its head (look-up, multiply,
// refill: about 14 cycles), so kLanesAtOnce lanes take turns and hide that. Nothing in the loop branches, because a
// head unpredictably needs a word in 3 of 10 steps. A head that took a word is at least 2^24 and cannot need another in
// the next step, so one word is fetched for two steps: decoding ran at 1.6× the speed (0.34 to 0.54 G elements/s, Zen
// 4).
#include <algorithm>

#include "codecs/matvans_warp_per_row/format.h"
#include "codecs/matvans_warp_per_row/slot_table.h"

namespace ecmv::codecs::matvans_warp_per_row {
namespace {

constexpr int kLanesAtOnce = 4;

// Calls sink(col, symbol) for all elements of a row, a few lanes at a time.
template <class Sink>
void for_each_symbol(const StoredMatrix& matrix, const SlotTable& table, int64_t row, const Sink& sink) {
  const auto words = matrix.payload.subspan(size_t{u32_at(matrix.cursors, row)} * 2);
  const int64_t cols = matrix.shape.cols;
  const int64_t last_word = static_cast<int64_t>(words.size() / 2) - 1;
  for (int lane = 0; lane < kFormatLanes; lane += kLanesAtOnce) {
    uint32_t heads[kLanesAtOnce];
    int64_t used[kLanesAtOnce];
    for (int k = 0; k < kLanesAtOnce; ++k) {
      heads[k] = uint32_t{u16_at(words, word_position(0, lane + k))} << 16 | u16_at(words, word_position(1, lane + k));
      used[k] = 2;
    }
    for (int64_t first = lane * kLaneCols; first < cols; first += kGroupCols)
      for (int i = 0; i < kLaneCols; i += 2)
        for (int k = 0; k < kLanesAtOnce; ++k) {
          // The word is read whether needed or not. After the last row's last word there is none.
          const uint32_t word = u16_at(words, std::min(word_position(used[k], lane + k), last_word));
          const int64_t col = first + k * kLaneCols + i;
          bool refilled = false;
          for (int step = 0; step < 2; ++step) {
            const uint32_t entry = table[heads[k] & (kSlots - 1)];
            const uint32_t head = (heads[k] >> kModelBits) * (entry >> 16) + (entry >> 8 & 0xFF);
            const bool refill = head < kLowestHead;
            heads[k] = refill ? head << 16 | word : head;
            refilled |= refill;
            sink(col + step, static_cast<int8_t>(entry));
          }
          used[k] += refilled;
        }
  }
}

struct Decode {
  StoredMatrix matrix;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const SlotTable table = slot_table(matrix);
    const int64_t cols = matrix.shape.cols;
    for (int64_t row = args.rows.begin; row < args.rows.end && cols > 0; ++row) {
      int8_t* out = reinterpret_cast<int8_t*>(args.out) + (row - args.rows.begin) * cols;
      for_each_symbol(matrix, table, row, [&](int64_t col, int8_t symbol) { out[col] = symbol; });
    }
  }
};

struct Multiply {
  StoredMatrix matrix;
  void operator()(void*, const backends::MatvecArgs& args) const {
    const SlotTable table = slot_table(matrix);
    const int8_t* x = args.x;
    for (int64_t row = args.rows.begin; row < args.rows.end; ++row) {
      int32_t sum = 0;
      if (matrix.shape.cols > 0)
        for_each_symbol(matrix, table, row, [&](int64_t col, int8_t symbol) { sum += symbol * x[col]; });
      args.y[row] = sum;
    }
  }
};

template <typename Body>
backends::BoundKernel bind(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return Body{stored_matrix(*layers[0].matrix)};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "lanes4", .bind = bind<Decode>},
    {.op = backends::Op::matvec, .variant = "lanes4", .bind = bind<Multiply>},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::matvans_warp_per_row

// Portable kernels of matvans_warp_per_row. A lane's symbols depend on each other through its head (look-up, multiply, refill:
// about 14 cycles), so kLanesAtOnce lanes take turns and hide that. Nothing in the loop branches: a head needs a word in 3
// of 10 steps, and that is unpredictable. A head that took a word is at least 2^24 and cannot need another in the next step,
// so one word is fetched for two steps: 1.6x in decode (0.34 to 0.54 G elements/s, Zen 4).
#include <algorithm>

#include "backends/kernel.h"
#include "codecs/matvans_warp_per_row/format.h"
#include "codecs/matvans_warp_per_row/slot_table.h"

namespace ecmv::codecs::matvans_warp_per_row {
namespace {

constexpr int kLanesAtOnce = 4;

// Calls sink(col, symbol) for all elements of a row, a few lanes at a time.
template <class Sink>
void for_each_symbol(const CompressedView& compressed, const SlotTable& table, int64_t row, const Sink& sink) {
  const auto words = compressed.sections[kPayload].bytes.subspan(size_t{u32_at(compressed.sections[kCursors].bytes, row)} * 2);
  const int64_t last_word = static_cast<int64_t>(words.size() / 2) - 1;
  for (int lane = 0; lane < kFormatLanes; lane += kLanesAtOnce) {
    uint32_t heads[kLanesAtOnce];
    int64_t used[kLanesAtOnce];
    for (int k = 0; k < kLanesAtOnce; ++k) {
      heads[k] = uint32_t{u16_at(words, word_position(0, lane + k))} << 16 | u16_at(words, word_position(1, lane + k));
      used[k] = 2;
    }
    for (int64_t first = lane * kLaneCols; first < compressed.shape.cols; first += kGroupCols)
      for (int i = 0; i < kLaneCols; i += 2)
        for (int k = 0; k < kLanesAtOnce; ++k) {
          // The word is read whether needed or not; behind the last row's last word there is none.
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

void decode(const backends::KernelCall& call) {
  const SlotTable table = slot_table(*call.matrix);
  for (int64_t row = call.row_begin; row < call.row_end && call.matrix->shape.cols > 0; ++row) {
    int8_t* out = call.decoded + (row - call.row_begin) * call.matrix->shape.cols;
    for_each_symbol(*call.matrix, table, row, [&](int64_t col, int8_t symbol) { out[col] = symbol; });
  }
}

void matvec(const backends::KernelCall& call) {
  const SlotTable table = slot_table(*call.matrix);
  for (int64_t row = call.row_begin; row < call.row_end; ++row) {
    int32_t sum = 0;
    if (call.matrix->shape.cols > 0)
      for_each_symbol(*call.matrix, table, row, [&](int64_t col, int8_t symbol) { sum += symbol * call.x[col]; });
    call.y[row] = sum;
  }
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "lanes4", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = decode},
    {.op = backends::Op::matvec, .variant = "lanes4", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::matvans_warp_per_row

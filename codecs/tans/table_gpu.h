// Builds the table of tans on a GPU, in a launch before the one that decodes: a wave takes a symbol, a lane some of its
// occurrences. Nothing is sorted to find the place of occurrence i of q: a product and a shift tell how many
// occurrences of another symbol come before a place. With 40 symbols a lane takes some 160 operations for each of its
// occurrences. An entry is base (12 bits, lowest) | for single elements value (8) << 16 | bits (4) << 28, for pairs
// bits (4) << 12 | value (16) << 16: the fields a lane needs most often are the cheapest to extract. An escape has bits
// = kEscapeMark and its true bits in place of the value.
#pragma once

#include <algorithm>

#include "backends/gpu/lanes.h"
#include "codecs/compressed_matrix.h"
#include "codecs/tans/format.h"

namespace ecmv::codecs::tans::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

using Entry = uint32_t;
inline constexpr uint32_t kEscapeMark = 15;
inline constexpr int64_t kTableBytes = sizeof(Entry) << kMaxTableBits;
inline constexpr int kTableWaves = 8;     // of a block
inline constexpr int kTableBlocks = 256;  // at most

struct StoredModel {
  gpu::Pointer<const std::byte> alphabet;
  int listed;  // symbols without the escape
  int table_bits;
};

inline StoredModel stored_model(const CompressedView& compressed, const Layout& layout) {
  const auto& alphabet = compressed.sections[kAlphabet].bytes;
  return {alphabet.data(), static_cast<int>(layout.pairs ? (alphabet.size() - 2) / 4 : alphabet.size() / 3),
          layout.table_bits};
}

template <bool kPairs>
class TableBuilder {
 public:
  ECMV_GPU_DEVICE TableBuilder(const StoredModel& model, gpu::Pointer<uint32_t> shared)
      : model_(model),
        frequency_(shared),
        size_(1u << model.table_bits),
        escape_(kPairs ? u16(0) : 0),
        symbols_(model.listed + (escape_ > 0)) {
    for (int s = gpu::thread_index(); s < symbols_; s += gpu::block_size())
      frequency_[s] = s < model.listed ? u16(kPairs ? 2 + 2 * (model.listed + s) : model.listed + 2 * s) + 1 : escape_;
    gpu::sync_block();
  }

  ECMV_GPU_DEVICE int symbols() const { return symbols_; }

  // All lanes of the wave compute the entries of symbol s.
  ECMV_GPU_DEVICE void fill(int s, bool even, gpu::Pointer<Entry> table) const {
    const uint32_t q = frequency_[s];
    const bool escape = s == model_.listed;
    const uint32_t value = escape ? 0 : kPairs ? u16(2 + 2 * s) : static_cast<uint32_t>(model_.alphabet[s]);
    uint32_t before = 0;  // occurrences of the symbols before this one
    if (!even)
      for (int other = 0; other < s; ++other) before += frequency_[other];
    for (uint32_t i = static_cast<uint32_t>(gpu::Wave::lane()); i < q; i += static_cast<uint32_t>(gpu::Wave::size())) {
      uint32_t slot = 0, x = q;
      if (even) {
        slot = place_evenly(s, q, i);
        x += i;
      } else {
        slot = walk(before + i);
        for (uint32_t j = 0; j < q; ++j) x += walk(before + j) < slot;
      }
      const auto bits = static_cast<uint32_t>(model_.table_bits - 31 + gpu::leading_zeros(x));
      const uint32_t base = (x << bits) - size_, stored = escape ? bits : value, count = escape ? kEscapeMark : bits;
      table[slot] = kPairs ? base | count << 12 | stored << 16 : base | stored << 16 | count << 28;
    }
  }

 private:
  ECMV_GPU_DEVICE uint32_t u16(int at) const {
    return static_cast<uint32_t>(model_.alphabet[at]) | static_cast<uint32_t>(model_.alphabet[at + 1]) << 8;
  }
  // Occurrences are sorted by place (2 i + 1) size / (2 q), and by symbol at the same place. Another symbol with
  // frequency f has ceil(f place / size - 1/2) occurrences before `place`.
  ECMV_GPU_DEVICE uint32_t place_evenly(int s, uint32_t q, uint32_t i) const {
    const uint32_t place = ((2 * i + 1) << model_.table_bits) / (2 * q);
    uint32_t slot = i;
    for (int other = 0; other < symbols_; ++other) {
      const uint32_t below = 2 * frequency_[other] * (place + (other < s)) + size_ - 1;
      slot += other == s ? 0 : below >> (model_.table_bits + 1);
    }
    return slot;
  }
  ECMV_GPU_DEVICE uint32_t walk(uint32_t number) const { return number * (size_ / 2 + size_ / 8 + 3) & (size_ - 1); }

  StoredModel model_;
  gpu::Pointer<uint32_t> frequency_;
  uint32_t size_, escape_;
  int symbols_;
};

template <bool kPairs>
ECMV_GPU_KERNEL void build_table(StoredModel model, bool even, gpu::Pointer<Entry> table) {
  const TableBuilder<kPairs> builder(model, gpu::cast<uint32_t>(gpu::shared_memory()));
  const int waves = gpu::block_size() / gpu::wave_size();
  for (int s = static_cast<int>(gpu::block_index()) * waves + gpu::Wave::group(); s < builder.symbols();
       s += static_cast<int>(gpu::grid_size()) * waves)
    builder.fill(s, even, table);
}

// Builds the table into `table`, which has kTableBytes.
template <bool kPairs>
void launch_build_table(const StoredModel& model, bool even, Entry* table, int wave_size, void* stream) {
  const int symbols = model.listed + 1;
  gpu::launch(build_table<kPairs>,
              {std::min((symbols + kTableWaves - 1) / kTableWaves, kTableBlocks), kTableWaves * wave_size,
               symbols * int64_t{4}},
              stream, model, even, table);
}

}  // namespace ecmv::codecs::tans::ECMV_GPU_NAMESPACE

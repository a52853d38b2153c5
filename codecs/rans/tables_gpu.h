// The model of rans on a GPU: every thread block deals the slots for itself. The alias method looks sequential, but its
// result has a closed form. "Small" symbols lack some of a bucket's size and "large" ones have some to spare, both in
// ascending order. The first large symbol that, with its predecessors, has spared at least what all smalls before a
// small one lacked fills that small one. A large one runs dry at the first small one that asks for more than was spared
// so far; the next large one then fills it. So a thread deals a bucket with two passes over the frequencies.
#pragma once

#include <string>

#include "backends/gpu/lanes.h"
#include "codecs/compressed_matrix.h"
#include "codecs/rans/format.h"

namespace ecmv::codecs::rans::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

struct StoredModel {
  gpu::Pointer<const std::byte> alphabet;
  int symbols, bucket_bits, prob_bits;
};

inline StoredModel stored_model(const CompressedView& compressed, const Layout& layout) {
  const auto& alphabet = compressed.sections[kAlphabet].bytes;
  const int symbols = symbols_of(alphabet);
  return {alphabet.data(), symbols, bucket_bits_of(symbols), layout.prob_bits};
}

// The dealt model in shared memory. A symbol is value | frequency << 8. A bucket is bias | alias << 16 | split << (16 +
// bucket_bits); with one symbol its split is 0 and its alias is itself.
struct DealtModel {
  static constexpr int64_t kSharedBytes = 2 * 256 * 4;
  gpu::Pointer<uint32_t> symbols, buckets;

  // All threads of the block take part; `shared` has kSharedBytes.
  ECMV_GPU_DEVICE DealtModel(const StoredModel& model, gpu::Pointer<std::byte> shared)
      : symbols(gpu::cast<uint32_t>(shared)), buckets(symbols + 256) {
    const int count = 1 << model.bucket_bits;
    for (int s = gpu::thread_index(); s < count; s += gpu::block_size()) {
      const auto byte = [&](int i) { return static_cast<uint32_t>(model.alphabet[i]); };
      const int at = model.symbols + 2 * s;
      symbols[s] = s < model.symbols ? byte(s) | ((byte(at) | byte(at + 1) << 8) + 1) << 8 : 0;
    }
    gpu::sync_block();
    for (int b = gpu::thread_index(); b < count; b += gpu::block_size())
      buckets[b] = deal(count, 1 << (model.prob_bits - model.bucket_bits), b, model.bucket_bits);
    gpu::sync_block();
  }

 private:
  ECMV_GPU_DEVICE uint32_t deal(int count, int32_t size, int bucket, int bucket_bits) const {
    const auto surplus = [&](int s) { return static_cast<int32_t>(symbols[s] >> 8) - size; };
    const int32_t own = surplus(bucket);
    const bool is_small = own < 0;
    int32_t before = 0;  // the lack or surplus of all symbols of its kind before it
    for (int s = 0; s < bucket; ++s) {
      const int32_t other = surplus(s);
      before += (other < 0) == is_small ? (is_small ? -other : other) : 0;
    }
    // Finds the partner: the first symbol of the other kind at which that kind's sum reaches this one's; for a large
    // symbol it must exceed it. The loops have no early exits, so their loads overlap.
    const int32_t enough = is_small ? before : before + own + 1;
    int32_t sum = 0, met_sum = 0, next_surplus = 0;
    int met = count, next = count;
    for (int s = count - 1; s > bucket; --s) {
      const int32_t other = surplus(s);
      next = other >= 0 ? s : next;
      next_surplus = other >= 0 ? other : next_surplus;
    }
    for (int s = 0; s < count; ++s) {
      const int32_t other = surplus(s);
      const bool of_other_kind = (other < 0) != is_small;
      sum += of_other_kind ? (is_small ? other : -other) : 0;
      const bool hit = of_other_kind && met == count && sum >= enough;
      met = hit ? s : met;
      met_sum = hit ? sum : met_sum;
    }
    int32_t split = 0, bias = 0;
    int alias = bucket;
    if (is_small) {
      split = own + size;
      alias = met;
      bias = met_sum - before;  // the giver has `size` + bias + own left; less the split
    } else if (met < count) {
      split = size + enough - 1 - met_sum;
      alias = next;
      bias = next_surplus;
    }
    return (static_cast<uint32_t>(bias) & 0xFFFF) | static_cast<uint32_t>(alias) << 16 |
           static_cast<uint32_t>(split) << (16 + bucket_bits);
  }
};

// A slot's meaning. The low byte of `value` is the element; its other bytes are undefined.
struct FoundSlot {
  uint32_t value, frequency, rank;
};

// An entry a slot: value (8) | frequency (12) | rank (12).
class SlotTable {
 public:
  static constexpr int kMaxProbBits = 12;
  static int64_t shared_bytes(const StoredModel& model) { return int64_t{4} << model.prob_bits; }
  static std::string refuses(const StoredModel& model) {
    if (model.prob_bits > kMaxProbBits) return "The table of 32-bit entries has room for prob_bits up to 12.";
    if (model.prob_bits == kMaxProbBits && model.symbols == 1)
      return "A lone symbol's frequency of 2^12 does not fit into the 12 bits of a table entry.";
    return "";
  }

  // All threads of the block take part; `scratch` has DealtModel::kSharedBytes.
  ECMV_GPU_DEVICE SlotTable(const StoredModel& model, gpu::Pointer<std::byte> table, gpu::Pointer<std::byte> scratch)
      : table_(gpu::cast<uint32_t>(table)), mask_((1u << model.prob_bits) - 1) {
    const DealtModel dealt(model, scratch);
    for (uint32_t slot = static_cast<uint32_t>(gpu::thread_index()); slot <= mask_;
         slot += static_cast<uint32_t>(gpu::block_size())) {
      const uint32_t bucket = slot & ((1u << model.bucket_bits) - 1), position = slot >> model.bucket_bits;
      const uint32_t entry = dealt.buckets[bucket];
      const bool own = position < entry >> (16 + model.bucket_bits);
      const uint32_t symbol = dealt.symbols[own ? bucket : entry >> 16 & ((1u << model.bucket_bits) - 1)];
      table_[slot] = symbol | (own ? position : position + entry) << 20;
    }
    gpu::sync_block();
  }

  ECMV_GPU_DEVICE FoundSlot look_up(uint32_t state) const {
    const uint32_t entry = table_[state & mask_];
    return {entry, entry >> 8 & 0xFFF, entry >> 20};
  }

 private:
  gpu::Pointer<uint32_t> table_;
  uint32_t mask_;
};

}  // namespace ecmv::codecs::rans::ECMV_GPU_NAMESPACE

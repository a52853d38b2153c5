// A lane group that decodes tiles of 256 columns to 64 registers of each lane, and multiplies them when x is there (ahead_gpu.h).
// Codes and raw bits of the next two tiles come whole to shared memory while it does.
#pragma once

#include "codecs/quad_huffman/ahead_places_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

template <int kForm, int kSymbolsOfWindow>
class AheadLanes {
 public:
  static constexpr int kRawBits = raw_bits_of(kForm);
  using Bytes = Cells<8, kForm>;

  ECMV_GPU_DEVICE AheadLanes(AheadLayers layers, const AheadPlaces& places, const Plan& plan, const Hidden& hidden)
      : layers_(layers),
        places_(places),
        plan_(plan),
        hidden_(hidden),
        lane_group_(LaneGroup::uniform(LaneGroup::group())),
        shared_(gpu::shared_memory() + (plan.rings + lane_group_ * plan.own_bytes)) {}

  // By all lanes, before a barrier of the block.
  ECMV_GPU_DEVICE void init() const {
    if (LaneGroup::lane() != 0) return;
    for (int turn = 0; turn < kAheadTiles; ++turn) arrival(turn).init();
  }

  // Starts copies until those of kAheadTiles are under way, of layers up to two after `layer`: a list is made
  // once all have multiplied four layers before.
  ECMV_GPU_DEVICE void begin(int layer) {
    while (under_way_ < kAheadTiles && next_layer_ <= layer + 2 && next_layer_ < layers_.count) {
      if (next_ == 0) places_.list_there(next_layer_).wait(next_layer_ / kAheadLists % 2);
      if (next_ == *places_.tile_count(next_layer_)) {
        ++next_layer_, next_ = 0;
        continue;
      }
      const gpu::uint4 tile = *listed(next_layer_, next_);
      if (LaneGroup::lane() == 0) {
        const Streams& streams = layers_[next_layer_].matrix.streams;
        const int turn = (turn_ + under_way_) % kAheadTiles;
        const gpu::Arrival arrival = this->arrival(turn);
        arrival.expect(static_cast<int>(tile.y) + (tile.y != 0 ? kRawBytes : 0));
        if (tile.y != 0) {
          arrival.copy(codes(turn), streams.codes + static_cast<int64_t>(tile.x) * kUnitBytes,
                       static_cast<int>(tile.y));
          if (kRawBits > 0) arrival.copy(raw(turn), streams.raw + static_cast<int64_t>(tile.z) * kRawBytes, kRawBytes);
        }
      }
      ++next_, ++under_way_;
    }
  }

  // Decodes tile number `tile` of layer `layer` to registers, whose copies are the first ones under way, and starts those of one
  // more. False if the lane group has no tile there.
  ECMV_GPU_DEVICE bool decode(int layer, int tile, const Table& table) {
    const gpu::Pointer<const gpu::uint4> words = listed(layer, tile);
    const gpu::uint4 place = words[0];
    const int turn = turn_ % kAheadTiles;
    if (place.y != 0) {
      const gpu::uint2 patches = gpu::cast<const gpu::uint2>(words)[2];
      load_patches(layer, patches.x, patches.y);
    }
    arrival(turn).wait(turn_ / kAheadTiles % 2);
    LaneGroup::sync();
    if (place.y != 0) {
      const int full = static_cast<int>(place.w & 0xFFFF) * kBlockLines, partial = static_cast<int>(place.w >> 16);
      const gpu::Pointer<std::byte> masks = codes(turn), first_line = masks + (partial + 3) / 4 * kUnitBytes;
      spread_partial_lines(masks, first_line + full * kLineBytes, partial, plan_.table_bits + 1 - full);
      decode_codes(table, gpu::SharedWords(first_line + 4 * LaneGroup::lane()), raw(turn));
      LaneGroup::sync();
    }
    ++turn_, --under_way_;
    begin(layer);
    return place.y != 0;
  }

  // Adds the products of tile number `tile` of layer `layer`, which has been decoded, with x to the sums of the block's rows.
  ECMV_GPU_DEVICE void multiply(int layer, int tile) const {
    const gpu::uint2 where = gpu::cast<const gpu::uint2>(listed(layer, tile))[3];
    const gpu::Pointer<const std::byte> own_inputs =
        gpu::shared_memory() + (plan_.inputs + static_cast<int>(where.y) * kAheadCols);
    const gpu::Pointer<int32_t> sums = places_.sums() + static_cast<int>(where.x) * kLanes;
    int32_t products[2] = {};
    ECMV_GPU_UNROLL
    for (int i = 0; i < kAheadCols / 16; ++i) {
      const gpu::uint4 input = gpu::cast<const gpu::uint4>(own_inputs)[i];
      products[0] = Bytes::add_products(bytes_[4 * i], input.x, products[0]);
      products[1] = Bytes::add_products(bytes_[4 * i + 1], input.y, products[1]);
      products[0] = Bytes::add_products(bytes_[4 * i + 2], input.z, products[0]);
      products[1] = Bytes::add_products(bytes_[4 * i + 3], input.w, products[1]);
    }
    gpu::atomic_add(sums + LaneGroup::lane(), Bytes::product(products));
    ECMV_GPU_UNROLL
    for (int k = 0; k < kOwnPatches; ++k)
      if (patch_of(k) < patches_.count) add_patch(patches_.own[k], own_inputs, sums);
    ECMV_GPU_NO_UNROLL
    for (uint32_t i = patch_of(kOwnPatches); i < patches_.count; i += kLanes)
      add_patch(layers_[layer].matrix.streams.patches[patches_.first + i], own_inputs, sums);
  }

 private:
  static constexpr int kRawBytes = static_cast<int>(raw_bytes_of_segment(8, kForm));
  static constexpr int kBatchSymbols = batch_cols(8, kForm) / 8, kBatchWords = batch_words(8, kForm),
                       kUnitWords = raw_unit_words(8, kForm);

  ECMV_GPU_DEVICE gpu::Pointer<const gpu::uint4> listed(int layer, int tile) const {
    return gpu::cast<const gpu::uint4>(places_.list(layer) +
                                       (tile * plan_.lane_groups + lane_group_) * kAheadTileBytes);
  }

  // --- patches ---

  static constexpr int kOwnPatches = 2;
  struct Patches {
    uint32_t first, count;  // of the tile
    uint16_t own[kOwnPatches];
  };
  ECMV_GPU_DEVICE void load_patches(int layer, uint32_t first, uint32_t count) {
    patches_.first = first, patches_.count = count;
    const gpu::Pointer<const uint16_t> patches = layers_[layer].matrix.streams.patches + first;
    ECMV_GPU_UNROLL
    for (int k = 0; k < kOwnPatches; ++k)
      if (patch_of(k) < count) patches_.own[k] = patches[patch_of(k)];
  }
  ECMV_GPU_DEVICE static uint32_t patch_of(int k) { return static_cast<uint32_t>(k * kLanes + LaneGroup::lane()); }
  ECMV_GPU_DEVICE static void add_patch(uint32_t patch, gpu::Pointer<const std::byte> inputs,
                                        gpu::Pointer<int32_t> sums) {
    const int32_t input = gpu::cast<const int8_t>(inputs)[static_cast<int>(patch / kLanes % kPatchCols)];
    gpu::atomic_add(sums + static_cast<int>(patch % kLanes), (patch >> 15 != 0 ? -input : input) << Bytes::kCellBits);
  }

  // --- codes ---

  ECMV_GPU_DEVICE int code_bytes() const { return kAheadMaskBytes + (plan_.table_bits + 1) * kLineBytes; }
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> codes(int turn) const { return shared_ + turn * (code_bytes() + kRawBytes); }
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> raw(int turn) const { return codes(turn) + code_bytes(); }
  ECMV_GPU_DEVICE gpu::Arrival arrival(int turn) const {
    return gpu::Arrival(shared_ + (kAheadTiles * (code_bytes() + kRawBytes) + turn * gpu::Arrival::kBytes));
  }

  // Partial lines come without gaps; from the last to the first, some at once, they are moved to where lane l's word is word
  // l. Words that a lane has not are never used. There is room for `most` lines, the last of which no code begins in.
  ECMV_GPU_DEVICE static void spread_partial_lines(gpu::Pointer<const std::byte> masks, gpu::Pointer<std::byte> lines,
                                                   int partial, int most) {
    constexpr int kTogether = 4;
    const int lane = LaneGroup::lane(), count = partial < most - 1 ? partial : most - 1;
    if (count <= 0) return;
    int first = (count - 1) / kTogether * kTogether, before = 0;  // of some lines; words before them
    if (first > 0)
      before = LaneGroup::reduce_add(lane < first ? gpu::popcount(gpu::cast<const uint32_t>(masks)[lane]) : 0);
    ECMV_GPU_NO_UNROLL
    for (;;) {
      const gpu::uint4 four = gpu::cast<const gpu::uint4>(masks)[first / kTogether];
      const uint32_t of_line[kTogether] = {four.x, four.y, four.z, four.w};
      uint32_t words[kTogether];
      int next = before;
      ECMV_GPU_UNROLL
      for (int i = 0; i < kTogether; ++i) {
        const bool has = first + i < count && (of_line[i] >> lane & 1) != 0;
        if (has) words[i] = gpu::cast<const uint32_t>(lines)[next + LaneGroup::count_before(of_line[i])];
        next += gpu::popcount(of_line[i]);
      }
      LaneGroup::sync();
      ECMV_GPU_UNROLL
      for (int i = 0; i < kTogether; ++i)
        if (first + i < count && (of_line[i] >> lane & 1) != 0)
          gpu::cast<uint32_t>(lines)[(first + i) * kLanes + lane] = words[i];
      gpu::order_before_bulk_copies();
      LaneGroup::sync();
      if (first == 0) return;
      first -= kTogether;
      const gpu::uint4 those = gpu::cast<const gpu::uint4>(masks)[first / kTogether];
      before -= gpu::popcount(those.x) + gpu::popcount(those.y) + gpu::popcount(those.z) + gpu::popcount(those.w);
    }
  }

  ECMV_GPU_DEVICE static void load_raw(gpu::Pointer<const std::byte> raw, int batch, uint32_t* words) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < kBatchWords; i += kUnitWords) {
      const gpu::Pointer<const std::byte> unit =
          raw + ((batch * kBatchWords + i) * kLineBytes + LaneGroup::lane() * kUnitWords * 4);
      if constexpr (kUnitWords == 4) {
        const gpu::uint4 v = *gpu::cast<const gpu::uint4>(unit);
        words[i] = v.x, words[i + 1] = v.y, words[i + 2] = v.z, words[i + 3] = v.w;
      } else {
        const gpu::uint2 v = *gpu::cast<const gpu::uint2>(unit);
        words[i] = v.x, words[i + 1] = v.y;
      }
    }
  }

  // The next 64 bits from a position on; of lines before the first one and after the last nothing is used.
  ECMV_GPU_DEVICE Windows windows_at(const gpu::SharedWords& words, int position) const {
    const int line = (position & ~31) * hidden_.line_bytes_of_bit;
    const uint32_t middle = words.template arriving_at<kLineBytes>(line);
    return {gpu::funnel_shift_right(words.template arriving_at<0>(line), middle, static_cast<uint32_t>(position)),
            gpu::funnel_shift_right(middle, words.template arriving_at<2 * kLineBytes>(line),
                                    static_cast<uint32_t>(position))};
  }
  ECMV_GPU_DEVICE void decode_codes(const Table& table, const gpu::SharedWords& words,
                                    gpu::Pointer<const std::byte> raw) {
    Windows windows{};
    int position = -2 - plan_.copy_shift;
    uint32_t used = 0, used_before = 0, window = 0, raw_words[kBatchWords == 0 ? 1 : kBatchWords] = {};
    ECMV_GPU_UNROLL
    for (int i = 0; i < kSegmentSymbols; ++i) {
      if (i % kBatchSymbols == 0) load_raw(raw, i / kBatchSymbols, raw_words);
      if (i % (2 * kSymbolsOfWindow) == 0) {
        position += static_cast<int>(Bytes::bits_of(used_before + used));
        windows = windows_at(words, position);
        window = windows.first;
        used = used_before = 0;
      } else if (i % kSymbolsOfWindow == 0) {
        window = gpu::funnel_shift_right(windows.first, windows.second, used);
        used_before = used;
        used = 0;
      }
      const uint32_t entry = table.at_shifted(i % kSymbolsOfWindow == 0 ? window : Bytes::past_used(window, used));
      used = Bytes::add_length(entry, used);
      const auto word = [&](int j) { return raw_words[i % kBatchSymbols / 4 * kRawBits + j]; };
      bytes_[2 * i] = Bytes::template join<0>(word, i % 4 * 2, entry);
      bytes_[2 * i + 1] = Bytes::template join<1>(word, i % 4 * 2 + 1, entry);
    }
  }

  AheadLayers layers_;
  AheadPlaces places_;
  const Plan& plan_;
  const Hidden& hidden_;
  int lane_group_;
  gpu::Pointer<std::byte> shared_;
  int turn_ = 0, under_way_ = 0;   // tiles that have been decoded; that are being copied
  int next_layer_ = 0, next_ = 0;  // the tile after them
  Patches patches_{};
  uint32_t bytes_[kAheadCols / 4];
};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE

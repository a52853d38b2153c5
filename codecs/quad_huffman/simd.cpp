// SIMD kernels of quad_huffman take eight rows of a tile at a time. Their words are copied together, a walk of scalar
// look-ups makes some segments' entries (simd/walk.h), then vectors split the entries into high parts, merge the raw
// bits, and store or multiply.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cpu/products/dense_matvec.h"
#include "backends/cpu/products/panel_product.h"
#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format/schedule.h"
#include "codecs/quad_huffman/format/stored.h"
#include "codecs/quad_huffman/plain.h"
#include "codecs/quad_huffman/simd/octet_patches.h"
#include "codecs/quad_huffman/simd/walk.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/quad_huffman/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "codecs/quad_huffman/simd/float_pieces-inl.h"
#include "codecs/quad_huffman/simd/octets-inl.h"
#include "codecs/quad_huffman/simd/pieces-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Copies `count` bytes, past the caches where whole vectors fit.
HWY_INLINE void StreamRow(const uint8_t* HWY_RESTRICT from, int64_t count, uint8_t* HWY_RESTRICT to) {
  const D8 d8;
  constexpr int64_t kLanesOf8 = static_cast<int64_t>(HWY_MAX_LANES_D(D8));
  int64_t i = 0;
  if (reinterpret_cast<uintptr_t>(to) % kPieceCols == 0)
    for (; i + kPieceCols <= count; i += kPieceCols)
      for (int64_t at = i; at < i + kPieceCols; at += kLanesOf8) hn::Stream(hn::Load(d8, from + at), d8, to + at);
  if (i < count) std::memcpy(to + i, from + i, static_cast<size_t>(count - i));
}

// Copies the corrected chunk from the buffer to its place.
HWY_INLINE void StreamChunk(const Launch& launch, const Chunk& chunk, Scratch& scratch) {
  const auto& [group, column, first_lane, lanes, segment, count, tile] = chunk;
  const Stored& stored = launch.stored;
  const int64_t start = segment * stored.segment_cols(), stop = start + count * stored.segment_cols(),
                first_col = column * stored.tile_cols + start, cols = std::min(stored.cols - first_col, stop - start);
  const auto& patches = scratch.patches.of_octet[first_lane / kWalkLanes];
  const uint8_t step = static_cast<uint8_t>(1 << stored.cell_bits());
  for (int& i = scratch.next_patch; i < patches.count && patches.col(i) < stop; ++i) {
    uint8_t& element = scratch.elements[patches.row(i)][patches.col(i) - start];
    element = static_cast<uint8_t>(patches.takes(i) ? element - step : element + step);
  }
  int8_t* row = launch.decoded + (group * kLanes + first_lane - launch.rows.begin) * stored.cols + first_col;
  for (int lane = 0; lane < lanes; ++lane, row += stored.cols)
    StreamRow(scratch.elements[lane].data(), cols, reinterpret_cast<uint8_t*>(row));
}

// Stores or multiplies a chunk whose entries have been looked up.
template <int kSymbolCols, Form kForm, Use kUse>
HWY_NOINLINE void UseEntries(const Launch& launch, const Chunk& chunk, Scratch& scratch) {
  const auto& [group, column, first_lane, lanes, segment, count, tile] = chunk;
  const Stored& stored = launch.stored;
  constexpr int kSegmentCols = quad_huffman::segment_cols(kSymbolCols), kPieces = kSegmentCols / kPieceCols;
  constexpr int kLaneBytesOfRaw = lane_raw_bytes(kSymbolCols, kForm);
  const DI32 di32;
  const V8 lowest = hn::Set(D8(), static_cast<uint8_t>(stored.lowest));
  const int64_t cols = stored.cols, first_col = column * stored.tile_cols + segment * kSegmentCols,
                end = std::min(cols, first_col + count * kSegmentCols);
  const bool buffered = launch.past_caches;
  const int8_t* HWY_RESTRICT x = launch.x;
  const uint8_t* HWY_RESTRICT raw_of_lane =
      stored.raw_of(group, column * stored.tile_segments + segment) + kLaneBytesOfRaw * first_lane;
  int8_t* HWY_RESTRICT row = launch.decoded + (group * kLanes + first_lane - launch.rows.begin) * cols;
  for (int lane = 0; lane < lanes; ++lane, raw_of_lane += kLaneBytesOfRaw, row += cols) {
    VI32 acc = hn::Zero(di32);
    if constexpr (kUse != Use::store) acc = hn::Load(di32, scratch.acc[lane].data());
    const uint8_t* HWY_RESTRICT raw = raw_of_lane;
    const uint32_t* HWY_RESTRICT entries = scratch.entries[lane].data();
    int8_t* HWY_RESTRICT to = buffered ? reinterpret_cast<int8_t*>(scratch.elements[lane].data()) : row + first_col;
    for (int64_t col = 0, left = end - first_col; left > 0; col += kSegmentCols, left -= kSegmentCols) {
      // x and the buffer are padded; rows are not.
      const bool whole = left >= kSegmentCols || kUse != Use::store || buffered;
      int8_t* HWY_RESTRICT here = whole ? to + col : scratch.last_cols.data();
      const auto pieces = [&]<int... kPiece>(std::integer_sequence<int, kPiece...>) HWY_ATTR {
        ((kPiece * kPieceCols < left ? Piece<kSymbolCols, kForm, kUse, kPiece>(
                                           entries + kPiece * kPieceCols / kSymbolCols, raw, lowest,
                                           x + first_col + col + kPiece * kPieceCols, here + kPiece * kPieceCols, acc)
                                     : void()),
         ...);
      };
      pieces(std::make_integer_sequence<int, kPieces>{});
      if (!whole) std::memcpy(to + col, here, static_cast<size_t>(left));
      raw += raw_bytes_of_segment(kSymbolCols, kForm);
      entries += kSegmentSymbols;
    }
    if constexpr (kUse != Use::store) hn::Store(acc, di32, scratch.acc[lane].data());
  }
  if (kUse == Use::store && buffered) StreamChunk(launch, chunk, scratch);
}

// Stores a chunk of bf16 or f8: Group makes the elements of eight entries and their raw words.
template <int kSymbolCols, Form kForm, class Bits, class Group>
HWY_INLINE void StoreGroups(const Launch& launch, const Chunk& chunk, Scratch& scratch, const Group& make_group) {
  const auto& [group, column, first_lane, lanes, segment, count, tile] = chunk;
  const Stored& stored = launch.stored;
  constexpr int kSegmentCols = quad_huffman::segment_cols(kSymbolCols), kGroupCols = 8 * kSymbolCols,
                kGroupWords = kGroupCols / 32 * kForm.raw_bits;
  const int64_t cols = stored.cols, first_col = column * stored.tile_cols + segment * kSegmentCols,
                end = std::min(cols, first_col + count * kSegmentCols);
  Bits* HWY_RESTRICT rows = launch.floats.at<Bits>(group * kLanes + first_lane, first_col);
  const uint8_t* HWY_RESTRICT raw =
      stored.raw_of(group, column * stored.tile_segments + segment) + lane_raw_bytes(kSymbolCols, kForm) * first_lane;
  for (int64_t s = 0, col = 0; s < count; ++s, col += kSegmentCols) {
    if constexpr (kSymbolCols == 8)
      CopyEightsWords<kForm>(raw, scratch.float_words);
    else
      CopyFloatWords<kForm>(raw, scratch.float_words);
    raw += raw_bytes_of_segment(kSymbolCols, kForm);
    const int64_t left = end - first_col - col;
    for (int lane = 0; lane < lanes; ++lane) {
      Bits* HWY_RESTRICT to = rows + lane * launch.floats.stride + col;
      Bits* HWY_RESTRICT here = left >= kSegmentCols ? to : reinterpret_cast<Bits*>(scratch.last_floats.data());
      for (int g = 0; g < kSegmentCols / kGroupCols; ++g)
        make_group(scratch.entries[lane].data() + s * kSegmentSymbols + 8 * g,
                   scratch.float_words[lane].data() + kGroupWords * g, here + kGroupCols * g);
      if (left < kSegmentCols) std::memcpy(to, here, sizeof(Bits) * static_cast<size_t>(left));
    }
  }
}

HWY_NOINLINE void StoreFloats(const Launch& launch, const Chunk& chunk, Scratch& scratch) {
  const FloatOrigin origin = OriginOf(launch.stored.lowest);
  StoreGroups<kFloatCols, kFloatForm, uint16_t>(
      launch, chunk, scratch,
      [&](const uint32_t* HWY_RESTRICT entries, const uint32_t* HWY_RESTRICT words, uint16_t* HWY_RESTRICT to)
          HWY_ATTR { FloatGroup(entries, words, origin, to); });
}

HWY_NOINLINE void StoreF8(const Launch& launch, const Chunk& chunk, Scratch& scratch) {
  const V8 lowest = hn::Set(D8(), static_cast<uint8_t>(launch.stored.lowest));
  StoreGroups<kFloatCols, f8_form(kFloatCols), uint8_t>(
      launch, chunk, scratch,
      [&](const uint32_t* HWY_RESTRICT entries, const uint32_t* HWY_RESTRICT words, uint8_t* HWY_RESTRICT to)
          HWY_ATTR { F8Group(entries, words, lowest, to); });
}

template <Form kForm, class Bits>
HWY_NOINLINE void StoreEights(const Launch& launch, const Chunk& chunk, Scratch& scratch) {
  const V8 lowest = hn::Set(D8(), static_cast<uint8_t>(launch.stored.lowest));
  StoreGroups<8, kForm, Bits>(launch, chunk, scratch,
                              [&](const uint32_t* HWY_RESTRICT entries, const uint32_t* HWY_RESTRICT words,
                                  Bits* HWY_RESTRICT to) HWY_ATTR { EightsPiece<kForm>(entries, words, lowest, to); });
}

template <bool kStores>
HWY_INLINE void AddPatches(const Launch& launch, int64_t group, int64_t column) {
  const Stored& stored = launch.stored;
  const int64_t number = group * stored.column_tiles + column, first_col = column * stored.tile_cols;
  const TileIndex tile = stored.tile(number);
  uint32_t* y = reinterpret_cast<uint32_t*>(launch.y) + group * kLanes;
  for (int64_t i = tile.first_patch, end = stored.first_patch(number + 1); i < end; ++i) {
    const Patch patch = stored.patch(tile, i);
    if constexpr (kStores) {
      int8_t& element =
          launch.decoded[(group * kLanes + patch.row - launch.rows.begin) * stored.cols + first_col + patch.col];
      element = static_cast<int8_t>(element + patch.delta);
    } else {
      y[patch.row] += static_cast<uint32_t>(patch.delta * launch.x[first_col + patch.col]);
    }
  }
}

HWY_INLINE void PutFloatPatches(const Launch& launch, int64_t group, int64_t column) {
  const Stored& stored = launch.stored;
  const int64_t number = group * stored.column_tiles + column;
  const int64_t first = stored.tile(number).first_patch, end = stored.first_patch(number + 1);
  for (int64_t i = first; i < end; ++i) {
    const StoredPatch patch = stored.float_patch(i);
    const int64_t row = group * kLanes + patch.row, col = column * stored.tile_cols + patch.col;
    if (stored.form.f8) {
      uint8_t& element = *launch.floats.at<uint8_t>(row, col);
      element = static_cast<uint8_t>((element & 0x87) | patch.exponent << 3);
    } else {
      uint16_t& element = *launch.floats.at<uint16_t>(row, col);
      element = static_cast<uint16_t>((element & 0x807f) | patch.exponent << 7);
    }
  }
}

template <bool kStores>
HWY_INLINE void Tile(const Launch& launch, int64_t group, int64_t column, Scratch& scratch) {
  const Stored& stored = launch.stored;
  const int64_t rows = std::min<int64_t>(kLanes, stored.rows - group * kLanes);
  const int64_t tile = group * stored.column_tiles + column, segments = stored.segments_of(column);
  const TileIndex index = stored.tile(tile);
  const TileCodes codes(stored, index);
  std::array<int64_t, kMostSegments> reach;
  reach_of_segments(stored.schedule + tile * stored.tile_segments, segments, codes.lines(), reach.data());
  const bool patched = launch.past_caches && scratch.patches.sort(stored, tile);
  for (int lane = 0; lane < rows; lane += kWalkLanes)
    Octet<kStores>(launch, group, column, lane, index, codes, reach, scratch);
  if (kStores && launch.floats.first != nullptr)
    PutFloatPatches(launch, group, column);
  else if (!patched)
    AddPatches<kStores>(launch, group, column);
}

UseFunction StoreOf(const Stored& stored) {
  if (!has_exponent_eights(stored.symbol_cols, stored.form)) return stored.form.f8 ? StoreF8 : StoreFloats;
  return stored.form.f8 ? StoreEights<f8_form(8), uint8_t> : StoreEights<float_raw_bits(8), uint16_t>;
}

template <bool kStores>
void Groups(const Launch& launch) {
  const Stored& stored = launch.stored;
  Scratch scratch;
  for (int64_t group = launch.rows.begin / kLanes; group * kLanes < launch.rows.end; ++group) {
    if constexpr (!kStores)
      std::fill_n(launch.y + group * kLanes, std::min<int64_t>(kLanes, stored.rows - group * kLanes), launch.offset);
    for (int64_t column = 0; column < stored.column_tiles; ++column) Tile<kStores>(launch, group, column, scratch);
  }
  if (launch.past_caches) hwy::FlushStream();
}

// Shared by all kernels.
struct Octets {
  Stored stored;
  WalkFunction walk;
};

Octets OctetsOf(const CompressedView& matrix) {
  const Stored stored = open_stored(matrix);
  return {stored, stored.table_bits <= 9 ? Walk<6> : stored.table_bits <= 11 ? Walk<5> : Walk<4>};
}

// nullptr: there is no such form. Forms whose offsets are always small need no code for other products.
template <int kSymbolCols, Form kForm, Use kUse>
constexpr UseFunction use_entries_of_form() {
  constexpr bool kIsFolded = kForm.folded;
  constexpr int kRawBits = kForm.raw_bits;
  if constexpr (kRawBits < least_raw_bits(kSymbolCols, kIsFolded) || kRawBits > most_raw_bits(kSymbolCols, kIsFolded))
    return nullptr;
  else if constexpr (kUse == Use::dot && is_small(kSymbolCols, kForm))
    return UseEntries<kSymbolCols, kForm, Use::dot_small>;
  else
    return UseEntries<kSymbolCols, kForm, kUse>;
}
template <int kSymbolCols, Use kUse, int... kForms>
UseFunction UseEntriesOfForm(Form form, std::integer_sequence<int, kForms...>) {
  constexpr UseFunction kFunctions[] = {use_entries_of_form<kSymbolCols, kForms, kUse>()...};
  return kFunctions[form];
}
template <Use kUse>
UseFunction UseEntriesOf(const Stored& stored) {
  constexpr auto kForms = std::make_integer_sequence<int, kFolded + kMostRawBits + 1>{};
  return stored.symbol_cols == 4 ? UseEntriesOfForm<4, kUse>(stored.form, kForms)
                                 : UseEntriesOfForm<8, kUse>(stored.form, kForms);
}

// Builds the table in the scratch and sets `largest`, a bound of the high parts of all entries.
Launch OpenLaunch(const Octets& bound, backends::Rows rows, std::byte* scratch, uint32_t& largest) {
  Launch launch{.stored = bound.stored, .walk = bound.walk, .rows = rows};
  uint32_t* table = reinterpret_cast<uint32_t*>(scratch);
  largest = build_table(launch.stored, table);
  launch.table = table;
  return launch;
}

struct Multiply {
  Octets octets;
  UseFunction dot_small, dot;
  void operator()(void*, const backends::MatvecArgs& args) const {
    if (args.rows.count() <= 0) return;
    uint32_t largest = 0;
    Launch launch = OpenLaunch(octets, args.rows, args.scratch, largest);
    launch.x = args.x;
    launch.y = args.y;
    uint32_t sum = 0;
    for (int64_t col = 0; col < launch.stored.cols; ++col) sum += static_cast<uint32_t>(args.x[col]);
    const Stored& stored = launch.stored;
    const uint32_t largest_offset = ((largest + 1) << stored.cell_bits()) - 1;
    const bool small = static_cast<int>(largest_offset) + bias_of(stored.form, Use::dot_small) < 128;
    launch.offset = static_cast<int32_t>(
        sum * static_cast<uint32_t>(stored.lowest - bias_of(stored.form, small ? Use::dot_small : Use::dot)));
    launch.use_entries = small ? dot_small : dot;
    Groups<false>(launch);
  }
};

struct Decode {
  Octets octets;
  UseFunction use_entries;
  bool past_caches;
  void operator()(void*, const backends::DecodeArgs& args) const {
    if (args.rows.count() <= 0) return;
    uint32_t largest = 0;
    Launch launch = OpenLaunch(octets, args.rows, args.scratch, largest);
    if (launch.stored.form.floats)
      launch.floats = {args.out, launch.stored.cols, args.rows.begin, 0, true};
    else
      launch.decoded = reinterpret_cast<int8_t*>(args.out);
    launch.past_caches = past_caches;
    launch.use_entries = use_entries;
    Groups<true>(launch);
  }
};

// Brings a tile of fragments, rows of `stride` elements with `cols` of them in use, to 16 rows of the matrix with twice
// the stride.
template <typename Element, FragmentRuns kRuns>
void JoinFragments(const std::byte* from, int64_t stride, int64_t cols, std::byte* to) {
  constexpr auto kRun = static_cast<int64_t>(kRuns);
  const Element* HWY_RESTRICT tile = reinterpret_cast<const Element*>(from);
  Element* HWY_RESTRICT matrix = reinterpret_cast<Element*>(to);
  for (int64_t row = 0; row < kLanes; ++row)
    for (int64_t col = 0; col < cols; col += kRun) {
      const ElementPlace place = place_of_fragment(row, col, kRuns);
      std::memcpy(matrix + place.row * 2 * stride + place.col, tile + row * stride + col, kRun * sizeof(Element));
    }
}

template <typename Element>
auto JoinRuns(FragmentRuns runs) {
  return runs == FragmentRuns::fours ? JoinFragments<Element, FragmentRuns::fours>
                                     : JoinFragments<Element, FragmentRuns::pairs>;
}

// Decodes tile by tile into a near cache and multiplies from there. The scratch holds the table, a tile (for fragments
// also the matrix's part) and the packed tokens.
struct MultiplyFloats {
  Octets octets;
  backends::cpu::PanelForm form;
  int batch;
  int64_t tile_offset, packed_offset;
  void operator()(void*, const backends::MatmulArgs& args) const {
    if (args.rows.count() <= 0) return;
    uint32_t largest = 0;
    Launch launch = OpenLaunch(octets, args.rows, args.scratch, largest);
    const Stored& stored = launch.stored;
    launch.use_entries = StoreOf(stored);
    const auto type = stored.form.f8 ? datasets::ElementType::f8_e4m3 : datasets::ElementType::bf16;
    std::byte* const tile = args.scratch + tile_offset;
    std::byte* const packed = args.scratch + packed_offset;
    const int64_t all_cols = stored.size.cols, tile_rows = stored.tile_rows(),
                  tile_cols = stored.tile_cols * (kLanes / tile_rows);
    const auto join = stored.form.f8 ? JoinRuns<uint8_t>(stored.runs()) : JoinRuns<uint16_t>(stored.runs());
    std::byte* const matrix = stored.fragments() ? tile + 2 * kLanes * stored.tile_cols : tile;
    backends::cpu::pack_tokens(form, args, batch, all_cols, packed);
    Scratch scratch;
    backends::cpu::PanelSums sums;
    for (int64_t group = args.rows.begin / tile_rows; group * tile_rows < args.rows.end; ++group) {
      const int64_t rows = std::min<int64_t>(tile_rows, stored.size.rows - group * tile_rows);
      sums = {};
      for (int64_t column = 0; column < stored.column_tiles; ++column) {
        const int64_t first_col = column * tile_cols;
        launch.floats = {tile, stored.tile_cols, group * kLanes, column * stored.tile_cols};
        Tile<true>(launch, group, column, scratch);
        if (stored.fragments()) join(tile, stored.tile_cols, stored.cols_of(column), matrix);
        backends::cpu::add_panels(
            form, {type, matrix, stored.element_bytes() * tile_cols, rows, std::min(tile_cols, all_cols - first_col)},
            {packed, all_cols, first_col}, batch, sums);
      }
      backends::cpu::store_sums(sums, rows, batch, args.y + group * tile_rows, args.y_stride);
    }
  }
};

backends::KernelFacts FactsOf(const CompressedView& matrix) {
  return {.rows_per_block = kLanes, .scratch_bytes = static_cast<int64_t>(matrix.sections[kTable].bytes.size())};
}

backends::BoundKernel BindMatvec(const CompressedView& matrix) {
  const Octets octets = OctetsOf(matrix);
  return {Multiply{octets, UseEntriesOf<Use::dot_small>(octets.stored), UseEntriesOf<Use::dot>(octets.stored)},
          FactsOf(matrix)};
}

backends::BoundKernel BindDecode(const DecodePolicy& policy, const CompressedView& matrix) {
  const Octets octets = OctetsOf(matrix);
  const UseFunction store =
      octets.stored.form.floats ? StoreOf(octets.stored) : UseEntriesOf<Use::store>(octets.stored);
  return {Decode{octets, store, policy.past_caches}, FactsOf(matrix)};
}

backends::BoundKernel BindMatmul(const backends::cpu::PanelPolicy& policy, const CompressedView& matrix, int batch) {
  const Octets octets = OctetsOf(matrix);
  const auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  const int64_t tile_offset = aligned(static_cast<int64_t>(matrix.sections[kTable].bytes.size())),
                tile_bytes = 2 * kLanes * octets.stored.tile_cols,
                packed_offset = tile_offset + aligned((octets.stored.fragments() ? 2 : 1) * tile_bytes);
  return {MultiplyFloats{octets, policy.form, batch, tile_offset, packed_offset},
          {.rows_per_block = octets.stored.tile_rows(),
           .scratch_bytes = packed_offset + backends::cpu::packed_bytes(octets.stored.size.cols),
           .rounding = backends::cpu::panel_rounding(policy.form)}};
}

}  // namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::quad_huffman {
namespace {

HWY_EXPORT(BindMatvec);
HWY_EXPORT(BindDecode);
HWY_EXPORT(BindMatmul);

backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(*layers[0].matrix);
}
backends::BoundKernel bind_decode(const backends::Policy& policy, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(policy.as<DecodePolicy>(), *layers[0].matrix);
}

backends::BoundKernel bind_matmul(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatmul)(policy.as<backends::cpu::PanelPolicy>(), *layers[0].matrix, batch);
}

// Entries are read as halves and bytes by the vector code, which splits quads.
std::string refuses(const CompressedView& view, const backends::DeviceInfo&, const backends::Policy&) {
  if (is_plain(view)) return kRefusesPlain;
  if (open_stored(view).symbol_cols == 2) return "The vectors of this kernel split symbols of 4 and 8 columns only.";
  return std::endian::native == std::endian::little ? "" : "This kernel needs a little-endian machine.";
}

std::string refuses_matvec(const CompressedView& view, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  if (view.type != datasets::ElementType::i8) return "The kernel multiplies int8 elements.";
  if (!is_plain(view) && (is_fragments(view) || is_strips(view))) return kRefusesFragments;
  return refuses(view, device, policy);
}
std::string refuses_matmul(const CompressedView& view, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  if (view.type == datasets::ElementType::i8) return "The kernel multiplies elements of bf16 and f8.";
  const backends::cpu::PanelForm form = policy.as<backends::cpu::PanelPolicy>().form;
  if (!backends::cpu::takes(form, view.type)) return "Pairs of elements are multiplied where they are of bf16.";
  const std::string reason = refuses(view, device, policy);
  return reason.empty() ? backends::cpu::why_not(form) : reason;
}
std::string refuses_decode(const CompressedView& view, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  if (view.type != datasets::ElementType::i8 && policy.as<DecodePolicy>().past_caches && !is_plain(view))
    return "Elements of bf16 and f8 go through the caches, where their patches are put in.";
  if (!is_plain(view) && (is_fragments(view) || is_strips(view))) return kRefusesFragments;
  return refuses(view, device, policy);
}

std::string refuses_plain(const CompressedView& view, const backends::DeviceInfo&, const backends::Policy&) {
  if (view.type != datasets::ElementType::i8) return "The kernel multiplies int8 elements.";
  return is_plain(view) ? "" : kRefusesCodes;
}
backends::BoundKernel bind_plain(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return PlainProduct<backends::cpu::dense_matvec_simd>(*layers[0].matrix);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode,
     .variant = "octets",
     .policies = kDecodePolicies,
     .refuses = refuses_decode,
     .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "octets", .refuses = refuses_matvec, .bind = bind_matvec},
    {.op = backends::Op::matmul,
     .variant = "octets",
     .policies = backends::cpu::kFloatPanels,
     .refuses = refuses_matmul,
     .bind = bind_matmul},
    {.op = backends::Op::matmul,
     .variant = "octets",
     .policies = backends::cpu::kPanels,
     .activations = backends::Activations::bf16,
     .refuses = refuses_matmul,
     .bind = bind_matmul},
    {.op = backends::Op::matvec, .variant = "plain", .refuses = refuses_plain, .bind = bind_plain},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::quad_huffman
#endif  // HWY_ONCE

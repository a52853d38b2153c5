// Portable kernels of rans: one block after the other, one table lookup an element. The number of lanes is a template
// argument, so that up to about eight states stay in registers and the others at fixed places. Whether a lane needs a
// word is a coin toss that no branch predictor learns, so refills are masked (0.47 against 0.28 G elements/s; GCC makes
// branches of all conditional moves here). The product decodes a piece of a block into a first-level buffer and
// multiplies it there, which costs 1 to 2 % and makes every shape work alike.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "backends/cpu/piece_product.h"
#include "backends/kernel.h"
#include "codecs/rans/format.h"
#include "codecs/rans/model.h"
#include "codecs/rans/slot_table.h"

namespace ecmv::codecs::rans {
namespace {

constexpr int64_t kPieceElements = 2048;
constexpr int64_t kMaxTableBytes = int64_t{8} << 16;

template <class T>
T load(const uint8_t* bytes) {
  static_assert(std::endian::native == std::endian::little, "Kernels read little-endian words in one piece.");
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <class Form, int kLanes>
struct Cursor {
  std::array<typename Form::State, kLanes> states;
  const uint8_t* next = nullptr;

  explicit Cursor(const uint8_t* block) : next(block + kLanes * sizeof(typename Form::State)) {
    for (int lane = 0; lane < kLanes; ++lane) states[lane] = load<typename Form::State>(block + lane * sizeof(typename Form::State));
  }
};

// Decodes `steps` steps: steps * kLanes elements.
template <class Form, class Entry, int kLanes>
void decode_steps(Cursor<Form, kLanes>& cursor, const typename Entry::Bits* table, int prob_bits, int64_t steps, int8_t* out) {
  using State = typename Form::State;
  using Word = typename Form::Word;
  constexpr int kRefills = sizeof(Word) == 1 ? 2 : 1;
  auto states = cursor.states;
  const uint8_t* next = cursor.next;
  const State slot_mask = (State{1} << prob_bits) - 1;
  for (int64_t step = 0; step < steps; ++step, out += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      State x = states[lane];
      const auto entry = table[x & slot_mask];
      out[lane] = static_cast<int8_t>(entry);
      x = static_cast<State>(Entry::frequency(entry)) * (x >> prob_bits) + Entry::rank(entry);
      for (int refill = 0; refill < kRefills; ++refill) {
        const State refilled = static_cast<State>(x << (8 * sizeof(Word)) | load<Word>(next));
        const State low = x < Form::kLower;
        x += (refilled - x) & (State{0} - low);
        next += low * sizeof(Word);
      }
      states[lane] = x;
    }
  }
  cursor.states = states;
  cursor.next = next;
}

// Decodes the blocks of a call piece by piece and hands each piece on: sink(first element within the call, elements, count).
template <class Form, class Entry, int kLanes, class Sink>
void decode_blocks(const backends::KernelCall& call, const Layout& layout, const Model& model, const Sink& sink) {
  auto* table = reinterpret_cast<typename Entry::Bits*>(call.scratch);
  expand_slots<Entry>(model, table);
  const auto* offsets = reinterpret_cast<const uint8_t*>(call.matrix->sections[kBlockOffsets].bytes.data());
  const auto* payload = reinterpret_cast<const uint8_t*>(call.matrix->sections[kPayload].bytes.data());
  int64_t done = 0;
  const int64_t first_block = call.row_begin / layout.rows_per_block;
  const int64_t end_block = (call.row_end + layout.rows_per_block - 1) / layout.rows_per_block;
  for (int64_t block = first_block; block < end_block; ++block) {
    Cursor<Form, kLanes> cursor(payload + load<uint64_t>(offsets + 8 * block));
    for (int64_t left = block_elements(layout, call.matrix->shape, block); left > 0;) {
      std::array<int8_t, kPieceElements> piece;
      const int64_t count = std::min(left, kPieceElements);
      decode_steps<Form, Entry, kLanes>(cursor, table, layout.prob_bits, (count + kLanes - 1) / kLanes, piece.data());
      sink(done, piece.data(), count);
      done += count;
      left -= count;
    }
  }
}

template <class Form, class Entry, class Sink>
void dispatch_lanes(const backends::KernelCall& call, const Layout& layout, const Model& model, const Sink& sink) {
  switch (layout.lanes) {
    case 1: return decode_blocks<Form, Entry, 1>(call, layout, model, sink);
    case 2: return decode_blocks<Form, Entry, 2>(call, layout, model, sink);
    case 4: return decode_blocks<Form, Entry, 4>(call, layout, model, sink);
    case 8: return decode_blocks<Form, Entry, 8>(call, layout, model, sink);
    case 16: return decode_blocks<Form, Entry, 16>(call, layout, model, sink);
    case 32: return decode_blocks<Form, Entry, 32>(call, layout, model, sink);
    case 64: return decode_blocks<Form, Entry, 64>(call, layout, model, sink);
  }
}

template <class Form, class Sink>
void dispatch_entry(const backends::KernelCall& call, const Layout& layout, const Model& model, const Sink& sink) {
  if (layout.prob_bits <= NarrowEntry::kMaxProbBits && model.symbols > 1)
    dispatch_lanes<Form, NarrowEntry>(call, layout, model, sink);
  else
    dispatch_lanes<Form, WideEntry>(call, layout, model, sink);
}

template <class Sink>
void decode_call(const backends::KernelCall& call, const Sink& sink) {
  const Layout layout = layout_of(call.matrix->shape, *call.matrix->settings);
  if (layout.blocks == 0) return;
  const Model model = trusted_model(call.matrix->sections[kAlphabet].bytes, layout.prob_bits);
  if (layout.state == "w16s32")
    dispatch_entry<W16S32>(call, layout, model, sink);
  else if (layout.state == "w32s64")
    dispatch_entry<W32S64>(call, layout, model, sink);
  else
    dispatch_entry<W8S32>(call, layout, model, sink);
}

void decode(const backends::KernelCall& call) {
  decode_call(call, [&](int64_t begin, const int8_t* piece, int64_t count) { std::memcpy(call.decoded + begin, piece, count); });
}

void matvec(const backends::KernelCall& call) {
  std::fill(call.y + call.row_begin, call.y + call.row_end, 0);
  const int64_t cols = call.matrix->shape.cols;
  decode_call(call, [&](int64_t begin, const int8_t* piece, int64_t count) {
    backends::cpu::multiply_piece(piece, begin, count, cols, call.x, call.y + call.row_begin);
  });
}

int64_t rows_per_block(const CompressedView& compressed) {
  return layout_of(compressed.shape, *compressed.settings).rows_per_block;
}

int64_t scratch_bytes(const CompressedView&, int) { return kMaxTableBytes; }

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "slot_table", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing,
     .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = decode},
    {.op = backends::Op::matvec, .variant = "slot_table", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing,
     .rows_per_block = rows_per_block, .scratch_bytes = scratch_bytes, .launch = matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::rans

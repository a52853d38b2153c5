// Portable kernels of rans: block after block, one table look-up an element. The number of lanes is a template
// argument, so that up to about eight states stay in registers and the others at fixed places. Whether a lane needs a
// word is a coin toss that no branch predictor learns, so refills are masked (0.47 against 0.28 G elements/s; GCC makes
// branches of all conditional moves here). The product decodes a piece of a block into a first-level buffer and
// multiplies it there, which costs 1 to 2 % and makes every shape work alike.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "backends/cpu/products/piece_product.h"
#include "backends/kernel.h"
#include "codecs/rans/format.h"
#include "codecs/rans/model.h"
#include "codecs/rans/slot_table.h"
#include "codecs/rans/stream.h"

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

// The state of decoding a block: its lanes' states as they are stored, and the next word.
struct Cursor {
  alignas(64) std::array<std::byte, kMaxLanes * sizeof(uint64_t)> states;
  const uint8_t* next;
};

// Decodes `steps` steps, steps * lanes elements. `slots` is the table of Entry::Bits.
using DecodeSteps = void (*)(Cursor& cursor, const std::byte* slots, int prob_bits, int64_t steps, int8_t* out);

template <class Form, class Entry, int kLanes>
void decode_steps(Cursor& cursor, const std::byte* slots, int prob_bits, int64_t steps, int8_t* out) {
  using State = typename Form::State;
  using Word = typename Form::Word;
  constexpr int kRefills = sizeof(Word) == 1 ? 2 : 1;
  const auto* table = reinterpret_cast<const typename Entry::Bits*>(slots);
  std::array<State, kLanes> states;
  std::memcpy(states.data(), cursor.states.data(), sizeof states);
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
  std::memcpy(cursor.states.data(), states.data(), sizeof states);
  cursor.next = next;
}

template <class Form, class Entry>
DecodeSteps steps_for_lanes(int lanes) {
  switch (lanes) {
    case 1: return decode_steps<Form, Entry, 1>;
    case 2: return decode_steps<Form, Entry, 2>;
    case 4: return decode_steps<Form, Entry, 4>;
    case 8: return decode_steps<Form, Entry, 8>;
    case 16: return decode_steps<Form, Entry, 16>;
    case 32: return decode_steps<Form, Entry, 32>;
  }
  return decode_steps<Form, Entry, 64>;
}

// A kernel of either op. The loop over steps is chosen once and called for each piece, so the code around it is not
// compiled for every form (215 functions became 49).
template <class Args>
struct Body {
  Stream stream;
  DecodeSteps steps;
  bool narrow;

  // Decodes the blocks of the rows piece by piece and calls sink(first element within the rows, elements, count) for
  // each.
  template <class Sink>
  void decode_blocks(backends::Rows rows, std::byte* scratch, const Sink& sink) const {
    const Layout& layout = stream.layout;
    if (layout.blocks == 0) return;
    const Model model = trusted_model(stream.alphabet, layout.prob_bits);
    if (narrow)
      expand_slots<NarrowEntry>(model, reinterpret_cast<NarrowEntry::Bits*>(scratch));
    else
      expand_slots<WideEntry>(model, reinterpret_cast<WideEntry::Bits*>(scratch));
    int64_t done = 0;
    const int64_t first_block = rows.begin / layout.rows_per_block;
    const int64_t end_block = (rows.end + layout.rows_per_block - 1) / layout.rows_per_block;
    for (int64_t block = first_block; block < end_block; ++block) {
      const uint8_t* bytes = stream.payload + load<uint64_t>(stream.offsets + 8 * block);
      const int64_t state_bytes = layout.lanes * layout.state_bytes();
      Cursor cursor;
      std::memcpy(cursor.states.data(), bytes, static_cast<size_t>(state_bytes));
      cursor.next = bytes + state_bytes;
      for (int64_t left = block_elements(layout, stream.shape, block); left > 0;) {
        std::array<int8_t, kPieceElements> piece;
        const int64_t count = std::min(left, kPieceElements);
        steps(cursor, scratch, layout.prob_bits, (count + layout.lanes - 1) / layout.lanes, piece.data());
        sink(done, piece.data(), count);
        done += count;
        left -= count;
      }
    }
  }

  void operator()(void*, const Args& args) const {
    if constexpr (std::is_same_v<Args, backends::DecodeArgs>) {
      decode_blocks(args.rows, args.scratch, [&](int64_t begin, const int8_t* piece, int64_t count) {
        std::memcpy(args.out + begin, piece, static_cast<size_t>(count));
      });
    } else {
      int32_t* y = args.y + args.rows.begin;
      std::fill(y, y + args.rows.count(), 0);
      decode_blocks(args.rows, args.scratch, [&](int64_t begin, const int8_t* piece, int64_t count) {
        backends::cpu::multiply_piece(piece, begin, count, stream.shape.cols, args.x, y);
      });
    }
  }
};

template <class Args>
backends::BoundKernel bind(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const Stream stream = stream_of(*layers[0].matrix);
  const Layout& layout = stream.layout;
  const bool narrow = layout.prob_bits <= NarrowEntry::kMaxProbBits && symbols_of(stream.alphabet) > 1;
  const DecodeSteps steps = with_form(layout.state, [&](auto form) {
    using Form = decltype(form);
    return narrow ? steps_for_lanes<Form, NarrowEntry>(layout.lanes) : steps_for_lanes<Form, WideEntry>(layout.lanes);
  });
  return {Body<Args>{stream, steps, narrow},
          {.rows_per_block = layout.rows_per_block, .scratch_bytes = kMaxTableBytes}};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "slot_table", .bind = bind<backends::DecodeArgs>},
    {.op = backends::Op::matvec, .variant = "slot_table", .bind = bind<backends::MatvecArgs>},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::rans

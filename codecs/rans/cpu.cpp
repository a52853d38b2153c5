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

template <class Form, int kLanes>
struct Cursor {
  std::array<typename Form::State, kLanes> states;
  const uint8_t* next = nullptr;

  explicit Cursor(const uint8_t* block) : next(block + kLanes * sizeof(typename Form::State)) {
    for (int lane = 0; lane < kLanes; ++lane)
      states[lane] = load<typename Form::State>(block + lane * sizeof(typename Form::State));
  }
};

// Decodes `steps` steps: steps * kLanes elements.
template <class Form, class Entry, int kLanes>
void decode_steps(Cursor<Form, kLanes>& cursor, const typename Entry::Bits* table, int prob_bits, int64_t steps,
                  int8_t* out) {
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

// Decodes the blocks of the rows piece by piece and hands each piece on: sink(first element within the rows, elements,
// count).
template <class Form, class Entry, int kLanes, class Sink>
void decode_blocks(const Stream& stream, backends::Rows rows, std::byte* scratch, const Sink& sink) {
  const Layout& layout = stream.layout;
  if (layout.blocks == 0) return;
  auto* table = reinterpret_cast<typename Entry::Bits*>(scratch);
  expand_slots<Entry>(trusted_model(stream.alphabet, layout.prob_bits), table);
  int64_t done = 0;
  const int64_t first_block = rows.begin / layout.rows_per_block;
  const int64_t end_block = (rows.end + layout.rows_per_block - 1) / layout.rows_per_block;
  for (int64_t block = first_block; block < end_block; ++block) {
    Cursor<Form, kLanes> cursor(stream.payload + load<uint64_t>(stream.offsets + 8 * block));
    for (int64_t left = block_elements(layout, stream.shape, block); left > 0;) {
      std::array<int8_t, kPieceElements> piece;
      const int64_t count = std::min(left, kPieceElements);
      decode_steps<Form, Entry, kLanes>(cursor, table, layout.prob_bits, (count + kLanes - 1) / kLanes, piece.data());
      sink(done, piece.data(), count);
      done += count;
      left -= count;
    }
  }
}

template <class Form, class Entry, int kLanes>
void run(const Stream& stream, const backends::DecodeArgs& args) {
  decode_blocks<Form, Entry, kLanes>(stream, args.rows, args.scratch,
                                     [&](int64_t begin, const int8_t* piece, int64_t count) {
                                       std::memcpy(args.out + begin, piece, static_cast<size_t>(count));
                                     });
}

template <class Form, class Entry, int kLanes>
void run(const Stream& stream, const backends::MatvecArgs& args) {
  int32_t* y = args.y + args.rows.begin;
  std::fill(y, y + args.rows.count(), 0);
  const int64_t cols = stream.shape.cols;
  decode_blocks<Form, Entry, kLanes>(stream, args.rows, args.scratch,
                                     [&](int64_t begin, const int8_t* piece, int64_t count) {
                                       backends::cpu::multiply_piece(piece, begin, count, cols, args.x, y);
                                     });
}

template <class Args, class Form, class Entry>
Run<Args> run_for_lanes(int lanes) {
  switch (lanes) {
    case 1: return run<Form, Entry, 1>;
    case 2: return run<Form, Entry, 2>;
    case 4: return run<Form, Entry, 4>;
    case 8: return run<Form, Entry, 8>;
    case 16: return run<Form, Entry, 16>;
    case 32: return run<Form, Entry, 32>;
  }
  return run<Form, Entry, 64>;
}

template <class Args>
backends::BoundKernel bind(const backends::Policy&, std::span<const backends::Layer> layers, backends::Place&) {
  const Stream stream = stream_of(*layers[0].matrix);
  const bool narrow = stream.layout.prob_bits <= NarrowEntry::kMaxProbBits && symbols_of(stream.alphabet) > 1;
  const Run<Args> chosen = with_form(stream.layout.state, [&](auto form) {
    using Form = decltype(form);
    return narrow ? run_for_lanes<Args, Form, NarrowEntry>(stream.layout.lanes)
                  : run_for_lanes<Args, Form, WideEntry>(stream.layout.lanes);
  });
  return bound<Args>(stream, chosen, kMaxTableBytes);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "slot_table", .bind = bind<backends::DecodeArgs>},
    {.op = backends::Op::matvec, .variant = "slot_table", .bind = bind<backends::MatvecArgs>},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::rans

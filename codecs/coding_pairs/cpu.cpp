// Decode kernel of coding_pairs: the reference's formats over decoders that keep their tables in the scratch. A thread
// starts at the checkpoint where its rows begin, so rows can be divided among threads only where checkpoints fall on
// row ends. Floats by exponent have a loop of their own, because a call for every pair takes half of the time.
#include <bit>
#include <cstring>

#include "backends/kernel.h"
#include "codecs/coding_pairs/coders.h"
#include "codecs/coding_pairs/format.h"
#include "codecs/coding_pairs/pairs.h"
#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::coding_pairs {
namespace {

using modelling::BitReader;

uint64_t load(const std::byte* bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

// The stored model, whose numbers are not aligned.
struct StoredModel {
  const std::byte* bytes;
  int weight_size;
  uint32_t count() const { return static_cast<uint32_t>(load(bytes, 4)); }
  uint32_t code(uint32_t i) const { return static_cast<uint32_t>(load(bytes + 4 + 2 * i, 2)); }
  uint32_t weight(uint32_t i) const {
    return static_cast<uint32_t>(load(bytes + 4 + 2 * count() + static_cast<size_t>(weight_size) * i, weight_size));
  }
  uint32_t frequency(uint32_t i) const { return weight(i) + 1; }
};

class Arena {
 public:
  explicit Arena(std::byte* begin) : at_(begin) {}
  template <class T>
  T* take(size_t count) {
    T* const taken = reinterpret_cast<T*>(at_);
    at_ += (count * sizeof(T) + 63) / 64 * 64;
    return taken;
  }

 private:
  std::byte* at_;
};

struct FixedDecoder {
  int length;
  FixedDecoder(const StoredModel& model, CoderKind, Arena&)
      : length(static_cast<int>(std::bit_width(model.count() - 1))) {}
  void set_state(uint64_t) {}
  uint32_t decode(BitReader& bits) { return static_cast<uint32_t>(bits.read(length)); }
};

struct HuffmanDecoder {
  static constexpr int kMaxLength = 24;
  uint32_t* order;
  uint32_t count[kMaxLength + 1] = {};
  HuffmanDecoder(const StoredModel& model, CoderKind, Arena& arena) : order(arena.take<uint32_t>(model.count())) {
    uint32_t next[kMaxLength + 2] = {};
    for (uint32_t i = 0; i < model.count(); ++i) ++count[model.weight(i)];
    for (int length = 1; length <= kMaxLength; ++length) next[length + 1] = next[length] + count[length];
    for (uint32_t i = 0; i < model.count(); ++i) order[next[model.weight(i)]++] = i;
  }
  void set_state(uint64_t) {}
  uint32_t decode(BitReader& bits) {
    const uint64_t window = bits.peek(kMaxLength);
    uint64_t first = 0, before = 0;
    for (int length = 1; length < kMaxLength; ++length) {
      first <<= 1;
      const uint64_t word = window >> (kMaxLength - length);
      if (word < first + count[length]) {
        bits.skip(length);
        return order[before + word - first];
      }
      first += count[length];
      before += count[length];
    }
    bits.skip(kMaxLength);
    return order[before + window - 2 * first];
  }
};

struct TansDecoder {
  struct Entry {
    uint32_t base;
    uint16_t code;
    uint8_t bits;
  };
  Entry* table;
  uint32_t state = 0;
  TansDecoder(const StoredModel& model, CoderKind kind, Arena& arena) {
    const uint32_t size = static_cast<uint32_t>(most_codes(kind)), step = size / 2 + size / 8 + 3,
                   count = model.count();
    const int bits = std::countr_zero(size);
    table = arena.take<Entry>(size);
    auto* const occurrence = arena.take<uint32_t>(count);
    uint32_t slot = 0;
    for (uint32_t code = 0; code < count; ++code) {
      occurrence[code] = model.frequency(code);
      for (uint32_t i = 0; i < occurrence[code]; ++i, slot = (slot + step) & (size - 1))
        table[slot].code = static_cast<uint16_t>(code);
    }
    for (slot = 0; slot < size; ++slot) {
      const uint32_t x = occurrence[table[slot].code]++;
      table[slot].bits = static_cast<uint8_t>(bits - (std::bit_width(x) - 1));
      table[slot].base = (x << table[slot].bits) - size;
    }
  }
  void set_state(uint64_t saved) { state = static_cast<uint32_t>(saved); }
  uint32_t decode(BitReader& bits) {
    const Entry entry = table[state];
    state = entry.base + static_cast<uint32_t>(bits.read(entry.bits));
    return entry.code;
  }
};

template <class State, int kLow, int kPiece>
struct RansDecoder {
  uint16_t* code_of_slot;
  uint32_t *q, *begin;
  State state = 0;
  RansDecoder(const StoredModel& model, CoderKind, Arena& arena) {
    code_of_slot = arena.take<uint16_t>(1 << 16);
    q = arena.take<uint32_t>(model.count());
    begin = arena.take<uint32_t>(model.count());
    uint32_t next = 0;
    for (uint32_t code = 0; code < model.count(); ++code) {
      q[code] = model.frequency(code);
      begin[code] = next;
      std::fill_n(code_of_slot + next, q[code], static_cast<uint16_t>(code));
      next += q[code];
    }
  }
  void set_state(uint64_t saved) { state = static_cast<State>(saved); }
  uint32_t decode(BitReader& bits) {
    const auto slot = static_cast<uint32_t>(state & 0xFFFF);
    const uint32_t code = code_of_slot[slot];
    state = State{q[code]} * (state >> 16) + slot - begin[code];
    if (state < State{1} << kLow) state = state << kPiece | static_cast<State>(bits.read(kPiece));
    return code;
  }
};

// What a bound kernel knows of its matrix.
struct Stored {
  Layout layout;
  datasets::ElementType type;
  bool plain_floats;  // bf16 by exponent
  int64_t cols;
  const PairFormat* format;
  const std::byte *model, *checkpoints;
  std::span<const std::byte> payload;
};

template <class Decoder>
class Source final : public PairSource {
 public:
  Source(const Stored& stored, std::byte* scratch)
      : model_{stored.model, weight_bytes(stored.layout.coder)},
        arena_(scratch),
        decoder_(model_, stored.layout.coder, arena_),
        bits_(stored.payload) {
    codes_ = arena_.take<uint16_t>(model_.count());
    extra_ = arena_.take<uint8_t>(model_.count());
    for (uint32_t i = 0; i < model_.count(); ++i) {
      codes_[i] = static_cast<uint16_t>(model_.code(i));
      extra_[i] = static_cast<uint8_t>(stored.format->extra_bits(codes_[i], stored.type));
    }
  }
  void seek(const std::byte* entry, int saved_bytes) {
    bits_.seek(static_cast<int64_t>(load(entry, kPositionBytes)));
    decoder_.set_state(load(entry + kPositionBytes, saved_bytes));
  }
  Pair next() override {
    const uint32_t number = decoder_.decode(bits_);
    return {bits_.read(extra_[number]), codes_[number], extra_[number]};
  }
  void restore_bf16(std::span<std::byte> out) {
    for (size_t at = 0; at < out.size(); at += 2) {
      const uint32_t number = decoder_.decode(bits_);
      const auto extra = static_cast<uint32_t>(bits_.read(8));
      const auto pattern =
          static_cast<uint16_t>((extra & 0x80) << 8 | static_cast<uint32_t>(codes_[number]) << 7 | (extra & 0x7F));
      std::memcpy(&out[at], &pattern, 2);
    }
  }

 private:
  StoredModel model_;
  Arena arena_;
  Decoder decoder_;
  BitReader bits_;
  uint16_t* codes_;
  uint8_t* extra_;
};

template <class Decoder>
struct Decode {
  Stored stored;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const Layout layout = stored.layout;
    if (layout.segments == 0 || args.rows.count() <= 0) return;
    Source<Decoder> source(stored, args.scratch);
    const int64_t width = datasets::element_bytes(stored.type);
    int64_t element = args.rows.begin * stored.cols;
    const int64_t end = args.rows.end * stored.cols;
    source.seek(stored.checkpoints + element / layout.segment * layout.entry_bytes(), state_bytes(layout.coder));
    std::byte* out = args.out;
    const bool floats = stored.plain_floats;
    for (int64_t next; element < end; element = next) {
      next = std::min(end, (element / layout.segment + 1) * layout.segment);
      const std::span<std::byte> piece(out, static_cast<size_t>((next - element) * width));
      if (floats)
        source.restore_bf16(piece);
      else
        stored.format->restore(source, stored.type, piece);
      out += piece.size();
    }
  }
};

// Rows of the smallest group that begins at a checkpoint; all rows where no checkpoint falls on a row's end.
int64_t rows_per_block(const Layout& layout, datasets::Shape shape) {
  if (layout.segments == 0 || shape.cols % layout.segment == 0) return 1;
  return layout.segment % shape.cols == 0 ? layout.segment / shape.cols : shape.rows;
}

int64_t scratch_bytes(const Stored& stored) {
  const CoderKind coder = stored.layout.coder;
  if (stored.layout.segments == 0) return 0;
  const auto count = static_cast<int64_t>(load(stored.model, 4));
  const int64_t slots = state_bytes(coder) > 0 ? most_codes(coder) : 0;
  return slots * static_cast<int64_t>(sizeof(TansDecoder::Entry)) + count * (4 + 4 + 2 + 1) + 6 * 64;
}

backends::BoundKernel bind(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& view = *layers[0].matrix;
  const std::string& pairs = view.settings->text("pairs");
  const Stored stored{layout_of(view.shape, *view.settings),
                      view.type,
                      view.type == datasets::ElementType::bf16 && pairs == "exponent",
                      view.shape.cols,
                      &find_format(pairs),
                      view.sections[kModel].bytes.data(),
                      view.sections[kCheckpoints].bytes.data(),
                      view.sections[kPayload].bytes};
  const backends::KernelFacts facts{.rows_per_block = rows_per_block(stored.layout, view.shape),
                                    .scratch_bytes = scratch_bytes(stored)};
  switch (stored.layout.coder) {
    case CoderKind::fixed: return {Decode<FixedDecoder>{stored}, facts};
    case CoderKind::huffman: return {Decode<HuffmanDecoder>{stored}, facts};
    case CoderKind::rans16: return {Decode<RansDecoder<uint32_t, 16, 16>>{stored}, facts};
    case CoderKind::rans64: return {Decode<RansDecoder<uint64_t, 31, 32>>{stored}, facts};
    default: return {Decode<TansDecoder>{stored}, facts};
  }
}

constexpr backends::Kernel kKernels[] = {{.op = backends::Op::decode, .variant = "pairs", .bind = bind}};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::coding_pairs

// bpc: bit-plane compression. The differences of a block's neighbouring 32-bit words, 33 bits each, are transposed into
// 33 planes. Each plane is xored with the one above it; the results, mostly zero, get prefix codes. Our own variant:
// field widths follow the block (`scaled`), where the released models always use the widths of 128-byte blocks
// (`literal`). Idea: Kim et al., ISCA 2016.
#include <bit>

#include "codecs/compressed_matrix.h"
#include "codecs/modelling/memory_blocks.h"

namespace ecmv::codecs::bpc {
namespace {

using namespace modelling;

constexpr int kPlanes = 33;
constexpr int kRunBits = 5;  // runs of 2 to 33 planes: all of them
constexpr int kMaxBaseBits = 33;

// Sizes that follow from the block and the setting `widths`.
struct Format {
  int deltas;         // bits of a plane: words of a block - 1
  int position_bits;  // of a bit in a plane
  int raw_bits;       // of a plane as it is
  uint32_t all_ones;  // the plane that counts as all ones
};

Format format_of(int64_t block_bytes, bool scaled) {
  const int deltas = static_cast<int>(block_bytes / 4 - 1);
  if (!scaled) return {deltas, 5, 31, (uint32_t{1} << 31) - 1};
  return {deltas, static_cast<int>(std::bit_width(static_cast<uint32_t>(deltas - 1))), deltas,
          (uint32_t{1} << deltas) - 1};
}
Format format_of(const Settings& settings) {
  return format_of(block_bytes(settings), settings.text("widths") == "scaled");
}

using Planes = std::array<uint32_t, kPlanes>;

// The planes of the differences: bit i of plane j is bit j of word i + 1 less word i. `is_signed` says how words are
// read.
Planes planes_of(std::span<const std::byte> block, bool is_signed) {
  Planes planes = {};
  const auto value = [&](size_t i) {
    return is_signed ? sign_extend(load_word32(block, i), 32) : int64_t{load_word32(block, i)};
  };
  for (size_t i = 0; i + 1 < block.size() / 4; ++i) {
    const auto delta = static_cast<uint64_t>(value(i + 1) - value(i));
    for (int j = 0; j < kPlanes; ++j) planes[j] |= static_cast<uint32_t>(delta >> j & 1) << i;
  }
  return planes;
}

void encode_base(uint32_t word, BitWriter& out) {
  const int64_t value = sign_extend(word, 32);
  if (word == 0) return out.put(0b000, 3);
  int code = 1;
  for (const int bits : {4, 8, 16}) {
    if (fits_signed(value, bits)) {
      out.put(static_cast<uint64_t>(code), 3);
      return out.put(word, bits);
    }
    ++code;
  }
  out.put(1, 1);
  out.put(word, 32);
}

uint32_t decode_base(BitReader& in) {
  if (in.read(1) == 1) return static_cast<uint32_t>(in.read(32));
  const uint64_t code = in.read(2);
  if (code == 0) return 0;
  const int bits = 2 << code;
  return static_cast<uint32_t>(sign_extend(in.read(bits), bits));
}

void encode_run(int run, BitWriter& out) {
  if (run == 0) return;
  if (run == 1) return out.put(0b001, 3);
  out.put(0b01, 2);
  out.put(static_cast<uint64_t>(run - 2), kRunBits);
}

void encode_planes(const Planes& planes, const Format& format, BitWriter& out) {
  int run = 0;
  uint32_t above = 0;
  for (int j = kPlanes - 1; j >= 0; --j) {
    const uint32_t plane = planes[j], changed = plane ^ above;
    above = plane;
    if (changed == 0) {
      ++run;
      continue;
    }
    encode_run(std::exchange(run, 0), out);
    const int lowest = std::countr_zero(changed);
    if (plane == 0) {
      out.put(0b00001, 5);
    } else if (changed == format.all_ones) {
      out.put(0b00000, 5);
    } else if (changed == uint32_t{3} << lowest) {
      out.put(0b00010, 5);
      out.put(static_cast<uint64_t>(lowest), format.position_bits);
    } else if (changed == uint32_t{1} << lowest) {
      out.put(0b00011, 5);
      out.put(static_cast<uint64_t>(lowest), format.position_bits);
    } else {
      out.put(1, 1);
      out.put(changed, format.raw_bits);
    }
  }
  encode_run(run, out);
}

class Coder : public BlockCoder {
 public:
  explicit Coder(const Settings& settings) : format_(format_of(settings)) {}

  void encode(std::span<const std::byte> block, BitWriter& out) const override {
    encode_base(load_word32(block, 0), out);
    encode_planes(planes_of(block, true), format_, out);
  }

  void decode(BitReader& in, std::span<std::byte> block) const override {
    uint32_t word = decode_base(in);
    const Planes planes = decode_planes(in);
    store_word32(block, 0, word);
    for (int i = 0; i < format_.deltas; ++i) {
      uint32_t delta = 0;  // plane 32, the sign, says nothing new modulo 2^32
      for (int j = 0; j < 32; ++j) delta |= (planes[j] >> i & 1) << j;
      store_word32(block, static_cast<size_t>(i + 1), word += delta);
    }
  }

 private:
  Planes decode_planes(BitReader& in) const {
    Planes planes = {};
    for (int j = kPlanes - 1; j >= 0;) {
      const uint32_t above = j == kPlanes - 1 ? 0 : planes[j + 1];
      int run = 0;
      if (in.peek(2) == 0b01) {
        in.skip(2);
        run = static_cast<int>(in.read(kRunBits)) + 2;
      } else if (in.peek(3) == 0b001) {
        in.skip(3);
        run = 1;
      }
      if (run > j + 1) throw MalformedStream("A run of zero planes goes beyond its block.");
      if (run == 0) {
        planes[j--] = above ^ decode_changes(in, above);
      } else {
        for (; run > 0; --run) planes[j--] = above;
      }
    }
    return planes;
  }

  uint32_t decode_changes(BitReader& in, uint32_t above) const {
    if (in.read(1) == 1) {
      const auto changed = static_cast<uint32_t>(in.read(format_.raw_bits));
      if (changed >> format_.deltas != 0)
        throw MalformedStream("A plane of a block has more bits than the block has words.");
      return changed;
    }
    const uint64_t code = in.read(4);
    if (code == 0b0000) {
      if (format_.all_ones >> format_.deltas != 0)
        throw MalformedStream("No plane of such a block is all ones in these widths.");
      return format_.all_ones;
    }
    if (code == 0b0001) return above;
    const uint32_t ones = code == 0b0010 ? 3 : 1;  // 0b0011; the other codes are runs and were taken before
    const auto position = static_cast<int>(in.read(format_.position_bits));
    if (position + (ones == 3 ? 2 : 1) > format_.deltas)
      throw MalformedStream("A one of a plane lies outside of its block.");
    return ones << position;
  }

  Format format_;
};

// The released simulator of the MPC paper: it uses the widths of 128-byte blocks, counts every base as a small one (it
// assigns where it should compare), and reads words as unsigned.
int64_t cal22_bits(std::span<const std::byte> block) {
  BitWriter counter;
  encode_planes(planes_of(block, false), format_of(static_cast<int64_t>(block.size()), false), counter);
  return 3 + 4 + counter.bit_count();
}

int64_t most_block_bits(const Settings& settings) {
  const Format format = format_of(settings);
  return kMaxBaseBits + kPlanes * std::max(1 + format.raw_bits, 5 + format.position_bits);
}

}  // namespace

const Codec& codec() {
  static const Codec codec = make_block_codec<Coder>(
      {.summary = "bit-plane compression of memory blocks",
       .source = "Kim et al.: Bit-plane compression, ISCA 2016",
       .settings = block_settings(
           {32, 64, 128},
           {choice_setting("widths", "scaled: fields as long as the block needs; literal: those of 128-byte blocks",
                           "scaled", {"scaled", "literal"})})},
      most_block_bits, {accounting("cal22", cal22_bits)});
  return codec;
}

}  // namespace ecmv::codecs::bpc

// Bits to bytes and back, most significant bit first: the first bit written is bit 7 of the first byte. The writer
// fills the last byte with zero bits. The reader never looks outside its bytes: it shows zeros past their end, and
// consuming bits that are not there throws MalformedStream. Positions and sizes are 64-bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codecs/codec.h"

namespace ecmv::codecs::modelling {

class BitWriter {
 public:
  // Appends the low `bits` (0..56) bits of `value`; higher bits of `value` are ignored.
  void put(uint64_t value, int bits) {
    pending_ = pending_ << bits | (value & ((uint64_t{1} << bits) - 1));
    pending_bits_ += bits;
    while (pending_bits_ >= 8) {
      pending_bits_ -= 8;
      bytes_.push_back(static_cast<std::byte>(pending_ >> pending_bits_ & 0xff));
    }
  }
  // Zero bits up to the next byte.
  void align() { put(0, (8 - pending_bits_) & 7); }
  int64_t bit_count() const { return static_cast<int64_t>(bytes_.size()) * 8 + pending_bits_; }
  // All bytes, the last one filled up with zero bits; the writer is empty afterwards.
  std::vector<std::byte> finish() {
    align();
    return std::exchange(bytes_, {});
  }

 private:
  std::vector<std::byte> bytes_;
  uint64_t pending_ = 0;  // the low pending_bits_ (0..7 between calls) bits are not in bytes_ yet
  int pending_bits_ = 0;
};

class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes, int64_t position = 0) : bytes_(bytes) { seek(position); }

  int64_t position() const { return position_; }  // in bits
  int64_t size() const { return static_cast<int64_t>(bytes_.size()) * 8; }
  int64_t left() const { return size() - position_; }
  void seek(int64_t position) {
    if (position < 0 || position > size()) refuse(position);
    position_ = position;
  }
  // The next `bits` (0..56) bits without consuming them; zeros stand for bits past the end.
  uint64_t peek(int bits) const {
    uint64_t window = 0;
    const size_t first = static_cast<size_t>(position_ >> 3);
    if (first + 8 <= bytes_.size()) {  // one load and a byte swap where the compiler sees it
      for (size_t i = 0; i < 8; ++i) window = window << 8 | std::to_integer<uint64_t>(bytes_[first + i]);
    } else {
      for (size_t i = first; i < first + 8; ++i)
        window = window << 8 | (i < bytes_.size() ? std::to_integer<uint64_t>(bytes_[i]) : 0);
    }
    window <<= position_ & 7;
    return bits == 0 ? 0 : window >> (64 - bits);
  }
  void skip(int64_t bits) {
    if (bits < 0 || bits > left()) refuse(position_ + bits);
    position_ += bits;
  }
  // The next `bits` (0..56) bits.
  uint64_t read(int bits) {
    const uint64_t value = peek(bits);
    skip(bits);
    return value;
  }

 private:
  [[noreturn]] void refuse(int64_t position) const {
    throw MalformedStream("The bit stream of " + std::to_string(size()) + " bits was asked for bit " +
                          std::to_string(position) + ".");
  }

  std::span<const std::byte> bytes_;
  int64_t position_ = 0;
};

}  // namespace ecmv::codecs::modelling

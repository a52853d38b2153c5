// A prediction model of mpc: every byte of a 32-byte block but one, the root, is predicted by a shifted other byte;
// what remains is cut into bit planes, neighbouring planes are xored, and the 256 bits are put into an order in which
// zeros stand together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codecs/modelling/memory_blocks.h"

namespace ecmv::codecs::mpc {

inline constexpr int kBytes = 32, kBits = 256, kSymbols = 16;
inline constexpr int kMaxShift = 8;  // either way; then nothing is left of a byte

using Block = std::array<uint8_t, kBytes>;
using Symbols = std::array<uint16_t, kSymbols>;  // the first bit is the most significant

struct Model {
  uint8_t root = 0;
  std::array<uint8_t, kBytes> base = {};  // base[i] predicts byte i; nothing for the root, which is its own
  std::array<int8_t, kBytes> shift = {};  // to the left; negative ones to the right
  std::array<uint8_t, kBits> scan = {};   // the k-th bit is plane scan[k] / 32 (0: the highest), column scan[k] % 32
  friend bool operator==(const Model&, const Model&) = default;
};

inline constexpr int kModelBits = 5 + kBytes * (5 + 5) + kBits * 8;

// Predicts each byte from the byte four before (the word before), for blocks whose type is unknown.
Model hand_model();

// The base byte after its shift.
inline uint8_t predict(uint8_t base, int shift) {
  return static_cast<uint8_t>(shift >= 0 ? base << shift : base >> -shift);
}

// A model as kModelBits bits, and back. read_model() throws MalformedStream for bases that are no tree and scans that
// miss a bit.
void write_model(const Model& model, modelling::BitWriter& out);
Model read_model(modelling::BitReader& in);

// A model and its tables, ready for use.
class Transform {
 public:
  explicit Transform(const Model& model);  // throws MalformedStream as read_model() does
  Symbols forward(const Block& block) const;
  Block inverse(const Symbols& symbols) const;
  const Model& model() const { return model_; }

 private:
  Model model_;
  std::array<uint8_t, kBytes> order_ = {};   // every byte after its base
  std::array<uint8_t, kBytes> column_ = {};  // of a byte in the planes: the root's is 0
};

// Plane-major bits before the scan: planes[row] has column 0 as its highest bit.
std::array<uint32_t, 8> changed_planes(const Block& block, const Model& model);

}  // namespace ecmv::codecs::mpc

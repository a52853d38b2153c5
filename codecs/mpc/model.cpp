// The transform of a prediction model, its inverse, and models as bits.
#include "codecs/mpc/model.h"

namespace ecmv::codecs::mpc {
namespace {

constexpr int kIndexBits = 5, kShiftBits = 5, kScanBits = 8;

// Bytes in the columns of the planes: the root, then the others in their order.
std::array<uint8_t, kBytes> columns(const Model& model) {
  std::array<uint8_t, kBytes> column = {};
  uint8_t next = 1;
  for (int i = 0; i < kBytes; ++i)
    if (i != model.root) column[i] = next++;
  return column;
}

}  // namespace

Model hand_model() {
  Model model;
  for (int i = 1; i < kBytes; ++i) model.base[i] = static_cast<uint8_t>(i < 4 ? i - 1 : i - 4);
  for (int k = 0; k < kBits; ++k) model.scan[k] = static_cast<uint8_t>(k);
  return model;
}

void write_model(const Model& model, modelling::BitWriter& out) {
  out.put(model.root, kIndexBits);
  for (int i = 0; i < kBytes; ++i) {
    out.put(model.base[i], kIndexBits);
    out.put(static_cast<uint64_t>(model.shift[i] + kMaxShift), kShiftBits);
  }
  for (const uint8_t bit : model.scan) out.put(bit, kScanBits);
}

Model read_model(modelling::BitReader& in) {
  Model model;
  model.root = static_cast<uint8_t>(in.read(kIndexBits));
  for (int i = 0; i < kBytes; ++i) {
    model.base[i] = static_cast<uint8_t>(in.read(kIndexBits));
    model.shift[i] = static_cast<int8_t>(static_cast<int>(in.read(kShiftBits)) - kMaxShift);
    if (model.shift[i] > kMaxShift) throw MalformedStream("A model shifts a byte by more than its bits.");
  }
  for (uint8_t& bit : model.scan) bit = static_cast<uint8_t>(in.read(kScanBits));
  return Transform(model).model();
}

Transform::Transform(const Model& model) : model_(model), column_(columns(model)) {
  std::array<bool, kBytes> placed = {};
  placed[model.root] = true;
  order_[0] = model.root;
  size_t count = 1;
  for (bool grew = true; grew;) {
    grew = false;
    for (int i = 0; i < kBytes; ++i)
      if (!placed[i] && placed[model.base[i]]) {
        placed[i] = grew = true;
        order_[count++] = static_cast<uint8_t>(i);
      }
  }
  if (count != kBytes) throw MalformedStream("The bases of a model do not lead every byte to the root.");
  std::array<bool, kBits> scanned = {};
  for (const uint8_t bit : model.scan) scanned[bit] = true;
  if (std::find(scanned.begin(), scanned.end(), false) != scanned.end())
    throw MalformedStream("The scan of a model misses a bit.");
}

std::array<uint32_t, 8> changed_planes(const Block& block, const Model& model) {
  std::array<uint32_t, 8> planes = {};
  uint32_t column = uint32_t{1} << 30;
  for (int i = 0; i < kBytes; ++i) {
    const bool is_root = i == model.root;
    const auto residue =
        static_cast<uint8_t>(is_root ? block[i] : block[i] - predict(block[model.base[i]], model.shift[i]));
    const uint32_t bit = is_root ? uint32_t{1} << 31 : column;
    for (int row = 0; row < 8; ++row) planes[row] |= residue >> (7 - row) & 1 ? bit : 0;
    if (!is_root) column >>= 1;
  }
  for (int row = 7; row >= 1; --row) planes[row] ^= planes[row - 1] & 0x7fffffff;  // the root's bits stay as they are
  return planes;
}

Symbols Transform::forward(const Block& block) const {
  const std::array<uint32_t, 8> planes = changed_planes(block, model_);
  Symbols symbols = {};
  for (int k = 0; k < kBits; ++k) {
    const uint8_t bit = model_.scan[k];
    const uint32_t value = planes[bit / 32] >> (31 - bit % 32) & 1;
    symbols[k / 16] = static_cast<uint16_t>(symbols[k / 16] << 1 | value);
  }
  return symbols;
}

Block Transform::inverse(const Symbols& symbols) const {
  std::array<uint32_t, 8> planes = {};
  for (int k = 0; k < kBits; ++k) {
    const uint8_t bit = model_.scan[k];
    planes[bit / 32] |= static_cast<uint32_t>(symbols[k / 16] >> (15 - k % 16) & 1) << (31 - bit % 32);
  }
  for (int row = 1; row < 8; ++row) planes[row] ^= planes[row - 1] & 0x7fffffff;
  Block block = {};
  for (const uint8_t i : order_) {
    uint8_t residue = 0;
    for (int row = 0; row < 8; ++row)
      residue = static_cast<uint8_t>(residue << 1 | (planes[row] >> (31 - column_[i]) & 1));
    block[i] =
        static_cast<uint8_t>(i == model_.root ? residue : residue + predict(block[model_.base[i]], model_.shift[i]));
  }
  return block;
}

}  // namespace ecmv::codecs::mpc

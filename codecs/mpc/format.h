// The stored bits of mpc. A block is an id of 3 bits, followed for kSameWords by the word's bytes, for kRaw by the
// block, and for a model by the codes of its 16 symbols.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "codecs/mpc/model.h"

namespace ecmv::codecs::mpc {

inline constexpr int kIdBits = 3;
inline constexpr uint64_t kZeros = 0, kSameWords = 1, kFirstModel = 2, kRaw = 7;
inline constexpr int kModels = 5;  // ids 2 to 6: bytes, 16-bit and 32-bit or 64-bit integers, fp32, fp64

// The models in use, indexed by id - kFirstModel. The id of a missing model is never chosen.
using Models = std::array<std::optional<Transform>, kModels>;

// The id of the model that was trained for blocks of such elements.
uint64_t model_id(datasets::ElementType type);

// The five models of seen_models.cpp.
Models seen_models();

// The text of a model in seen_models.cpp (kModelBits bits in hexadecimal digits, filled up with zeros), and back.
std::string model_text(const Model& model);
Model model_from_text(std::string_view text);

// The codes of 16 symbols, and back.
void put_symbols(const Symbols& symbols, modelling::BitWriter& out);
Symbols read_symbols(modelling::BitReader& in);

}  // namespace ecmv::codecs::mpc

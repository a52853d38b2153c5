// The offline training of a prediction model from blocks of one type of data. Integers only, so that the same blocks
// give the same model on every platform.
#pragma once

#include <span>

#include "codecs/mpc/model.h"

namespace ecmv::codecs::mpc {

bool is_zero(const Block& block);
bool has_same_words(const Block& block);  // all eight 32-bit words are equal

// Trains a model. Blocks with ids of their own (zeros, equal words) teach nothing and are left out. If no other block
// remains, as for types that were never seen, the result is the hand model.
//
//  1. Every byte is a node; an edge weighs the entropy, over the blocks, of round(log2(one / other)), a zero byte taken
//     as 1.
//  2. The minimum spanning tree says which byte predicts which; its root is the node with the lowest tree.
//  3. A shift is the most frequent of these logarithms.
//  4. The scan follows, from the bit that is one least often, the bit least often one where the bit before is zero.
Model train(std::span<const Block> blocks);

}  // namespace ecmv::codecs::mpc

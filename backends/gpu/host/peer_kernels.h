// Kernels by which devices exchange a vector, or add up what each has of it, through memory that each maps from the
// others (peer_memory.h), as host code starts them.
//
// A word is 8 bytes: 4 bytes of the vector and the 32-bit epoch that they belong to, stored by one instruction into the
// memory of another device and read there by one, so that neither a flag nor a fence is needed (as in exchange.h,
// between devices). Every rank stores its part into the words of all others, and reads its own words until all parts
// have the epoch. Epochs go on from launch to launch, though a replayed graph has constant parameters: a counter in
// memory says which have been used.
//
// Two buffers take turns. A rank stores epoch e + 2 into the buffer of epoch e only when its launch of e + 1 is over,
// so all others have begun theirs of e + 1, so theirs of e, which read that buffer, are over. (So a rank with an empty
// part stores a pair of words, too.) Block b of a launch waits for blocks b of the other ranks alone, so blocks need
// not be on the device together.
#pragma once

#include <cstdint>
#include <span>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

inline constexpr int kMostPeers = 16;

// Where things are in the memory that a rank offers: counters, the words by which ranks meet, two buffers of words.
struct PeerLayout {
  static constexpr int64_t kCounterBytes = 256;
  static constexpr int64_t kMeetingBytes = 256;  // a pair of words for each of kMostPeers
  int64_t words_of_buffer = 0;                   // for vectors of so many bytes, wherever the ranks' parts begin
  static PeerLayout of(int64_t vector_bytes) { return {(vector_bytes / 8 + kMostPeers) * 2}; }
  int64_t bytes() const { return kCounterBytes + kMeetingBytes + 2 * words_of_buffer * 8; }
};

// All of it as one rank sees it; a parameter of the kernels.
struct Peers {
  int rank = 0, count = 1;
  PeerLayout layout;
  std::byte* memory[kMostPeers] = {};  // of rank r, mapped; its own too
};

// data[offsets[r], offsets[r + 1]) of every rank r, on all ranks. `early`: as in LaunchShape.
void exchange_parts(const Peers& peers, std::byte* data, std::span<const int64_t> offsets, bool early, void* stream);

// data[0, count) becomes the sum of what all ranks have there. In one shot: every rank stores all of its numbers to all
// others, and each adds in the order of ranks, so that the sums are the same on all, bit for bit. A rank receives
// ranks - 1 times the vector, little beside what a link carries while tokens are few; the buffers are for `ranks` times
// the vector.
void add_up(const Peers& peers, float* data, int64_t count, bool early, void* stream);

// Ends when all ranks have begun it, and been through it `rounds` times more together.
void meet_peers(const Peers& peers, int rounds, void* stream);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

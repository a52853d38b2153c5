// Kernels by which devices exchange a vector, or add up their vectors, through memory that each maps from the others
// (peer_memory.h), and the host functions that start them.
//
// A word is 8 bytes: 4 bytes of the vector and their 32-bit epoch. One instruction stores it into the memory of another
// device and one reads it there, so neither a flag nor a fence is needed (as in exchange.h, but between devices). Every
// rank stores its part into the words of all others, and reads its own words until all parts have the epoch. Epochs go
// on from launch to launch, though a replayed graph has constant parameters: a counter in memory says how many have
// been used.
//
// Two buffers take turns. A rank stores epoch e + 2 into the buffer of epoch e only when its launch of e + 1 is over.
// By then all others have begun theirs of e + 1, so their launches of e, which read that buffer, are over. (This is why
// a rank with an empty part also stores a pair of words.) Block b of a launch waits only for blocks b of the other
// ranks, so blocks need not be on the device together.
#pragma once

#include <cstdint>
#include <span>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

inline constexpr int kMostPeers = 16;

// The layout of the memory that a rank offers: counters, the words by which ranks meet, two buffers of words.
struct PeerLayout {
  static constexpr int64_t kCounterBytes = 256;
  static constexpr int64_t kMeetingBytes = 256;  // a pair of words for each of kMostPeers
  int64_t words_of_buffer = 0;                   // for vectors of that many bytes, wherever the ranks' parts begin
  static PeerLayout of(int64_t vector_bytes) { return {(vector_bytes / 8 + kMostPeers) * 2}; }
  int64_t bytes() const { return kCounterBytes + kMeetingBytes + 2 * words_of_buffer * 8; }
};

// All of the memory as one rank sees it; a parameter of the kernels.
struct Peers {
  int rank = 0, count = 1;
  PeerLayout layout;
  std::byte* memory[kMostPeers] = {};  // of rank r, mapped; its own too
};

// Gives data[offsets[r], offsets[r + 1]) of every rank r to all ranks. `early`: as in LaunchShape.
void exchange_parts(const Peers& peers, std::byte* data, std::span<const int64_t> offsets, bool early, void* stream);

// data[0, count) becomes the sum over all ranks, in one shot: every rank stores all of its numbers to all others, and
// each adds in the order of ranks, so that the sums are the same on all, bit for bit. A rank receives ranks - 1 times
// the vector, little beside what a link carries while tokens are few. The buffers must hold `ranks` times the vector.
void add_up(const Peers& peers, float* data, int64_t count, bool early, void* stream);

// A barrier: ends when all ranks have begun it and have met `rounds` more times.
void meet_peers(const Peers& peers, int rounds, void* stream);

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

// Encoder and reference decoder of the quad coder. Coding a quad with p = p0 p1 p2 p3 is one ANS step at 28 bits: the
// state is divided by p once, and the remainder R = ((r3 p2 + r2) p1 + r1) p0 + r0 is taken apart into the four
// positions r_i inside their symbols' slots. That equals four steps with the single p_i and needs one long division
// instead of four.
#include "codecs/modelling/quad_ans/quad_ans.h"
#include "codecs/compressed_matrix.h"

#include <bit>
#include <cmath>

#include "codecs/modelling/histogram.h"

namespace ecmv::codecs::modelling {

static_assert(std::endian::native == std::endian::little, "Stored words are little-endian and read in place.");

namespace {

// What the encoder needs to know about a value.
struct EncoderEntry {
  uint32_t prob = 0, cum = 0;
  uint64_t reciprocal = 0;  // ceil(2^35 / prob): (r * reciprocal) >> 35 = r / prob for every r < 2^28
};

std::array<EncoderEntry, 256> encoder_entries(const QuadTables& tables) {
  std::array<EncoderEntry, 256> entries;
  for (int slot = 0; slot < kQuadSlots; ++slot) {
    const uint32_t prob = tables.prob[slot];
    entries[tables.symbol[slot] + 128] = {prob, tables.cum[slot], ((uint64_t{1} << 35) + prob - 1) / prob};
  }
  return entries;
}

class QuadEncoder {
 public:
  void encode(const int8_t* quad, const std::array<EncoderEntry, 256>& entries, std::vector<uint32_t>& words) {
    const EncoderEntry* const e[4] = {&entries[quad[0] + 128], &entries[quad[1] + 128], &entries[quad[2] + 128],
                                      &entries[quad[3] + 128]};
    const uint64_t p = uint64_t{e[0]->prob} * e[1]->prob * e[2]->prob * e[3]->prob;
    if ((state_ >> 36) >= p) {
      words.push_back(static_cast<uint32_t>(state_));
      state_ >>= 32;
    } else if (state_ == 0) {
      state_ = p << 4;  // the smallest state that the decoder will not refill after this quad
    }
    uint64_t remainder = state_ % p, slots = 0;
    for (int i = 0; i < 4; ++i) {
      const uint64_t quotient = (remainder * e[i]->reciprocal) >> 35;
      slots |= (e[i]->cum + remainder - quotient * e[i]->prob) << (kQuadModelBits * i);
      remainder = quotient;
    }
    state_ = state_ / p << 28 | slots;
  }
  uint64_t state() const { return state_; }

 private:
  uint64_t state_ = 0;
};

std::vector<std::byte> bytes_of(const void* data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  return bytes;
}

[[noreturn]] void malformed(const QuadLayout& layout, const std::string& what) {
  throw MalformedStream("The " + std::string(layout.codec) + " stream is damaged: " + what);
}

QuadTables read_tables(const CompressedView& compressed, const QuadLayout& layout) {
  QuadTables tables;
  for (int section = kQuadPpf; section < kQuadSections; ++section)
    if (compressed.sections[section].bytes.size() != kQuadSlots) malformed(layout, "a table does not have 128 bytes.");
  std::memcpy(tables.symbol.data(), compressed.sections[kQuadPpf].bytes.data(), kQuadSlots);
  std::memcpy(tables.cum.data(), compressed.sections[kQuadPpfCum].bytes.data(), kQuadSlots);
  std::memcpy(tables.prob.data(), compressed.sections[kQuadPpfProb].bytes.data(), kQuadSlots);
  for (int first = 0; first < kQuadSlots;) {
    const int prob = tables.prob[first];
    if (prob == 0 || prob > kQuadSlots - first)
      malformed(layout, "the probabilities of its model do not add up to 128.");
    for (int slot = first; slot < first + prob; ++slot)
      if (tables.cum[slot] != first || tables.prob[slot] != prob || tables.symbol[slot] != tables.symbol[first])
        malformed(layout, "its three tables contradict each other.");
    first += prob;
  }
  return tables;
}

}  // namespace

QuadTables fit_quad_model(std::span<const int8_t> elements) {
  const Histogram counts = histogram(elements);
  const float n = static_cast<float>(elements.size());
  std::vector<int> values;
  std::vector<int64_t> probs;
  int64_t sum = 0;
  for (int bin = 0; bin < 256; ++bin) {
    if (counts[bin] == 0) continue;
    const float prob = std::nearbyintf(static_cast<float>(counts[bin]) * 128.0f / n);
    values.push_back(bin - 128);
    probs.push_back(prob < 1.0f ? 1 : static_cast<int64_t>(prob));
    sum += probs.back();
  }
  for (; sum != kQuadSlots; sum += sum < kQuadSlots ? 1 : -1) {
    size_t largest = 0;
    for (size_t k = 1; k < probs.size(); ++k)
      if (probs[k] > probs[largest]) largest = k;
    probs[largest] += sum < kQuadSlots ? 1 : -1;
  }
  QuadTables tables;
  int slot = 0;
  for (size_t k = 0; k < values.size(); ++k) {
    const int first = slot;
    for (; slot < first + probs[k]; ++slot) {
      tables.symbol[slot] = static_cast<int8_t>(values[k]);
      tables.cum[slot] = static_cast<uint8_t>(first);
      tables.prob[slot] = static_cast<uint8_t>(probs[k]);
    }
  }
  return tables;
}

std::string refuses_quads(datasets::MatrixView matrix, const QuadLayout& layout) {
  int distinct = 0;
  for (const uint64_t count : histogram(matrix.i8())) distinct += count != 0;
  if (distinct > kQuadSlots)
    return std::string(layout.codec) +
           " models at most 128 distinct values with its 7-bit probabilities, this matrix has " +
           std::to_string(distinct) + ".";
  if (max_quad_stored_bytes(layout) / (4 * kQuadOffsetWords) > int64_t{UINT32_MAX})
    return std::string(layout.codec) + " stores offsets in 32 bits, which may be too few for so large a matrix.";
  return "";
}

CompressedMatrix encode_quads(datasets::MatrixView matrix, const Settings& settings, const QuadLayout& layout) {
  QuadTables tables;
  if (matrix.shape.elements() > 0) {
    tables = fit_quad_model(matrix.i8());
  } else {
    tables.symbol.fill(0);
    tables.cum.fill(0);
    tables.prob.fill(kQuadSlots);
  }
  const std::array<EncoderEntry, 256> entries = encoder_entries(tables);
  const int8_t* elements = matrix.i8().data();

  std::vector<uint32_t> stored, offsets(static_cast<size_t>(layout.queues), 0), words;
  int64_t used = 0;  // words of queues and states
  std::array<QuadEncoder, kQuadFormatLanes>
      coders;  // as in the original, a queue goes on from the states of the one before
  for (int64_t queue = 0; queue < layout.queues && layout.chunks > 0; ++queue) {
    words.clear();
    for (int64_t chunk = layout.chunks - 1; chunk >= 0; --chunk) {
      const int8_t* base = elements + queue * layout.queue_stride + chunk * layout.chunk_stride;
      for (int lane = kQuadFormatLanes - 1; lane >= 0; --lane)
        coders[lane].encode(base + lane * layout.lane_stride, entries, words);
    }
    const size_t begin = stored.size();
    const int64_t count = static_cast<int64_t>(words.size());
    used += count + 2 * kQuadFormatLanes;
    offsets[queue] = static_cast<uint32_t>(begin / kQuadOffsetWords);
    stored.resize(begin + quad_stored_words(count), 0);
    for (int64_t j = 0; j < count; ++j) stored[begin + quad_word_position(j)] = words[count - 1 - j];
    for (int lane = 0; lane < kQuadFormatLanes; ++lane) {
      stored[begin + quad_state_position(lane)] = static_cast<uint32_t>(coders[lane].state());
      stored[begin + quad_state_position(lane) + 1] = static_cast<uint32_t>(coders[lane].state() >> 32);
    }
  }

  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections = {
      {"compressed", Role::payload, 64, bytes_of(stored.data(), stored.size() * 4),
       4 * (static_cast<int64_t>(stored.size()) - used)},
      {"warp_offsets", Role::index, 64, bytes_of(offsets.data(), offsets.size() * 4)},
      {"ppf", Role::table, 64, bytes_of(tables.symbol.data(), kQuadSlots)},
      {"ppf_cum", Role::table, 64, bytes_of(tables.cum.data(), kQuadSlots)},
      {"ppf_prob", Role::table, 64, bytes_of(tables.prob.data(), kQuadSlots)},
  };
  return compressed;
}

void decode_quads(const CompressedView& compressed, const QuadLayout& layout, std::span<std::byte> out) {
  if (compressed.sections.size() != kQuadSections) malformed(layout, "it does not have five sections.");
  if (layout.queues * layout.chunks * (4 * kQuadFormatLanes) != compressed.shape.elements())
    malformed(layout, "its rows or columns are no multiple of what a queue or a chunk has.");
  const QuadTables tables = read_tables(compressed, layout);
  const auto payload = compressed.sections[kQuadCompressed].bytes;
  const auto offsets = compressed.sections[kQuadWarpOffsets].bytes;
  if (payload.size() % (4 * kQuadGroupWords) != 0) malformed(layout, "its payload is no multiple of 512 bytes.");
  if (offsets.size() % 4 != 0 || static_cast<int64_t>(offsets.size() / 4) != layout.queues)
    malformed(layout, "it does not have one offset for each queue.");
  const int64_t stored = static_cast<int64_t>(payload.size() / 4);
  int8_t* const elements = reinterpret_cast<int8_t*>(out.data());

  int64_t end = 0;  // of the queues so far, in words
  using States = std::array<uint64_t, kQuadFormatLanes>;
  States encoder_began{};  // the states in which the encoder began the queue
  for (int64_t queue = 0; queue < layout.queues && layout.chunks > 0; ++queue) {
    const int64_t begin = int64_t{quad_u32(offsets, queue)} * kQuadOffsetWords;
    if (begin != end) malformed(layout, "a queue does not begin where the one before it ends.");
    if (stored - begin < kQuadGroupWords) malformed(layout, "it ends before a queue's first states.");
    States states, first_quad{};
    for (int lane = 0; lane < kQuadFormatLanes; ++lane)
      states[lane] = quad_u32(payload, begin + quad_state_position(lane)) |
                     uint64_t{quad_u32(payload, begin + quad_state_position(lane) + 1)} << 32;
    const States decoder_began = states;
    int64_t used = 0;
    const auto refill = [&](uint64_t& state) {
      if (state >> 32 != 0) return;
      const int64_t position = begin + quad_word_position(used++);
      if (position >= stored) malformed(layout, "it ends inside a queue.");
      state = state << 32 | quad_u32(payload, position);
    };
    for (int64_t chunk = 0; chunk < layout.chunks; ++chunk) {
      int8_t* base = elements + queue * layout.queue_stride + chunk * layout.chunk_stride;
      for (int lane = 0; lane < kQuadFormatLanes; ++lane) {
        uint64_t& state = states[lane];
        refill(state);
        uint64_t next = state >> 28;
        first_quad[lane] = 16;
        for (int i = 3; i >= 0; --i) {
          const int slot = static_cast<int>(state >> (kQuadModelBits * i)) & (kQuadSlots - 1);
          base[lane * layout.lane_stride + i] = tables.symbol[slot];
          next = next * tables.prob[slot] + (slot - tables.cum[slot]);
          first_quad[lane] *= tables.prob[slot];
        }
        state = next;
      }
    }
    // The encoder starts the first queue at 16 p of a coder's first quad, which is the last one that the decoder meets.
    // It starts every other queue in the states in which it ended the queue before; there the decoder began that queue.
    // Words emitted at once are still queued.
    if (queue > 0)
      for (uint64_t& state : states) refill(state);
    if (states != (queue == 0 ? first_quad : encoder_began))
      malformed(layout, "a coder does not end in the state in which the encoder began.");
    encoder_began = decoder_began;
    end = begin + quad_stored_words(used);
  }
  if (end != stored) malformed(layout, "words follow the last queue.");
}

int64_t max_quad_stored_bytes(const QuadLayout& layout) {
  const int64_t words = layout.chunks > 0 ? layout.queues * quad_stored_words(layout.chunks * kQuadFormatLanes) : 0;
  return words * 4 + layout.queues * 4 + 3 * kQuadSlots;
}

}  // namespace ecmv::codecs::modelling

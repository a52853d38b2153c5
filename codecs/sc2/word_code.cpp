// Trains, stores and reads the word code.
#include "codecs/sc2/word_code.h"

#include <queue>
#include <string>
#include <tuple>

#include "codecs/modelling/code_lengths.h"

namespace ecmv::codecs::sc2 {
namespace {

using namespace modelling;

constexpr int kMaxLength = 32;
constexpr int kLengthBits = 5, kCountBits = 16, kWordBits = 32;  // of the stored table; a length is stored less one

}  // namespace

std::vector<uint8_t> huffman_lengths(std::span<const uint64_t> counts) {
  if (counts.size() == 1) return {1};
  std::vector<size_t> leaves(counts.size()), parent(counts.size(), 0);
  for (size_t i = 0; i < leaves.size(); ++i) leaves[i] = i;
  std::stable_sort(leaves.begin(), leaves.end(), [&](size_t a, size_t b) { return counts[a] < counts[b]; });
  // Nodes: leaves by rank, then merged nodes in the order in which they are made.
  using Node = std::pair<uint64_t, size_t>;
  std::priority_queue<Node, std::vector<Node>, std::greater<>> heap;
  for (size_t rank = 0; rank < leaves.size(); ++rank) heap.push({counts[leaves[rank]], rank});
  while (heap.size() > 1) {
    const Node a = heap.top();
    heap.pop();
    const Node b = heap.top();
    heap.pop();
    const size_t merged = parent.size();
    parent.push_back(0);
    parent[a.second] = parent[b.second] = merged;
    heap.push({a.first + b.first, merged});
  }
  std::vector<int> depth(parent.size(), 0);
  std::vector<uint8_t> lengths(counts.size());
  for (size_t node = parent.size() - 1; node-- > 0;) depth[node] = depth[parent[node]] + 1;
  for (size_t rank = 0; rank < leaves.size(); ++rank) {
    if (depth[rank] > kMaxLength) return limited_code_lengths(counts, kMaxLength);
    lengths[leaves[rank]] = static_cast<uint8_t>(depth[rank]);
  }
  return lengths;
}

FrequentWords most_frequent(const WordCounts& counts, int64_t entries) {
  std::vector<std::pair<uint64_t, uint32_t>> ranked;
  for (const auto& [word, count] : counts) ranked.emplace_back(count, word);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  FrequentWords out;
  const size_t kept = std::min(ranked.size(), static_cast<size_t>(entries));
  for (size_t i = kept; i < ranked.size(); ++i) out.others += ranked[i].first;
  ranked.resize(kept);
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const auto& [count, word] : ranked) {
    out.words.push_back(word);
    out.counts.push_back(count);
  }
  return out;
}

WordCode::WordCode(std::vector<Symbol> symbols) : symbols_(std::move(symbols)) {
  std::sort(symbols_.begin(), symbols_.end(), [](const Symbol& a, const Symbol& b) {
    return std::tuple(a.length, !a.is_escape, a.word) < std::tuple(b.length, !b.is_escape, b.word);
  });
  uint64_t code = 0;
  size_t next = 0;
  for (int length = 1; length <= kMaxLength; ++length) {
    code <<= 1;
    first_[length] = next;
    first_code_[length] = code;
    for (; next < symbols_.size() && symbols_[next].length == length; ++next, ++code) {
      symbols_[next].code = static_cast<uint32_t>(code);
      if (symbols_[next].is_escape)
        escape_ = symbols_[next];
      else if (!index_.emplace(symbols_[next].word, next).second)
        throw MalformedStream("A word stands twice in the table of words.");
    }
    if (code > uint64_t{1} << length)
      throw MalformedStream("The lengths in the table of words are those of no prefix code.");
  }
  first_[kMaxLength + 1] = next;
}

WordCode WordCode::train(const WordCounts& counts, int64_t entries) {
  const FrequentWords frequent = most_frequent(counts, entries);
  // The escape is the first leaf.
  std::vector<uint64_t> leaves = {std::max<uint64_t>(1, frequent.others)};
  leaves.insert(leaves.end(), frequent.counts.begin(), frequent.counts.end());
  const std::vector<uint8_t> lengths = huffman_lengths(leaves);
  std::vector<Symbol> symbols = {{true, 0, lengths[0], 0}};
  for (size_t i = 0; i < frequent.words.size(); ++i) symbols.push_back({false, frequent.words[i], lengths[i + 1], 0});
  return WordCode(std::move(symbols));
}

int64_t WordCode::table_bits() const {
  return kCountBits + kLengthBits + static_cast<int64_t>(words()) * (kLengthBits + kWordBits);
}

std::vector<std::byte> WordCode::write() const {
  BitWriter out;
  out.put(words(), kCountBits);
  out.put(escape_.length - 1u, kLengthBits);
  for (const Symbol& symbol : symbols_) {
    if (symbol.is_escape) continue;
    out.put(symbol.length - 1u, kLengthBits);
    out.put(symbol.word, kWordBits);
  }
  return out.finish();
}

WordCode WordCode::read(std::span<const std::byte> table) {
  BitReader in(table);
  const uint64_t words = in.read(kCountBits);
  const auto read_length = [&] { return static_cast<uint8_t>(in.read(kLengthBits) + 1); };
  std::vector<Symbol> symbols = {{true, 0, read_length(), 0}};
  for (uint64_t i = 0; i < words; ++i) {
    const uint8_t length = read_length();
    symbols.push_back({false, static_cast<uint32_t>(in.read(kWordBits)), length, 0});
  }
  if (in.left() >= 8) throw MalformedStream("More follows the table of words than its words.");
  return WordCode(std::move(symbols));
}

const Symbol* WordCode::find(uint32_t word) const {
  const auto found = index_.find(word);
  return found == index_.end() ? nullptr : &symbols_[found->second];
}

const Symbol& WordCode::read_symbol(BitReader& in) const {
  for (int length = 1; length <= kMaxLength; ++length) {
    const uint64_t count = first_[length + 1] - first_[length], code = in.peek(length);
    if (code >= first_code_[length] && code - first_code_[length] < count) {
      in.skip(length);
      return symbols_[first_[length] + (code - first_code_[length])];
    }
  }
  throw MalformedStream("The bits at " + std::to_string(in.position()) + " begin no code of a word.");
}

}  // namespace ecmv::codecs::sc2

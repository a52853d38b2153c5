// See corrupt.h.
#include "experiments/check/corrupt.h"

#include <algorithm>
#include <new>
#include <random>

#include "codecs/read_stream.h"
#include "experiments/check/outcome.h"

namespace ecmv::experiments {
namespace {

class Damager {
 public:
  Damager(const codecs::CodecEntry& entry, const backends::CompressedMatrix& whole) : entry_(entry), whole_(whole) {}

  // Damages a copy and decodes it. Each section lies in a block of exactly its size, so a sanitizer sees every byte
  // read past it.
  void attempt(const std::function<void(backends::CompressedMatrix&)>& damage) {
    backends::CompressedMatrix damaged = whole_;
    damage(damaged);
    for (backends::Section& section : damaged.sections) section.bytes.shrink_to_fit();
    try {
      codecs::read_stream(*entry_.codec, damaged.view());
      ++result.returned;
    } catch (const codecs::MalformedStream&) {
      ++result.threw;
    } catch (const std::exception& e) {
      if (result.other++ == 0) result.first_other = e.what();
    } catch (...) {
      if (result.other++ == 0) result.first_other = "something that is no std::exception";
    }
  }

  CorruptionResult result;

 private:
  const codecs::CodecEntry& entry_;
  const backends::CompressedMatrix& whole_;
};

}  // namespace

CorruptionResult decode_damaged_streams(const codecs::CodecEntry& entry, const datasets::Matrix& matrix,
                                        const backends::Settings& settings, int flips,
                                        const std::function<bool()>& interrupted) {
  CorruptionResult early;
  backends::CompressedMatrix whole;
  try {
    early.refused = entry.codec->refuses(matrix.view(), settings);
    if (!early.refused.empty()) return early;
    whole = codecs::encode_matrix(entry, matrix.view(), settings);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {
    early.not_encoded = outcome_of_exception().reason;
    return early;
  }
  Damager damager(entry, whole);
  std::mt19937_64 random(1);  // its numbers are the same on all platforms
  for (size_t s = 0; s < whole.sections.size() && !interrupted(); ++s) {
    const size_t size = whole.sections[s].bytes.size();
    for (const size_t keep : {size_t{0}, size_t{1}, size / 4, size / 2, size - size / 8, size - 1})
      if (keep < size) damager.attempt([&](backends::CompressedMatrix& m) { m.sections[s].bytes.resize(keep); });
    damager.attempt(
        [&](backends::CompressedMatrix& m) { m.sections[s].bytes.resize(size + 1 + size / 2, std::byte{0xA5}); });
    damager.attempt(
        [&](backends::CompressedMatrix& m) { m.sections.erase(m.sections.begin() + static_cast<std::ptrdiff_t>(s)); });
    for (int flip = 0; flip < flips && size > 0 && !interrupted(); ++flip)
      damager.attempt([&](backends::CompressedMatrix& m) {
        const size_t range = flip % 2 == 0 ? size : std::min<size_t>(size, 64);
        for (uint64_t bytes = 1 + random() % 4; bytes > 0; --bytes)
          m.sections[s].bytes[random() % range] ^= static_cast<std::byte>(1 + random() % 255);
      });
  }
  return damager.result;
}

}  // namespace ecmv::experiments

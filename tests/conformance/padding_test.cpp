// Padding is declared. Sizes say how many of the stored bytes are filler that carries nothing. Damage finds such bytes
// in the payload here, and the codec must have declared at least as many.
//
// A byte of the payload is
//   idle   if it may be anything: changed in several ways, it leaves the decoded matrix unchanged. Examples are fillers
//          that nobody reads, padding of lanes and lines, and the fields of columns that do not exist.
//   fixed  if it may be nothing else: every change is refused. That alone says little, since a codec that checks where
//          its coders end refuses every change of what they read. But the bytes that coders read look like noise, so
//          kFillerRun or more fixed zeros in a row are filler that the decoder insists on, except for one at each end,
//          which may be zero by chance. Streams of libraries have tables inside, which are no noise: there only idle
//          bytes count.
// The count is a lower bound, and sound for any codec. It may miss bits that share a byte with others that count,
// symbols that fill up the last step of interleaved coders, and insisted filler scattered in shorter pieces. Tables,
// indices and scales are not tested: entries that this matrix does not use are no padding.
//
// A codec may not declare too much either: there must be as many bits whose change leaves the matrix unchanged, or is
// refused.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <optional>

#include "codecs/registry.h"
#include "tests/test_matrices.h"
#include "tests/test_settings.h"
#include "tests/tested_codecs.h"

using namespace ecmv;

namespace {

constexpr size_t kFillerRun = 8, kEqualByChance = 2;
constexpr size_t kProbedEnd = 384;
constexpr int64_t kSamples = 511, kSampling = 12;

enum class Change : uint8_t { unnoticed, noticed, refused };

// The payload of one compressed matrix, damaged byte by byte.
class Probe {
 public:
  Probe(const codecs::Codec& codec, backends::CompressedMatrix compressed)
      : codec_(codec), compressed_(std::move(compressed)), view_(compressed_.view()) {
    const int64_t bytes = compressed_.shape.elements() * datasets::element_bytes(compressed_.type);
    whole_.resize(static_cast<size_t>(bytes));
    damaged_.resize(whole_.size());
    codec_.decode(view_, whole_);
  }

  // Padding of all payload sections.
  int64_t declared() const {
    int64_t bytes = 0;
    for (const backends::Section& section : compressed_.sections)
      if (section.role == backends::Role::payload) bytes += section.padding_bytes;
    return bytes;
  }

  // The bytes that are certainly padding; of long sections only both ends are tested.
  int64_t padding_bytes() {
    int64_t found = 0;
    const auto probe = [&](std::span<std::byte> bytes) {
      for (size_t begin = 0, end = 0; begin < bytes.size(); begin = end) {  // bytes that are all the same
        while (end < bytes.size() && bytes[end] == bytes[begin]) ++end;
        // Only zeros count: a run of other bytes that allows no change may be a code, such as Rice's ones for elements
        // that are all 0.
        const bool noise = end - begin < kFillerRun || bytes[begin] != std::byte{0} || !codec_.portable_bytes;
        size_t fixed = 0;
        for (size_t at = begin; at < end; ++at) {
          const std::optional<Change> always = change_of_byte(bytes[at], noise);
          if (always == Change::unnoticed) ++found;
          fixed = always == Change::refused ? fixed + 1 : 0;
          if (noise || fixed < kFillerRun) continue;
          found += fixed == kFillerRun ? kFillerRun - kEqualByChance : 1;
        }
      }
    };
    for_each_payload([&](std::span<std::byte> bytes) {
      if (bytes.size() <= 2 * kProbedEnd) return probe(bytes);
      probe(bytes.first(kProbedEnd));
      probe(bytes.last(kProbedEnd));
    });
    return found;
  }

  // The most bits whose change may leave the matrix unchanged. About kSamples bits are tried, and kSampling of all is
  // added for those that chance may have missed.
  int64_t most_bits_without_effect() {
    int64_t bits = 0, without = 0;
    for_each_payload([&](std::span<std::byte> bytes) { bits += 8 * static_cast<int64_t>(bytes.size()); });
    const int64_t distance = std::max<int64_t>(1, bits / kSamples);  // on average
    tests::Random random{1};
    int64_t next = 0, begin = 0;
    for_each_payload([&](std::span<std::byte> bytes) {
      const int64_t end = begin + 8 * static_cast<int64_t>(bytes.size());
      for (; next < end; next += 1 + static_cast<int64_t>(random.next() % (2 * distance - 1)))
        without += change(bytes[(next - begin) / 8], std::byte{1} << (next - begin) % 8) != Change::noticed;
      begin = end;
    });
    return without * distance + (distance == 1 ? 0 : bits / kSampling);
  }

 private:
  template <class Visit>
  void for_each_payload(Visit visit) {
    for (backends::Section& section : compressed_.sections)
      if (section.role == backends::Role::payload) visit(std::span(section.bytes));
  }

  // `byte` is one of the matrix that the view shows; it is put back.
  Change change(std::byte& byte, std::byte flip) {
    byte ^= flip;
    std::fill(damaged_.begin(), damaged_.end(), std::byte{0x80});
    Change result = Change::refused;
    try {
      codec_.decode(view_, damaged_);
      result = damaged_ == whole_ ? Change::unnoticed : Change::noticed;
    } catch (const codecs::MalformedStream&) {
    }
    byte ^= flip;
    return result;
  }

  // The common effect of all changes; nullopt if they differ, or if the first is refused and that says nothing.
  std::optional<Change> change_of_byte(std::byte& byte, bool refusal_is_nothing) {
    constexpr std::array kFlips = {std::byte{0xff}, std::byte{0x01}, std::byte{0x80}, std::byte{0x5a}};
    const Change first = change(byte, kFlips[0]);
    if (first == Change::noticed || (first == Change::refused && refusal_is_nothing)) return {};
    for (size_t i = 1; i < kFlips.size(); ++i)
      if (change(byte, kFlips[i]) != first) return {};
    return first;
  }

  const codecs::Codec& codec_;
  backends::CompressedMatrix compressed_;
  backends::CompressedView view_;
  std::vector<std::byte> whole_, damaged_;
};

struct Padding {
  int64_t declared = 0, found = 0;
  bool overstated = false;
  bool stated() const { return declared >= found && !overstated; }
};

Padding padding_of(const codecs::CodecEntry& entry, const datasets::Matrix& matrix,
                   const backends::Settings& settings) {
  Probe probe(*entry.codec, codecs::encode_matrix(entry, matrix.view(), settings));
  Padding padding{probe.declared(), probe.padding_bytes()};
  padding.overstated = padding.declared > padding.found && 8 * padding.declared > probe.most_bits_without_effect();
  return padding;
}

// Small, because every byte is decoded several times: shapes that lanes, tiles and strips do not divide, and shapes
// that the strictest layouts accept.
std::vector<datasets::Matrix> matrices() {
  return {tests::gaussian_matrix({20, 101}, 4),
          tests::bf16_matrix({20, 51}),
          tests::ternary_matrix({19, 70}),
          tests::make_typed_matrix("e4m3", datasets::ElementType::f8_e4m3, {20, 51},
                                   [](int64_t i) { return static_cast<uint64_t>(i * i * 37 + i) % 0x7e; }),
          tests::gaussian_matrix({3, 512}, 4),
          tests::gaussian_matrix({32, 36}, 4),
          tests::gaussian_matrix({33, 331}, 4)};  // large enough that tables pay
}

}  // namespace

TEST_CASE("every codec states its padding") {
  const size_t count = tests::tested_codecs().size();
  const codecs::CodecEntry& entry = tests::tested_codecs()[GENERATE_COPY(range(size_t{0}, count))];
  int accepted = 0;
  for (const backends::Settings& settings : tests::settings_to_test(*entry.codec)) {
    const bool by_default = settings == codecs::default_settings(*entry.codec);
    for (const datasets::Matrix& matrix : matrices()) {
      if (!entry.codec->refuses(matrix.view(), settings).empty()) continue;
      ++accepted;
      INFO(entry.id << " [" << settings.to_string() << "] on " << tests::describe(matrix));
      const Padding padding = padding_of(entry, matrix, settings);
      INFO("Bytes of padding declared: " << padding.declared << ", found by damage: " << padding.found);
      CHECK(padding.declared >= padding.found);
      CHECK_FALSE(padding.overstated);
      if (!by_default) break;  // the first that the codec accepts
    }
  }
  CHECK(accepted > 0);
}

// ---- codecs that lie about padding, each of which must be caught ----

namespace {

constexpr int64_t kPiece = 64;

// Stores the elements unchanged, with `filler` zeros after every piece of them.
struct Filled {
  int64_t filler = 0;    // bytes after every kPiece elements
  int64_t declared = 0;  // bytes in all
  bool insists = false;  // decode() refuses filler that is not zero
  bool checks = false;   // decode() refuses any change, like a codec that checks where its coders end
};

codecs::Codec filled_codec(const Filled& filled) {
  codecs::Codec codec;
  codec.refuses = [](datasets::MatrixView, const backends::Settings&) { return std::string(); };
  codec.max_stored_bytes = [](datasets::Shape shape, const backends::Settings&) { return 2 * shape.elements() + 1; };
  codec.encode = [=](datasets::MatrixView matrix, const backends::Settings& settings) {
    backends::CompressedMatrix compressed = codecs::make_compressed(matrix, settings);
    backends::Section payload{"payload", backends::Role::payload, 64, {}, filled.declared};
    std::byte sum{0};
    for (size_t i = 0; i < matrix.elements.size(); ++i) {
      payload.bytes.push_back(matrix.elements[i]);
      sum ^= matrix.elements[i];
      if ((i + 1) % kPiece == 0) payload.bytes.resize(payload.bytes.size() + static_cast<size_t>(filled.filler));
    }
    compressed.sections = {std::move(payload), {"sum", backends::Role::index, 64, {sum}}};
    return compressed;
  };
  codec.decode = [=](const backends::CompressedView& view, std::span<std::byte> out) {
    const auto payload = view.sections[0].bytes;
    std::byte sum{0};
    size_t at = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      sum ^= out[i] = payload[at++];
      if ((i + 1) % kPiece != 0) continue;
      for (int64_t k = 0; k < filled.filler; ++k)
        if (payload[at++] != std::byte{0} && filled.insists) throw codecs::MalformedStream("The filler is not zero.");
    }
    if (filled.checks && sum != view.sections[1].bytes[0]) throw codecs::MalformedStream("The sum is wrong.");
  };
  return codec;
}

bool stated(const Filled& filled) {
  const codecs::Codec codec = filled_codec(filled);
  const codecs::CodecEntry entry{.id = "filled", .codec = &codec, .cpu_kernels = {}, .simd_kernels = {}};
  return padding_of(entry, tests::gaussian_matrix({8, kPiece}, 4), codecs::default_settings(codec)).stated();
}

}  // namespace

TEST_CASE("a codec that is silent about its padding, or boasts of it, is caught") {
  for (const bool checks : {false, true})
    for (const bool insists : {false, true}) {
      INFO("checks " << checks << ", insists " << insists);
      CHECK(stated({0, 0, insists, checks}));
      CHECK(stated({16, 8 * 16, insists, checks}));
      CHECK_FALSE(stated({16, 0, insists, checks}));
      CHECK_FALSE(stated({16, insists ? 8 * (16 - int64_t{kEqualByChance}) - 1 : 8 * 16 - 1, insists, checks}));
      CHECK_FALSE(stated({8, 0, insists, checks}));
      if (!insists) CHECK_FALSE(stated({1, 7, insists, checks}));
      // If every change is refused, nothing shows that a byte counts.
      if (!checks) CHECK_FALSE(stated({16, 2 * 8 * 16, insists, checks}));
    }
}

// Claims about huffman_exponents alone: exact bytes, alphabets that do not fit, hostile streams, codes of any depth,
// files that are written, read and damaged, and honest sizes of adversarial matrices.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/exact_product.h"
#include "backends/pass.h"
#include "codecs/compressed_matrix.h"
#include "codecs/huffman_exponents/format.h"
#include "codecs/huffman_exponents/tests/test_streams.h"
#include "codecs/modelling/bit_io.h"
#include "codecs/read_stream.h"
#include "datasets/files/safetensors.h"
#include "datasets/numbers.h"
#include "tests/test_matrices.h"

namespace {

using namespace ecmv;
using namespace codecs::huffman_exponents::test_streams;
using backends::CompressedMatrix;
using codecs::MalformedStream;
using namespace codecs::huffman_exponents;
using Sections = std::vector<backends::Section>;

}  // namespace

TEST_CASE("huffman_exponents_kernels_decode_codes_of_every_depth") {
  for (const Matrix& matrix : hard_cases()) {
    CAPTURE(tests::describe(matrix));
    const CompressedMatrix compressed = encode(matrix);
    REQUIRE(decoded(compressed) == matrix.elements);
    CHECK(check_decoders("scalar", compressed, matrix.elements) == 1);
    CHECK(check_decoders("simd", compressed, matrix.elements) >= 1);
  }
}

TEST_CASE("huffman_exponents_container_stores_exactly_these_bytes") {
  // Exponents 127 five times, 128 twice, 126 once, and the end: codes 0, 10, 110 (126 before the end) and 111. Bits
  // 0000 1010 1100, then ones.
  const uint64_t patterns[] = {0x3F80, 0xBF81, 0x3FFF, 0xBF80, 0x4000, 0xC07F, 0x3F00, 0x3F83};
  const CompressedMatrix compressed = encode(bf16({2, 4}, [&](int64_t i) { return patterns[i]; }));
  CHECK(values(compressed.sections[kEncoded]) ==
        std::vector<int>{0x0a, 0xcf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(values(compressed.sections[kSignMantissa]) == std::vector<int>{0x00, 0x81, 0x7f, 0x80, 0x00, 0xff, 0x00, 0x03});
  CHECK(values(compressed.sections[kOutputPositions]) == std::vector<int>{0, 0, 0, 0, 8, 0, 0, 0});
  CHECK(values(compressed.sections[kGaps]) == std::vector<int>{0, 0});
  CHECK(values(compressed.sections[kSplitPositions]).empty());
  const std::vector<int> luts = values(compressed.sections[kLuts]);
  REQUIRE(luts.size() == 512);
  CHECK(std::vector<int>{luts[0], luts[127], luts[128], luts[191], luts[192], luts[223]} ==
        std::vector<int>{127, 127, 128, 128, 126, 126});
  CHECK(std::vector<int>(luts.begin() + 256 + 125, luts.begin() + 256 + 130) == std::vector<int>{0, 3, 1, 2, 0});

  // f8: exponents 7, 7, 8: one bit for 7, two for 8 and for the end; signs and mantissas two to a byte.
  const uint64_t small[] = {0x39, 0xBF, 0x42};
  const CompressedMatrix f8 =
      encode(tests::make_typed_matrix("f8", ElementType::f8_e4m3, {1, 3}, [&](int64_t i) { return small[i]; }));
  CHECK(values(f8.sections[kEncoded])[0] == 0b00101111);
  CHECK(values(f8.sections[kSignMantissa]) == std::vector<int>{0x1f, 0x20});
  CHECK(values(f8.sections[kGaps]) == std::vector<int>{0, 0});
}

TEST_CASE("huffman_exponents_gaps_lead_to_codes_that_start") {
  // Fixed by hand from the definition: of every 8 coded bytes the distance to the first code that begins there.
  const Matrix matrix = tests::bf16_matrix({50, 700});
  const CompressedMatrix compressed = encode(matrix);
  const std::vector<int> luts = values(compressed.sections[kLuts]);
  std::vector<int64_t> starts;
  int64_t bit = 0;
  for (int64_t i = 0; i < matrix.shape.elements(); ++i) {
    starts.push_back(bit);
    const size_t exponent =
        static_cast<size_t>(std::to_integer<int>(matrix.elements[static_cast<size_t>(2 * i)]) >> 7 |
                            (std::to_integer<int>(matrix.elements[static_cast<size_t>(2 * i + 1)]) & 0x7f) << 1);
    bit += luts[luts.size() - 256 + exponent];
  }
  const int64_t bytes = static_cast<int64_t>(compressed.sections[kEncoded].bytes.size()) - kSpareBytes;
  CHECK(bytes == (bit + 7) / 8);
  codecs::modelling::BitReader gaps(compressed.sections[kGaps].bytes);
  for (int64_t thread = 0; thread < (bytes + 7) / 8; ++thread) {
    const auto first = std::lower_bound(starts.begin(), starts.end(), 64 * thread);
    CHECK(static_cast<int64_t>(gaps.read(5)) == (first == starts.end() ? bit : *first) - 64 * thread);
    if (thread % 512 == 0) {
      uint32_t position = 0;
      std::memcpy(&position, compressed.sections[kOutputPositions].bytes.data() + thread / 512 * 4, 4);
      CHECK(static_cast<int64_t>(position) == first - starts.begin());
    }
  }
}

TEST_CASE("huffman_exponents_refuses_what_does_not_fit_with_the_reason") {
  const Matrix infinite = bf16({1, 3}, [](int64_t i) { return i == 1 ? 0x7F80 : 0x3F80; });
  CHECK(refusal(infinite).find("1 elements have the exponent 255") != std::string::npos);
  CHECK(refusal(bf16({1, 1}, [](int64_t) { return 240 << 7; })).find("exponent 240") != std::string::npos);
  CHECK(refusal(bf16({1, 1}, [](int64_t) { return 239 << 7; })) == "");
  CHECK(refusal(tests::gaussian_matrix({2, 2}, 4)).find("bf16 and f8_e4m3") != std::string::npos);
}

TEST_CASE("huffman_exponents_container_keeps_240_exponents_and_codes_of_any_depth") {
  tests::Random random{4};
  const Matrix flat = bf16({300, 333}, [&](int64_t) { return (random.next() % 240) << 7 | (random.next() & 0x807F); });
  const CompressedMatrix compressed = encode(flat);
  CHECK(compressed.sections[kLuts].bytes.size() <= 18 * 256);
  CHECK(decoded(compressed) == flat.elements);
  const Matrix deep = deep_matrix(18, 1024);
  const CompressedMatrix deep_compressed = encode(deep);
  CHECK(deep_compressed.sections[kLuts].bytes.size() >= 4 * 256);  // three levels and the lengths
  CHECK(*std::max_element(deep_compressed.sections[kLuts].bytes.end() - 256,
                          deep_compressed.sections[kLuts].bytes.end()) > std::byte{16});
  CHECK(decoded(deep_compressed) == deep.elements);
}

TEST_CASE("huffman_exponents_sizes_are_honest_where_there_is_nothing_to_gain") {
  tests::Random random{6};
  const Matrix constant = bf16({64, 4096}, [&](int64_t) { return 120 << 7 | (random.next() & 0x807F); });
  const Matrix uniform =
      bf16({64, 4096}, [&](int64_t) { return (random.next() % 240) << 7 | (random.next() & 0x807F); });
  // A bit an element, its gaps and positions; 8 bits and theirs.
  CHECK(bits_per_element(encode(constant)) < 9 + 1.0 * (5.0 / 64 + 32.0 / 32768) + 0.05);
  CHECK(bits_per_element(encode(uniform)) > 16.5);
  CHECK(bits_per_element(encode(uniform)) < 16 + 8 * (5.0 / 64 + 32.0 / 32768) + 0.2);
  const Matrix gaussian = tests::bf16_matrix({256, 4096});
  // 2.59 bits of code, 8 raw ones, 8 % of the code for gaps.
  CHECK(bits_per_element(encode(gaussian)) < 8 + 2.62 * (1 + 5.0 / 64 + 32.0 / 32768) + 0.02);
}

TEST_CASE("huffman_exponents_container_refuses_damaged_tables_and_index") {
  for (const Matrix& matrix : {deep_matrix(16, 1000), f8_matrix({60, 1000})}) {
    const CompressedMatrix good = encode(matrix);
    REQUIRE(decoded(good) == matrix.elements);
    REQUIRE(good.sections[kOutputPositions].bytes.size() > 8);
    const auto refuses = [&](auto change) {
      CompressedMatrix bad = good;
      change(bad.sections);
      CHECK_THROWS_AS(decoded(bad), MalformedStream);
    };
    const auto lengths_row = static_cast<ptrdiff_t>(good.sections[kLuts].bytes.size() - 256);
    refuses([](Sections& s) { std::fill_n(s[0].bytes.begin(), 256, std::byte{240}); });
    refuses([](Sections& s) {
      std::fill(s[0].bytes.begin(), s[0].bytes.end() - 256, std::byte{255});
    });  // a table that points to itself, or none
    refuses([&](Sections& s) { std::fill(s[0].bytes.begin() + lengths_row, s[0].bytes.end(), std::byte{0}); });
    refuses([&](Sections& s) { std::fill(s[0].bytes.begin() + lengths_row, s[0].bytes.end(), std::byte{200}); });
    refuses([](Sections& s) { s[0].bytes.resize(256); });
    refuses([](Sections& s) { s[0].bytes.resize(19 * 256); });
    refuses([](Sections& s) { set_u32(s[kOutputPositions], 4, 0xffffffff); });
    refuses([](Sections& s) { set_u32(s[kOutputPositions], 4, 0); });
    refuses([](Sections& s) { s[kOutputPositions].bytes.resize(4); });
    refuses([](Sections& s) { s[kOutputPositions].bytes.clear(); });
    refuses([](Sections& s) { s[kGaps].bytes.resize(5); });
    refuses([](Sections& s) { s[kGaps].bytes.pop_back(); });
    refuses([](Sections& s) { s[kGaps].bytes[700] ^= std::byte{0x10}; });
    refuses([](Sections& s) { s[kEncoded].bytes.resize(1000); });
    refuses([](Sections& s) { s[kEncoded].bytes.resize(3); });
    refuses([](Sections& s) { s[kEncoded].bytes.resize(s[kEncoded].bytes.size() + 1); });
    refuses([](Sections& s) { s[kSignMantissa].bytes.pop_back(); });
    refuses([](Sections& s) { s[kSplitPositions].bytes.resize(7); });
    refuses([](Sections& s) { s[kSplitPositions].bytes.assign(8, std::byte{0xff}); });
    refuses([](Sections& s) { s.pop_back(); });
  }
}

TEST_CASE("huffman_exponents_reads_what_other_encoders_leave_at_the_end") {
  // 1-bit codes for two exponents: tables made by hand, an end that is not ours.
  const int64_t elements = 8 * 4096 + 64;
  const Matrix matrix = bf16({1, elements}, [](int64_t i) { return static_cast<uint64_t>(100 + i % 2) << 7; });
  CompressedMatrix compressed = encode(matrix);
  Bytes luts(512, std::byte{100});
  std::fill_n(luts.begin() + 128, 128, std::byte{101});
  std::fill_n(luts.begin() + 256, 256, std::byte{0});
  luts[256 + 100] = luts[256 + 101] = std::byte{1};
  compressed.sections[kLuts].bytes = luts;
  Bytes& encoded = compressed.sections[kEncoded].bytes;
  encoded.assign(static_cast<size_t>(elements / 8) + kSpareBytes, std::byte{0x55});
  compressed.sections[kGaps].bytes.assign(2 * 512 * 5 / 8 + 1, std::byte{0});  // for all threads of both blocks
  Bytes& positions = compressed.sections[kOutputPositions].bytes;
  positions.assign(12, std::byte{0});
  set_u32(compressed.sections[kOutputPositions], 4, 8 * 4096);
  set_u32(compressed.sections[kOutputPositions], 8, static_cast<uint32_t>(elements));
  CHECK(decoded(compressed) == matrix.elements);

  // Codes of 1 and 2 bits whose last one ends byte-aligned in the second block, where none starts: no position for that
  // block.
  const int64_t before = 8 * 4096 - 4;  // bits in front of the last code, which has 12
  Matrix last = bf16({1, before + 1}, [&](int64_t i) { return static_cast<uint64_t>(i == before ? 7 : 100) << 7; });
  CompressedMatrix missing = encode(last);
  luts.assign(768, std::byte{100});
  std::fill_n(luts.begin() + 128, 128, std::byte{255});  // all other first bytes lead to the second table
  std::fill_n(luts.begin() + 256, 256, std::byte{7});
  std::fill_n(luts.begin() + 512, 256, std::byte{0});
  luts[512 + 100] = std::byte{1};
  luts[512 + 7] = std::byte{12};
  missing.sections[kLuts].bytes = luts;
  missing.sections[kEncoded].bytes.assign(4097 + kSpareBytes, std::byte{0});
  missing.sections[kEncoded].bytes[4095] = std::byte{0x08};
  missing.sections[kGaps].bytes.assign(2 * 512 * 5 / 8 + 1, std::byte{0});
  missing.sections[kOutputPositions].bytes.assign(8, std::byte{0});
  set_u32(missing.sections[kOutputPositions], 4, static_cast<uint32_t>(last.shape.elements()));
  CHECK(decoded(missing) == last.elements);
}

namespace {

// Modules of both types, one without a name.
struct SmallFile {
  codecs::ChainFile chain;
  std::vector<Matrix> matrices = {tests::bf16_matrix({40, 300}), f8_matrix({33, 31}), tests::bf16_matrix({1, 1}),
                                  f8_matrix({1, 1}), tests::bf16_matrix({0, 5})};
  Bytes file;

  SmallFile() {
    for (size_t i = 0; i < matrices.size(); ++i) {
      chain.layers.push_back(encode(matrices[i]));
      chain.names.push_back(i == 2 ? "" : "layers." + std::to_string(i) + ".mlp");
    }
    chain.layers[0].sections[kSplitPositions].bytes.assign(8, std::byte{1});
    std::fill_n(chain.layers[0].sections[kSplitPositions].bytes.begin() + 2, 6, std::byte{0});
    file = entry().codec->write_file(chain);
  }
};

// The tensors of the first module in `file`, and one of another kind.
std::vector<datasets::TensorView> tensors_of(const datasets::Safetensors& parsed, const Bytes& norm) {
  std::vector<datasets::TensorView> tensors;
  for (const datasets::TensorView& tensor : parsed.tensors)
    if (tensor.name.starts_with("layers.0.")) tensors.push_back(tensor);
  tensors.push_back({"norm.weight", "BF16", {4}, norm});
  return tensors;
}

}  // namespace

TEST_CASE("huffman_exponents_container_files_are_written_and_read") {
  const auto [chain, matrices, file] = SmallFile();
  REQUIRE(entry().codec->recognises_file(file));
  const codecs::ChainFile read = codecs::read_chain_file(*entry().codec, file).chain;
  CHECK(read.names.size() == matrices.size());
  CHECK_FALSE(read.has_more);
  CHECK(read.initial_vector.empty());
  for (size_t i = 0; i < matrices.size(); ++i) {
    const size_t at =
        static_cast<size_t>(std::find(read.names.begin(), read.names.end(), chain.names[i]) - read.names.begin());
    REQUIRE(at < read.layers.size());
    CHECK(read.layers[at].type == matrices[i].type);
    CHECK(read.layers[at].shape == matrices[i].shape);
    CHECK(read.layers[at].source_hash == datasets::content_hash(matrices[i].view()));
    CHECK(decoded(read.layers[at]) == matrices[i].elements);
    for (size_t s = 0; s < chain.layers[i].sections.size(); ++s)
      CHECK(read.layers[at].sections[s].bytes == chain.layers[i].sections[s].bytes);
  }
  CHECK(entry().codec->write_file(read) == file);

  // Without metadata a module is one row; tensors of others are passed over and said to be there.
  const Bytes norm(8, std::byte{1});
  const datasets::Safetensors parsed = datasets::parse_safetensors(file);
  const std::vector<datasets::TensorView> tensors = tensors_of(parsed, norm);
  const codecs::ChainFile bare = codecs::read_chain_file(*entry().codec, datasets::write_safetensors(tensors)).chain;
  REQUIRE(bare.layers.size() == 1);
  CHECK(bare.has_more);
  CHECK(bare.layers[0].shape == datasets::Shape{1, 40 * 300});
  CHECK(decoded(bare.layers[0]) == matrices[0].elements);
}

TEST_CASE("huffman_exponents_container_files_are_refused_when_damaged") {
  const Bytes file = SmallFile().file, norm(8, std::byte{1});
  const datasets::Safetensors parsed = datasets::parse_safetensors(file);
  const std::vector<datasets::TensorView> tensors = tensors_of(parsed, norm);
  const auto refuses = [&](std::string_view tensor_name, auto change,
                           const std::map<std::string, std::string>& metadata = {}) {
    std::vector<datasets::TensorView> changed = tensors;
    Bytes bytes;
    for (datasets::TensorView& tensor : changed)
      if (tensor.name == tensor_name) {
        bytes.assign(tensor.bytes.begin(), tensor.bytes.end());
        change(tensor, bytes);
        tensor.bytes = bytes;
      }
    CHECK_THROWS_AS(codecs::read_chain_file(*entry().codec, datasets::write_safetensors(changed, metadata)),
                    MalformedStream);
  };
  const auto nothing = [](datasets::TensorView&, Bytes&) {};
  refuses("layers.0.mlp.gaps", [](datasets::TensorView& t, Bytes&) { t.name = "layers.0.mlp.gap"; });
  refuses("layers.0.mlp.luts", [](datasets::TensorView& t, Bytes&) { t.shape = {t.shape[0] * 256}; });
  refuses("layers.0.mlp.luts",
          [](datasets::TensorView&, Bytes& b) { std::fill(b.end() - 256, b.end(), std::byte{0}); });
  refuses("layers.0.mlp.encoded_exponent", [](datasets::TensorView& t, Bytes& b) {
    b.resize(b.size() / 2);
    t.shape = {static_cast<int64_t>(b.size())};
  });
  refuses("layers.0.mlp.sign_mantissa", [](datasets::TensorView& t, Bytes& b) {
    b.pop_back();
    t.shape = {static_cast<int64_t>(b.size())};
  });
  refuses("layers.0.mlp.output_positions", [](datasets::TensorView& t, Bytes& b) {
    b.clear();
    t.shape = {0};
  });
  refuses("layers.0.mlp.output_positions", [](datasets::TensorView&, Bytes& b) { b.back() = std::byte{0xff}; });
  refuses("layers.0.mlp.split_positions", [](datasets::TensorView&, Bytes& b) { b[7] = std::byte{0x80}; });
  for (const char* shape : {"[41, 300]", "[12000]"}) refuses("", nothing, {{"layers.0.mlp.shape", shape}});
  refuses("", nothing, {{"layers.0.mlp.type", "f8_e4m3"}});
  // Any flipped bytes: read, or refused as malformed, never anything else.
  tests::Random random{12};
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    Bytes flipped = file;
    for (uint64_t flips = 1 + random.next() % 3; flips > 0; --flips)
      flipped[random.next() % (i % 2 == 0 ? flipped.size() : 2000)] ^= static_cast<std::byte>(1 + random.next() % 255);
    try {
      (void)entry().codec->recognises_file(flipped);
      (void)codecs::read_chain_file(*entry().codec, flipped);
    } catch (const MalformedStream& error) {
      CHECK(std::string_view(error.what()).size() > 20);
      ++refused;
    }
  }
  CHECK(refused > 100);
  CHECK_FALSE(entry().codec->recognises_file(std::span(file).first(20)));
  for (size_t keep : {file.size() - 1, file.size() / 2, size_t{9}})
    CHECK_THROWS_AS(codecs::read_chain_file(*entry().codec, std::span(file).first(keep)), MalformedStream);
}

TEST_CASE("huffman_exponents_gpu_kernels_decode_codes_of_every_depth", "[emulator]") {
  skip_without_emulator();
  for (const Matrix& matrix : hard_cases()) {
    CAPTURE(tests::describe(matrix));
    CHECK(check_decoders("emulator", encode(matrix), matrix.elements) >= 2);  // on both devices
  }
}

// Known sizes and bits of mpc with the hand model, its symbols, its transform and its training.
#include "codecs/mpc/format.h"
#include "codecs/mpc/train.h"
#include "tests/memory_block_claims.h"
#include "tests/model_writer/seen_training.h"

using namespace ecmv;
using namespace ecmv::tests;
namespace mpc = ecmv::codecs::mpc;

namespace {

const GivenSettings kHand = {{"models", "hand"}};

std::string coded(uint16_t symbol) {
  mpc::Symbols symbols;
  symbols.fill(0x8001);  // raw neighbours
  symbols[1] = symbol;
  codecs::modelling::BitWriter out;
  mpc::put_symbols(symbols, out);
  const auto size = static_cast<size_t>(out.bit_count()) - 15 * 17;
  const std::vector<std::byte> bytes = out.finish();
  codecs::modelling::BitReader in(bytes, 17);
  std::string text;
  while (text.size() < size) text += in.read(1) == 1 ? '1' : '0';
  return text;
}

mpc::Block block_of(const Bytes& bytes) {
  mpc::Block block;
  for (size_t i = 0; i < block.size(); ++i) block[i] = std::to_integer<uint8_t>(bytes[i]);
  return block;
}

}  // namespace

TEST_CASE("mpc with the hand model codes the known blocks into the known numbers of bits") {
  const std::map<std::string, uint32_t> expected = {{"Z", 3},   {"N1", 51}, {"N2", 203},    {"P", 259},
                                                    {"R", 198}, {"W", 35},  {"F", 134},     {"D", 252},
                                                    {"L", 145}, {"M", 49},  {"random", 259}};
  for (const auto& [name, size] : expected) {
    INFO(name);
    CHECK(block_bits("mpc", known_blocks().at(name), kHand).at(0) == size);
    CHECK(block_bits("mpc", known_blocks().at(name), kHand, "cal22").at(0) == size);
  }
}

TEST_CASE("mpc writes the known bits") {
  CHECK(stored_bits("mpc", known_blocks().at("N1"), kHand) ==
        bits("010 | 011 0001 | 010 1100 | 1") + field(0x8888, 16) + bits("1") + field(0x8888, 16));
  CHECK(stored_bits("mpc", known_blocks().at("M"), kHand) ==
        bits("010 | 0010 01001000 | 0011 | 011 0000 | 0011 | 0010 01001000 | 010 1010"));
  CHECK(stored_bits("mpc", known_blocks().at("W"), kHand) == bits("001") + field(0x0000803F, 32));
  CHECK(coded(0x0001) == bits("011 1111"));
  CHECK(coded(0x8000) == bits("011 0000"));
  CHECK(coded(0x0003) == bits("0000 1110"));
  CHECK(coded(0xC000) == bits("0000 0000"));
  CHECK(coded(0x00B5) == bits("0001 10110101"));
  CHECK(coded(0xB500) == bits("0010 10110101"));
  CHECK(coded(0x8001) == bits("1") + field(0x8001, 16));
  CHECK(coded(0) == bits("0011"));
  mpc::Symbols symbols = {};
  symbols[2] = symbols[15] = 1;  // runs of 2 and 12
  codecs::modelling::BitWriter out;
  mpc::put_symbols(symbols, out);
  CHECK(out.bit_count() == 7 + 7 + 7 + 7);
  const std::vector<std::byte> bytes = out.finish();
  codecs::modelling::BitReader in(bytes);
  CHECK(in.read(7) == 0b0100001);
  mpc::Symbols long_run = {};
  long_run[15] = 1;
  codecs::modelling::BitWriter other;
  mpc::put_symbols(long_run, other);
  const std::vector<std::byte> other_bytes = other.finish();
  codecs::modelling::BitReader other_in(other_bytes);
  CHECK(other_in.read(7) == 0b0101110);
}

TEST_CASE("every symbol of mpc comes back from its code") {
  for (uint32_t symbol = 0; symbol < 65536; ++symbol) {
    mpc::Symbols symbols = {};
    symbols[symbol % 16] = static_cast<uint16_t>(symbol);
    symbols[15] |= 0x0100;
    codecs::modelling::BitWriter out;
    mpc::put_symbols(symbols, out);
    const std::vector<std::byte> bytes = out.finish();
    codecs::modelling::BitReader in(bytes);
    REQUIRE(mpc::read_symbols(in) == symbols);
    REQUIRE(in.left() < 8);
  }
}

TEST_CASE("the transform of any model is undone by its inverse") {
  Random random{11};
  for (int round = 0; round < 200; ++round) {
    // A random tree, random shifts, a random scan.
    mpc::Model model = mpc::hand_model();
    std::array<uint8_t, 32> order;
    for (size_t i = 0; i < 32; ++i) order[i] = static_cast<uint8_t>(i);
    for (size_t i = 31; i > 0; --i) std::swap(order[i], order[random.next() % (i + 1)]);
    model.root = model.base[order[0]] = order[0];
    for (size_t i = 1; i < 32; ++i) model.base[order[i]] = order[random.next() % i];
    for (size_t i = 1; i < 32; ++i)
      model.shift[order[i]] = static_cast<int8_t>(static_cast<int>(random.next() % 17) - 8);
    for (size_t i = 255; i > 0; --i) std::swap(model.scan[i], model.scan[random.next() % (i + 1)]);
    const mpc::Transform transform(model);
    const mpc::Block block = block_of(awkward_block(round, 32, random));
    CHECK(transform.inverse(transform.forward(block)) == block);
    CHECK(mpc::model_from_text(mpc::model_text(model)) == model);
  }
}

TEST_CASE("models that are no tree or miss a bit are refused") {
  mpc::Model circle = mpc::hand_model(), twice = mpc::hand_model();
  circle.base[8] = 12;  // 12 is predicted by 8
  twice.scan[0] = 5;
  CHECK_THROWS_AS(mpc::Transform(circle), codecs::MalformedStream);
  CHECK_THROWS_AS(mpc::Transform(twice), codecs::MalformedStream);
}

TEST_CASE("training finds the byte that predicts and the shift") {
  // 16-bit words whose high byte is a quarter of the low one; all words are the first plus little.
  Random random{5};
  std::vector<mpc::Block> blocks;
  for (int i = 0; i < 2000; ++i) {
    mpc::Block block;
    const auto low = static_cast<uint8_t>(128 + random.next() % 100);
    for (int w = 0; w < 16; ++w) {
      block[2 * w] = static_cast<uint8_t>(low + random.next() % 3);
      block[2 * w + 1] = static_cast<uint8_t>(block[2 * w] >> 2);
    }
    blocks.push_back(block);
  }
  const mpc::Model model = mpc::train(blocks);
  const mpc::Transform transform(model);
  for (int i = 0; i < 32; ++i)
    if (i != model.root && i % 2 != model.base[i] % 2) CHECK(model.shift[i] == (i % 2 == 1 ? -2 : 2));
  size_t zeros = 0, hand_zeros = 0;
  const mpc::Transform hand(mpc::hand_model());
  for (const mpc::Block& block : blocks) {
    CHECK(transform.inverse(transform.forward(block)) == block);
    for (const uint16_t symbol : transform.forward(block)) zeros += symbol == 0;
    for (const uint16_t symbol : hand.forward(block)) hand_zeros += symbol == 0;
  }
  CHECK(zeros > hand_zeros);
  CHECK(mpc::train(blocks) == model);
  // Blocks with ids of their own teach nothing.
  blocks.insert(blocks.begin(), 500, mpc::Block{});
  CHECK(mpc::train(blocks) == model);
  CHECK(mpc::train({}) == mpc::hand_model());
}

TEST_CASE("the models that come along are those that the seen workloads train") {
  const auto trained = ecmv::tests::train_on_seen_workloads();
  const mpc::Models models = mpc::seen_models();
  for (size_t i = 0; i < trained.size(); ++i) {
    INFO("model " << i + mpc::kFirstModel);
    CHECK(models[i]->model() == trained[i]);
  }
}

TEST_CASE("the models that come along are five, and a shortest choice is never longer") {
  CHECK(codecs::find_codec("mpc")
            ->codec->block_sizes(byte_matrix(Bytes(32)).view(), block_settings_of("mpc", {}))[0]
            .side_bits == 5 * mpc::kModelBits);
  const Bytes blocks = awkward_blocks(3000, 17);
  const std::vector<uint32_t> leading = block_bits("mpc", blocks),
                              shortest = block_bits("mpc", blocks, {{"choice", "shortest"}});
  for (size_t i = 0; i < leading.size(); ++i) {
    CHECK(shortest[i] <= leading[i]);
    CHECK(leading[i] <= 259);
  }
}

TEST_CASE("mpc returns every kind of block") { claim_blocks_round_trip("mpc"); }

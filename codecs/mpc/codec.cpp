// mpc: multi-prediction compression of 32-byte blocks. Up to five trained models predict a block's bytes from one
// another (model.h). The model whose residues begin with the most zero symbols is used, and one small prefix code
// serves all models (symbols.cpp). Zeros, equal words and incompressible blocks have ids of their own. Idea: Jin et
// al., IEEE CAL 2022; the models are ours.
#include "codecs/compressed_matrix.h"
#include "codecs/mpc/format.h"
#include "codecs/mpc/train.h"

namespace ecmv::codecs::mpc {
namespace {

using namespace modelling;

constexpr int64_t kMaxBlockBits = kIdBits + kBits;

Block to_block(std::span<const std::byte> bytes) {
  Block block;
  for (int i = 0; i < kBytes; ++i) block[i] = std::to_integer<uint8_t>(bytes[i]);
  return block;
}

int leading_zeros(const Symbols& symbols) {
  return static_cast<int>(std::find_if(symbols.begin(), symbols.end(), [](uint16_t s) { return s != 0; }) -
                          symbols.begin());
}

class Coder : public BlockCoder {
 public:
  Coder(const Models& models, bool shortest) : models_(models), shortest_(shortest) {}

  void encode(std::span<const std::byte> bytes, BitWriter& out) const override {
    const Block block = to_block(bytes);
    if (is_zero(block)) return out.put(kZeros, kIdBits);
    if (has_same_words(block)) {
      out.put(kSameWords, kIdBits);
      for (int i = 0; i < 4; ++i) out.put(block[i], 8);
      return;
    }
    if (const auto chosen = shortest_ ? shortest(block) : most_leading_zeros(block);
        chosen && bits_of(chosen->symbols) < kBits) {
      out.put(chosen->id, kIdBits);
      return put_symbols(chosen->symbols, out);
    }
    out.put(kRaw, kIdBits);
    for (const uint8_t byte : block) out.put(byte, 8);
  }

  void decode(BitReader& in, std::span<std::byte> out) const override {
    const uint64_t id = in.read(kIdBits);
    Block block = {};
    if (id == kSameWords) {
      for (int i = 0; i < 4; ++i) block[i] = static_cast<uint8_t>(in.read(8));
      for (int i = 4; i < kBytes; ++i) block[i] = block[i - 4];
    } else if (id == kRaw) {
      for (uint8_t& byte : block) byte = static_cast<uint8_t>(in.read(8));
    } else if (id != kZeros) {
      const auto& transform = models_[id - kFirstModel];
      if (!transform)
        throw MalformedStream("A block names model " + std::to_string(id) + ", which the stream does not have.");
      block = transform->inverse(read_symbols(in));
    }
    for (int i = 0; i < kBytes; ++i) out[i] = std::byte{block[i]};
  }

 private:
  struct Chosen {
    uint64_t id;
    Symbols symbols;
  };

  static int64_t bits_of(const Symbols& symbols) {
    BitWriter counter;
    put_symbols(symbols, counter);
    return counter.bit_count();
  }

  // The best model, among equals the one with the highest id; nothing without models.
  template <class Better>
  std::optional<Chosen> choose(const Block& block, Better at_least_as_good) const {
    std::optional<Chosen> best;
    for (uint64_t i = 0; i < kModels; ++i) {
      if (!models_[i]) continue;
      const Symbols symbols = models_[i]->forward(block);
      if (!best || at_least_as_good(symbols, best->symbols)) best = {kFirstModel + i, symbols};
    }
    return best;
  }
  std::optional<Chosen> most_leading_zeros(const Block& block) const {
    return choose(block, [](const Symbols& a, const Symbols& b) { return leading_zeros(a) >= leading_zeros(b); });
  }
  std::optional<Chosen> shortest(const Block& block) const {
    return choose(block, [](const Symbols& a, const Symbols& b) { return bits_of(a) <= bits_of(b); });
  }

  Models models_;
  bool shortest_;
};

// Models that are not stored with the matrix; empty for `own`.
Models built_in_models(const Settings& settings) {
  Models models;
  if (settings.text("models") == "hand") models[0].emplace(hand_model());
  if (settings.text("models") == "seen") models = seen_models();
  return models;
}

bool has_own_model(const Settings& settings) { return settings.text("models") == "own"; }
bool wants_shortest(const Settings& settings) { return settings.text("choice") == "shortest"; }

// The table of `own`: an id and its model.
std::vector<std::byte> write_own(uint64_t id, const Model& model) {
  BitWriter out;
  out.put(id, kIdBits);
  write_model(model, out);
  return out.finish();
}

Models read_own(std::span<const std::byte> table) {
  BitReader in(table);
  const uint64_t id = in.read(kIdBits);
  if (id < kFirstModel || id >= kFirstModel + kModels)
    throw MalformedStream("There is no model " + std::to_string(id) + ".");
  Models models;
  models[id - kFirstModel].emplace(read_model(in));
  if (in.left() >= 8) throw MalformedStream("More follows the model than its scan.");
  return models;
}

Models train_own(datasets::MatrixView matrix, const Settings& settings) {
  std::vector<Block> blocks;
  for_each_block(matrix.elements, block_bytes(settings),
                 [&](std::span<const std::byte> bytes) { blocks.push_back(to_block(bytes)); });
  Models models;
  models[model_id(matrix.type) - kFirstModel].emplace(train(blocks));
  return models;
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  if (!has_own_model(settings))
    return encode_blocks(matrix, settings, Coder(built_in_models(settings), wants_shortest(settings)));
  const Models models = train_own(matrix, settings);
  const uint64_t id = model_id(matrix.type);
  return encode_blocks(matrix, settings, Coder(models, wants_shortest(settings)),
                       BlockTable{"model", write_own(id, models[id - kFirstModel]->model())});
}

void decode(const CompressedView& view, std::span<std::byte> out) {
  const bool own = has_own_model(*view.settings);
  const Models models = own ? read_own(stored_table(view)) : built_in_models(*view.settings);
  decode_blocks(view, Coder(models, wants_shortest(*view.settings)), out, own ? kMemoryTable + 1 : kMemoryTable);
}

int64_t max_stored_bytes(datasets::Shape bytes, const Settings& settings) {
  return max_stored_block_bytes(bytes, settings, kMaxBlockBits,
                                has_own_model(settings) ? (kIdBits + kModelBits + 7) / 8 : 0);
}

std::vector<BlockSizes> block_sizes(datasets::MatrixView matrix, const Settings& settings) {
  const Models models = has_own_model(settings) ? train_own(matrix, settings) : built_in_models(settings);
  const auto in_use = std::count_if(models.begin(), models.end(), [](const auto& model) { return model.has_value(); });
  std::vector<BlockSizes> sizes =
      count_stream_bits(matrix, settings, Coder(models, wants_shortest(settings)), in_use * kModelBits);
  // The released simulator counts this same stream, with the model that the hardware would choose.
  for (BlockSizes& counted : count_stream_bits(matrix, settings, Coder(models, false), in_use * kModelBits))
    if (counted.accounting == "stream") {
      counted.accounting = "cal22";
      sizes.push_back(std::move(counted));
    }
  return sizes;
}

}  // namespace

uint64_t model_id(datasets::ElementType type) {
  using datasets::ElementType;
  switch (type) {
    case ElementType::f32: return 5;
    case ElementType::f64: return 6;
    default: return datasets::element_bytes(type) == 1 ? 2 : datasets::element_bytes(type) == 2 ? 3 : 4;
  }
}

const Codec& codec() {
  static const Codec codec = {
      .summary = "multi-prediction compression of 32-byte memory blocks",
      .source = "Jin et al.: Multi-Prediction Compression, IEEE CAL 21(2), 2022",
      .settings = block_settings(
          {32}, {choice_setting("models",
                                "seen: five that were trained on the seen workloads; own: one that is trained on the "
                                "matrix and stored; hand: the word before",
                                "seen", {"seen", "own", "hand"}),
                 choice_setting("choice",
                                "of a block's model: leading_zeros, as in hardware, or shortest, which codes with all",
                                "leading_zeros", {"leading_zeros", "shortest"})}),
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
      .block_sizes = block_sizes,
  };
  return codec;
}

}  // namespace ecmv::codecs::mpc

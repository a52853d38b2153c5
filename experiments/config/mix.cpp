// See mix.h.
#include "experiments/config/mix.h"

#include <algorithm>
#include <iterator>

namespace ecmv::experiments {
namespace {

using Kind = datasets::LayerKind;

constexpr std::string_view kAttention = "attention", kMlp = "mlp", kOthers = "others";
constexpr Kind kLinear[] = {Kind::q,  Kind::k,       Kind::v,    Kind::qkv,       Kind::o,      Kind::gate,
                            Kind::up, Kind::gate_up, Kind::down, Kind::embedding, Kind::lm_head};

std::string_view group_of(Kind kind) {
  if (kind <= Kind::o) return kAttention;
  if (kind <= Kind::down) return kMlp;
  return kOthers;
}

}  // namespace

std::vector<std::string_view> kind_words() {
  std::vector<std::string_view> words = {kAttention, kMlp, kOthers};
  for (const Kind kind : kLinear) words.push_back(datasets::layer_kind_name(kind));
  return words;
}

std::optional<size_t> place_of_kind(std::span<const std::string> words, Kind kind) {
  for (const std::string_view word : {datasets::layer_kind_name(kind), group_of(kind), kOthers})
    if (const auto found = std::ranges::find(words, word); found != words.end())
      return static_cast<size_t>(found - words.begin());
  return std::nullopt;
}

std::vector<const CodecChoice*> CodecChoice::all() const {
  if (of_kinds.empty()) return {this};
  std::vector<const CodecChoice*> all;
  for (const CodecChoice& one : of_kinds) all.push_back(&one);
  return all;
}

const CodecChoice* CodecChoice::of(const datasets::Matrix& layer) const {
  if (entry == nullptr) {
    const auto place = place_of_kind(kinds, datasets::layer_kind(layer.name));
    return place ? of_kinds[*place].of(layer) : nullptr;
  }
  for (size_t i = 0; i < tuned.size(); ++i)
    if (tuned[i].fits(layer.type, layer.shape)) return &of_tuned[i];
  return this;
}

std::optional<CodecChoice> choice_of(const CodecSpec& spec, std::span<const codecs::CodecEntry> codecs,
                                     std::string& missing) {
  CodecChoice choice{.entry = nullptr, .settings = spec.settings, .kinds = spec.kinds};
  for (const CodecSpec& part : spec.of_kinds) {
    const auto of_kind = choice_of(part, codecs, missing);
    if (!of_kind) return std::nullopt;
    choice.of_kinds.push_back(*of_kind);
  }
  if (spec.is_mix()) return choice;
  const auto entry = std::ranges::find(codecs, spec.id, &codecs::CodecEntry::id);
  if (entry == codecs.end()) {
    missing = spec.id;
    return std::nullopt;
  }
  choice.entry = &*entry;
  choice.tuned = spec.tuned;
  for (const TunedSettings& one : spec.tuned) choice.of_tuned.push_back({choice.entry, one.settings});
  return choice;
}

}  // namespace ecmv::experiments

// Mixes: codecs by kind of layer. A word stands for kinds: "attention", "mlp", a kind's own name ("lm_head", "q"), or
// "others" for all kinds that no other word of the mix names.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codecs/registry.h"
#include "datasets/layers/layer_kind.h"
#include "datasets/matrix.h"
#include "experiments/config/case.h"

namespace ecmv::experiments {

inline constexpr std::string_view kMix = "mix";

std::vector<std::string_view> kind_words();

// The place in `words` for this kind: its own name first, then its group, then "others".
std::optional<size_t> place_of_kind(std::span<const std::string> words, datasets::LayerKind kind);

// A codec with one choice of settings, beside others for some shapes; or a mix of codecs.
struct CodecChoice {
  const codecs::CodecEntry* entry = nullptr;  // null for a mix
  backends::Settings settings;
  std::vector<std::string> kinds = {};
  std::vector<CodecChoice> of_kinds = {};
  std::vector<TunedSettings> tuned = {};
  std::vector<CodecChoice> of_tuned = {};  // the codec with each of these

  // All codecs that it names, at least one.
  std::vector<const CodecChoice*> all() const;
  // The codec of a layer, with its settings. A mix chooses by the kind that the layer's name tells; null if it has none
  // for it.
  const CodecChoice* of(const datasets::Matrix& layer) const;
};

// nullopt if a codec is not among them; `missing` then names it.
std::optional<CodecChoice> choice_of(const CodecSpec& spec, std::span<const codecs::CodecEntry> codecs,
                                     std::string& missing);

}  // namespace ecmv::experiments

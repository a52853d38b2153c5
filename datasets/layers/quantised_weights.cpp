// See quantised_weights.h.
#include "datasets/layers/quantised_weights.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>

#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

constexpr std::string_view kScaleWords[] = {
    "scale",       "scales",       "scale_inv",        "scales_and_zeros", "zero",
    "zeros",       "qzeros",       "zero_point",       "zero_points",      "g_idx",
    "scb",         "absmax",       "nested_absmax",    "quant_map",        "weight_format",
    "amax",        "quant_state",  "nested_quant_map", "weight_shape",     "suh",
    "svh",         "q_scale_max",  "q_groups",         "codebooks",        "q_invperm",
    "q_group_map", "scale_weight", "scale_input"};
// Longer ones first, since they are cut off.
constexpr std::string_view kScaleEndings[] = {"_global_scale", "_scale_inv",   "_scale_2",    "_scales",
                                              "_scale",        "_zero_points", "_zero_point", "_zeros",
                                              "_absmax",       "_g_idx",       "_shape",      "_amax"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::pair<std::string, std::string> last_part(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == name.npos ? std::pair(std::string(), name) : std::pair(name.substr(0, dot), name.substr(dot + 1));
}

int64_t count_of(const TensorView& tensor) { return tensor_elements(tensor.name, tensor.shape); }

class Joiner {
 public:
  Joiner(std::vector<TensorView>& tensors, const std::function<QuantisedGroups()>& groups)
      : tensors_(tensors), ask_groups_(groups) {
    for (TensorView& tensor : tensors) by_name_.emplace(tensor.name, &tensor);
  }

  std::vector<std::string> join() {
    std::map<TensorView*, std::vector<TensorView*>> parts_of;
    for (TensorView& tensor : tensors_)
      if (TensorView* const base = tensor.is_beside ? nullptr : base_of(tensor); base != nullptr)
        parts_of[base].push_back(&tensor);
    for (auto& [base, parts] : parts_of) {
      for (TensorView* part : parts) part->is_beside = true;
      rewrite(*base, parts);
      for (const TensorView* part : parts)
        if (part->bytes.data() != base->scales.data() || base->scales.empty()) base->beside.push_back(part->bytes);
    }
    return remarks_;
  }

 private:
  TensorView* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  // The tensor to which this one belongs as a scale; none for others, and for scales of what the file does not have.
  TensorView* base_of(const TensorView& tensor) const {
    constexpr size_t kMostTimes = 16;  // that scales are larger than the weights: otherwise they are something else
    auto [path, word] = last_part(tensor.name);
    if (const auto [outer, inner] = last_part(path); inner == "quant_state") path = outer, word = inner;
    const bool is_mlx = word == "biases" && find(path + ".scales") != nullptr;
    if (!is_mlx && !is_scale_word(word)) return nullptr;
    std::vector<std::string> names = {path};
    for (const char* codes : {"weight", "qweight", "weight_packed", "W_q", "_data", "q_weight", "trellis", "codes"})
      names.push_back(path + "." + codes);
    for (const std::string_view ending : kScaleEndings) {
      if (!word.ends_with(ending)) continue;
      const std::string stem = (path.empty() ? "" : path + ".") + word.substr(0, word.size() - ending.size());
      names.insert(names.begin(), {stem + "_blocks", stem + "_packed", stem + "_quantized", stem});
      break;
    }
    for (const std::string& name : names)
      if (TensorView* const base = find(name); base != nullptr && base != &tensor && base->shape.size() >= 2 &&
                                               kMostTimes * base->bytes.size() >= tensor.bytes.size())
        return base;
    return nullptr;
  }

  using Parts = std::vector<TensorView*>;
  static TensorView* part_of(const Parts& parts, std::initializer_list<std::string_view> endings) {
    const auto found = std::ranges::find_if(parts, [&](const TensorView* part) {
      return std::ranges::any_of(endings, [&](std::string_view ending) { return part->name.ends_with(ending); });
    });
    return found == parts.end() ? nullptr : *found;
  }

  void rewrite(TensorView& base, const Parts& parts) {
    if (base.layout != Layout::rows || base.bytes.empty()) return;
    if (name_coded(base, parts)) return;
    if (base.dtype == "U32") return rewrite_mlx(base, parts);
    if (base.dtype == "U8" || base.dtype == "F4") return rewrite_fp4(base, parts);
    if (base.dtype != "I32" || base.shape.size() != 2) return;
    if (base.name.ends_with("qweight"))
      rewrite_words(base, parts);
    else if (const TensorView* shape = part_of(parts, {"weight_shape"}); shape != nullptr && shape->dtype == "I64")
      rewrite_compressed(base, *shape);
  }

  // Codes whose numbers of bits vary or that name entries of code books: known by name, sized, and no elements.
  static bool name_coded(TensorView& base, const Parts& parts) {
    struct Coded {
      std::string_view codes, beside;
      const char* dtype;
    };
    constexpr Coded kCoded[] = {
        {".q_weight", ".q_groups", "EXL2"}, {".trellis", ".suh", "EXL3"}, {".codes", ".codebooks", "AQLM"}};
    for (const Coded& one : kCoded)
      if (base.name.ends_with(one.codes) && part_of(parts, {one.beside}) != nullptr) {
        base.dtype = one.dtype;
        return true;
      }
    return false;
  }

  // Codes of e2m1 with a power of two for each 32 of a row, or an e4m3 for each 16; and bitsandbytes' codes.
  static void rewrite_fp4(TensorView& base, const Parts& parts) {
    if (part_of(parts, {"absmax"}) != nullptr) return rewrite_bitsandbytes(base, parts);
    TensorView* const scale = part_of(parts, {"_scales", "weight_scale", ".scales"});
    if (scale == nullptr || scale->bytes.empty()) return;
    const bool powers = scale->dtype == "U8" || scale->dtype == "F8_E8M0", packed = base.dtype == "U8";
    const int64_t codes = count_of(base) * (packed ? 2 : 1), cols = codes / int64_t(scale->bytes.size());
    if (codes % int64_t(scale->bytes.size()) != 0 || (powers ? cols != 32 : scale->dtype != "F8_E4M3" || cols != 16))
      return;
    std::vector<int64_t> shape = base.shape;
    if (packed && shape.size() > 2 && shape.back() == cols / 2 && base.name.ends_with("_blocks")) {
      shape.pop_back();  // [..., blocks, bytes of a block]
      shape.back() *= cols;
    } else if (packed) {
      shape.back() *= 2;
    }
    if (shape.back() % cols != 0) return;
    base.dtype = "F4";
    base.shape = shape;
    if (!powers) return;
    base.scales = scale->bytes;
    scale->dtype = "F8_E8M0";
  }

  static void rewrite_bitsandbytes(TensorView& base, const Parts& parts) {
    constexpr size_t kLongestState = 4096;
    const TensorView* const state = part_of(parts, {"quant_state.bitsandbytes__nf4", "quant_state.bitsandbytes__fp4"});
    if (state == nullptr || state->bytes.size() > kLongestState) return;
    const std::string_view text(reinterpret_cast<const char*>(state->bytes.data()), state->bytes.size());
    const nlohmann::json tree = nlohmann::json::parse(text, nullptr, false);
    if (!tree.is_object() || !tree.contains("shape") || !tree["shape"].is_array()) return;
    std::vector<int64_t> shape;
    for (const auto& size : tree["shape"]) {
      if (!size.is_number_unsigned()) return;
      shape.push_back(size.get<int64_t>());
    }
    if (shape.size() < 2 || tensor_elements(base.name, shape) != 2 * count_of(base)) return;
    base.dtype = state->name.ends_with("nf4") ? "NF4" : "FP4";
    base.shape = shape;
  }

  // GPTQ packs along the inputs, [inputs * bits / 32, outputs], AWQ along the outputs, [inputs, outputs / 8].
  static void rewrite_words(TensorView& base, const Parts& parts) {
    const TensorView *const scales = part_of(parts, {".scales"}), *const zeros = part_of(parts, {".qzeros"}),
                            *const index = part_of(parts, {".g_idx"});
    if (scales == nullptr || scales->shape.empty() || scales->shape.back() == 0) return;
    const int64_t outputs = scales->shape.back(), rows = base.shape[0], cols = base.shape[1];
    if (cols != outputs && cols * 8 == outputs) {
      base.dtype = "AWQ_INT4";
      base.shape = {outputs, rows};
      return;
    }
    int64_t bits = 4;
    if (index != nullptr && count_of(*index) > 0)
      bits = rows * 32 / count_of(*index);
    else if (zeros != nullptr && !zeros->shape.empty())
      bits = zeros->shape.back() * 32 / outputs;
    const bool known = bits == 2 || bits == 3 || bits == 4 || bits == 8;
    if (cols != outputs || !known || rows * 32 % bits != 0) return;
    base.dtype = "GPTQ_INT" + std::to_string(bits);
    base.shape = {outputs, rows * 32 / bits};
  }

  // compressed-tensors: words along the inputs, whose number stands in a tensor of its own.
  static void rewrite_compressed(TensorView& base, const TensorView& shape) {
    int64_t sizes[2];
    if (shape.bytes.size() != sizeof(sizes)) return;
    std::memcpy(sizes, shape.bytes.data(), sizeof(sizes));
    if (sizes[0] != base.shape[0] || sizes[1] <= 0 || base.shape[1] <= 0) return;
    const int64_t bits = base.shape[1] * 32 / sizes[1];
    if ((bits != 2 && bits != 4 && bits != 8) || sizes[1] * bits != base.shape[1] * 32) return;
    base.dtype = bits == 8 ? "U8" : "UINT" + std::to_string(bits);
    base.shape = {sizes[0], sizes[1]};
  }

  // MLX: words along the inputs, with scales and biases for each group of them; or floats with scales of a byte. Words
  // and groups give only the product of a code's bits and a group's columns.
  void rewrite_mlx(TensorView& base, const Parts& parts) {
    TensorView* const scales = part_of(parts, {".scales"});
    const TensorView* const biases = part_of(parts, {".biases"});
    if (scales == nullptr || scales->shape.size() != base.shape.size() || scales->bytes.empty() ||
        !std::equal(base.shape.begin(), base.shape.end() - 1, scales->shape.begin()))
      return;
    const int64_t word_bits = base.shape.back() * 32, groups = scales->shape.back(), of_group = word_bits / groups;
    if (word_bits % groups != 0) return;
    std::vector<int64_t> shape = base.shape;
    if (scales->dtype == "U8") {
      struct Floats {
        int64_t bits, cols;
        const char *dtype, *scales;
      };
      constexpr Floats kFloats[] = {{4, 32, "F4", "F8_E8M0"}, {4, 16, "F4", "F8_E4M3"}, {8, 32, "F8_E4M3", "F8_E8M0"}};
      const auto* const known =
          std::ranges::find_if(kFloats, [&](const Floats& one) { return one.bits * one.cols == of_group; });
      if (known == std::end(kFloats)) return;
      base.dtype = known->dtype;
      base.shape.back() = word_bits / known->bits;
      scales->dtype = known->scales;
      if (base.dtype == "F4" && known->cols == 32) base.scales = scales->bytes;
      return;
    }
    if (biases == nullptr || biases->shape != scales->shape) return;
    const int64_t bits = mlx_bits(base.name, of_group);
    if (bits == 0 || word_bits % bits != 0) return;
    base.dtype = bits == 8 ? "U8" : "UINT" + std::to_string(bits);
    base.shape.back() = word_bits / bits;
  }

  // 0: none that MLX has.
  int64_t mlx_bits(const std::string& name, int64_t of_group) {
    if (!groups_) groups_ = ask_groups_();
    const auto bits_for = [&](int64_t cols) {
      constexpr int64_t kBits[] = {2, 3, 4, 5, 6, 8};
      const bool known = cols > 0 && of_group % cols == 0 && std::ranges::count(kBits, of_group / cols) > 0;
      return known ? of_group / cols : 0;
    };
    for (const std::string& layer : {last_part(name).first, std::string()})
      if (const auto said = groups_->find(layer); said != groups_->end()) return bits_for(said->second);
    int64_t found = 0, fitting = 0;
    for (const int64_t cols : {64, 32, 128})  // MLX's default first
      if (const int64_t bits = bits_for(cols); bits > 0 && ++fitting == 1) found = bits;
    if (fitting > 1 && remarks_.empty())
      remarks_.emplace_back(
          "The bits of MLX's codes are those of groups of 64 columns, where these fit, since no "
          "config.json says how many columns a scale is for.");
    return found;
  }

  std::vector<TensorView>& tensors_;
  const std::function<QuantisedGroups()>& ask_groups_;
  std::optional<QuantisedGroups> groups_;
  std::vector<std::string> remarks_;
  std::unordered_map<std::string, TensorView*> by_name_;
};

}  // namespace

bool is_scale_word(std::string_view last_part) {
  const std::string word = lower(last_part);
  return std::ranges::find(kScaleWords, word) != std::end(kScaleWords) || word.starts_with("bitsandbytes__") ||
         std::ranges::any_of(kScaleEndings,
                             [&](std::string_view ending) { return word.ends_with(ending) && ending != "_shape"; });
}

std::vector<std::string> find_quantised_weights(std::vector<TensorView>& tensors,
                                                const std::function<QuantisedGroups()>& groups) {
  return Joiner(tensors, groups).join();
}

}  // namespace ecmv::datasets

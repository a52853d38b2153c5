// See rank_pass.h.
#include "experiments/ranks/rank_pass.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "backends/exact_product.h"

namespace ecmv::experiments {
namespace {

using nlohmann::json;

// The first sentence that is not empty.
std::string first_sentence(const std::vector<json>& answers) {
  for (size_t rank = 0; rank < answers.size(); ++rank)
    if (const std::string& text = answers[rank].get_ref<const std::string&>(); !text.empty())
      return rank == 0 ? text : fmt::format("rank {}: {}", rank, text);
  return {};
}

}  // namespace

RankMatrix::RankMatrix(RankTeam& team, LayerSplit split, std::string codec, int64_t rows)
    : team_(team), split_(std::move(split)), id_(team.new_id()), codec_(std::move(codec)), rows_(rows) {
  team_.add(*this);
}

RankMatrix::~RankMatrix() {
  team_.forget(*this);
  try {
    tell("forget upload");
  } catch (const std::exception&) {  // any later use of it will report the error
  }
}

std::string RankMatrix::broken_guards() const { return first_sentence(tell("broken sections")); }

std::string RankMatrix::changed_sections() const { return first_sentence(tell("changed sections")); }

std::vector<json> RankMatrix::tell(const char* what) const {
  return team_.tell(split_.ranks(), {{"do", what}, {"id", id_}});
}

RankPass::~RankPass() {
  try {
    tell("forget pass");
  } catch (const std::exception&) {
  }
}

void RankPass::take_roundings(const json& answer) {
  for (size_t layer = 0; layer < answer.size(); ++layer) {
    const backends::ProductRounding own = rounding_of_field(answer[layer]);
    if (layer < roundings_.size())
      roundings_[layer] = backends::looser_of(roundings_[layer], own);
    else
      roundings_.push_back(own);
  }
}

std::span<const int32_t> RankPass::accumulators(int layer) {
  accumulators_.clear();
  for (const json& answer : tell("accumulators", {{"layer", layer}}))
    for (const int32_t value : unpacked<int32_t>(answer)) accumulators_.push_back(value);
  return accumulators_;
}

std::span<const int8_t> RankPass::outputs(int layer) {
  const std::vector<json> answers = tell("outputs", {{"layer", layer}});
  outputs_ = unpacked<int8_t>(answers.front());
  for (const json& answer : answers)
    if (answer != answers.front()) return outputs_ = unpacked<int8_t>(answer);
  return outputs_;
}

std::span<const float> RankPass::products(int layer) {
  const std::vector<json> answers = tell("products", {{"layer", layer}});
  std::vector<std::vector<float>> own;
  bool alike = true;
  for (const json& answer : answers) {
    own.push_back(unpacked<float>(answer.at("own")));
    alike = alike && answer.at("all") == answers.front().at("all");
  }
  if (splits_[static_cast<size_t>(layer)] == backends::Split::cols) own.resize(1);
  products_.clear();
  for (size_t token = 0; token < static_cast<size_t>(batch_); ++token)
    for (const std::vector<float>& part : own) {
      const size_t count = part.size() / static_cast<size_t>(batch_);
      products_.insert(products_.end(), part.begin() + static_cast<int64_t>(token * count),
                       part.begin() + static_cast<int64_t>((token + 1) * count));
    }
  if (!alike) products_.assign(products_.size(), std::numeric_limits<float>::quiet_NaN());
  return products_;
}

void RankPass::set_input_of_rank(int rank, int layer, std::span<const std::byte> bytes) {
  const json input = packed(std::vector<std::byte>(bytes.begin(), bytes.end()));
  team_.tell(ranks_, [&](int one) {
    return one == rank ? json{{"do", "input"}, {"id", id_}, {"layer", layer}, {"bytes", input}} : json{{"do", "rest"}};
  });
}

std::string RankPass::disagreement(std::span<const int> layers) {
  const std::vector<json> answers = tell("shared", {{"layers", std::vector<int>(layers.begin(), layers.end())}});
  for (size_t rank = 1; rank < answers.size(); ++rank)
    for (size_t i = 0; i < layers.size(); ++i)
      if (answers[rank].at(i) != answers.front().at(i))
        return fmt::format("layer {}: the ranks 0 and {} have different results where all must have the same",
                           layers[i], rank);
  return {};
}

std::string RankPass::broken_guards() const { return first_sentence(tell("broken guards")); }

std::vector<json> RankPass::tell(const char* what, json more) const {
  more["do"] = what;
  more["id"] = id_;
  return team_.tell(ranks_, more);
}

double RankPass::slowest(const char* what) {
  double seconds = 0;
  for (const json& answer : tell(what)) seconds = std::max(seconds, answer.get<double>());
  return seconds;
}

}  // namespace ecmv::experiments

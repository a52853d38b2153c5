// Rank 0's view of all ranks' data: a layer in parts, one on each rank, and a pass that runs on all.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/pass.h"
#include "experiments/plan/split.h"
#include "experiments/ranks/rank_team.h"

namespace ecmv::experiments {

class RankMatrix final : public backends::UploadedMatrix {
 public:
  // A layer of `rows` rows, coded by `codec` and divided by `split`.
  RankMatrix(RankTeam& team, LayerSplit split, std::string codec, int64_t rows);
  ~RankMatrix() override;
  int id() const { return id_; }
  const std::string& codec() const { return codec_; }
  const LayerSplit& split() const { return split_; }
  int64_t rows() const { return rows_; }
  const backends::CompressedView& view() const override { return team_.own().upload(id_).view(); }
  std::string broken_guards() const override;
  std::string changed_sections() const override;

 private:
  std::vector<nlohmann::json> tell(const char* what) const;
  RankTeam& team_;
  LayerSplit split_;
  int id_;
  std::string codec_;
  int64_t rows_;
};

class RankPass final : public backends::Pass {
 public:
  // `splits` of every layer.
  RankPass(RankTeam& team, int ranks, int id, int batch, std::vector<backends::Split> splits)
      : team_(team), ranks_(ranks), id_(id), batch_(batch), splits_(std::move(splits)) {}
  ~RankPass() override;
  // Takes the answer of a rank that has prepared its pass: results are held to the loosest of all ranks' roundings.
  void take_roundings(const nlohmann::json& answer);

  double run() override { return slowest("run"); }
  double run_share(backends::Share share) override {
    return slowest(share == backends::Share::exchange ? "exchange" : "product");
  }
  void mark_outputs(int round) override { tell("mark", {{"round", round}}); }
  std::span<const std::byte> result() const override { return team_.own().pass(id_).result(); }
  bool has_parts() const override { return true; }
  void run_first(int layers) override { tell("run first", {{"layers", layers}}); }
  void set_input(int layer, std::span<const std::byte> bytes) override {
    tell("input", {{"layer", layer}, {"bytes", packed(std::vector<std::byte>(bytes.begin(), bytes.end()))}});
  }
  void set_input_of_rank(int rank, int layer, std::span<const std::byte> bytes) override;
  void run_layer(int layer) override { tell("run layer", {{"layer", layer}}); }
  void poison_outputs(int round) override { tell("poison", {{"round", round}}); }
  // Every rank's rows, one after the other.
  std::span<const int32_t> accumulators(int layer) override;
  // The whole vector as every rank has it; if they differ, that of the first rank that differs.
  std::span<const int8_t> outputs(int layer) override;
  // Every rank's own products; values that cannot be right if ranks differ where all must agree. After a layer by
  // columns each rank has all products.
  std::span<const float> products(int layer) override;
  std::string disagreement(std::span<const int> layers) override;
  backends::ProductRounding rounding(int layer) const override { return roundings_.at(static_cast<size_t>(layer)); }
  std::span<const int8_t> decoded() override { return {}; }
  std::string broken_guards() const override;

 private:
  std::vector<nlohmann::json> tell(const char* what, nlohmann::json more = nlohmann::json::object()) const;
  // All ranks begin together, and the pass ends with the last one.
  double slowest(const char* what);
  RankTeam& team_;
  int ranks_, id_, batch_;
  std::vector<backends::Split> splits_;
  std::vector<backends::ProductRounding> roundings_;
  std::vector<float> products_;
  std::vector<int32_t> accumulators_;
  std::vector<int8_t> outputs_;
};

}  // namespace ecmv::experiments

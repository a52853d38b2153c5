// Claims about splitting layers among ranks: which are pairs, where they are cut, and which splits are impossible.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <vector>

#include "backends/ranks.h"
#include "experiments/plan/split.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::experiments;
using backends::Split;
using Catch::Matchers::ContainsSubstring;
using Cuts = std::vector<int64_t>;

namespace {

KernelSpec shared_by(int ranks, bool pairs = true, Task task = Task::matmul) {
  KernelSpec kernel;
  kernel.task = task;
  kernel.ranks = ranks;
  kernel.pairs = pairs;
  return kernel;
}

datasets::Matrix layer(const std::string& name, datasets::Shape shape) {
  datasets::Matrix matrix = tests::make_matrix(name, shape, [](int64_t i) { return static_cast<int>(i % 251 - 125); });
  return matrix;
}

std::string refusal(const std::vector<datasets::Matrix>& layers, const KernelSpec& kernel) {
  try {
    split_layers(layers, kernel);
  } catch (const backends::Refused& refused) {
    return refused.what();
  }
  return {};
}

std::vector<Split> kinds_of(const std::vector<datasets::Matrix>& layers, const KernelSpec& kernel) {
  std::vector<Split> kinds;
  for (const LayerSplit& split : split_layers(layers, kernel)) kinds.push_back(split.how);
  return kinds;
}

}  // namespace

TEST_CASE("rows are split as evenly as they can be, and gathered after every layer") {
  const std::vector<datasets::Matrix> layers = {layer("0", {10, 4}), layer("1", {3, 10}), layer("2", {2, 3})};
  const std::vector<LayerSplit> splits = split_layers(layers, shared_by(3, false));
  REQUIRE(splits.size() == 3);
  for (const LayerSplit& split : splits) CHECK(split.how == Split::rows_gathered);
  CHECK(splits[0].begins == Cuts{0, 3, 6, 10});
  CHECK(splits[1].begins == Cuts{0, 1, 2, 3});
  CHECK(splits[2].begins == Cuts{0, 0, 1, 2});
}

TEST_CASE("layers of a matmul are pairs in order, cut at the same multiples of 64, and one that is left is gathered") {
  const std::vector<datasets::Matrix> layers = {layer("0", {330, 7}), layer("1", {50, 330}), layer("2", {200, 50}),
                                                layer("3", {9, 200}), layer("4", {9, 9})};
  const std::vector<LayerSplit> splits = split_layers(layers, shared_by(3));
  CHECK(kinds_of(layers, shared_by(3)) ==
        std::vector{Split::rows_kept, Split::cols, Split::rows_kept, Split::cols, Split::rows_gathered});
  CHECK(splits[0].begins == Cuts{0, 128, 256, 330});
  CHECK(splits[1].begins == splits[0].begins);
  CHECK(splits[2].begins == Cuts{0, 64, 128, 200});
  CHECK(splits[3].begins == splits[2].begins);
  CHECK(splits[4].begins == Cuts{0, 3, 6, 9});
}

TEST_CASE("in a step the projections after attention and MLP are by columns, what nobody knows is gathered") {
  const std::string block = "model.layers.0.";
  const std::vector<datasets::Matrix> layers = {layer(block + "self_attn.q_proj.weight", {128, 128}),
                                                layer(block + "self_attn.k_proj.weight", {2, 128}),
                                                layer(block + "self_attn.v_proj.weight", {2, 128}),
                                                layer(block + "self_attn.o_proj.weight", {128, 128}),
                                                layer(block + "mlp.gate_proj.weight", {256, 128}),
                                                layer(block + "mlp.up_proj.weight", {256, 128}),
                                                layer(block + "mlp.down_proj.weight", {128, 256}),
                                                layer("model.layers.1.mlp.down_proj.weight", {128, 256}),
                                                layer("model.layers.1.self_attn.rotary", {128, 128}),
                                                layer("model.layers.2.mlp.up_proj.weight", {256, 128}),
                                                layer("lm_head.weight", {77, 128})};
  using enum Split;
  CHECK(kinds_of(layers, shared_by(2, true, Task::step)) == std::vector{rows_kept, rows_kept, rows_kept, cols,
                                                                        rows_kept, rows_kept, cols, rows_gathered,
                                                                        rows_gathered, rows_gathered, rows_gathered});
  const std::vector<LayerSplit> splits = split_layers(layers, shared_by(2, true, Task::step));
  CHECK(splits[0].begins == Cuts{0, 64, 128});
  CHECK(splits[1].begins == Cuts{0, 1, 2});  // fewer rows than a multiple for each
  CHECK(splits[3].begins == Cuts{0, 64, 128});
  CHECK(splits[6].begins == Cuts{0, 128, 256});
  CHECK(splits[10].begins == Cuts{0, 38, 77});
  int64_t gathered = 0, reduced = 0, exchanges = 0;
  for (size_t i = 0; i < 7; ++i) {
    const ExchangedBytes bytes = exchanged_after(splits[i], 4 * layers[i].shape.rows);
    gathered += bytes.gathered;
    reduced += bytes.reduced;
    exchanges += bytes.exchanges;
  }
  CHECK(gathered == 0);
  CHECK(reduced == 4 * (128 + 128));
  CHECK(exchanges == 2);  // of a whole block
}

TEST_CASE("parts of columns and of rows are those elements") {
  const std::vector<datasets::Matrix> layers = {layer("a", {70, 3}), layer("b", {3, 70})};
  const std::vector<datasets::Matrix> parts = parts_of(layers, split_layers(layers, shared_by(2)));
  REQUIRE(parts.size() == 4);
  CHECK(parts[0].shape.rows == 64);
  CHECK(parts[1].shape.rows == 6);
  CHECK(parts[1].elements == std::vector(layers[0].elements.begin() + 192, layers[0].elements.end()));
  CHECK(parts[2].shape.cols == 64);
  CHECK(parts[3].shape.cols == 6);
  CHECK(parts[3].name == "b");
  for (size_t row = 0; row < 3; ++row)
    for (size_t col = 0; col < 6; ++col)
      CHECK(parts[3].elements[row * 6 + col] == layers[1].elements[row * 70 + 64 + col]);
  CHECK(parts[3].content_hash == datasets::content_hash(parts[3].view()));
  // Elements of two bytes.
  datasets::Matrix wide = layer("c", {3, 140});
  wide.type = datasets::ElementType::bf16;
  wide.shape.cols = 70;
  const LayerSplit split{Split::cols, {0, 64, 70}};
  const std::vector<datasets::Matrix> of_wide = parts_of({wide}, {split});
  CHECK(of_wide[1].elements.size() == 3 * 6 * 2);
  CHECK(of_wide[1].elements[12] == wide.elements[140 + 128]);
}

TEST_CASE("what cannot be split in pairs is refused with the reason") {
  const std::vector<datasets::Matrix> square = {layer("a", {128, 128}), layer("b", {128, 128})};
  KernelSpec vectors = shared_by(2);
  vectors.task = Task::matvec;
  CHECK_THAT(refusal(square, vectors), ContainsSubstring("requantised from whole sums"));
  CHECK_THAT(refusal({square[0]}, shared_by(2)), ContainsSubstring("A single layer"));
  CHECK_THAT(refusal(square, shared_by(3)), ContainsSubstring("128 columns of a layer are too few for 3 ranks"));
  CHECK(refusal(square, shared_by(2)).empty());
  CHECK_THAT(refusal({layer("a", {100, 128}), layer("b", {100, 128})}, shared_by(2)),
             ContainsSubstring("the second has 128 columns, and the first gives vectors of 100 numbers"));
  CHECK_THAT(refusal({layer("lm_head.weight", {128, 128})}, shared_by(2, true, Task::step)),
             ContainsSubstring("Nothing here is split in pairs"));
  vectors.pairs = false;
  CHECK(refusal(square, vectors).empty());
}

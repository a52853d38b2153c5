// How packed_exponents divides a product with many tokens among thread blocks (pipeline_plan_gpu.h).
#include <catch2/catch_test_macros.hpp>

#include <set>
#include <string>

#include "codecs/packed_exponents/pipeline_plan_gpu.h"

using namespace ecmv;
namespace pipeline = codecs::packed_exponents::ECMV_GPU_NAMESPACE;

namespace {

constexpr int64_t kSharedBytes = int64_t{227} << 10;

backends::DeviceInfo device_of(int units) {
  backends::DeviceInfo device;
  device.compute_units = units;
  device.shared_bytes = kSharedBytes;
  return device;
}

pipeline::SizedPipeline plan_of(datasets::Shape shape, int tokens_at_once, int batch, int units) {
  return pipeline::PipelinePlanner(tokens_at_once / 8, batch, shape, device_of(units)).best();
}

// The ways in which its thread blocks have tiles.
std::set<std::string> kinds_of(const pipeline::SizedPipeline& sized, int64_t units) {
  const pipeline::PipelinePlan& plan = sized.plan;
  std::set<std::string> kinds;
  if (plan.whole_rounds > 0) kinds.insert("whole tiles in turn");
  if (plan.tiles > plan.whole_rounds * units) {
    const int shares = pipeline::most_shares(plan.counted.number(), plan.run.number());
    kinds.insert(shares == 1 ? "whole tiles"
                             : std::to_string(shares) + " shares" +
                                   (plan.cluster > 1 ? " in clusters of " + std::to_string(plan.cluster) : ""));
    if (plan.counted.number() > plan.groups) kinds.insert("a shorter last part");
  }
  return kinds;
}

}  // namespace

// The shapes and numbers of tokens of the test "products of a pipeline keep the bound in the emulator".
TEST_CASE("products of a pipeline in the emulator have every kind of share") {
  std::set<std::string> kinds;
  for (const int units : {4, 11})
    for (const datasets::Shape shape :
         {datasets::Shape{260, 1096}, datasets::Shape{15, 320}, datasets::Shape{60, 2056}, datasets::Shape{60, 2048},
          datasets::Shape{250, 1000}, datasets::Shape{1100, 72}})
      for (const int tokens : {32, 64, 128, 256})
        for (const int batch : {1, 66, 150}) kinds.merge(kinds_of(plan_of(shape, tokens, batch, units), units));
  for (const char* kind :
       {"whole tiles in turn", "whole tiles", "2 shares", "2 shares in clusters of 2", "4 shares in clusters of 2",
        "4 shares in clusters of 4", "8 shares in clusters of 8", "a shorter last part"}) {
    INFO(kind);
    CHECK(kinds.count(kind) == 1);
  }
}

TEST_CASE("a plan of a pipeline has all steps of all tiles, and no more blocks than multiprocessors") {
  int64_t at = 1;
  for (const int units : {4, 78, 114, 132})
    for (int i = 0; i < 300; ++i) {
      at = (at * 48271) % 2147483647;
      const datasets::Shape shape{1 + at % 9000, 8 * (1 + at / 9000 % 1500)};
      const int tokens = 32 << i % 4, batch = 1 + static_cast<int>(at / 77 % 700);
      const pipeline::SizedPipeline sized = plan_of(shape, tokens, batch, units);
      const pipeline::PipelinePlan& plan = sized.plan;
      INFO(shape.rows << " x " << shape.cols << ", " << batch << " tokens by " << tokens << ", " << units << " units");
      REQUIRE(sized.bytes > 0);
      CHECK(sized.bytes <= kSharedBytes);
      const int64_t tile_rows = plan.warpgroups * pipeline::kWarpgroupRows, groups = plan.groups,
                    counted = plan.counted.number();
      CHECK(plan.tiles == (shape.rows + tile_rows - 1) / tile_rows * plan.token_blocks.number());
      CHECK(groups == (shape.cols + pipeline::kGroupColumns - 1) / pipeline::kGroupColumns);
      CHECK(plan.block_tokens * plan.token_blocks.number() >= batch);
      CHECK(plan.block_tokens <= tokens);
      CHECK(sized.blocks <= units);
      const int64_t divided = plan.tiles - int64_t{plan.whole_rounds} * units;
      CHECK(divided >= 0);
      CHECK(sized.blocks * plan.run.number() >= divided * counted);
      CHECK(counted >= groups);
      if (counted > groups) {  // each part has steps
        CHECK(counted % plan.run.number() == 0);
        CHECK(counted - groups < plan.run.number());
        CHECK(plan.whole_rounds == 0);
      }
      if (plan.whole_rounds > 0) CHECK(sized.blocks == units);
      CHECK(sized.blocks % plan.cluster == 0);
      if (plan.cluster > 1) {
        CHECK(counted % plan.run.number() == 0);
        CHECK(plan.whole_rounds == 0);
      }
      const int shares = divided == 0 ? 1 : pipeline::most_shares(static_cast<int>(counted), plan.run.number());
      CHECK(shares % plan.cluster == 0);
      CHECK((sized.added_places > 0) == (shares > plan.cluster));
    }
}

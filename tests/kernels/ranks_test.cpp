// Passes by ranks, here threads of this process: whatever exchanges the vectors, the products are those of one rank.
#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>

#include "backends/ranks.h"
#include "tests/kernels/places.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::tests;

namespace {

// What the ranks of this process share.
struct Meeting {
  explicit Meeting(int ranks) : all_here(ranks), vectors(static_cast<size_t>(ranks)) {}
  std::barrier<> all_here;
  std::vector<std::byte*> vectors;
  std::atomic<int> gathers = 0;
};

class ThreadRanks final : public backends::Ranks {
 public:
  // `wrong`: one byte of what the last rank has goes astray.
  ThreadRanks(Meeting& meeting, int rank, bool wrong) : meeting_(meeting), rank_(rank), wrong_(wrong) {}
  int rank() const override { return rank_; }
  int count() const override { return static_cast<int>(meeting_.vectors.size()); }
  void gather(void*, std::byte* data, std::span<const int64_t> offsets) override {
    ++meeting_.gathers;
    meeting_.vectors[static_cast<size_t>(rank_)] = data;
    meeting_.all_here.arrive_and_wait();
    for (size_t other = 0; other < meeting_.vectors.size(); ++other)
      if (static_cast<int>(other) != rank_)
        std::memcpy(data + offsets[other], meeting_.vectors[other] + offsets[other],
                    static_cast<size_t>(offsets[other + 1] - offsets[other]));
    if (wrong_) data[offsets.back() - 1] ^= std::byte{1};
    meeting_.all_here.arrive_and_wait();
  }
  void meet(void*) override { meeting_.all_here.arrive_and_wait(); }
  std::string library() const override { return "threads"; }

 private:
  Meeting& meeting_;
  int rank_;
  bool wrong_;
};

codecs::CompressedMatrix stored(const datasets::Matrix& matrix, int64_t first, int64_t end) {
  codecs::CompressedMatrix compressed;
  compressed.shape = {end - first, matrix.shape.cols};
  const auto rows = std::span(matrix.elements)
                        .subspan(static_cast<size_t>(first * matrix.shape.cols),
                                 static_cast<size_t>((end - first) * matrix.shape.cols));
  compressed.sections.push_back({"elements", codecs::Role::payload, 64, {rows.begin(), rows.end()}});
  return compressed;
}

// What every rank has at the end: its accumulators of each layer one after the other, and each layer's whole vector.
struct Results {
  std::vector<int32_t> sums;
  std::vector<std::vector<int8_t>> vectors;
  int gathers = 0;
};

Results run(const std::vector<datasets::Matrix>& layers, int ranks, Place place, size_t device, bool wrong = false) {
  Meeting meeting(ranks);
  std::vector<Results> of_rank(static_cast<size_t>(ranks));
  std::vector<std::vector<std::vector<int32_t>>> sums(layers.size(), std::vector<std::vector<int32_t>>(of_rank.size()));
  Devices opened_by;
  for (int rank = 0; rank < ranks; ++rank) opened_by.push_back(std::move(devices(place, 1)[device]));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ThreadRanks own(meeting, rank, wrong && rank == ranks - 1);
      const auto& opened = opened_by[static_cast<size_t>(rank)];
      std::vector<std::unique_ptr<backends::UploadedMatrix>> uploads;
      backends::PassPlan plan;
      plan.reference_decode = [](const codecs::CompressedView& view, std::span<std::byte> out) {
        std::memcpy(out.data(), view.sections[0].bytes.data(), out.size());
      };
      for (const datasets::Matrix& layer : layers) {
        std::vector<int64_t>& parts = plan.parts.emplace_back();
        for (int other = 0; other <= ranks; ++other)
          parts.push_back(backends::first_row_of_rank(layer.shape.rows, other, ranks));
        uploads.push_back(
            opened->upload(stored(layer, parts[static_cast<size_t>(rank)], parts[static_cast<size_t>(rank) + 1])));
        plan.layers.push_back(uploads.back().get());
        plan.scales.push_back(0.05f);
      }
      plan.inputs = {std::vector<int8_t>(static_cast<size_t>(layers.front().shape.cols), 3)};
      plan.ranks = &own;
      const auto pass = backends::prepare(*opened, plan);
      pass->poison_outputs(0);
      pass->run();
      Results& results = of_rank[static_cast<size_t>(rank)];
      for (size_t layer = 0; layer < layers.size(); ++layer) {
        const auto y = pass->accumulators(static_cast<int>(layer));
        sums[layer][static_cast<size_t>(rank)].assign(y.begin(), y.end());
        const auto v = pass->outputs(static_cast<int>(layer));
        results.vectors.emplace_back(v.begin(), v.end());
      }
      // The exchange alone gathers, the product alone does not; both have times.
      const int before = meeting.gathers;
      own.meet(nullptr);
      pass->run_share(backends::Share::product);
      own.meet(nullptr);
      if (rank == 0) results.gathers = meeting.gathers - before;
      own.meet(nullptr);
      pass->run_share(backends::Share::exchange);
      own.meet(nullptr);
      if (rank == 0) results.gathers += 100 * (meeting.gathers - before);
    });
  for (std::thread& thread : threads) thread.join();
  Results all = of_rank.front();
  for (const auto& layer : sums)
    for (const auto& part : layer) all.sums.insert(all.sums.end(), part.begin(), part.end());
  for (const Results& other : of_rank)
    if (other.vectors != all.vectors) all.vectors = {};
  return all;
}

}  // namespace

TEST_CASE("what ranks share is what one has alone, also where rows are fewer than ranks") {
  const std::vector<datasets::Matrix> layers = {gaussian_matrix({33, 20}, 9), gaussian_matrix({3, 33}, 9, 2),
                                                gaussian_matrix({40, 3}, 9, 3)};
  for (size_t device = 0; device < devices(Place::cpu, 1).size(); ++device) {
    const Results one = run(layers, 1, Place::cpu, device);
    REQUIRE(one.sums.size() == 76);
    REQUIRE(one.vectors.size() == 3);
    for (const int ranks : {2, 3, 4}) {
      INFO(ranks);
      const Results shared = run(layers, ranks, Place::cpu, device);
      CHECK(shared.sums == one.sums);
      CHECK(shared.vectors == one.vectors);
      CHECK(shared.gathers == 100 * 3 * ranks);
    }
    // An exchange that is wrong on one rank shows.
    const Results wrong = run(layers, 2, Place::cpu, device, true);
    CHECK(wrong.vectors != one.vectors);
    CHECK(wrong.sums != one.sums);
  }
}

TEST_CASE("ranks share products alone") {
  const datasets::Matrix matrix = gaussian_matrix({8, 8}, 4);
  Meeting meeting(1);
  ThreadRanks own(meeting, 0, false);
  for (auto& device : devices(Place::cpu, 1)) {
    const auto uploaded = device->upload(stored(matrix, 0, 8));
    backends::PassPlan plan;
    plan.reference_decode = [](const codecs::CompressedView&, std::span<std::byte>) {};
    plan.layers = {uploaded.get()};
    plan.ranks = &own;
    plan.parts = {{0, 8}};
    plan.op = backends::Op::decode;
    CHECK_THROWS_AS(backends::prepare(*device, plan), std::invalid_argument);
  }
}

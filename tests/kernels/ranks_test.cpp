// Passes by ranks, here threads of this process. However the vectors are exchanged, the products equal those of one
// rank.
#include <atomic>
#include <barrier>
#include <cstring>
#include <thread>

#include "backends/exact_product.h"
#include "backends/ranks.h"
#include "tests/kernels/places.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::tests;

namespace {

// State that the ranks of this process share.
struct Meeting {
  explicit Meeting(int ranks) : all_here(ranks), vectors(static_cast<size_t>(ranks)) {}
  std::barrier<> all_here;
  std::vector<std::byte*> vectors;
  std::atomic<int> gathers = 0, reductions = 0;
};

// Errors of an exchange.
enum class Fault { none, byte_astray, rank_left_out, own_sum };

class ThreadRanks final : public backends::Ranks {
 public:
  ThreadRanks(Meeting& meeting, int rank, Fault fault) : meeting_(meeting), rank_(rank), fault_(fault) {}
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
    meeting_.all_here.arrive_and_wait();
    if (fault_ == Fault::byte_astray) data[offsets.back() - 1] ^= std::byte{1};
  }
  void reduce(void*, float* data, int64_t count) override {
    ++meeting_.reductions;
    const std::vector<float> own(data, data + count);
    if (fault_ == Fault::rank_left_out) std::fill(data, data + count, 0.0f);
    backends::reduce_by_gathering(*this, data, count);
    if (fault_ == Fault::own_sum) data[count - 1] = own.back();
  }
  void meet(void*) override { meeting_.all_here.arrive_and_wait(); }
  std::string library() const override { return "threads"; }

 private:
  Meeting& meeting_;
  int rank_;
  Fault fault_;
};

backends::CompressedMatrix stored(const datasets::Matrix& matrix, int64_t first, int64_t end) {
  backends::CompressedMatrix compressed;
  compressed.shape = {end - first, matrix.shape.cols};
  const auto rows = std::span(matrix.elements)
                        .subspan(static_cast<size_t>(first * matrix.shape.cols),
                                 static_cast<size_t>((end - first) * matrix.shape.cols));
  compressed.sections.push_back({"elements", backends::Role::payload, 64, {rows.begin(), rows.end()}});
  return compressed;
}

// Every rank's results: its accumulators of each layer one after the other, and each layer's whole vector.
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
      ThreadRanks own(meeting, rank, wrong && rank == ranks - 1 ? Fault::byte_astray : Fault::none);
      const auto& opened = opened_by[static_cast<size_t>(rank)];
      std::vector<std::unique_ptr<backends::UploadedMatrix>> uploads;
      backends::PassPlan plan;
      plan.reference_decode = [](const backends::CompressedView& view, std::span<std::byte> out) {
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
    // A wrong exchange on one rank is noticed.
    const Results wrong = run(layers, 2, Place::cpu, device, true);
    CHECK(wrong.vectors != one.vectors);
    CHECK(wrong.sums != one.sums);
  }
}

namespace {

// Two float products, the first by rows that nobody gathers, the second by columns.
struct PairOfLayers {
  datasets::Matrix first, second;
  int batch = 1;
  std::vector<float> tokens[2];
  backends::ExactProduct exact[2];

  PairOfLayers(datasets::Matrix by_rows, datasets::Matrix by_cols, int batch)
      : first(std::move(by_rows)), second(std::move(by_cols)), batch(batch) {
    Random random{11};
    for (int layer = 0; layer < 2; ++layer) {
      const datasets::Matrix& matrix = layer == 0 ? first : second;
      for (int64_t i = 0; i < batch * matrix.shape.cols; ++i)
        tokens[layer].push_back(static_cast<float>(random.normal()));
      exact[layer] = backends::exact_product(matrix.view(), tokens[layer], batch);
    }
  }
};

backends::CompressedMatrix stored_cols(const datasets::Matrix& matrix, int64_t first, int64_t end) {
  datasets::Matrix part;
  part.shape = {matrix.shape.rows, end - first};
  for (int64_t row = 0; row < matrix.shape.rows; ++row)
    for (int64_t col = first; col < end; ++col)
      part.elements.push_back(matrix.elements[static_cast<size_t>(row * matrix.shape.cols + col)]);
  return stored(part, 0, part.shape.rows);
}

// Every rank's results after a pass.
struct SharedPair {
  std::vector<float> first;                // of all ranks' rows, [batch, rows]
  std::vector<std::vector<float>> second;  // of each rank, [batch, rows]
  std::vector<float> on_host;              // the last result
  std::vector<float> negated;              // the second layer's of the last rank, with negated tokens
  backends::ProductRounding rounding[2];
  int reductions = 0;
  std::string guards;
};

SharedPair run_pair(const PairOfLayers& layers, const std::vector<int64_t>& rows, const std::vector<int64_t>& cols,
                    size_t device, Fault fault = Fault::none) {
  const auto ranks = static_cast<int>(rows.size()) - 1;
  Meeting meeting(ranks);
  SharedPair all;
  all.second.resize(static_cast<size_t>(ranks));
  std::vector<std::vector<float>> first(static_cast<size_t>(ranks));
  Devices opened_by;
  for (int rank = 0; rank < ranks; ++rank) opened_by.push_back(std::move(devices(Place::cpu, 1)[device]));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto at = static_cast<size_t>(rank);
      ThreadRanks own(meeting, rank, rank == ranks - 1 ? fault : Fault::none);
      const auto& opened = opened_by[at];
      const auto by_rows = opened->upload(stored(layers.first, rows[at], rows[at + 1])),
                 by_cols = opened->upload(stored_cols(layers.second, cols[at], cols[at + 1]));
      backends::PassPlan plan;
      plan.reference_decode = [](const backends::CompressedView& view, std::span<std::byte> out) {
        std::memcpy(out.data(), view.sections[0].bytes.data(), out.size());
      };
      plan.op = backends::Op::matmul;
      plan.chained = false;
      plan.batch = layers.batch;
      plan.tokens = {layers.tokens[0], layers.tokens[1]};
      plan.layers = {by_rows.get(), by_cols.get()};
      plan.ranks = &own;
      plan.parts = {rows, cols};
      plan.splits = {backends::Split::rows_kept, backends::Split::cols};
      const auto pass = backends::prepare(*opened, plan);
      const auto products = [&](int layer) {
        const std::span<const float> found = pass->products(layer);
        return std::vector<float>(found.begin(), found.end());
      };
      pass->poison_outputs(0);
      pass->run();
      first[at] = products(0);
      all.second[at] = products(1);
      if (rank == 0) {
        const auto* floats = reinterpret_cast<const float*>(pass->result().data());
        all.on_host.assign(floats, floats + pass->result().size() / sizeof(float));
        all.guards = pass->broken_guards() + (pass->gathered(0).empty() ? "" : "kept rows are nobody else's");
        for (const int layer : {0, 1}) all.rounding[layer] = pass->rounding(layer);
      }
      // Other inputs; then the exchange alone reduces and the product alone does not.
      for (const int layer : {0, 1}) {
        std::vector<float> other = layers.tokens[layer];
        for (float& number : other) number = -number;
        pass->set_input(layer, std::as_bytes(std::span(other)));
      }
      own.meet(nullptr);
      pass->run();
      if (rank == ranks - 1) all.negated = products(1);
      own.meet(nullptr);
      const int before = meeting.reductions;
      own.meet(nullptr);
      pass->run_share(backends::Share::product);
      own.meet(nullptr);
      if (rank == 0) all.reductions = meeting.reductions - before;
      own.meet(nullptr);
      pass->run_share(backends::Share::exchange);
      own.meet(nullptr);
      if (rank == 0) all.reductions += 100 * (meeting.reductions - before);
    });
  for (std::thread& thread : threads) thread.join();
  for (int token = 0; token < layers.batch; ++token)
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<float>& part = first[static_cast<size_t>(rank)];
      const auto count = static_cast<int64_t>(part.size()) / layers.batch;
      all.first.insert(all.first.end(), part.begin() + token * count, part.begin() + (token + 1) * count);
    }
  return all;
}

}  // namespace

TEST_CASE("of a pair of layers, by rows and by columns, the sums keep the bound and are the same on all ranks") {
  for (const int batch : {1, 3})
    for (size_t device = 0; device < devices(Place::cpu, 1).size(); ++device) {
      const PairOfLayers layers(gaussian_matrix({130, 96}, 9), gaussian_matrix({71, 130}, 9, 2), batch);
      for (const std::vector<int64_t>& cuts :
           {std::vector<int64_t>{0, 64, 130}, std::vector<int64_t>{0, 1, 128, 130}, std::vector<int64_t>{0, 130}}) {
        INFO(batch << " tokens, " << cuts.size() - 1 << " ranks");
        const SharedPair shared = run_pair(layers, cuts, cuts, device);
        const auto ranks = static_cast<int>(cuts.size()) - 1;
        CHECK(backends::check_product(shared.first, layers.exact[0], shared.rounding[0]).violation.empty());
        for (const std::vector<float>& sums : shared.second) {
          CHECK(sums == shared.second.front());
          CHECK(backends::check_product(sums, layers.exact[1], shared.rounding[1]).violation.empty());
        }
        CHECK(shared.rounding[1].more_roundings == shared.rounding[0].more_roundings + ranks - 1);
        CHECK(shared.on_host == shared.second.front());
        std::vector<float> negated = shared.second.front();
        for (float& sum : negated) sum = -sum;
        CHECK(shared.negated == negated);
        CHECK(shared.reductions == 100 * ranks);
        CHECK(shared.guards == "");
      }
    }
}

TEST_CASE("a reduction that leaves out a rank, or is not the same on all, shows") {
  const PairOfLayers layers(gaussian_matrix({130, 96}, 9), gaussian_matrix({71, 130}, 9, 2), 2);
  const std::vector<int64_t> cuts = {0, 64, 128, 130};
  const SharedPair without = run_pair(layers, cuts, cuts, 0, Fault::rank_left_out);
  for (const std::vector<float>& sums : without.second)
    CHECK_FALSE(backends::check_product(sums, layers.exact[1], without.rounding[1]).violation.empty());
  const SharedPair differing = run_pair(layers, cuts, cuts, 0, Fault::own_sum);
  CHECK(differing.second.back() != differing.second.front());
  CHECK_FALSE(
      backends::check_product(differing.second.back(), layers.exact[1], differing.rounding[1]).violation.empty());
}

TEST_CASE("plans whose parts are not those of the ranks are refused") {
  const datasets::Matrix matrix = gaussian_matrix({8, 6}, 4);
  Meeting meeting(1);
  ThreadRanks own(meeting, 0, Fault::none);
  for (auto& device : devices(Place::cpu, 1)) {
    const auto uploaded = device->upload(stored(matrix, 0, 8));
    backends::PassPlan plan;
    plan.reference_decode = [](const backends::CompressedView&, std::span<std::byte>) {};
    plan.layers = {uploaded.get()};
    plan.op = backends::Op::matmul;
    plan.tokens = {std::vector<float>(6)};
    plan.splits = {backends::Split::cols};
    CHECK_THROWS_AS(backends::prepare(*device, plan), std::invalid_argument);  // among nobody
    plan.ranks = &own;
    for (const std::vector<int64_t>& parts : {std::vector<int64_t>{0, 8}, {0, 6, 6}, {0}}) {
      plan.parts = {parts};
      CHECK_THROWS_AS(backends::prepare(*device, plan), std::invalid_argument);
    }
    plan.parts = {{0, 6}};
    CHECK_NOTHROW(backends::prepare(*device, plan));
    plan.splits.push_back(backends::Split::cols);
    CHECK_THROWS_AS(backends::prepare(*device, plan), std::invalid_argument);
    plan.op = backends::Op::matvec;  // int8 vectors are requantised from whole sums
    plan.inputs = {std::vector<int8_t>(6)};
    plan.scales = {1};
    plan.splits = {backends::Split::cols};
    CHECK_THROWS_AS(backends::prepare(*device, plan), std::invalid_argument);
  }
}

TEST_CASE("ranks share products alone") {
  const datasets::Matrix matrix = gaussian_matrix({8, 8}, 4);
  Meeting meeting(1);
  ThreadRanks own(meeting, 0, Fault::none);
  for (auto& device : devices(Place::cpu, 1)) {
    const auto uploaded = device->upload(stored(matrix, 0, 8));
    backends::PassPlan plan;
    plan.reference_decode = [](const backends::CompressedView&, std::span<std::byte>) {};
    plan.layers = {uploaded.get()};
    plan.ranks = &own;
    plan.parts = {{0, 8}};
    plan.op = backends::Op::decode;
    CHECK_THROWS_AS(backends::prepare(*device, plan), std::invalid_argument);
  }
}

// The source `workload`: frozen images, the split into seen and unseen, parts and errors.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "datasets/source.h"
#include "datasets/workloads/workload.h"

using namespace ecmv::datasets;

namespace {

Dataset load(std::map<std::string, std::string> texts, uint64_t seed = 1) {
  SourceRequest request;
  request.seed = seed;
  request.texts = std::move(texts);
  return find_source("workload")->load(request);
}

std::string error_of(std::map<std::string, std::string> texts) {
  try {
    load(std::move(texts));
  } catch (const DatasetError& e) {
    return e.what();
  }
  return {};
}

uint64_t image_hash(const MemoryImage& image) {
  uint64_t hash = 0;
  for (const MemoryArray& array : image.arrays)
    hash = hash * 0x100000001B3u ^
           content_hash(
               {{1, static_cast<int64_t>(array.bytes.size()) / element_bytes(array.type)}, array.type, array.bytes});
  return hash;
}

}  // namespace

TEST_CASE("the workloads are many, small and of every type from int8 to fp64") {
  std::set<std::string_view> types;
  for (const Workload& workload : all_workloads()) {
    INFO(workload.name);
    const MemoryImage image = workload.run(1);
    size_t bytes = 0;
    for (const MemoryArray& array : image.arrays) {
      CHECK(array.bytes.size() % kCacheLineBytes == 0);
      bytes += array.bytes.size();
      types.insert(element_type_name(array.type));
    }
    CHECK(bytes >= 100 * 1024);
    CHECK(bytes <= 2048 * 1024);
  }
  CHECK(all_workloads().size() == 32);
  CHECK(types == std::set<std::string_view>{"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"});
}

TEST_CASE("the images of seed 1 are frozen") {
  const std::map<std::string_view, uint64_t> frozen = {
#include "tests/datasets/sources/workload_hashes.inc"
  };
  for (const Workload& workload : all_workloads()) {
    INFO(workload.name);
    REQUIRE(frozen.contains(workload.name));
    CHECK(image_hash(workload.run(1)) == frozen.at(workload.name));
  }
}

TEST_CASE("every fourth workload by falling entropy is unseen") {
  std::vector<std::pair<double, std::string_view>> by_entropy;
  for (const Workload& workload : all_workloads())
    by_entropy.emplace_back(-image_entropy(workload.run(1)), workload.name);
  std::sort(by_entropy.begin(), by_entropy.end());
  for (size_t i = 0; i < by_entropy.size(); ++i) {
    INFO(by_entropy[i].second);
    CHECK(find_workload(by_entropy[i].second)->seen == (i % 4 != 3));
  }
}

TEST_CASE("train and test share out the lines of a seen workload, four to one") {
  const Workload& workload = *find_workload("heat");
  const MemoryImage image = workload.run(1);
  const auto lines = [&](WorkloadPart part) {
    const std::vector<std::byte> bytes = workload_bytes(workload, image, ElementType::f32, part);
    std::vector<std::string> out;
    for (size_t at = 0; at < bytes.size(); at += kCacheLineBytes)
      out.emplace_back(reinterpret_cast<const char*>(&bytes[at]), kCacheLineBytes);
    std::sort(out.begin(), out.end());
    return out;
  };
  const auto train = lines(WorkloadPart::train), test = lines(WorkloadPart::test);
  auto both = train;
  both.insert(both.end(), test.begin(), test.end());
  std::sort(both.begin(), both.end());
  CHECK(both == lines(WorkloadPart::all));
  CHECK(static_cast<double>(test.size()) / static_cast<double>(both.size()) > 0.18);
  CHECK(static_cast<double>(test.size()) / static_cast<double>(both.size()) < 0.22);
  CHECK(load({{"workload", "heat"}, {"part", "test"}}).layers[0].elements.size() == test.size() * kCacheLineBytes);
}

TEST_CASE("the source gives the arrays of one type as a matrix of cache lines") {
  const Dataset dataset = load({{"workload", "spmv"}, {"type", "i32"}});
  REQUIRE(dataset.layers.size() == 1);
  const Matrix& matrix = dataset.layers[0];
  CHECK(matrix.type == ElementType::i32);
  CHECK(matrix.shape.cols == 32);
  CHECK(static_cast<size_t>(matrix.shape.elements()) * 4 == matrix.elements.size());
  CHECK(matrix.content_hash == content_hash(matrix.view()));
  CHECK(matrix.name == "spmv.i32");
  // Another seed is another run; a workload without random numbers is always the same.
  CHECK(load({{"workload", "lu"}}, 2).layers[0].elements != load({{"workload", "lu"}}, 1).layers[0].elements);
  CHECK(load({{"workload", "gemm"}}, 2).layers[0].elements == load({{"workload", "gemm"}}, 1).layers[0].elements);
}

TEST_CASE("wrong requests of workloads end in sentences") {
  CHECK(error_of({{"workload", "spmw"}}).find("There is no workload 'spmw'; there are attention, ") == 0);
  CHECK(error_of({{"workload", "spmv"}}).find("several types; 'type' must be one of i32, f64") != std::string::npos);
  CHECK(error_of({{"workload", "spmv"}, {"type", "i8"}}).find("no arrays of the type 'i8', only i32, f64") !=
        std::string::npos);
  CHECK(error_of({{"workload", "heat"}, {"part", "unseen"}}).find("is a seen one") != std::string::npos);
  CHECK(error_of({{"workload", "life"}, {"part", "test"}}).find("is an unseen one") != std::string::npos);
  CHECK(error_of({{"workload", "life"}, {"part", "some"}}).find("not 'some'") != std::string::npos);
  CHECK(!error_of({}).empty());
}

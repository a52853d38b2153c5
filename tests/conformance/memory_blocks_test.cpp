// The models of mpc are worth their training: on memory images that trained nothing its pooled blocks are the smallest
// of all codecs of memory blocks. Tables that a codec trains on the same matrix and stores with it are counted.
#include <catch2/catch_test_macros.hpp>

#include <map>
#include <set>

#include "codecs/registry.h"
#include "datasets/workloads/workload.h"

using namespace ecmv;

namespace {

// Bits of the blocks by codec id, with the codec's stored tables; "" has the original bits.
std::map<std::string, int64_t> pooled_bits(bool seen) {
  std::map<std::string, int64_t> bits;
  for (const datasets::Workload& workload : datasets::all_workloads()) {
    if (workload.seen != seen) continue;
    const datasets::MemoryImage image = workload.run(1);
    std::set<datasets::ElementType> types;
    for (const datasets::MemoryArray& array : image.arrays) types.insert(array.type);
    for (const datasets::ElementType type : types) {
      datasets::Matrix matrix;
      matrix.type = type;
      matrix.elements = datasets::workload_bytes(workload, image, type,
                                                 seen ? datasets::WorkloadPart::test : datasets::WorkloadPart::all);
      matrix.shape = {1, static_cast<int64_t>(matrix.elements.size()) / datasets::element_bytes(type)};
      bits[""] += static_cast<int64_t>(8 * matrix.elements.size());
      for (const codecs::CodecEntry& entry : codecs::all_codecs()) {
        if (entry.codec->block_sizes == nullptr) continue;
        const backends::CompressedMatrix compressed =
            codecs::encode_matrix(entry, matrix.view(), codecs::default_settings(*entry.codec));
        bits[std::string(entry.id)] += 8 * (compressed.stored_bytes() - compressed.stored_bytes(backends::Role::index));
      }
    }
  }
  return bits;
}

void claim_smallest(bool seen) {
  std::map<std::string, int64_t> bits = pooled_bits(seen);
  if (!bits.contains("mpc") || bits.size() < 3) SKIP("this build has not the codecs to compare");
  for (const auto& [id, total] : bits) {
    INFO(id << ": ratio " << static_cast<double>(bits[""]) / static_cast<double>(total));
    if (id != "mpc") CHECK(bits["mpc"] < total);
  }
}

}  // namespace

TEST_CASE("on blocks of seen workloads that trained nothing, mpc's models give the fewest bits") {
  claim_smallest(true);
}

TEST_CASE("on unseen workloads mpc's models give the fewest bits") { claim_smallest(false); }

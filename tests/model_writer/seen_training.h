// Trains the models that come with mpc on the training parts of the seen workloads, one model for each group of element
// types. The program that writes the models and the test that checks them share it.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "codecs/mpc/format.h"
#include "codecs/mpc/train.h"
#include "datasets/workloads/workload.h"

namespace ecmv::tests {

// Blocks of the training parts, by the id of their group less the first.
inline std::array<std::vector<codecs::mpc::Block>, codecs::mpc::kModels> seen_training_blocks() {
  std::array<std::vector<codecs::mpc::Block>, codecs::mpc::kModels> blocks;
  for (const datasets::Workload& workload : datasets::all_workloads()) {
    if (!workload.seen) continue;
    const datasets::MemoryImage image = workload.run(1);
    std::map<datasets::ElementType, bool> done;
    for (const datasets::MemoryArray& array : image.arrays) {
      if (std::exchange(done[array.type], true)) continue;
      codecs::modelling::for_each_block(
          datasets::workload_bytes(workload, image, array.type, datasets::WorkloadPart::train), codecs::mpc::kBytes,
          [&](std::span<const std::byte> bytes) {
            codecs::mpc::Block block;
            for (int i = 0; i < codecs::mpc::kBytes; ++i) block[i] = std::to_integer<uint8_t>(bytes[i]);
            blocks[codecs::mpc::model_id(array.type) - codecs::mpc::kFirstModel].push_back(block);
          });
    }
  }
  return blocks;
}

inline std::array<codecs::mpc::Model, codecs::mpc::kModels> train_on_seen_workloads() {
  const auto blocks = seen_training_blocks();
  std::array<codecs::mpc::Model, codecs::mpc::kModels> models;
  for (size_t i = 0; i < models.size(); ++i) models[i] = codecs::mpc::train(blocks[i]);
  return models;
}

}  // namespace ecmv::tests

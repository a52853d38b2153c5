// From a case to a checked pass that waits to be measured, or to the outcome of its record.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/plan/device_pool.h"
#include "experiments/plan/split.h"
#include "experiments/run/loaded_dataset.h"
#include "experiments/run/run.h"

namespace ecmv::experiments {

// The layers of one codec; if ranks share them, the parts of each rank one after the other.
struct LayersOrParts {
  const EncodedLayers* encoded = nullptr;
  std::span<const LayerSplit> splits = {};  // with ranks: by layer
};

// The layers of one codec in the memory of one device.
using Upload = std::vector<std::unique_ptr<backends::UploadedMatrix>>;

struct AdmittedCase {
  const Case* one = nullptr;
  reports::CaseRecord record = {};
  Outcome outcome = {};
  // For measuring; without a pass the case is over with its outcome.
  backends::Device* device = nullptr;
  Reference reference = {};
  std::shared_ptr<const Upload> upload = {};
  std::unique_ptr<backends::Pass> pass = {};
  double bound_used = 0;  // matmul: found in tier 2a
  double estimate_s = 0;  // of one pass; 0: unknown
};

// Whether the case's kernel keeps a copy of what was stored (stored_bytes.h); asked where a process can be forked for
// it.
Outcome check_copies(const AdmittedCase& admitted);

// Takes the cases of one codec with one choice of settings, one after the other; they share its uploads.
class Admission {
 public:
  Admission(const Experiment& experiment, const RunOptions& options, const LoadedDataset& dataset, DevicePool& devices,
            const CodecChoice& codec, const EncodedLayers& encoded);
  // `record` holds the facts known so far. Throws nothing.
  AdmittedCase admit(const Case& one, reports::CaseRecord record);
  // Layers that no admitted case uses leave the devices' memory. Returns whether any were kept for later cases.
  bool forget_uploads();

 private:
  // The layers; with ranks, each rank's part encoded by itself.
  LayersOrParts layers_for(const Case& one);
  Outcome fill_stored(const Case& one, const EncodedLayers& encoded, reports::CaseRecord& record) const;
  Outcome prepare(AdmittedCase& admitted, const LayersOrParts& layers, backends::PassPlan& plan);
  Outcome prepare_step(AdmittedCase& admitted, const LayersOrParts& layers, backends::PassPlan& plan);
  Outcome choose(AdmittedCase& admitted, const LayersOrParts& layers, backends::PassPlan& plan) const;
  Outcome check(AdmittedCase& admitted, const backends::PassPlan& plan) const;
  Outcome ask_witness(const AdmittedCase& admitted, const backends::PassPlan& plan) const;
  Outcome estimate(AdmittedCase& admitted) const;
  std::shared_ptr<const Upload> upload_to(backends::Device& device, const LayersOrParts& layers, bool pairs);
  std::shared_ptr<const Upload> upload_copies(backends::Device& device, const LayersOrParts& layers, bool pairs,
                                              const std::vector<size_t>& order);

  const Experiment& experiment_;
  const RunOptions& options_;
  const LoadedDataset& dataset_;
  DevicePool& devices_;
  const CodecChoice& codec_;
  const EncodedLayers& encoded_;
  struct Parts {
    std::vector<LayerSplit> splits;
    EncodedLayers encoded;
  };
  std::map<std::tuple<int, bool, bool>, Parts> parts_;  // by ranks, whether in pairs, and whether in a step's pairs
  Reference reference_;                             // the source's; for lossy codecs, the reference decoder's output
  std::optional<datasets::Distortion> distortion_;  // of the decoded numbers from the floats; none if all is exact
  std::map<std::string, std::shared_ptr<const Upload>, std::less<>> uploads_;  // by memory and split
};

}  // namespace ecmv::experiments

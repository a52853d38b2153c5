// The arithmetic of `ecmv advise`: from records of measured products it derives the bytes that a codec would store for
// other weights, and the time of a decoding step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "datasets/layers/weight_layers.h"
#include "reports/record.h"

namespace ecmv::experiments {

// Layers of one kind and shape.
struct LayerGroup {
  std::string kind;
  int64_t rows = 0, cols = 0, layers = 0;
};
std::vector<LayerGroup> groups_of(const std::vector<datasets::WeightLayer>& layers);

// Whether this is one of the baseline codecs.
bool is_uncompressed(const std::string& codec);

// One codec, on weights in one format.
struct Outlook {
  std::string format;          // element type or quantiser: "bf16", "absmax[bits=8,group=row]"
  std::string codec;           // with its settings
  std::string device, kernel;  // where that was measured
  bool uncompressed = false;   // see is_uncompressed
  bool lossless = false;       // the format is the weights' own, and its elements are kept
  double snr_db = reports::kUnknown;
  int64_t batch = 1;  // tokens of a step
  double stored_bytes = 0;
  double step_s = 0;       // all layers once
  bool disturbed = false;  // other programs ran during the measurement
  double tokens_per_s() const { return static_cast<double>(batch) / step_s; }
};

// The weights, and which records to use.
struct OutlookTask {
  std::vector<LayerGroup> groups;
  std::string type;  // of the elements, as records name it: "bf16"
  int64_t batch = 1;
  std::string activations;  // only cases with tokens of "f32" or "bf16"; "": of any
  std::string device;       // only cases of this device; "": whatever the records have
};

// One outlook for each format, codec with its settings and device, the fastest first. It comes from ok cases of the op
// `step` with that batch and type, or quantised; for a codec without a step, from `matmul`. A step's time is divided
// among its layers in proportion to their times alone, so the outlook for exactly the layers of a record is the
// record's own time. A layer of another shape takes as long an element as the most similar one in the records.
std::vector<Outlook> outlooks(const reports::RecordSet& records, const OutlookTask& task);

}  // namespace ecmv::experiments

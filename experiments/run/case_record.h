// The record of a case: describe_case() before it runs, then each stage of the run fills in its part.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/cpu/core_speed.h"
#include "backends/cpu/host_load.h"
#include "backends/pass.h"
#include "codecs/registry.h"
#include "datasets/quantisers/quantisers.h"
#include "experiments/check/chain.h"
#include "experiments/check/check.h"
#include "experiments/config/case.h"
#include "experiments/run/measure.h"
#include "reports/record.h"

namespace ecmv::experiments {

using backends::LayerSplit;

// The facts before anything ran.
reports::CaseRecord describe_case(const Case& one, const std::string& experiment, const std::string& run_id);
reports::CaseRecord::Data describe_data(const DataSpec& spec, const datasets::Dataset& dataset);

// The `scales` of the data are stored beside every codec's bytes. `copies` of each layer stand in memory, or one.
void fill_size(reports::CaseRecord& record, std::span<const double> entropies,
               const std::vector<backends::CompressedMatrix>& layers, std::span<const datasets::Scales> scales = {},
               std::span<const int64_t> copies = {});
// Says whether layers were stored with tuned settings. Those that all of them have replace the open ones.
void fill_tuned(reports::CaseRecord& record, const CodecSpec& codec,
                const std::vector<backends::CompressedMatrix>& layers);
// Replaces the data's layers by the layers of a step.
void fill_step(reports::CaseRecord& record, const std::vector<datasets::Matrix>& matrices, int repeat);
void fill_distortion(reports::CaseRecord& record, const datasets::Distortion& distortion);
// The device's model, followed by its number where it is not the first of its backend.
std::string device_label(const backends::Device& device);
void fill_device(reports::CaseRecord& record, const backends::Device& device);
// For devices that tell what is free, once the pass stands in their memory. `weight_bytes`: of the fullest.
void fill_memory(reports::CaseRecord& record, backends::Device& device, int64_t weight_bytes);
// Records who shares the layers, and the bytes they exchange. `splits` of every matrix.
void fill_ranks(reports::CaseRecord& record, const backends::SharedDevice& shared, std::span<const LayerSplit> splits,
                const Reference& reference);
void fill_check(reports::CaseRecord& record, const OutputCheck& check);
// Cache class: "resident" while a pass touches less than 4 x the last-level cache.
void fill_time(reports::CaseRecord& record, const TimedPass& timed, const Reference& reference, backends::Op op,
               const backends::DeviceInfo& device);
// Leaves out unknown values.
void fill_clocks(reports::CaseRecord& record, const backends::DeviceState& before, const backends::DeviceState& after);

// Records other load on the machine during the measurement, and the speed of its cores.
void fill_host(reports::CaseRecord& record, const backends::cpu::Disturbance& disturbance,
               const backends::cpu::CoreState& cores);

}  // namespace ecmv::experiments

// From what a run knows to the fields of its records, and from a kernel's name to the pass it asks for.
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

// Loads or generates, and quantises. Throws datasets::DatasetError.
datasets::Dataset load_dataset(const DataSpec& data);

// The pass without its layers and tokens. Throws std::invalid_argument if the codec has no such kernel or policy.
backends::PassPlan plan_for(const KernelSpec& kernel, const codecs::CodecEntry& entry, const ReferenceChain& chain);

// What is known before anything ran.
reports::CaseRecord describe_case(const Case& one, const std::string& experiment, const std::string& run_id);
reports::CaseRecord::Data describe_data(const DataSpec& spec, const datasets::Dataset& dataset);

// Order-0 entropy of the elements of each layer; goes through all of them.
std::vector<double> entropies_of(const datasets::Dataset& dataset);
// `scales` of the data are stored beside every codec's bytes. `copies` of each layer stand in memory, or one.
void fill_size(reports::CaseRecord& record, std::span<const double> entropies,
               const std::vector<backends::CompressedMatrix>& layers, std::span<const datasets::Scales> scales = {},
               std::span<const int64_t> copies = {});
// The layers that a step walks over, instead of those of the data.
void fill_step(reports::CaseRecord& record, const std::vector<datasets::Matrix>& matrices, int repeat);
void fill_distortion(reports::CaseRecord& record, const datasets::Distortion& distortion);
// The device's model, followed by its number where it is not the first of its backend.
std::string device_label(const backends::Device& device);
void fill_device(reports::CaseRecord& record, const backends::Device& device);
// Who shares the layers, and how many bytes they exchange. `splits` of every matrix.
void fill_ranks(reports::CaseRecord& record, const backends::SharedDevice& shared, std::span<const LayerSplit> splits,
                const Reference& reference);
void fill_check(reports::CaseRecord& record, const OutputCheck& check);
// Cache class: "resident" while a pass touches less than 4 x the last-level cache.
void fill_time(reports::CaseRecord& record, const TimedPass& timed, const Reference& reference, backends::Op op,
               const backends::DeviceInfo& device);
// Leaves out what the device did not tell.
void fill_clocks(reports::CaseRecord& record, const backends::DeviceState& before, const backends::DeviceState& after);

// What the machine did beside while the case was measured, and how fast its cores were.
void fill_host(reports::CaseRecord& record, const backends::cpu::Disturbance& disturbance,
               const backends::cpu::CoreState& cores);

// Linear interpolation between order statistics, q in [0, 1]; NaN for no values.
double quantile(std::vector<double> values, double q);

// Machine, build and configuration, with a new run id.
reports::RunRecord make_run_record(const Experiment& experiment, const std::vector<std::string>& arguments);

}  // namespace ecmv::experiments

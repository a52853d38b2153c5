// ecmv advise: tells whether coding weights pays on this device.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backends/backend.h"
#include "datasets/inspect.h"
#include "experiments/advise/advice.h"
#include "experiments/advise/weight_sample.h"
#include "experiments/command/command.h"
#include "experiments/output/own_stdout.h"
#include "experiments/output/table_json.h"
#include "experiments/output/terminal_table.h"
#include "experiments/run/case_record.h"
#include "experiments/run/run.h"
#include "experiments/run/run_record.h"
#include "reports/fields.h"
#include "reports/tables/table.h"

namespace ecmv::experiments {
namespace {

using reports::Column;

// Measuring ends after this time: soon where there is little to measure, however busy the machine is.
double most_seconds(const datasets::WeightLayers& weights) {
  double elements = 0;
  for (const datasets::WeightLayer& layer : weights.layers) elements += static_cast<double>(layer.shape.elements());
  return std::clamp(20 + elements / 2e6, 20.0, 110.0);
}

struct AdviseOptions {
  SampleRequest sample;
  int batch = 1;
  std::vector<std::string> records;
  std::string output;
  bool json = false;
};

// Throws NothingRuns if the backend has no device here.
void expect_device(const std::string& id) {
  const backends::Backend* const backend = backends::find_backend(id);
  if (backend == nullptr) return;
  if (const std::string reason = backends::why_unavailable(*backend); !reason.empty())
    throw NothingRuns(fmt::format("The backend '{}' is unavailable: {}", id, reason));
}

// Why kernels did not multiply weights that a codec has stored, such as NaN among them: each reason once.
std::set<std::string> refusals_of_products(const reports::RecordSet& records) {
  std::set<std::string> reasons;
  for (const reports::CaseRecord& record : records.cases)
    if (record.size.stored_bytes > 0 && !record.reason.empty()) reasons.insert(record.reason);
  return reasons;
}

// Measures the sample until it is done or time runs out.
reports::RecordSet measure(const AdviseOptions& options, const datasets::WeightLayers& weights,
                           const CommandLine& line) {
  expect_device(options.sample.backend);
  const Experiment experiment = sample_experiment(options.sample, weights);
  if (experiment.cases.empty())
    throw NothingRuns(fmt::format("No named codec has a float product on the backend '{}'.", options.sample.backend));
  if (!options.sample.tuned.empty())
    for (const std::string& remark : experiment.remarks) std::cerr << remark << "\n";
  reports::RecordSet records;
  std::optional<reports::RecordWriter> writer;
  if (!options.output.empty()) writer.emplace(options.output, reports::Existing::set_aside);
  const reports::RunRecord run = make_run_record(experiment, line.arguments);
  records.runs.push_back(run);
  if (writer) writer->write(run);
  catch_interrupts();
  const auto begin = std::chrono::steady_clock::now();
  RunOptions run_options;
  run_options.run_id = run.run;
  run_options.progress = &std::cerr;
  run_options.batch_seconds = 5;
  const double most = most_seconds(weights);
  run_options.interrupted = [&] {
    return interrupted() || std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > most;
  };
  run_options.on_case = [&](const reports::CaseRecord& record) {
    records.cases.push_back(record);
    if (writer) writer->write(record);
  };
  run_experiment(experiment, run_options);
  if (const size_t left = experiment.cases.size() - records.cases.size(); left > 0 && !interrupted())
    std::cerr << fmt::format("{} of {} cases were not measured in time; choose codecs with --codec.\n", left,
                             experiment.cases.size());
  return records;
}

// Memory of the device of the fastest case, as its run describes it; 0 if it does not.
double memory_of(const reports::RecordSet& records, const std::vector<Outlook>& outlooks) {
  if (outlooks.empty()) return 0;
  for (const reports::CaseRecord& record : records.cases) {
    const reports::RunRecord* const run = records.find_run(record.run);
    if (run == nullptr || reports::device_label(record) != outlooks.front().device) continue;
    for (const reports::GpuRecord& gpu : run->gpus)
      if (record.kernel.device.starts_with(gpu.name)) return static_cast<double>(gpu.memory_bytes);
    return static_cast<double>(run->memory_bytes);
  }
  return 0;
}

// The device of all outlooks, "" if there are several.
std::string common_device(const std::vector<Outlook>& outlooks) {
  const auto same = [&](const Outlook& one) { return one.device == outlooks.front().device; };
  return !outlooks.empty() && std::ranges::all_of(outlooks, same) ? outlooks.front().device : "";
}

reports::Table table_of(const std::vector<Outlook>& outlooks, double raw_bytes, double memory_bytes) {
  constexpr auto kRight = Column::Align::right;
  reports::Table table;
  table.id = "outlooks";
  table.columns = {{"tokens_per_s", "tokens/s", "", kRight},
                   {"us_per_step", "µs a step", "", kRight},
                   {"stored_bytes", "stored", "", kRight},
                   {"of_weights", "share of the weights", "", kRight},
                   {"snr_db", "SNR dB", "", kRight},
                   {"format", "format", ""},
                   {"codec", "codec", ""},
                   {"kernel", "kernel", ""}};
  const bool one_device = !common_device(outlooks).empty();
  for (const Outlook& one : outlooks) {
    const bool fits = memory_bytes <= 0 || one.stored_bytes <= memory_bytes;
    const double us = 1e6 * one.step_s;
    table.rows.push_back(
        {reports::number_cell(one.tokens_per_s(), reports::si_text(one.tokens_per_s()) + (one.disturbed ? " !" : "")),
         reports::number_cell(us, reports::fixed_text(us, us < 1000 ? 1 : 0)),
         reports::number_cell(one.stored_bytes, decimal_bytes(one.stored_bytes) + (fits ? "" : ", does not fit")),
         reports::number_cell(one.stored_bytes / raw_bytes, reports::fixed_text(one.stored_bytes / raw_bytes, 3)),
         one.lossless ? reports::text_cell("") : reports::number_cell(one.snr_db, reports::fixed_text(one.snr_db, 1)),
         reports::text_cell(one.format), reports::text_cell(one.codec),
         reports::text_cell(one_device ? one.kernel : fmt::format("{}: {}", one.device, one.kernel))});
  }
  return table;
}

// Types of the layers, by decreasing number of weights.
std::vector<std::string> types_of(const datasets::WeightLayers& weights) {
  std::map<std::string, int64_t> elements;
  for (const datasets::WeightLayer& layer : weights.layers) elements[layer.dtype] += layer.shape.elements();
  std::vector<std::string> types;
  for (const auto& [type, count] : elements) types.push_back(type);
  std::ranges::stable_sort(types, std::greater(), [&](const std::string& type) { return elements[type]; });
  return types;
}

// Advice about GGUF blocks, and how well an ideal code would store them.
Advice advice_of_file(const std::string& path) {
  double minimum_bytes = 0, bytes = 0;
  for (const datasets::TensorSummary& tensor : datasets::inspect_file(path)) {
    if (!measured_type(tensor.dtype).empty()) continue;
    bytes += static_cast<double>(tensor.stored_bytes);
    minimum_bytes += static_cast<double>(tensor.order0_bytes.value_or(tensor.stored_bytes));
  }
  return advice_for_blocks(bytes, minimum_bytes);
}

// Remarks about the weights, before any about codes.
std::vector<std::string> remarks_on(const datasets::WeightLayers& weights, const std::string& dtype,
                                    const std::string& type) {
  std::vector<std::string> remarks = weights.remarks;
  if (weights.drawn)
    remarks.emplace_back(
        "Only shapes were given: sizes come from random weights with the entropy of typical bf16 weights.");
  if (type == "bf16" && dtype != "BF16")
    remarks.push_back(fmt::format("No product here reads {}: the figures are for the weights rounded to bf16.", dtype));
  if (weights.source == "model")
    remarks.emplace_back("A step runs all linear layers once; attention and its cache are not included.");
  return remarks;
}

// Takes out the layers of which nothing is measured, because most weights have another type. Returns their bytes.
double leave_out_others(datasets::WeightLayers& weights, const std::string& type) {
  double bytes = 0;
  const auto is_other = [&](const datasets::WeightLayer& layer) {
    const bool other = measured_type(layer.dtype) != type;
    if (other) bytes += static_cast<double>(layer.stored_bytes);
    return other;
  };
  if (const size_t count = std::erase_if(weights.layers, is_other); count > 0)
    weights.remarks.push_back(fmt::format("What follows leaves out {} layer{} of other types, {}.", count,
                                          count == 1 ? "" : "s", decimal_bytes(bytes)));
  return bytes;
}

int advise(const AdviseOptions& options, const std::string& path, const CommandLine& line) {
  datasets::WeightLayers weights = datasets::weight_layers(path);
  const size_t layers = weights.layers.size();
  double elements = 0, stored_bytes = 0;
  for (const datasets::WeightLayer& layer : weights.layers) {
    elements += static_cast<double>(layer.shape.elements());
    stored_bytes += static_cast<double>(layer.stored_bytes);
  }
  const std::vector<std::string> types = types_of(weights);
  const std::string& dtype = types.front();
  const std::string type = measured_type(dtype);
  const double left_out = type.empty() ? 0 : leave_out_others(weights, type);
  Advice found;
  std::vector<Outlook> rows;
  double memory_bytes = 0;
  if (type.empty()) {
    found = advice_of_file(path);
  } else {
    reports::RecordSet records;
    for (const std::string& file : options.records) records.append(reports::read_records(file));
    if (options.records.empty()) {
      AdviseOptions now = options;
      now.sample.path = path;
      if (left_out > 0) now.sample.elements = type;
      now.sample.batch = std::to_string(options.batch);
      records = measure(now, weights, line);
      if (interrupted()) {
        std::cerr << "ecmv: interrupted before all measurements; no advice.\n";
        return kInterrupted;
      }
    }
    rows = outlooks(records, {groups_of(weights.layers), type, options.batch, options.sample.activations, ""});
    memory_bytes = memory_of(records, rows);
    found = advice(rows, type, memory_bytes);
    if (rows.empty() && options.records.empty())
      for (const std::string& reason : refusals_of_products(records)) found.notes.push_back(reason);
  }
  const int code = rows.empty() && !type.empty() ? kNothingRan : kFine;
  const std::vector<std::string> remarks = remarks_on(weights, dtype, type);
  const reports::Table table = table_of(rows, stored_bytes - left_out, memory_bytes);
  if (options.json) {
    nlohmann::ordered_json json = {{"path", path},
                                   {"layers", layers},
                                   {"elements", elements},
                                   {"types", types},
                                   {"stored_bytes", stored_bytes},
                                   {"batch", options.batch},
                                   {"memory_bytes", memory_bytes},
                                   {"remarks", remarks},
                                   {"advice", found.verdict},
                                   {"notes", found.notes},
                                   {"outlooks", table_json(table)}};
    OwnStdout::stream() << json_text(json) << "\n";
    return code;
  }
  const auto print = [](const std::string& sentence) {
    for (const std::string& text : wrapped(sentence, terminal_columns())) OwnStdout::stream() << text << "\n";
  };
  const std::string count = reports::si_text(elements);
  print(fmt::format("{}: {} layer{}, {} weights, {}, {}", path, layers, layers == 1 ? "" : "s", count,
                    fmt::join(types, " and "), decimal_bytes(stored_bytes)));
  for (const std::string& remark : remarks) print(remark);
  OwnStdout::stream() << "\n";
  if (!rows.empty()) {
    const std::string device = common_device(rows);
    const std::string& numbers = options.sample.activations;
    OwnStdout::stream() << fmt::format("A step of {} token{}{}{}:\n", options.batch, options.batch == 1 ? "" : "s",
                                       numbers.empty() ? "" : " of " + numbers, device.empty() ? "" : " on " + device)
                        << fitted_text(table, terminal_columns(120)) << "\n";
  }
  print(found.verdict);
  for (const std::string& note : found.notes) print(note);
  return code;
}

}  // namespace

void add_advise(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<AdviseOptions>();
  auto path = std::make_shared<std::string>();
  CLI::App* verb =
      app.add_subcommand("advise",
                         "predicts whether coding pays for given weights on a device: stored bytes, tokens/s, memory "
                         "and a recommendation; from records, or from a sample measured in less than two "
                         "minutes");
  verb->footer(
      "Rates come from decoding steps (op step): from --records, or from measuring the first block and lm_head.\n"
      "Layers of other shapes are scaled from the most similar one by their elements.");
  verb->add_option("weights", *path, "FILE or FOLDER as for inspect, or the name of a model's shape (llama_3_8b, ...)")
      ->required();
  CLI::Option* const records =
      verb->add_option("--records", options->records, "record files of steps or matmuls, instead of measuring now")
          ->allow_extra_args(false);
  // These options choose measurements, so they make no sense with records.
  verb->add_option("--backend", options->sample.backend, "backend of the products, as for run (best: a CPU)")
      ->excludes(records);
  verb->add_option("--device", options->sample.device, "GPUs: number of ecmv list devices (first)")->excludes(records);
  verb->add_option("--threads", options->sample.threads, "CPU threads (all)")->excludes(records);
  verb->add_option("--batch", options->batch, "tokens of a step (1)")->check(CLI::Range(1, backends::kMostTokens));
  verb->add_option("--activations", options->sample.activations,
                   "type of the tokens: f32, bf16 (f32; with --records any)")
      ->check(CLI::IsMember({"f32", "bf16"}));
  verb->add_option("--codec", options->sample.codecs,
                   "codec to measure, ID or ID:SETTING=VALUE,...; may be repeated (all lossless and fast ones)")
      ->allow_extra_args(false)
      ->excludes(records);
  verb->add_option("--quantise", options->sample.quantisers,
                   "quantiser to measure too, ID or ID:NAME=VALUE,...; may be repeated")
      ->allow_extra_args(false)
      ->excludes(records);
  add_tuned(*verb, options->sample.tuned)->excludes(records);
  verb->add_option("-o,--output", options->output, "writes the measured records, for --records")->excludes(records);
  verb->add_flag("--json", options->json, "JSON on stdout");
  add_codec_libraries(*verb, line);
  verb->callback(
      [options, path, &line] { line.action = [options, path, &line] { return advise(*options, *path, line); }; });
}

}  // namespace ecmv::experiments

// ecmv inspect: describes weights, tensor by tensor and by kind of layer, and tells how to run them.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "datasets/inspect.h"
#include "datasets/layers/model_shape.h"
#include "datasets/source.h"
#include "experiments/command/command.h"
#include "experiments/output/own_stdout.h"
#include "experiments/output/table_json.h"
#include "experiments/output/terminal_table.h"
#include "reports/tables/table.h"

namespace ecmv::experiments {
namespace {

using datasets::TensorSummary;
using reports::Column;

reports::Cell number(const std::optional<double>& value) {
  return value ? reports::number_cell(*value, fmt::format("{:.6g}", *value)) : reports::Cell{"-", std::monostate{}};
}

reports::Cell count(const std::optional<int64_t>& value) {
  return value ? reports::count_cell(*value) : reports::Cell{"-", std::monostate{}};
}

reports::Table table_of_tensors(const std::string& path, const std::vector<TensorSummary>& tensors) {
  reports::Table table;
  table.id = "tensors";
  table.title = path;
  table.columns = {{"tensor", "tensor", ""}, {"kind", "kind", ""}, {"type", "type", ""}, {"shape", "shape", ""}};
  for (const char* name :
       {"elements", "stored_bytes", "scale_bytes", "mean", "sigma", "min", "max", "not_finite", "distinct_values",
        "entropy_bits", "distinct_exponents", "exponent_entropy_bits", "scale_entropy_bits", "order0_bytes"})
    table.columns.push_back({name, name, "", Column::Align::right});
  for (const TensorSummary& tensor : tensors)
    table.rows.push_back(
        {reports::text_cell(tensor.name), reports::text_cell(std::string(datasets::layer_kind_name(tensor.kind))),
         reports::text_cell(tensor.dtype), reports::text_cell(fmt::format("{}", fmt::join(tensor.shape, "x"))),
         reports::count_cell(tensor.elements), reports::count_cell(tensor.stored_bytes),
         reports::count_cell(tensor.scale_bytes), number(tensor.mean), number(tensor.sigma), number(tensor.min),
         number(tensor.max), reports::count_cell(tensor.not_finite), count(tensor.distinct_values),
         number(tensor.entropy_bits), count(tensor.distinct_exponents), number(tensor.exponent_entropy_bits),
         number(tensor.scale_entropy_bits), count(tensor.order0_bytes)});
  return table;
}

reports::Table table_of_kinds(const std::vector<TensorSummary>& tensors) {
  reports::Table table;
  table.id = "kinds";
  table.title = "By kind of layer";
  table.columns = {{"kind", "kind", ""}, {"type", "type", ""}};
  for (const char* name : {"tensors", "elements", "stored_bytes", "stored_bits", "scale_bytes", "entropy_bits",
                           "exponent_entropy_bits", "minimum_bytes", "minimum_bits", "ceiling"})
    table.columns.push_back({name, name, "", Column::Align::right});
  for (const datasets::KindSummary& kind : datasets::summarize_kinds(tensors)) {
    std::optional<double> ceiling;
    if (kind.minimum_bytes > 0) ceiling = double(kind.stored_bytes) / double(kind.minimum_bytes);
    table.rows.push_back({reports::text_cell(kind.kind), reports::text_cell(kind.dtype.empty() ? "all" : kind.dtype),
                          reports::count_cell(kind.tensors), reports::count_cell(kind.elements),
                          reports::count_cell(kind.stored_bytes), number(kind.stored_bits()),
                          reports::count_cell(kind.scale_bytes), number(kind.entropy_bits),
                          number(kind.exponent_entropy_bits), reports::count_cell(kind.minimum_bytes),
                          number(kind.minimum_bits()), number(ceiling)});
  }
  return table;
}

// Shapes are lists of numbers there.
nlohmann::ordered_json tensors_json(const reports::Table& table, const std::vector<TensorSummary>& tensors) {
  nlohmann::ordered_json rows = table_json(table);
  for (size_t i = 0; i < tensors.size(); ++i) rows[i]["shape"] = tensors[i].shape;
  return rows;
}

// Biases and constants would fill the first table in many models.
bool is_small(const TensorSummary& tensor, int64_t elements_of_file) {
  constexpr int64_t kSmall = 4096, kSmallPart = 10000;
  return tensor.elements < std::min(kSmall, elements_of_file / kSmallPart);
}

// The tensors to show, and a sentence about the others.
std::pair<std::vector<TensorSummary>, std::string> without_small(const std::vector<TensorSummary>& tensors) {
  int64_t elements = 0, hidden = 0;
  for (const TensorSummary& tensor : tensors) elements += tensor.elements;
  std::vector<TensorSummary> shown;
  for (const TensorSummary& tensor : tensors) {
    if (is_small(tensor, elements))
      hidden += tensor.elements;
    else
      shown.push_back(tensor);
  }
  const size_t count = tensors.size() - shown.size();
  if (count < 4 || shown.empty()) return {tensors, ""};
  return {std::move(shown),
          fmt::format("and {} small tensors, {} elements together: --all lists them\n", count, hidden)};
}

// How to run the file: the command, or "" and why nothing of it would run, and what a run leaves out.
struct HowToRun {
  std::string command, why_not;
  std::vector<std::string> remarks;
};
HowToRun how_to_run(const std::string& path, std::string_view format) {
  const std::string_view source = format == "matvans" ? "matvans" : "weights";
  HowToRun how;
  try {
    datasets::SourceRequest request;
    request.texts["file"] = path;
    how.remarks = datasets::find_source(source)->check(request).remarks;
    how.command =
        fmt::format("ecmv run --source {} --param {} --codec all --op size", source, shell_word("file=" + path));
  } catch (const datasets::DatasetError& error) {
    how.why_not = error.what();
  }
  return how;
}

// The name of a shape is no file; other commands take it.
void expect_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return;
  const auto shapes = datasets::named_model_shapes();
  if (std::ranges::find(shapes, path, &datasets::NamedModelShape::name) != shapes.end())
    throw UsageError(
        fmt::format("{0} is the name of a model's shape, without weights to inspect: 'ecmv advise {0}' "
                    "and 'ecmv run --source model --param model={0}' take it.",
                    path));
}

void inspect(const std::string& path, bool every, nlohmann::ordered_json* json) {
  expect_file(path);
  const datasets::WeightFiles files = datasets::open_weights(path);
  const std::vector<TensorSummary> tensors = datasets::summarize_all(files.tensors);
  const reports::Table kinds = table_of_kinds(tensors);
  const HowToRun how = how_to_run(path, files.format);
  const std::vector<std::string>& remarks = how.command.empty() ? files.remarks : how.remarks;
  if (json != nullptr) {
    (*json)[path] = {{"tensors", tensors_json(table_of_tensors(path, tensors), tensors)},
                     {"kinds", table_json(kinds)},
                     {"remarks", remarks},
                     {"run", how.command}};
    return;
  }
  if (tensors.empty()) {
    OwnStdout::stream() << path << " holds no tensors.\n";
    return;
  }
  const size_t columns = terminal_columns(1000);  // one line a tensor if another program reads it
  const auto [shown, others] = every ? std::pair(tensors, std::string()) : without_small(tensors);
  OwnStdout::stream() << fitted_text(table_of_tensors(path, shown), columns) << others << "\n"
                      << fitted_text(kinds, columns) << "\n";
  for (const std::string& remark : remarks) OwnStdout::stream() << remark << "\n";
  OwnStdout::stream() << (how.command.empty() ? "No layer can run. " + how.why_not : how.command) << "\n";
}

}  // namespace

void add_inspect(CLI::App& app, CommandLine& line) {
  struct Options {
    std::vector<std::string> paths;
    bool every = false, json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "inspect",
      "tensors of a safetensors, GGUF, ONNX, npy or uncompressed MatVANS file, or of a Hugging Face folder: shape, "
      "type, "
      "sigma, entropies of elements and of exponents, bytes of an ideal order-0 code; by kind of layer, and in total");
  verb->footer(
      "order0_bytes (minimum_bytes of a kind) is the least that a code with one model of single elements for each\n"
      "matrix takes, tables not counted; of F32 and F64, of single exponents, with signs and fractions as they are.\n"
      "Scales of two bytes in blocks count as they are, and so does what has no figure. Codes with more models (of\n"
      "rows, blocks, contexts) or other symbols can take less. ceiling: stored_bytes / minimum_bytes.");
  verb->add_option("paths", options->paths, "FILE or FOLDER...")->required();
  verb->add_flag("--all", options->every, "lists small tensors, too (fewer than 4096 elements and 0.01 % of all)");
  verb->add_flag("--json", options->json, "JSON on stdout, of every tensor");
  verb->callback([options, &line] {
    line.action = [options] {
      nlohmann::ordered_json all = nlohmann::ordered_json::object();
      for (const std::string& path : options->paths) inspect(path, options->every, options->json ? &all : nullptr);
      if (options->json) OwnStdout::stream() << json_text(all) << "\n";
      return static_cast<int>(kFine);
    };
  });
}

}  // namespace ecmv::experiments

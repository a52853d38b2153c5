// ecmv inspect: what a weight file holds.
#include <iostream>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "datasets/inspect.h"
#include "experiments/command.h"
#include "experiments/table_json.h"
#include "experiments/terminal_table.h"
#include "reports/table.h"

namespace ecmv::experiments {
namespace {

using reports::Column;

reports::Cell number(const std::optional<double>& value) {
  return value ? reports::number_cell(*value, fmt::format("{:.6g}", *value)) : reports::Cell{"-", std::monostate{}};
}

reports::Cell count(const std::optional<int64_t>& value) {
  return value ? reports::count_cell(*value) : reports::Cell{"-", std::monostate{}};
}

reports::Table table_of(const std::string& file) {
  reports::Table table;
  table.id = "tensors";
  table.title = file;
  table.columns = {{"tensor", "tensor", ""}, {"type", "type", ""}, {"shape", "shape", ""}};
  for (const char* name : {"elements", "stored_bytes", "mean", "sigma", "min", "max", "not_finite", "distinct_values",
                           "entropy_bits", "order0_bytes", "distinct_exponents", "exponent_entropy_bits"})
    table.columns.push_back({name, name, "", Column::Align::right});
  for (const datasets::TensorSummary& tensor : datasets::inspect_file(file))
    table.rows.push_back({reports::text_cell(tensor.name), reports::text_cell(tensor.dtype),
                          reports::text_cell(fmt::format("{}", fmt::join(tensor.shape, "x"))),
                          reports::count_cell(tensor.elements), reports::count_cell(tensor.stored_bytes),
                          number(tensor.mean), number(tensor.sigma), number(tensor.min), number(tensor.max),
                          reports::count_cell(tensor.not_finite), count(tensor.distinct_values),
                          number(tensor.entropy_bits), count(tensor.order0_bytes), count(tensor.distinct_exponents),
                          number(tensor.exponent_entropy_bits)});
  return table;
}

// "4096x11008" is a list of numbers there.
nlohmann::ordered_json json_of(const reports::Table& table) {
  nlohmann::ordered_json rows = table_json(table);
  for (auto& row : rows) {
    auto lengths = nlohmann::ordered_json::array();
    std::istringstream shape(row["shape"].get<std::string>());
    for (std::string length; std::getline(shape, length, 'x');) lengths.push_back(std::stoll(length));
    row["shape"] = lengths;
  }
  return rows;
}

}  // namespace

void add_inspect(CLI::App& app, CommandLine& line) {
  struct Options {
    std::vector<std::string> files;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("inspect",
                                      "tensors of a safetensors, npy or uncompressed MatVANS file: shape, type, sigma, "
                                      "entropy (of floats: of their exponents), bytes of an ideal order-0 code");
  verb->footer(
      "order0_bytes is the least that a code with one model of single elements for each matrix takes, tables not\n"
      "counted. Codes with more models (of rows, blocks, contexts) or other symbols can take less.");
  verb->add_option("files", options->files, "FILE...")->required();
  verb->add_flag("--json", options->json, "JSON on stdout");
  verb->callback([options, &line] {
    line.action = [options] {
      nlohmann::ordered_json all;
      for (const std::string& file : options->files) {
        const reports::Table table = table_of(file);
        if (options->json)
          all[file] = json_of(table);
        else  // a line a tensor for other programs
          std::cout << fitted_text(table, terminal_columns(1000)) << "\n";
      }
      if (options->json) std::cout << json_text(all) << "\n";
      return static_cast<int>(kFine);
    };
  });
}

}  // namespace ecmv::experiments

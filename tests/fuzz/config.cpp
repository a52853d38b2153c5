// Configs from anywhere, with the edits of the command line: every text is refused with sentences, or gives a list of
// cases whose resolved config gives the same list (for ASCII names). Lines "#-a TEXT", "#--set TEXT" and "#--filter
// TEXT", which are comments in YAML, are the options.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "experiments/config/experiment.h"
#include "tests/fuzz/target.h"

namespace ecmv::tests::fuzz {
namespace {

using experiments::ConfigError;
using experiments::Experiment;

struct Options {
  experiments::ConfigEdits edits;
  std::string filter;
};

Options options_in(const std::string& text) {
  Options options;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string name = line.substr(0, space), value = line.substr(space + 1);
    if (name == "#-a") options.edits.axes.push_back(value);
    if (name == "#--set") options.edits.values.push_back(value);
    if (name == "#--filter") options.filter = value;
  }
  return options;
}

std::string names_of(const Experiment& experiment) {
  std::string names;
  for (const experiments::Case& one : experiment.cases) names += one.name() + "\n";
  return names;
}

}  // namespace

std::vector<Bytes> seeds() {
  std::vector<Bytes> out;
  const auto add = [&](const std::string& text) { out.emplace_back(text.begin(), text.end()); };
  for (const auto& entry : std::filesystem::directory_iterator(ECMV_SOURCE_DIR "/experiments/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    if (entry.path().stem() == "smoke") continue;  // thousands of cases, for each of its mutations
    std::ifstream file(entry.path());
    add({std::istreambuf_iterator<char>(file), {}});
  }
  const std::string small =
      "schema: 1\nname: x\nmeasure: {repetitions: 3, min_time: 0.1}\nexperiments:\n"
      "  - data: {source: gaussian, sigma: [1, 4], d: 64, layers: 1}\n"
      "    codecs: [raw_int8, {rans: {lanes: [8, 32]}}]\n    kernels: {backend: scalar}\n";
  add(small);
  add("#-a d={pow2: [8, 10]}\n#-a sigma=1,2\n#--set measure.repetitions=5\n#--filter scalar.*(rows|cols)\n" + small);
  add("#--set experiments.0.data.d=[&x 1, *x]\n" + small + "    exclude: [{d: 64, codec: rans}]\n");
  add("schema: 1\nname: z\nexperiments:\n  - data: {source: gaussian, shapes: [[2, 3], [4, 5]], sigma: {range: [1, 2, "
      "0.5]},"
      " seed: [1, 2], zip: [sigma, seed]}\n    codecs: all\n    kernels: {op: size}\n");
  return out;
}

void try_input(std::span<const uint8_t> input) {
  const std::string text(input.begin(), input.end());
  const Options options = options_in(text);
  Experiment experiment;
  try {
    experiment = experiments::parse_experiment(text, "fuzzed.yaml", options.edits, codecs::all_codecs());
    const std::string names = names_of(experiment);
    // The emitter replaces bytes that are not UTF-8.
    const bool ascii =
        std::ranges::all_of(names, [](char letter) { return static_cast<unsigned char>(letter) < 0x80; });
    try {
      if (ascii && names_of(experiments::parse_experiment(experiment.config_text, "resolved.yaml", {},
                                                          codecs::all_codecs())) != names)
        broken("a resolved config gives the same cases");
    } catch (const ConfigError& error) {
      broken(std::string("a resolved config is accepted: ") + error.what());
    }
    experiments::filter_cases(experiment, options.filter, "");
    experiments::shrink_to_smoke(experiment);
  } catch (const ConfigError&) {
  }
}

}  // namespace ecmv::tests::fuzz

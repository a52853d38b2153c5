// Claims about `ecmv export`: files hold the stored bytes, and others can read them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <iterator>
#include <sstream>

#include "codecs/registry.h"
#include "datasets/files/file_bytes.h"
#include "datasets/files/safetensors.h"
#include "experiments/config/experiment.h"
#include "experiments/output/export_cases.h"
#include "experiments/run/loaded_dataset.h"
#include "tests/run_command.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::experiments;
using Catch::Matchers::ContainsSubstring;
using ecmv::tests::Command;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> files_of(const fs::path& folder, std::string_view end) {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().string().ends_with(end)) files.push_back(file.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The last codec of the build that takes int8 matrices of any shape, whichever a partial build has.
const codecs::CodecEntry& some_entry() {
  const datasets::Matrix matrix = tests::gaussian_matrix({33, 65}, 4);
  const codecs::CodecEntry* last = nullptr;
  for (const codecs::CodecEntry& entry : codecs::all_codecs())
    if (!entry.loaded() && entry.codec->refuses(matrix.view(), codecs::default_settings(*entry.codec)).empty())
      last = &entry;
  REQUIRE(last != nullptr);
  return *last;
}

std::vector<std::string> small_export(const std::string& folder, std::vector<std::string> more = {}) {
  std::vector<std::string> all = {
      "export", "--codec", std::string(some_entry().id), "--shape", "33x65", "--layers", "2", "--sigma", "4",
      "-o",     folder};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("exported streams are the stored sections, and decode to the exported matrices") {
  Command ecmv;
  REQUIRE(ecmv(small_export("out")) == 0);
  const auto matrix_files = files_of(ecmv.folder / "out", ".matrices.safetensors"),
             stream_files = files_of(ecmv.folder / "out", ".stream.safetensors");
  REQUIRE(matrix_files.size() == 1);
  REQUIRE(stream_files.size() == 1);
  CHECK_THAT(ecmv.out, ContainsSubstring(matrix_files[0].filename().string()) &&
                           ContainsSubstring(stream_files[0].filename().string()));
  const datasets::FileBytes matrix_bytes(matrix_files[0].string()), stream_bytes(stream_files[0].string());
  const datasets::Safetensors matrices = datasets::parse_safetensors(matrix_bytes.bytes()),
                              stream = datasets::parse_safetensors(stream_bytes.bytes());

  const codecs::CodecEntry& entry = some_entry();
  const backends::Settings settings = codecs::default_settings(*entry.codec);
  DataSpec data{.source = "gaussian", .shape = {33, 65}, .layers = 2, .numbers = {{"sigma", 4.0}}, .texts = {}};
  const datasets::Dataset dataset = load_dataset(data);
  CHECK(stream.metadata.at("codec") == entry.id);
  CHECK(stream.metadata.at("settings") == settings.to_string());
  CHECK(stream.metadata.at("format_version") == std::to_string(entry.codec->format_version));
  CHECK(stream.metadata.at("matrices") == matrix_files[0].filename());
  CHECK(stream.metadata.at("decode") == "exact");
  CHECK(matrices.tensors.size() == 3);
  CHECK(std::ranges::equal(matrices.find("initial_vector")->bytes, std::as_bytes(std::span(dataset.initial_vector))));
  size_t sections = 0;
  for (size_t layer = 0; layer < 2; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    const datasets::Matrix& matrix = dataset.layers[layer];
    REQUIRE(matrices.find(name) != nullptr);
    CHECK(matrices.find(name)->dtype == "I8");
    CHECK(matrices.find(name)->shape == std::vector<int64_t>{33, 65});
    CHECK(std::ranges::equal(matrices.find(name)->bytes, matrix.elements));
    CHECK_THAT(stream.metadata.at(name), ContainsSubstring("type=i8,rows=33,cols=65,hash="));
    const backends::CompressedMatrix compressed = codecs::encode_matrix(entry, matrix.view(), settings);
    for (size_t i = 0; i < compressed.sections.size(); ++i, ++sections) {
      const backends::Section& section = compressed.sections[i];
      const std::string tensor = name + "." + std::to_string(i) + "." + std::string(section.name);
      INFO(tensor);
      REQUIRE(stream.find(tensor) != nullptr);
      CHECK(stream.find(tensor)->dtype == "U8");
      CHECK(std::ranges::equal(stream.find(tensor)->bytes, section.bytes));
      CHECK(stream.metadata.at(tensor) == "role=" + std::string(backends::role_name(section.role)) +
                                              ",padding_bytes=" + std::to_string(section.padding_bytes));
    }
  }
  CHECK(stream.tensors.size() == sections);

  // The exported matrices serve as a dataset again.
  REQUIRE(ecmv({"export", "--codec", std::string(entry.id), "--source", "safetensors", "--param",
                "file=" + matrix_files[0].string(), "-o", "again"}) == 0);
  const auto again = files_of(ecmv.folder / "again", ".stream.safetensors");
  REQUIRE(again.size() == 1);
  const datasets::FileBytes again_bytes(again[0].string());
  for (const datasets::TensorView& tensor : datasets::parse_safetensors(again_bytes.bytes()).tensors)
    CHECK(std::ranges::equal(tensor.bytes, stream.find(tensor.name)->bytes));
}

TEST_CASE("an export never replaces files silently, and says what it refuses") {
  Command ecmv;
  REQUIRE(ecmv(small_export("out")) == 0);
  CHECK(ecmv(small_export("out")) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("is there already; --force replaces it."));
  CHECK(ecmv(small_export("out", {"--force"})) == 0);
  CHECK(ecmv({"export", "-o", "out"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("'ecmv export' needs a config"));
  CHECK(ecmv({"export", "--codec", std::string(some_entry().id)}) == 2);
  CHECK(ecmv({"export", "/nowhere.yaml", "-o", "out"}) == 2);
  CHECK(ecmv({"export", "--help"}) == 0);
  std::ofstream(ecmv.folder / "file") << "no folder";
  CHECK(ecmv(small_export("file/out")) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("cannot be made"));
  CHECK(ecmv({"export", "--codec", std::string(some_entry().id), "--source", "safetensors", "--param",
              "file=/nowhere/x.safetensors", "-o", "out"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("/nowhere/x.safetensors"));
  CHECK(ecmv(small_export("out2", {"--filter", "no case is named so"})) == 6);
}

TEST_CASE("a codec that refuses or is wrong writes no stream") {
  const auto made = [](const std::string& ids, const fs::path& folder, std::string& messages) {
    const Experiment experiment = parse_experiment(
        "schema: 1\nname: exported\nexperiments:\n  - data: {source: gaussian, sigma: 4, shapes: [[3, "
        "70]], layers: 1}\n    codecs: " +
            ids + "\n    kernels: {op: size}\n",
        "exported", {}, codecs::all_codecs());
    std::ostringstream out, told;
    const ExportSummary summary = export_cases(experiment, {.folder = folder}, out, told);
    messages = told.str();
    return summary;
  };
  Command place;
  std::string messages;
  const ExportSummary all = made("all", place.folder / "all", messages);
  CHECK(all.incorrect + all.failed == 0);
  CHECK(static_cast<size_t>(all.written) == files_of(place.folder / "all", ".stream.safetensors").size());
  CHECK(static_cast<size_t>(all.written + all.refused) == codecs::all_codecs().size());
  CHECK((all.refused == 0) == messages.empty());
  CHECK(files_of(place.folder / "all", ".matrices.safetensors").size() == (all.written > 0 ? 1 : 0));
}

TEST_CASE(
    "exported matrices of quantised data have their scales beside them, and metadata that say how they are read") {
  Command ecmv;
  REQUIRE(ecmv({"export", "--codec", std::string(some_entry().id), "--source", "llm_like", "--shape", "33x65",
                "--layers", "2", "--quantise", "absmax:bits=8,group=32", "-o", "out"}) == 0);
  const auto files = files_of(ecmv.folder / "out", ".matrices.safetensors");
  REQUIRE(files.size() == 1);
  const datasets::FileBytes bytes(files[0].string());
  const datasets::Safetensors matrices = datasets::parse_safetensors(bytes.bytes());
  CHECK(matrices.metadata.at("layer1.scales") == "type=bf16,rows=33,groups=3,group_cols=32,factor=1");
  const auto* const scales = matrices.find("layer1.scales");
  REQUIRE(scales != nullptr);
  CHECK(scales->bytes.size() == 2 * 33 * 3);
}

TEST_CASE("an export that finds no room says so, and leaves no part of a file") {
  Command shell("/bin/sh");
  const std::string export_all =
      std::string(ECMV_BINARY) + " export --codec " + std::string(some_entry().id) + " --d 256 --layers 4 -o out";
  CHECK(shell({"-c", "ulimit -f 64; exec " + export_all}) == 2);  // 32 or 64 KiB
  CHECK_THAT(shell.err, ContainsSubstring("cannot be written: File too large."));
  CHECK(files_of(shell.folder / "out", ".safetensors").empty());
}

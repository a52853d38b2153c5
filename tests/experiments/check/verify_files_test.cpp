// `ecmv verify FILE...` on chains written here, on damaged ones, and on the files of the original programs.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/backend.h"
#include "backends/cpu/products/dense_matvec.h"
#include "codecs/registry.h"
#include "datasets/files/matvans.h"
#include "datasets/files/safetensors.h"
#include "experiments/check/verify_files.h"
#include "tests/test_matrices.h"

namespace ecmv::experiments {
namespace {

namespace fs = std::filesystem;

// A folder of this test case's own, removed at its end.
struct Folder {
  fs::path path =
      fs::temp_directory_path() / ("ecmv_verify_files_" + std::to_string(reinterpret_cast<uintptr_t>(this)));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string write(const std::string& name, std::span<const std::byte> bytes) const {
    const std::string file = (path / name).string();
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return file;
  }
};

// Three layers of 512 x 512 with the hashes of their vectors, in the layout of that codec.
codecs::ChainFile chain_of(const codecs::CodecEntry& entry, bool with_scales, uint64_t seed = 1) {
  codecs::ChainFile chain;
  tests::Random random{seed};
  for (int i = 0; i < 512; ++i) chain.initial_vector.push_back(static_cast<int8_t>(4 * random.normal()));
  std::vector<int8_t> x = chain.initial_vector;
  for (int layer = 0; layer < 3; ++layer) {
    const datasets::Matrix matrix = tests::gaussian_matrix({512, 512}, 4, seed * 10 + layer);
    std::vector<int32_t> y(512);
    x.resize(512 + backends::kVectorPaddingBytes);
    backends::cpu::dense_matvec_scalar(matrix.view().i8().data(), 512, 512, x.data(), y.data());
    int32_t largest = 0;
    for (const int32_t value : y) largest = std::max(largest, std::abs(value));
    const float scale = (with_scales ? 100.0f : 127.0f) / static_cast<float>(largest);
    x.resize(512);
    std::ranges::transform(y, x.begin(), [&](int32_t value) { return backends::requantise(value, scale); });
    if (with_scales) chain.scales.push_back(scale);
    if (with_scales || layer == 2) chain.hashes[layer] = datasets::matvans_hash(x);
    chain.layers.push_back(codecs::encode_matrix(entry, matrix.view(), codecs::default_settings(*entry.codec)));
  }
  return chain;
}

struct Layout {
  const char* codec;
  const char* file;
  bool with_scales;
};
constexpr Layout kLayouts[] = {{"raw_int8", "a_uncompressed.safetensors", true},
                               {"raw_int8", "b_uncompressed.bin", false},
                               {"ans_warp_rows", "a_rows.safetensors", true},
                               {"ans_warp_stripes", "a_stripes.safetensors", true},
                               {"matvans_warp_per_row", "b_per_row.bin", false}};

std::string printed(const std::vector<std::string>& paths, int expected_exit) {
  std::ostringstream out;
  CHECK(verify_files(paths, out) == expected_exit);
  return out.str();
}

std::string text_of(const FileVerification& verification) {
  std::ostringstream out;
  print_verification(verification, out);
  return out.str();
}

bool has_failed_check(const FileVerification& verification, std::string_view what) {
  return std::ranges::any_of(verification.checks, [&](const FileCheck& check) {
    return check.result == FileCheck::Result::failed && check.what.find(what) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("verify_file passes for a chain of every layout that can be written", "[emulator]") {
  const Folder folder;
  for (const Layout& layout : kLayouts) {
    const codecs::CodecEntry* entry = codecs::find_codec(layout.codec);
    if (entry == nullptr) continue;  // not in this build
    const std::string path = folder.write(layout.file, entry->codec->write_file(chain_of(*entry, layout.with_scales)));
    const FileVerification verification = verify_file(path);
    INFO(text_of(verification));
    CHECK(verification.passed());
    CHECK(verification.codec == layout.codec);
    CHECK(verification.shapes.size() == 3);
    CHECK(std::ranges::any_of(verification.checks,
                              [](const FileCheck& check) { return check.what.starts_with("scalar matvec"); }));
  }
}

TEST_CASE("verify_file decodes files of modules by the reference and by every kernel") {
  const codecs::CodecEntry* entry = codecs::find_codec("huffman_exponents");
  if (entry == nullptr) SKIP("huffman_exponents is not in this build");
  const Folder folder;
  codecs::ChainFile modules;
  for (const char* name : {"layers.0.mlp", "layers.1.mlp"}) {
    modules.layers.push_back(codecs::encode_matrix(*entry,
                                                   tests::bf16_matrix({70, 300}, 0.02, modules.names.size() + 1).view(),
                                                   codecs::default_settings(*entry->codec)));
    modules.names.push_back(name);
  }
  const std::vector<std::byte> bytes = entry->codec->write_file(modules);
  const std::string path = folder.write("modules.safetensors", bytes);
  const FileVerification verification = verify_file(path);
  INFO(text_of(verification));
  CHECK(verification.passed());
  CHECK(verification.codec == "huffman_exponents");
  CHECK(verification.shapes == std::vector<datasets::Shape>{{70, 300}, {70, 300}});
  CHECK(std::ranges::any_of(verification.checks, [](const FileCheck& check) {
    return check.what.starts_with("scalar decode") && check.result == FileCheck::Result::ok;
  }));
  CHECK(std::ranges::any_of(verification.checks, [](const FileCheck& check) {
    return check.what == "modules written again" && check.detail == "identical";
  }));
  CHECK(std::ranges::any_of(verification.checks,
                            [](const FileCheck& check) { return check.what == "modules encoded again"; }));

  // A position beyond the elements: the file cannot be read.
  std::vector<std::byte> damaged = bytes;
  damaged.back() = std::byte{0xff};  // in the last module's gaps, or its spare byte
  CHECK(verify_file(folder.write("spare.safetensors", damaged)).unreadable.empty());
  damaged[damaged.size() - 40] ^= std::byte{0x55};
  CHECK(verify_file(folder.write("damaged.safetensors", damaged)).unreadable.find("gap") != std::string::npos);
  CHECK(!verify_file(folder.write("cut.safetensors", std::span(bytes).first(bytes.size() - 100))).unreadable.empty());
}

TEST_CASE("verify_file finds a wrong hash in the reference chain and in every fused kernel", "[emulator]") {
  const Folder folder;
  for (const Layout& layout : kLayouts) {
    const codecs::CodecEntry* entry = codecs::find_codec(layout.codec);
    if (entry == nullptr) continue;
    codecs::ChainFile chain = chain_of(*entry, layout.with_scales);
    chain.hashes[2] ^= 1;
    const std::string path = folder.write("wrong", entry->codec->write_file(chain));
    const FileVerification verification = verify_file(path);
    CHECK(has_failed_check(verification, "reference chain"));
    CHECK(has_failed_check(verification, "scalar matvec"));
    CHECK_FALSE(has_failed_check(verification, "decode"));
    CHECK(text_of(verification).find("FAILED") != std::string::npos);
  }
}

TEST_CASE("verify_file finds a twin with other elements", "[emulator]") {
  const codecs::CodecEntry* raw = codecs::find_codec("raw_int8");
  const codecs::CodecEntry* rows = codecs::find_codec("ans_warp_rows");
  if (raw == nullptr || rows == nullptr) SKIP("raw_int8 or ans_warp_rows is not in this build");
  const Folder folder;
  const std::string path = folder.write("a_rows.safetensors", rows->codec->write_file(chain_of(*rows, true)));
  codecs::ChainFile twin = chain_of(*raw, true);
  folder.write("a_uncompressed.safetensors", raw->codec->write_file(twin));
  CHECK(verify_file(path).passed());
  twin.layers[1].sections[0].bytes[77] ^= std::byte{1};
  folder.write("a_uncompressed.safetensors", raw->codec->write_file(twin));
  CHECK(has_failed_check(verify_file(path), "twin"));
}

TEST_CASE("verify_files says what it cannot read and exits with 2, and with 3 where anything failed", "[emulator]") {
  const codecs::CodecEntry* raw = codecs::find_codec("raw_int8");
  if (raw == nullptr) SKIP("raw_int8 is not in this build");
  const Folder folder;
  codecs::ChainFile chain = chain_of(*raw, true);
  const std::vector<std::byte> bytes = raw->codec->write_file(chain);
  const std::string good = folder.write("good.safetensors", bytes);
  const std::string cut = folder.write("cut.safetensors", std::span(bytes).first(bytes.size() - 5));
  chain.hashes[0] ^= 4;
  const std::string wrong = folder.write("wrong.safetensors", raw->codec->write_file(chain));
  CHECK(printed({}, 2).empty());
  CHECK(printed({good, cut}, 2).find("No codec of this build reads this file") != std::string::npos);
  CHECK(printed({(folder.path / "missing").string()}, 2).find("missing") != std::string::npos);
  CHECK(printed({cut, wrong, good}, 3).find("the file says") != std::string::npos);
}

TEST_CASE("a container whose matrices its codec would refuse is refused before a kernel sees it") {
  const codecs::CodecEntry* stripes = codecs::find_codec("ans_warp_stripes");
  if (stripes == nullptr) SKIP("ans_warp_stripes is not in this build");
  // One stripe of 32 rows with 40 columns, in a container that says d = 40.
  const datasets::Matrix matrix = tests::gaussian_matrix({32, 40}, 4);
  const backends::CompressedMatrix layer =
      codecs::encode_matrix(*stripes, matrix.view(), codecs::default_settings(*stripes->codec));
  const std::vector<std::byte> vector(40, std::byte{1}), word(4);
  std::vector<datasets::TensorView> tensors = {{"initial_vector", "I8", {40}, vector},
                                               {"scales", "F32", {1}, word},
                                               {"hashes", "U32", {1}, word},
                                               {"all_warp_offsets", "U32", {1, 1}, layer.sections[1].bytes}};
  const auto words_of = [&](int section) { return static_cast<int64_t>(layer.sections[section].bytes.size() / 4); };
  tensors.push_back({"compressed", "U32", {words_of(0)}, layer.sections[0].bytes});
  for (int i = 0; i < 3; ++i)
    tensors.push_back({std::array{"all_ppfs", "all_ppfs_cum", "all_ppfs_prob"}[i],
                       "U32",
                       {1, words_of(2 + i)},
                       layer.sections[2 + i].bytes});
  const Folder folder;
  const FileVerification verification = verify_file(folder.write("d40", datasets::write_safetensors(tensors)));
  CHECK(verification.checks.empty());
  CHECK(verification.unreadable.find("multiple") != std::string::npos);
}

TEST_CASE("a file that claims a matrix out of all proportion is refused before it is decoded") {
  const codecs::CodecEntry* per_row = codecs::find_codec("matvans_warp_per_row");
  if (per_row == nullptr) SKIP("matvans_warp_per_row is not in this build");
  codecs::ChainFile chain;
  backends::CompressedMatrix layer = codecs::encode_matrix(*per_row, tests::gaussian_matrix({512, 512}, 4).view(),
                                                           codecs::default_settings(*per_row->codec));
  layer.shape = {512, int64_t{1} << 24};
  chain.initial_vector.resize(size_t{1} << 24);
  chain.hashes[0] = 0;
  chain.layers = {layer};
  const Folder folder;
  const FileVerification verification = verify_file(folder.write("wide", per_row->codec->write_file(chain)));
  CHECK(verification.unreadable.find("more than can be meant") != std::string::npos);
}

TEST_CASE("what verify_file prints of a file names all shapes of its layers") {
  const FileVerification verification{
      .path = "x.bin", .codec = "some", .shapes = {{512, 256}, {64, 512}, {512, 256}}, .bits_per_element = 4.5};
  CHECK(text_of(verification)
            .starts_with("x.bin: some, 3 layers (2 of [512, 256], 1 of [64, 512]), 4.500 stored bits an element\n"));
}

TEST_CASE("verify_files passes for the files of the original programs") {
  const fs::path data = ECMV_SOURCE_DIR "/../shared/data/matvans";
  if (!fs::exists(data)) SKIP("the MatVANS files are not there: " + data.string());
  std::vector<std::string> paths;
  for (const auto& file : fs::directory_iterator(data))
    if (file.path().extension() == ".bin" || file.path().extension() == ".safetensors")
      paths.push_back(file.path().string());
  REQUIRE(paths.size() >= 5);
  for (const std::string& path : paths) {
    const FileVerification verification = verify_file(path);
    if (!verification.unreadable.empty() && codecs::all_codecs().size() < 12)
      continue;  // its codec is not in this build
    INFO(text_of(verification));
    CHECK(verification.passed());
  }
}

}  // namespace ecmv::experiments

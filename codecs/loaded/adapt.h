// From a library's tables to the codecs and kernels that the harness knows. Everything that a library's functions
// return is checked here, each time: sentences, numbers, sections and their bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/loaded/tables.h"
#include "codecs/registry.h"

namespace ecmv::codecs::loaded {

struct LoadedKernel;

// A policy of a loaded kernel: what bind() and refuses() are called with, and so the way from a plain function to the
// library's table.
struct LoadedPolicy : backends::Policy {
  const LoadedKernel* kernel = nullptr;
  uint32_t index = 0;
};

struct LoadedKernel {
  const CodecTables* tables = nullptr;
  ecmv_kernel table = {};
  std::vector<LoadedPolicy> policies;
};

// One codec of a library. It lives, and stays where it is, until the program ends.
struct LoadedCodec {
  CodecTables tables;
  Codec codec;
  std::vector<std::unique_ptr<LoadedKernel>> kernels;
  std::vector<backends::Kernel> scalar, simd;
};

// The harness's view; kernels are added by add_kernels().
std::unique_ptr<LoadedCodec> make_codec(CodecTables tables);
void add_kernels(LoadedCodec& codec);

// Settings as the library takes them. All zero and unused after the declared ones.
struct SettingValues {
  int64_t values[ECMV_MAX_SETTINGS] = {};
};
SettingValues setting_values(const CodecTables& tables, const Settings& settings);

// A compressed matrix as the library sees it; valid while `view` and this live.
class CompressedTable {
 public:
  CompressedTable(const CodecTables& tables, const CompressedView& view);
  CompressedTable(const CompressedTable&) = delete;
  const ecmv_compressed& table() const { return table_; }
  const std::vector<ecmv_section>& sections() const { return sections_; }
  const SettingValues& settings() const { return settings_; }

 private:
  SettingValues settings_;
  std::vector<ecmv_section> sections_;
  std::vector<const ecmv_section*> pointers_;
  ecmv_compressed table_ = {};
};

}  // namespace ecmv::codecs::loaded

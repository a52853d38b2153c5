// From a library's tables to the codecs and kernels that the harness knows. Every call checks what the library's
// function returned: sentences, numbers, sections and their bytes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codecs/compressed_matrix.h"
#include "codecs/loaded/tables.h"
#include "codecs/registry.h"

namespace ecmv::codecs::loaded {

struct LoadedKernel;

// A policy of a loaded kernel. bind() and refuses() get it, and find the library's table through it.
struct LoadedPolicy : backends::Policy {
  const LoadedKernel* kernel = nullptr;
  uint32_t index = 0;
};

struct LoadedKernel {
  const CodecTables* tables = nullptr;
  ecmv_kernel table = {};
  std::vector<LoadedPolicy> policies;
};

// The same for its kernels on GPUs.
struct LoadedGpuKernel;
struct LoadedGpuPolicy : backends::Policy {
  const LoadedGpuKernel* kernel = nullptr;
  uint32_t index = 0;
};
struct LoadedGpuKernel {
  const CodecTables* tables = nullptr;
  ecmv_gpu_kernel table = {};
  std::vector<LoadedGpuPolicy> policies;
};

// One codec of a library. It is never moved and lives until the program ends.
struct LoadedCodec {
  CodecTables tables;
  Codec codec;
  std::vector<std::unique_ptr<LoadedKernel>> kernels;
  std::vector<backends::Kernel> scalar, simd;
  std::vector<std::unique_ptr<LoadedGpuKernel>> gpu_kernels;
  std::map<std::string, std::vector<backends::Kernel>, std::less<>> on_gpus;  // by backend
};

// The harness's view; kernels are added by the others.
std::unique_ptr<LoadedCodec> make_codec(CodecTables tables);
void add_kernels(LoadedCodec& codec);
void add_gpu_kernels(LoadedCodec& codec);

// Settings in the library's form; zero after the declared ones.
struct SettingValues {
  int64_t values[ECMV_MAX_SETTINGS] = {};
};
SettingValues setting_values(const CodecTables& tables, const Settings& settings);

// A compressed matrix in the library's form; valid while `view` and this live.
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

// A library's functions as bound kernels of GPUs, and of the emulator, where they are functions of the host.
#include "codecs/compressed_matrix.h"
#include "codecs/loaded/adapt.h"
#include "codecs/loaded/calls.h"
#include "codecs/loaded/kernel_facts.h"
#include "codecs/loaded/text.h"

namespace ecmv::codecs::loaded {
namespace {

using backends::BoundKernel;
using backends::DecodeArgs;
using backends::KernelFacts;
using backends::MatmulArgs;
using backends::MatvecArgs;
using backends::Op;

static_assert(ECMV_MAX_TOKENS == backends::kMostTokens && ECMV_HOST_COPY_BYTES == backends::kHostCopyBytes);

// A mistake, not a wish: devices have less.
constexpr int64_t kMostGpuScratchBytes = int64_t{1} << 40;

NamedKernel name_of(const LoadedGpuKernel& kernel) { return {*kernel.tables, kernel.table.variant}; }

// Valid while `info` lives.
ecmv_gpu_device gpu_device_table(const backends::DeviceInfo& info) {
  return {sizeof(ecmv_gpu_device), info.backend.c_str(), info.name.c_str(), info.simd_target.c_str(), info.wave_size,
          info.compute_units,      info.shared_bytes,    info.l2_bytes,     info.memory_bytes};
}

// A compressed matrix in the library's form; valid while `view` and this live.
class GpuMatrixTable {
 public:
  GpuMatrixTable(const CodecTables& tables, const CompressedView& view, bool on_device) {
    if (view.settings != nullptr) settings_ = setting_values(tables, *view.settings);
    sections_.reserve(view.sections.size());
    for (const SectionView& section : view.sections) {
      const bool copied = section.bytes.size() <= ECMV_HOST_COPY_BYTES;
      sections_.push_back({sizeof(ecmv_gpu_section), interned(section.name), static_cast<uint32_t>(section.role), 0,
                           on_device ? section.bytes.data() : nullptr,
                           copied ? reinterpret_cast<const uint8_t*>(section.host.data()) : nullptr,
                           static_cast<int64_t>(section.bytes.size())});
    }
    for (const ecmv_gpu_section& section : sections_) pointers_.push_back(&section);
    table_ = {sizeof(ecmv_gpu_matrix),
              view.shape.rows,
              view.shape.cols,
              static_cast<uint32_t>(view.type),
              static_cast<uint32_t>(datasets::element_bytes(view.type)),
              settings_.values,
              pointers_.data(),
              static_cast<int64_t>(pointers_.size())};
  }
  GpuMatrixTable(const GpuMatrixTable&) = delete;
  const ecmv_gpu_matrix& table() const { return table_; }

 private:
  SettingValues settings_;
  std::vector<ecmv_gpu_section> sections_;
  std::vector<const ecmv_gpu_section*> pointers_;
  ecmv_gpu_matrix table_ = {};
};

// The parameters of a binding: everything that a call needs.
struct GpuBody {
  alignas(16) std::byte parameters[ECMV_PARAMETER_BYTES];
  const LoadedGpuKernel* kernel;
  int64_t rows, cols;
  uint32_t policy;
  int tokens;  // of a matmul
  bool emulated;

  // Throws where the library says that it could not start the work. The executor's stream goes on without it.
  template <typename Args>
  void run(void* stream, const Args& args) const {
    const ecmv_gpu_call call{sizeof(ecmv_gpu_call), emulated ? nullptr : stream, parameters, rows, cols, policy, 0,
                             args.scratch};
    name_of(*kernel).check(start(call, args));
  }

 private:
  Call entered(const char* function) const {
    return Call(*kernel->tables, function, rows, cols, kernel->table.variant);
  }
  const char* start(const ecmv_gpu_call& call, const DecodeArgs& args) const {
    const ecmv_decode_args table{sizeof(ecmv_decode_args), args.out};
    const Call under_way = entered("decode");
    return kernel->table.decode(&call, &table);
  }
  const char* start(const ecmv_gpu_call& call, const MatvecArgs& args) const {
    const ecmv_matvec_args table{sizeof(ecmv_matvec_args), args.x, args.y, args.v, args.scale};
    const Call under_way = entered("matvec");
    return kernel->table.matvec(&call, &table);
  }
  const char* start(const ecmv_gpu_call& call, const MatmulArgs& args) const {
    const void* x = args.x_bf16 != nullptr ? static_cast<const void*>(args.x_bf16) : args.x;
    const ecmv_gpu_matmul_args table{sizeof(ecmv_gpu_matmul_args), tokens, x, args.x_stride, args.y, args.y_stride};
    const Call under_way = entered("matmul");
    return kernel->table.matmul(&call, &table);
  }
};

template <typename Args>
struct GpuBodyOf : GpuBody {
  void operator()(void* stream, const Args& args) const { run(stream, args); }
};

// Checks the facts that bind() stated.
KernelFacts facts_of(const LoadedGpuKernel& kernel, const ecmv_gpu_binding& binding) {
  const NamedKernel name = name_of(kernel);
  name.check_scratch(binding.scratch_bytes, kMostGpuScratchBytes);
  name.check_requantises(binding.requantises, kernel.table.matvec != nullptr);
  name.require(binding.not_capturable <= 1,
               "sets 'not_capturable' to " + std::to_string(binding.not_capturable) + "; 0 or 1 is possible.");
  name.check_rounding({binding.more_roundings, binding.offset, binding.narrowing});
  name.require(binding.flushes_subnormals <= 1 && binding.reserved == 0 && binding.unit_cols <= 4096 &&
                   (binding.unit_cols == 0 ? binding.chain_cols == 0 : binding.chain_cols >= binding.unit_cols),
               "says of its rounding what cannot be.");
  return {.scratch_bytes = binding.scratch_bytes,
          .requantises = binding.requantises != 0,
          .rounding = {.more_roundings = static_cast<int>(binding.more_roundings),
                       .offset = binding.offset,
                       .narrowing = binding.narrowing,
                       .unit_cols = static_cast<int>(binding.unit_cols),
                       .chain_cols = binding.chain_cols,
                       .flushes_subnormals = binding.flushes_subnormals != 0},
          .capturable = binding.not_capturable == 0};
}

template <typename Args>
BoundKernel bind_on_gpu(const backends::Policy& policy, backends::Layers layers, int batch, backends::Place& place) {
  const LoadedGpuPolicy& chosen = policy.as<LoadedGpuPolicy>();
  const LoadedGpuKernel& kernel = *chosen.kernel;
  const GpuMatrixTable matrix(*kernel.tables, *layers[0].matrix, true);
  GpuBodyOf<Args> body{};
  body.kernel = &kernel;
  body.rows = matrix.table().rows;
  body.cols = matrix.table().cols;
  body.policy = chosen.index;
  body.tokens = batch;
  body.emulated = place.device().emulated;
  ecmv_gpu_binding binding{};
  binding.struct_bytes = sizeof(binding);
  binding.parameters = body.parameters;
  {
    const ecmv_gpu_device device = gpu_device_table(place.device());
    const CarefulCall under_way(*kernel.tables, "bind", body.rows, body.cols, kernel.table.variant);
    name_of(kernel).check(kernel.table.bind(&matrix.table(), &device, chosen.index, batch, &binding));
  }
  return {body, facts_of(kernel, binding)};
}

std::string refuses_on_gpu(const CompressedView& view, const backends::DeviceInfo& info,
                           const backends::Policy& policy) {
  const LoadedGpuPolicy& chosen = policy.as<LoadedGpuPolicy>();
  if (chosen.kernel->table.refuses == nullptr) return {};
  const GpuMatrixTable matrix(*chosen.kernel->tables, view, false);
  const ecmv_gpu_device device = gpu_device_table(info);
  const CarefulCall under_way(*chosen.kernel->tables, "refuses", view.shape.rows, view.shape.cols,
                              chosen.kernel->table.variant);
  const char* reason = chosen.kernel->table.refuses(&matrix.table(), &device, chosen.index);
  return reason == nullptr ? "" : sentence(reason);
}

backends::Kernel kernel_of(const LoadedGpuKernel& from) {
  const ecmv_gpu_kernel& table = from.table;
  backends::Kernel kernel;
  kernel.variant = table.variant;
  kernel.policies = std::span<const LoadedGpuPolicy>(from.policies);
  kernel.refuses = refuses_on_gpu;
  kernel.op = table.decode != nullptr ? Op::decode : table.matvec != nullptr ? Op::matvec : Op::matmul;
  kernel.bind = kernel.op == Op::decode   ? bind_on_gpu<DecodeArgs>
                : kernel.op == Op::matvec ? bind_on_gpu<MatvecArgs>
                                          : bind_on_gpu<MatmulArgs>;
  if (table.token_type == ECMV_BF16) kernel.activations = backends::Activations::bf16;
  if (table.most_tokens != 0) kernel.most_tokens = static_cast<int>(table.most_tokens);
  return kernel;
}

}  // namespace

void add_gpu_kernels(LoadedCodec& codec) {
  for (const ecmv_gpu_kernel& table : codec.tables.gpu_kernels) {
    auto kernel = std::make_unique<LoadedGpuKernel>(LoadedGpuKernel{&codec.tables, table, {}});
    for (int64_t i = 0; i < table.policy_count; ++i)
      kernel->policies.push_back({{table.policies[i]}, kernel.get(), static_cast<uint32_t>(i)});
    if (kernel->policies.empty()) kernel->policies.push_back({{"default"}, kernel.get(), 0});
    codec.on_gpus[table.backend].push_back(kernel_of(*kernel));
    codec.gpu_kernels.push_back(std::move(kernel));
  }
}

}  // namespace ecmv::codecs::loaded

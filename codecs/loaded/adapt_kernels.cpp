// A library's functions as bound kernels of the backends `scalar` and `simd`.
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

static_assert(ECMV_MAX_BATCH == backends::kMaxBatch && ECMV_VECTOR_PADDING_BYTES == backends::kVectorPaddingBytes);
// The description of a layer fits the space that a binding has for it.
static_assert(ECMV_MAX_SECTIONS * (sizeof(ecmv_section) + sizeof(void*)) <= backends::kDescriptionBytes);

constexpr int64_t kMostScratchBytes = int64_t{1} << 30;  // of one thread

NamedKernel name_of(const LoadedKernel& kernel) { return {*kernel.tables, kernel.table.variant}; }

// Valid while `info` lives.
ecmv_device device_table(const backends::DeviceInfo& info) {
  return {sizeof(ecmv_device), info.backend.c_str(), info.simd_target.c_str(), info.name.c_str(), info.threads,
          info.l1d_bytes,      info.l2_bytes,        info.llc_bytes,           info.memory_bytes};
}

// The parameters of a binding: everything that a call needs except the list of sections, which the place keeps as a
// description of the layer.
struct Body {
  alignas(16) std::byte parameters[ECMV_PARAMETER_BYTES];
  const LoadedKernel* kernel;
  uint32_t policy;
  int batch;               // of a matmul
  ecmv_compressed matrix;  // points to the settings below, so run() sets that pointer after this body was copied
  SettingValues settings;

  template <typename Args>
  void run(const Args& args) const {
    ecmv_compressed compressed = matrix;
    compressed.settings = settings.values;
    const ecmv_call call{sizeof(ecmv_call), &compressed,   parameters,  policy, 0,
                         args.rows.begin,   args.rows.end, args.scratch};
    name_of(*kernel).check(start(call, args));
  }

 private:
  Call entered(const char* function) const {
    return Call(*kernel->tables, function, matrix.rows, matrix.cols, kernel->table.variant);
  }
  const char* start(const ecmv_call& call, const DecodeArgs& args) const {
    const ecmv_decode_args table{sizeof(ecmv_decode_args), args.out};
    const Call under_way = entered("decode");
    return kernel->table.decode(&call, &table);
  }
  const char* start(const ecmv_call& call, const MatvecArgs& args) const {
    const ecmv_matvec_args table{sizeof(ecmv_matvec_args), args.x, args.y, args.v, args.scale};
    const Call under_way = entered("matvec");
    return kernel->table.matvec(&call, &table);
  }
  const char* start(const ecmv_call& call, const MatmulArgs& args) const {
    const ecmv_matmul_args table{sizeof(ecmv_matmul_args), batch, args.x, args.x_stride, args.y, args.y_stride};
    const Call under_way = entered("matmul");
    return kernel->table.matmul(&call, &table);
  }
};

template <typename Args>
struct BodyOf : Body {
  void operator()(void*, const Args& args) const { run(args); }
};

template <typename T>
const T* describe(backends::Place& place, const std::vector<T>& values) {
  return values.empty() ? nullptr : reinterpret_cast<const T*>(place.describe(std::as_bytes(std::span(values))));
}

// Checks the facts that bind() stated.
KernelFacts facts_of(const LoadedKernel& kernel, const ecmv_binding& binding) {
  const NamedKernel name = name_of(kernel);
  name.require(binding.rows_per_block >= 1, "binds with " + std::to_string(binding.rows_per_block) + " rows a block.");
  name.check_scratch(binding.scratch_bytes, kMostScratchBytes);
  name.check_requantises(binding.requantises, kernel.table.matvec != nullptr);
  name.check_rounding({binding.more_roundings, binding.offset, binding.narrowing});
  return {.rows_per_block = binding.rows_per_block,
          .scratch_bytes = binding.scratch_bytes,
          .requantises = binding.requantises != 0,
          .rounding = {static_cast<int>(binding.more_roundings), binding.offset, binding.narrowing}};
}

template <typename Args>
BoundKernel bind(const backends::Policy& policy, backends::Layers layers, int batch, backends::Place& place) {
  const LoadedPolicy& chosen = policy.as<LoadedPolicy>();
  const LoadedKernel& kernel = *chosen.kernel;
  const CompressedTable compressed(*kernel.tables, *layers[0].matrix);
  if (compressed.sections().size() > ECMV_MAX_SECTIONS)
    throw std::runtime_error(name_of(kernel).text() + " was given a matrix of too many sections.");
  BodyOf<Args> body{};
  body.kernel = &kernel;
  body.policy = chosen.index;
  body.batch = batch;
  body.settings = compressed.settings();
  body.matrix = compressed.table();
  const ecmv_section* sections = describe(place, compressed.sections());
  std::vector<const ecmv_section*> pointers;
  for (size_t i = 0; i < compressed.sections().size(); ++i) pointers.push_back(sections + i);
  body.matrix.sections = describe(place, pointers);
  body.matrix.settings = nullptr;
  ecmv_binding binding{sizeof(ecmv_binding), 1, 0, body.parameters, 0, 0, 0, 0};
  if (kernel.table.bind != nullptr) {
    const ecmv_device device = device_table(place.device());
    const CarefulCall under_way(*kernel.tables, "bind", body.matrix.rows, body.matrix.cols, kernel.table.variant);
    name_of(kernel).check(kernel.table.bind(&compressed.table(), &device, chosen.index, &binding));
  }
  return {body, facts_of(kernel, binding)};
}

std::string refuses(const CompressedView& view, const backends::DeviceInfo& info, const backends::Policy& policy) {
  const LoadedPolicy& chosen = policy.as<LoadedPolicy>();
  if (chosen.kernel->table.refuses == nullptr) return {};
  const CompressedTable compressed(*chosen.kernel->tables, view);
  const ecmv_device device = device_table(info);
  const CarefulCall under_way(*chosen.kernel->tables, "refuses", view.shape.rows, view.shape.cols,
                              chosen.kernel->table.variant);
  const char* reason = chosen.kernel->table.refuses(&compressed.table(), &device, chosen.index);
  return reason == nullptr ? "" : sentence(reason);
}

backends::Kernel kernel_of(const LoadedKernel& from) {
  backends::Kernel kernel;
  kernel.variant = from.table.variant;
  kernel.policies = std::span<const LoadedPolicy>(from.policies);
  kernel.refuses = refuses;
  kernel.op = from.table.decode != nullptr ? Op::decode : from.table.matvec != nullptr ? Op::matvec : Op::matmul;
  kernel.bind = kernel.op == Op::decode   ? bind<DecodeArgs>
                : kernel.op == Op::matvec ? bind<MatvecArgs>
                                          : bind<MatmulArgs>;
  return kernel;
}

}  // namespace

void add_kernels(LoadedCodec& codec) {
  for (const ecmv_kernel& table : codec.tables.kernels) {
    auto kernel = std::make_unique<LoadedKernel>(LoadedKernel{&codec.tables, table, {}});
    for (int64_t i = 0; i < table.policy_count; ++i)
      kernel->policies.push_back({{table.policies[i]}, kernel.get(), static_cast<uint32_t>(i)});
    if (kernel->policies.empty()) kernel->policies.push_back({{"default"}, kernel.get(), 0});
    if (table.on_scalar != 0) codec.scalar.push_back(kernel_of(*kernel));
    if (table.on_simd != 0) codec.simd.push_back(kernel_of(*kernel));
    codec.kernels.push_back(std::move(kernel));
  }
}

}  // namespace ecmv::codecs::loaded

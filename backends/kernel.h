// Kernel: the work that cpu.cpp, simd.cpp and gpu.cu of a codec's folder offer. A kernel is used in two stages:
//   bind     once and untimed, for given matrices and a number of tokens: reads headers and settings, makes the plan,
//            returns the parameters;
//   enqueue  as often as wanted: starts the work with those parameters, and does nothing else.
// On CPUs one enqueue works on a range of rows; on GPUs it covers all rows. The backend owns threads, streams, memory
// and time.
//
// The rule for bindings. A product that reads fewer bytes than the codec stored would be measured wrongly, so bind()
// leaves in memory only
//   1. its parameters: at most kParameterBytes, by value;
//   2. descriptions of the layers (pointers, shapes, offsets): at most kDescriptionBytes a layer, by Place::describe();
//   3. memory that is zero before every pass, by Place::zeroed(): for communication between thread blocks, and for
//      padding;
//   4. scratch, whose content is undefined when an enqueue begins.
// It leaves nothing in heap memory or statics. A table that decodes symbols is either a section of the compressed
// matrix, where it is counted, or is built in the scratch by every enqueue, inside the measured time.
// tests/kernels/binding_test.cpp holds all kernels to this.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "backends/compressed_matrix.h"
#include "datasets/scales.h"

namespace ecmv::backends {

// decode: the elements themselves, [rows, cols].
// matvec: y = W x for int8 elements, accumulated in int32.
// matmul: Y = W X in float32 for a batch of tokens (one token: a float matvec), elements of any type taken as numbers.
enum class Op : uint8_t { decode, matvec, matmul };
inline constexpr std::string_view kOpNames[] = {"decode", "matvec", "matmul"};
constexpr std::string_view op_name(Op op) { return kOpNames[static_cast<size_t>(op)]; }

// The type of a matmul's tokens: float32, or bf16, as in inference.
enum class Activations : uint8_t { f32, bf16 };
std::string_view activations_name(Activations activations);

// Facts that a kernel may ask about the device it will run on; 0 or empty where the device has no such fact.
struct DeviceInfo {
  std::string backend;  // "scalar", "simd", "cuda", ...
  std::string name;     // model name of the CPU or GPU
  // The instruction set in use: Highway's name, a GPU's architecture ("sm_90", "gfx90a"), the emulator's width
  // ("wave64"); empty where there is none.
  std::string simd_target;
  int threads = 1;             // host threads that run kernels; 1 on GPUs
  int64_t l1d_bytes = 0;       // of one core
  int64_t l2_bytes = 0;        // of one core; of the whole GPU, where it is the last level
  int64_t llc_bytes = 0;       // last-level cache, shared
  int64_t memory_bytes = 0;    // in all
  std::string unavailable;     // why it cannot be used; empty if it can
  bool emulated = false;       // verified, but never timed against others
  int wave_size = 0;           // lanes of a GPU that run in step: 32 or 64
  int compute_units = 0;       // of a GPU: streaming multiprocessors
  int64_t shared_bytes = 0;    // shared memory that a thread block may ask for, on a GPU
  double clock_hz = 0;         // highest clock of the compute units
  double memory_clock_hz = 0;  // highest
  std::string driver;          // version of the driver and of the runtime
};

// Readable (not writable) zero bytes past the last element of x: kernels may load whole vectors.
inline constexpr int64_t kVectorPaddingBytes = 64;
// A caller's tokens that kernels take as they are: 16 bytes of bf16.
inline constexpr int64_t kTokenMultiple = 8;
// The most tokens that one call of a matmul kernel multiplies, unless it says otherwise (Kernel::most_tokens). A pass
// multiplies more in parts.
inline constexpr int kMaxBatch = 64;
// The most tokens of a pass.
inline constexpr int kMostTokens = 4096;

// --- what an enqueue gets: one struct an op -------------------------------------------------------------------------
// All pointers are in the backend's memory. Elements of x past cols read as zero up to kVectorPaddingBytes. A kernel
// reads nothing outside the sections, x, its descriptions and the scratch, and writes nothing outside the results of
// its rows and the scratch.

// A range of rows. `begin` is a multiple of rows_per_block, and so is `end`, unless the range ends with the last row.
struct Rows {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

struct DecodeArgs {
  Rows rows = {};
  std::byte* out = nullptr;      // rows.begin's first element is written to out[0]
  std::byte* scratch = nullptr;  // scratch_bytes for this call alone, 64-byte aligned (on GPUs 256)
};

struct MatvecArgs {
  Rows rows = {};
  const int8_t* x = nullptr;  // [cols], 64-byte aligned
  int32_t* y = nullptr;       // [rows], the whole vector: y[rows.begin .. rows.end) is written
  int8_t* v = nullptr;        // [rows]: requantise(y, scale), written by kernels that requantise (KernelFacts)
  float scale = 0;
  std::byte* scratch = nullptr;
};

struct MatmulArgs {
  Rows rows = {};
  // [batch, cols], the tokens that the kernel was bound for, or `tokens`. Token t begins at x + t * x_stride, 64-byte
  // aligned, with zeros past its cols elements. Kernels of bf16 activations get the tokens at x_bf16 instead: the upper
  // halves of the float32 numbers.
  const float* x = nullptr;
  const uint16_t* x_bf16 = nullptr;
  int64_t x_stride = 0;  // in activations: at least cols and kVectorPaddingBytes of zeros, and whole 64 bytes
  float* y = nullptr;    // [batch, all rows], the whole result: y[t * y_stride + row] is written for the call's rows
  int64_t y_stride = 0;  // all rows
  // Where this is set, products are stored here instead of at y, with the same stride, each rounded once to the nearest
  // bf16. Only for kernels that can (KernelFacts::stores_bf16).
  uint16_t* y_bf16 = nullptr;
  std::byte* scratch = nullptr;
  // Tokens to multiply, fewer than the kernel was bound for; 0: all of those. Only for kernels that can
  // (KernelFacts::takes_fewer_tokens).
  int tokens = 0;
};

// A whole chain at once: layer k's x is layer k-1's v. The binding holds each layer's y and v.
struct ChainArgs {
  const int8_t* x = nullptr;  // of the first layer
  std::byte* scratch = nullptr;
};

using Args = std::variant<DecodeArgs, MatvecArgs, MatmulArgs, ChainArgs>;

// --- policies -------------------------------------------------------------------------------------------------------

// A named compile-time configuration of a kernel. Derive to add the values, so that a name and what it stands for are
// one entry:
//   struct DensePolicy : Policy { int rows; int loads; };
//   constexpr DensePolicy kPolicies[] = {{{"rows4"}, 4, 8}, {{"rows1"}, 1, 8}};
// Records and configurations call the name the kernel's policy (`tuning` in older ones).
struct Policy {
  std::string_view name;
  // The entry with its values; only for a policy that came from an array of that type.
  template <typename Derived>
  const Derived& as() const {
    return static_cast<const Derived&>(*this);
  }
};

// The policies of a kernel, an array of Policy or of a type derived from it.
class Policies {
 public:
  constexpr Policies() = default;
  template <typename Entry, size_t kCount>
  requires std::is_base_of_v<Policy, Entry>
  constexpr Policies(const Entry (&entries)[kCount]) : first_(entries), size_(kCount), bytes_(sizeof(Entry)) {}
  template <typename Entry>
  requires std::is_base_of_v<Policy, Entry>
  constexpr Policies(std::span<const Entry> entries)
      : first_(entries.data()), size_(entries.size()), bytes_(sizeof(Entry)) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Entries are further apart than a Policy is long, so the address is counted in bytes.
  const Policy& operator[](size_t i) const {
    return *reinterpret_cast<const Policy*>(reinterpret_cast<const std::byte*>(first_) + i * bytes_);
  }
  const Policy* find(std::string_view name) const {
    for (const Policy& policy : *this)
      if (policy.name == name) return &policy;
    return nullptr;
  }

  class Iterator {
   public:
    Iterator(const Policies& policies, size_t i) : policies_(&policies), i_(i) {}
    const Policy& operator*() const { return (*policies_)[i_]; }
    Iterator& operator++() {
      ++i_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return i_ != other.i_; }

   private:
    const Policies* policies_;
    size_t i_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size_}; }

 private:
  const Policy* first_ = nullptr;
  size_t size_ = 0, bytes_ = 0;
};

// For kernels with one form.
inline constexpr Policy kDefaultPolicy[] = {{"default"}};

// f(std::integral_constant<size_t, i>) for the i at which `policy` is kEntries[i], so that its values can be template
// arguments. The results are of one type.
template <const auto& kEntries, typename F>
auto with_policy(const Policy& policy, F f) {
  return [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    decltype(f(std::integral_constant<size_t, 0>{})) result{};
    (void)((&policy == &kEntries[kIndex] && (result = f(std::integral_constant<size_t, kIndex>{}), true)) || ...);
    return result;
  }
  (std::make_index_sequence<std::size(kEntries)>());
}

// --- bindings -------------------------------------------------------------------------------------------------------

// How far results of a matmul kernel may lie from the exact product of the decoded elements:
//   |y - W x| <= (g + narrowing) * sum over the columns of (|w| + offset) * |x|
// with n = cols + more_roundings, u = 2^-24 and g = n u / (1 - n u). The defaults hold for float32 products summed in
// any order (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
struct ProductRounding {
  int more_roundings = 0;  // e.g. for a scale that is applied to the sum
  // For a term that the kernel multiplies apart from the elements and adds, e.g. twice the magnitude of a zero point.
  double offset = 0;
  double narrowing = 0;  // relative error of rounding factors to a narrower type before they are multiplied
  // For sums by matrix units; 0: sums in float32. Units add the products of `unit_cols` columns and the sum so far at
  // once and cut each below the last of 24 bits of the largest, which loses 2 u for every product that is not zero, for
  // the sum and for the result. So n is twice the products plus four times the units' additions of `chain_cols`
  // columns. After these columns a sum begins anew, and more_roundings counts those sums.
  int unit_cols = 0;
  int64_t chain_cols = 0;
  // Factors and sums below the normal numbers of float32 count as zero. The bound grows by 2^-126 for two sums a
  // product, and by 2^-126 times the other factor for each such factor.
  bool flushes_subnormals = false;
  // Binary digits by which elements and sums are larger until results are stored. No bound holds for a row whose sum of
  // |w| or of |w| |x| reaches 2^(127 - raised).
  int raised = 0;
};

// Facts about a binding that the backend needs.
struct KernelFacts {
  int64_t rows_per_block = 1;     // rows of one independently decodable block (the last may be shorter)
  int64_t scratch_bytes = 0;      // scratch for every enqueue
  bool requantises = false;       // writes v besides y; otherwise the backend does that in a step of its own
  ProductRounding rounding = {};  // for float products
  // Tokens of bf16 may lie where a caller has them: nothing past a token's elements is read if cols, x_stride and the
  // address, in elements, are multiples of kTokenMultiple.
  bool takes_callers_tokens = false;
  bool stores_bf16 = false;         // takes MatmulArgs::y_bf16
  bool takes_fewer_tokens = false;  // takes MatmulArgs::tokens
  bool capturable = true;           // in a graph of a GPU; if not, passes are plain launches
};

inline constexpr int64_t kParameterBytes = 512;
inline constexpr int64_t kDescriptionBytes = 512;  // a layer

// A kernel bound to matrices: a function object kept by value. `Body` is trivially copyable and has
//   void operator()(void* stream, const XArgs& args) const
// for the args of its op (or ChainArgs). It runs on one thread; several threads run disjoint ranges of rows at once. It
// never allocates, synchronises or throws. `stream` is the backend's (gpu::Stream), null on CPUs.
class BoundKernel {
 public:
  BoundKernel() = default;
  template <typename Body>
  requires(!std::is_same_v<Body, BoundKernel>) BoundKernel(const Body& body, const KernelFacts& facts = {})
      : facts(facts) {
    static_assert(std::is_trivially_copyable_v<Body>, "parameters are kept by value");
    static_assert(sizeof(Body) <= kParameterBytes && alignof(Body) <= 16,
                  "parameters describe matrices, they do not hold tables");
    std::memcpy(parameters_, &body, sizeof(Body));
    if constexpr (std::is_invocable_v<const Body&, void*, const DecodeArgs&>) enqueue_ = &run<Body, DecodeArgs>;
    if constexpr (std::is_invocable_v<const Body&, void*, const MatvecArgs&>) enqueue_ = &run<Body, MatvecArgs>;
    if constexpr (std::is_invocable_v<const Body&, void*, const MatmulArgs&>) enqueue_ = &run<Body, MatmulArgs>;
    if constexpr (std::is_invocable_v<const Body&, void*, const ChainArgs&>) enqueue_ = &run<Body, ChainArgs>;
    static_assert(std::is_invocable_v<const Body&, void*, const DecodeArgs&> +
                          std::is_invocable_v<const Body&, void*, const MatvecArgs&> +
                          std::is_invocable_v<const Body&, void*, const MatmulArgs&> +
                          std::is_invocable_v<const Body&, void*, const ChainArgs&> ==
                      1,
                  "a body takes (void* stream, const XArgs&) for one X");
  }

  template <typename ArgsOfOp>
  void enqueue(void* stream, const ArgsOfOp& args) const {
    std::get<Enqueue<ArgsOfOp>>(enqueue_)(parameters_, stream, args);
  }
  template <typename ArgsOfOp>
  bool takes() const {
    return std::holds_alternative<Enqueue<ArgsOfOp>>(enqueue_);
  }

  KernelFacts facts;

 private:
  template <typename ArgsOfOp>
  using Enqueue = void (*)(const std::byte* parameters, void* stream, const ArgsOfOp&);
  template <typename Body, typename ArgsOfOp>
  static void run(const std::byte* parameters, void* stream, const ArgsOfOp& args) {
    (*reinterpret_cast<const Body*>(parameters))(stream, args);
  }

  alignas(16) std::byte parameters_[kParameterBytes] = {};
  std::variant<std::monostate, Enqueue<DecodeArgs>, Enqueue<MatvecArgs>, Enqueue<MatmulArgs>, Enqueue<ChainArgs>>
      enqueue_;
};

// Scales of groups of columns in the backend's memory, laid out like datasets::Scales::stored.
struct GroupScales {
  const datasets::Scales* layout = nullptr;
  const std::byte* stored = nullptr;
};

// A layer to bind. The matrix outlives the binding. Its sections are in the backend's memory, their headers in the
// host's as well.
struct Layer {
  const CompressedView* matrix = nullptr;
  // For a binding of a whole chain: where this layer's results go, as in MatvecArgs. A binding of one layer gets them
  // with every enqueue.
  int32_t* y = nullptr;
  int8_t* v = nullptr;
  float scale = 0;
  GroupScales scales = {};  // for kernels that take them (Kernel::group_cols)
};

using Layers = std::span<const Layer>;

// Thrown by bind() for layers that the kernel takes one by one but cannot bind together; a full sentence.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Where a binding lives. Memory from here belongs to the pass and is aligned to 256 bytes; see the rule at the head of
// this file.
class Place {
 public:
  virtual ~Place() = default;
  virtual const DeviceInfo& device() const = 0;
  // A copy of `bytes` in the backend's memory. Throws std::logic_error beyond kDescriptionBytes a layer.
  virtual const std::byte* describe(std::span<const std::byte> bytes) = 0;
  virtual std::byte* zeroed(int64_t bytes) = 0;
};

// For kernels that run every matrix on every device.
std::string refuses_nothing(const CompressedView&, const DeviceInfo&, const Policy&);

struct Kernel {
  Op op = Op::decode;
  std::string_view variant;  // names a method ("interleaved"), not a machine
  Policies policies = kDefaultPolicy;
  // True for a matvec whose bindings cover all layers of a chain and take ChainArgs. Otherwise a binding covers one
  // layer.
  bool whole_chain = false;
  Activations activations = Activations::f32;  // of matmul
  // A matmul with group_cols multiplies the sum of each group of columns by the group's scale before it adds the groups
  // up. It takes groups of `group_cols` columns, or 2, 4, 8, ... times as many. 0: the kernel gives one sum a row and
  // knows no scales.
  int group_cols = 0;
  // The most tokens that a matmul multiplies at a time, at most kMostTokens.
  int most_tokens = kMaxBatch;
  // The most tokens that a matmul multiplies in about the time that it takes for one, since it reads the matrix once.
  // With more, a kernel that takes them is chosen first (kernel_order.h). 0: most_tokens.
  int tokens_at_once = 0;
  // Whether it comes, for this matrix, device and batch, before others that read it as often (kernel_order.h).
  // Null: it does.
  bool (*leads)(const CompressedView&, const DeviceInfo&, int batch) = nullptr;
  // "" if this kernel can run this matrix on this device, otherwise the reason as a sentence. It may use dynamic
  // dispatch: on `simd` the instruction set has been chosen before the call.
  std::string (*refuses)(const CompressedView&, const DeviceInfo&, const Policy&) = refuses_nothing;
  // Binds layers that refuses() allowed and the reference decoder verified. May allocate; throws Refused or another
  // exception. Every enqueue of a matmul multiplies `batch` tokens, 1 to most_tokens; other ops get 1. On `simd` the
  // instruction set has been chosen as for refuses(), and bodies may keep a pointer to its code.
  BoundKernel (*bind)(const Policy&, Layers, int batch, Place&) = nullptr;
  // The name of the policy that a normal run uses for this matrix, device and batch; null: the first one.
  std::string_view (*choose)(const CompressedView&, const DeviceInfo&, int batch) = nullptr;
};

// The same kernel, at its best with up to so many tokens.
constexpr Kernel up_to(int tokens, Kernel kernel) {
  kernel.tokens_at_once = tokens;
  return kernel;
}

// The policy for a program that measures none: the kernel's choice, or else the first policy that the kernel does not
// refuse. If it refuses all of them, the first.
const Policy& chosen_policy(const Kernel& kernel, const CompressedView& matrix, const DeviceInfo& device, int batch);

// Whether a matmul kernel can multiply elements with these scales. A kernel with group_cols takes bf16 scales of such
// groups, or one scale a row. Other kernels take at most one scale a row, which a later step applies.
bool takes_scales(const Kernel& kernel, const datasets::Scales& scales);
// Whether it takes groups of `group_cols` columns; 0: at most one scale a row.
inline bool takes_groups(const Kernel& kernel, int64_t group_cols) {
  if (group_cols == 0 || kernel.group_cols == 0) return group_cols == kernel.group_cols;
  return group_cols % kernel.group_cols == 0 &&
         std::has_single_bit(static_cast<uint64_t>(group_cols / kernel.group_cols));
}

}  // namespace ecmv::backends

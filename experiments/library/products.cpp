// The boundary of the library for products on memory of the caller: arguments, handles and turns. product.h does the
// work.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "backends/exact_product.h"
#include "experiments/library/handles.h"
#include "experiments/library/product/product.h"

namespace backends = ecmv::backends;
namespace datasets = ecmv::datasets;
using namespace ecmv::library;

struct ecmv_buffer {
  Devices devices;
  std::unique_ptr<backends::Buffer> bytes;
};

struct ecmv_workspace {
  Devices devices;
  std::shared_ptr<Workspace> shared;
};

backends::Executor& ecmv_context::memory() const {
  const std::scoped_lock lock(mutex);
  if (executor == nullptr) executor = devices.front()->executor(false);
  return *executor;
}

namespace {

constexpr size_t kFirstOptionsBytes = 64, kOptionsWithMeasureBytes = 72;
static_assert(sizeof(ecmv_product_options) == kOptionsWithMeasureBytes);

// --- handles ---------------------------------------------------------------------------------------------

// A product ends when the last call that uses it does.
struct Held {
  Devices devices;
  std::shared_ptr<Workspace> workspace;
  std::unique_ptr<Product> product;

  // Its turn: that of all GPUs, or its workspace's on a CPU.
  std::unique_lock<std::mutex> turn() {
    return is_gpu(*devices.front()) ? lock_gpu(devices) : std::unique_lock(workspace->mutex);
  }
  ~Held() {
    if (workspace == nullptr) return;
    const auto lock = turn();
    product.reset();
    if (is_gpu(*devices.front())) workspace.reset();  // under the GPUs' lock, as it may be the last to have memory
  }
};

// A handle is a number that is never used again, so a freed one is told from all others.
class Handles {
 public:
  ecmv_product* add(std::shared_ptr<Held> held) {
    const std::scoped_lock lock(mutex_);
    all_.emplace(++last_, std::move(held));
    return reinterpret_cast<ecmv_product*>(last_);
  }
  std::shared_ptr<Held> find(const ecmv_product* handle) const {
    const std::scoped_lock lock(mutex_);
    const auto found = all_.find(reinterpret_cast<uintptr_t>(handle));
    return found == all_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Held> remove(const ecmv_product* handle) {
    const std::scoped_lock lock(mutex_);
    const auto found = all_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == all_.end()) return nullptr;
    std::shared_ptr<Held> held = std::move(found->second);
    all_.erase(found);
    return held;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<Held>> all_;
  uintptr_t last_ = 0;
};

// Never destroyed: what a program did not free when it ends, the system takes.
Handles& handles() {
  static auto* const all = new Handles;
  return *all;
}

// --- arguments -------------------------------------------------------------------------------------------

backends::Activations number_type(const char* name, const char* what) {
  const std::string text = &given(name, what);
  for (const auto type : {backends::Activations::f32, backends::Activations::bf16})
    if (backends::activations_name(type) == text) return type;
  throw Failure(ECMV_INVALID_ARGUMENT, std::string("The argument '") + what + "' is '" + text + "', not f32 or bf16.");
}

ProductRequest request_of(const ecmv_product_options& options) {
  expect_struct(options.struct_bytes, kFirstOptionsBytes, "options");
  ProductRequest request{.max_tokens = options.max_tokens,
                         .x = number_type(options.x_type, "options->x_type"),
                         .y = number_type(options.y_type, "options->y_type"),
                         .bias = static_cast<const std::byte*>(options.bias),
                         .measure = options.struct_bytes >= kOptionsWithMeasureBytes && options.measure != 0};
  if (request.max_tokens < 1 || request.max_tokens > kMaxSide)
    throw Failure(ECMV_INVALID_ARGUMENT,
                  "A product takes 1 token or more at once, not " + std::to_string(request.max_tokens) + ".");
  return request;
}

std::vector<std::span<const std::byte>> sections_of(const ecmv_product_options& options) {
  if ((options.sections == nullptr) != (options.section_count == 0))
    throw Failure(ECMV_INVALID_ARGUMENT, "The options have sections without a number of them, or the reverse.");
  std::vector<std::span<const std::byte>> sections;
  for (size_t i = 0; i < options.section_count; ++i)
    sections.emplace_back(static_cast<const std::byte*>(options.sections[i].place), options.sections[i].bytes);
  return sections;
}

std::shared_ptr<Workspace> shared_or_new(const Devices& devices, const ecmv_workspace* given) {
  if (given != nullptr && given->devices != devices)
    throw Failure(ECMV_INVALID_ARGUMENT, "The workspace is one of another context.");
  if (given != nullptr) return given->shared;
  const auto lock = lock_gpu(devices);
  return std::make_shared<Workspace>(devices);
}

uint64_t expect_hash(const ecmv_description& description) {
  const uint64_t hash = known_hash(description);
  if (hash == 0) throw Failure(ECMV_INVALID_ARGUMENT, "The description has no hash, so nothing is known.");
  return hash;
}

// Binds a product of a matrix that place(workspace) brings to where products can use it.
template <typename Place>
ecmv_product* bind(const Devices& devices, const ecmv_product_options& options, datasets::Shape shape,
                   datasets::ElementType type, Place place) {
  ProductRequest request = request_of(options);
  if (const std::string reason = backends::why_no_float_product({shape, type, {}}); !reason.empty())
    throw Failure(ECMV_REFUSED, reason);
  auto held = std::make_shared<Held>();
  held->devices = devices;
  held->workspace = shared_or_new(devices, options.workspace);
  PlacedMatrix matrix = place(*held->workspace);
  {
    const auto lock = held->turn();
    held->product = std::make_unique<Product>(held->workspace, std::move(matrix), std::move(request));
  }
  return handles().add(std::move(held));
}

void expect_inside(const ecmv_buffer& buffer, size_t offset, size_t bytes) {
  const auto size = static_cast<size_t>(buffer.bytes->size());
  if (offset > size || bytes > size - offset)
    throw Failure(ECMV_INVALID_ARGUMENT, "The buffer has " + std::to_string(size) + " bytes, and " +
                                             std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                                             " are not among them.");
}

}  // namespace

extern "C" {

ecmv_status ecmv_allocate(const ecmv_context* context, size_t bytes, ecmv_buffer** buffer) {
  if (buffer != nullptr) *buffer = nullptr;
  return guarded([&] {
    need(buffer, "buffer");
    const Devices& devices = given(context, "context").devices;
    if (bytes > static_cast<size_t>(kMaxElements)) throw std::bad_alloc();
    const auto lock = lock_gpu(devices);
    auto made = std::make_unique<ecmv_buffer>();
    made->devices = devices;
    made->bytes = context->memory().allocate(static_cast<int64_t>(bytes), "the caller's memory");
    *buffer = made.release();
  });
}

void* ecmv_place(const ecmv_buffer* buffer) { return buffer == nullptr ? nullptr : buffer->bytes->data(); }

ecmv_status ecmv_write(ecmv_buffer* buffer, size_t offset, const void* from, size_t bytes) {
  return guarded([&] {
    expect_inside(given(buffer, "buffer"), offset, bytes);
    if (bytes == 0) return;
    need(from, "from");
    const auto lock = lock_gpu(buffer->devices);
    buffer->bytes->write({static_cast<const std::byte*>(from), bytes}, static_cast<int64_t>(offset));
  });
}

ecmv_status ecmv_read(const ecmv_buffer* buffer, size_t offset, void* to, size_t bytes) {
  return guarded([&] {
    expect_inside(given(buffer, "buffer"), offset, bytes);
    if (bytes == 0) return;
    need(to, "to");
    const auto lock = lock_gpu(buffer->devices);
    buffer->bytes->read({static_cast<std::byte*>(to), bytes}, static_cast<int64_t>(offset));
  });
}

void ecmv_free_buffer(ecmv_buffer* buffer) {
  if (buffer == nullptr) return;
  const Devices devices = buffer->devices;
  const auto lock = lock_gpu(devices);
  delete buffer;
}

ecmv_status ecmv_synchronize(const ecmv_context* context) {
  return guarded([&] {
    const auto lock = lock_gpu(given(context, "context").devices);
    context->memory().wait();
  });
}

ecmv_status ecmv_make_workspace(const ecmv_context* context, ecmv_workspace** workspace) {
  if (workspace != nullptr) *workspace = nullptr;
  return guarded([&] {
    need(workspace, "workspace");
    const Devices& devices = given(context, "context").devices;
    const auto lock = lock_gpu(devices);
    *workspace = new ecmv_workspace{devices, std::make_shared<Workspace>(devices)};
  });
}

size_t ecmv_workspace_bytes(const ecmv_workspace* workspace) {
  if (workspace == nullptr) return 0;
  const auto lock =
      is_gpu(*workspace->devices.front()) ? lock_gpu(workspace->devices) : std::unique_lock(workspace->shared->mutex);
  return static_cast<size_t>(workspace->shared->bytes());
}

void ecmv_free_workspace(ecmv_workspace* workspace) {
  if (workspace == nullptr) return;
  const Devices devices = workspace->devices;
  const auto lock = lock_gpu(devices);
  delete workspace;
}

ecmv_status ecmv_bind_product(const ecmv_context* context, const ecmv_compressed_matrix* matrix,
                              const ecmv_product_options* options, ecmv_product** product) {
  if (product != nullptr) *product = nullptr;
  return guarded([&] {
    need(product, "product");
    const Devices& devices = given(context, "context").devices;
    const backends::CompressedMatrix& stored = given(matrix, "matrix").matrix;
    const std::vector<std::span<const std::byte>> sections = sections_of(given(options, "options"));
    *product = bind(devices, *options, stored.shape, stored.type, [&](Workspace& workspace) {
      if (!sections.empty()) return in_callers_memory(*matrix, sections, workspace);
      const auto lock = lock_gpu(devices);
      return in_own_copy(*matrix, *devices.front());
    });
  });
}

ecmv_status ecmv_bind_known_product(const ecmv_context* context, const ecmv_description* description,
                                    const ecmv_stored_section* sections, size_t count,
                                    const ecmv_product_options* options, ecmv_product** product) {
  if (product != nullptr) *product = nullptr;
  return guarded([&] {
    need(product, "product");
    const Devices& devices = given(context, "context").devices;
    const MatrixParts parts = parts_of(given(description, "description"), sections, count);
    const uint64_t hash = expect_hash(*description);
    if (!sections_of(given(options, "options")).empty())
      throw Failure(ECMV_INVALID_ARGUMENT, "The options have sections, which are given beside them already.");
    *product = bind(devices, *options, parts.shape, element_type(parts.element_type),
                    [&](Workspace& workspace) { return in_callers_memory(parts, hash, workspace); });
  });
}

ecmv_status ecmv_compare_with_hash(const ecmv_context* context, const ecmv_workspace* workspace,
                                   const ecmv_description* description, const ecmv_stored_section* sections,
                                   size_t count) {
  return guarded([&] {
    const Devices& devices = given(context, "context").devices;
    const MatrixParts parts = parts_of(given(description, "description"), sections, count);
    const uint64_t hash = expect_hash(*description);
    Held held;  // ends a workspace of this call in its turn
    held.devices = devices;
    held.workspace = shared_or_new(devices, workspace);
    in_callers_memory(parts, hash, *held.workspace);
  });
}

ecmv_status ecmv_enqueue_product(ecmv_product* product, void* stream, const void* x, int64_t x_stride, int64_t tokens,
                                 void* y, int64_t y_stride) {
  return guarded([&] {
    need(product, "product");
    const std::shared_ptr<Held> held = handles().find(product);
    if (held == nullptr) throw Failure(ECMV_INVALID_ARGUMENT, "There is no such product; was it freed?");
    const auto lock = held->turn();
    held->product->enqueue(stream, {static_cast<const std::byte*>(x), x_stride}, tokens,
                           {static_cast<const std::byte*>(y), y_stride});
  });
}

size_t ecmv_product_scratch_bytes(const ecmv_product* product) {
  const std::shared_ptr<Held> held = handles().find(product);
  return held == nullptr ? 0 : static_cast<size_t>(held->product->scratch_bytes());
}

const char* ecmv_product_kernel(const ecmv_product* product, int64_t tokens) {
  const std::shared_ptr<Held> held = handles().find(product);
  const char* name = held == nullptr ? nullptr : held->product->kernel(tokens);
  return name == nullptr ? "" : name;
}

void ecmv_free_product(ecmv_product* product) {
  // The work under way ends first; then no call finds the product, and the last one that did ends it.
  const std::shared_ptr<Held> held = handles().remove(product);
  if (held == nullptr) return;
  const auto lock = held->turn();
  held->product->wait();
}

}  // extern "C"

// The boundary of the library: it checks arguments, turns exceptions into a status and a sentence, and keeps everything
// that outlives a call in handles.
#include "experiments/library/ecmv.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "backends/exact_product.h"
#include "backends/pass.h"
#include "codecs/did_you_mean.h"
#include "ecmv_build.h"
#include "ecmv_revision.h"
#include "experiments/library/encoding.h"
#include "experiments/library/handles.h"
#include "experiments/library/kernel_choice.h"
#include "experiments/library/tuned_settings.h"

namespace backends = ecmv::backends;
namespace codecs = ecmv::codecs;
namespace datasets = ecmv::datasets;
using namespace ecmv::library;

struct ecmv_pass {
  backends::Op op = backends::Op::decode;
  datasets::Shape shape;
  int64_t element_bytes = 0;
  int batch = 0;
  // In the order of their dependencies.
  std::vector<std::shared_ptr<backends::Device>> devices;
  std::shared_ptr<backends::UploadedMatrix> uploaded;
  std::unique_ptr<backends::Pass> pass;
  std::string kernel;
  std::mutex mutex;

  std::mutex& turn();
};

namespace {

constexpr int kMaxThreads = 1024;
// The size of the first ecmv_sizes, which every caller has at least.
constexpr size_t kFirstSizesBytes = 64;
static_assert(sizeof(ecmv_sizes) >= kFirstSizesBytes);
// 128 * 128 * 131072 = 2^31: one column more could overflow.
constexpr int64_t kMaxMatvecCols = 131072 - 1;

// --- errors ----------------------------------------------------------------------------------------------

// Static, since a lack of memory needs a sentence, too.
thread_local char last_error[1024] = "";

// --- what all threads share ------------------------------------------------------------------------------

// Loading appends to the registry while nobody may read it. Entries never move or change.
std::shared_mutex registry_mutex;

// GPU backends share handles and memory of the device.
std::mutex gpu_mutex;

// Texts of codecs that end with a zero and stay valid.
struct CodecText {
  std::string id, summary;
};
const CodecText* codec_text(size_t number) {
  static std::deque<CodecText> texts;
  const std::unique_lock lock(registry_mutex);
  const auto codecs = codecs::all_codecs();
  while (texts.size() < codecs.size())
    texts.push_back({std::string(codecs[texts.size()].id), std::string(codecs[texts.size()].codec->summary)});
  return number < texts.size() ? &texts[number] : nullptr;
}

// --- arguments -------------------------------------------------------------------------------------------

datasets::MatrixView array_view(const std::string& type_name, int64_t rows, int64_t cols, const void* elements) {
  datasets::MatrixView view;
  view.type = element_type(type_name);
  view.shape = {rows, cols};
  const int64_t element_bytes = datasets::element_bytes(view.type);
  expect_shape(rows, cols);
  const int64_t bytes = view.shape.elements() * element_bytes;
  if (bytes == 0) return view;
  need(elements, "elements");
  if (reinterpret_cast<uintptr_t>(elements) % static_cast<uintptr_t>(element_bytes) != 0)
    throw Failure(ECMV_INVALID_ARGUMENT,
                  "The elements are not aligned to the " + std::to_string(element_bytes) + " bytes of their type.");
  view.elements = {static_cast<const std::byte*>(elements), static_cast<size_t>(bytes)};
  return view;
}

std::span<std::byte> output(void* out, size_t out_bytes, datasets::Shape shape, int64_t element_bytes) {
  const auto needed = static_cast<size_t>(shape.elements() * element_bytes);
  if (out_bytes != needed)
    throw Failure(ECMV_INVALID_ARGUMENT,
                  "The elements take " + std::to_string(needed) + " bytes, not " + std::to_string(out_bytes) + ".");
  if (needed > 0) need(out, "out");
  return {static_cast<std::byte*>(out), needed};
}

// --- passes ----------------------------------------------------------------------------------------------

std::shared_ptr<backends::Device> open_device(const backends::Backend& backend,
                                              const backends::DeviceRequest& request) {
  try {
    return backend.open(request);
  } catch (const std::invalid_argument& e) {
    throw Failure(ECMV_UNAVAILABLE, e.what());
  }
}

std::vector<std::shared_ptr<backends::Device>> open_devices(const std::string& id,
                                                            const backends::DeviceRequest& request) {
  if (id != "best") {
    if (const backends::Backend* backend = backends::find_backend(id); backend != nullptr)
      return {open_device(*backend, request)};
    std::vector<std::string_view> known = {"best"};
    for (const backends::Backend& backend : backends::all_backends()) known.push_back(backend.id);
    throw Failure(ECMV_INVALID_ARGUMENT, "There is no backend '" + id + "'." + codecs::did_you_mean(id, known));
  }
  std::vector<std::shared_ptr<backends::Device>> devices;
  try {
    devices.push_back(open_device(*backends::find_backend("simd"), request));
  } catch (const Failure&) {
    // The library has no kernels for this instruction set.
  }
  devices.push_back(open_device(*backends::find_backend("scalar"), request));
  return devices;
}

backends::PassPlan empty_plan(backends::Op op, const backends::CompressedMatrix& matrix, int batch) {
  backends::PassPlan plan;
  plan.op = op;
  plan.chained = false;
  plan.scales = {1};
  plan.batch = batch;
  if (op == backends::Op::matvec) plan.inputs.emplace_back(static_cast<size_t>(matrix.shape.cols));
  if (op == backends::Op::matmul) plan.tokens.emplace_back(static_cast<size_t>(batch * matrix.shape.cols));
  return plan;
}

// "" if the matrix has such a product.
std::string why_no_product(backends::Op op, const backends::CompressedMatrix& matrix) {
  if (op == backends::Op::matmul) return backends::why_no_float_product({matrix.shape, matrix.type, {}});
  if (op != backends::Op::matvec) return {};
  if (matrix.type != datasets::ElementType::i8)
    return "The product matvec is that of int8 matrices; the elements here are " +
           std::string(datasets::element_type_name(matrix.type)) + ", which matmul takes.";
  if (matrix.shape.cols > kMaxMatvecCols)
    return "A product over " + std::to_string(matrix.shape.cols) + " columns could overflow int32; at most " +
           std::to_string(kMaxMatvecCols) + " columns are multiplied.";
  return {};
}

ecmv_status prepare(const ecmv_context* context, const ecmv_compressed_matrix* matrix, backends::Op op, int batch,
                    ecmv_pass** pass) noexcept {
  if (pass != nullptr) *pass = nullptr;
  return guarded([&] {
    need(pass, "pass");
    const std::vector<std::shared_ptr<backends::Device>>& devices = given(context, "context").devices;
    const backends::CompressedMatrix& compressed = given(matrix, "matrix").matrix;
    if (batch < 1 || batch > backends::kMostTokens)
      throw Failure(ECMV_INVALID_ARGUMENT, "A batch has 1 to " + std::to_string(backends::kMostTokens) +
                                               " tokens, not " + std::to_string(batch) + ".");
    if (const std::string reason = why_no_product(op, compressed); !reason.empty()) throw Failure(ECMV_REFUSED, reason);
    const auto lock = lock_gpu(devices);
    auto made = std::make_unique<ecmv_pass>();
    made->op = op;
    made->shape = compressed.shape;
    made->element_bytes = datasets::element_bytes(compressed.type);
    made->batch = batch;
    made->devices = devices;
    made->uploaded = upload(*matrix, *devices.front());
    backends::PassPlan plan = empty_plan(op, compressed, batch);
    plan.layers = {made->uploaded.get()};
    ecmv::library::ChosenPass chosen =
        ecmv::library::prepare_first(devices, *matrix->entry, compressed, std::move(plan));
    made->pass = std::move(chosen.pass);
    made->kernel = std::move(chosen.kernel);
    *pass = made.release();
  });
}

// Runs once with `input`; take(pass) copies the result.
template <typename Take>
void run(ecmv_pass& pass, backends::Op op, std::span<const std::byte> input, Take take) {
  if (pass.op != op)
    throw Failure(ECMV_INVALID_ARGUMENT, "The pass was prepared for " + std::string(backends::op_name(pass.op)) +
                                             ", not for " + std::string(backends::op_name(op)) + ".");
  const std::scoped_lock lock(pass.turn());
  if (op != backends::Op::decode) pass.pass->set_input(0, input);
  pass.pass->run();
  take(*pass.pass);
}

template <typename T>
void copy_out(std::span<const T> from, void* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
}

// `count` numbers at x, and a place for results.
template <typename T>
std::span<const std::byte> checked(const T* x, int64_t count, const void* y, int64_t results) {
  if (count > 0) need(x, "x");
  if (results > 0) need(y, "y");
  return std::as_bytes(std::span(x, static_cast<size_t>(count)));
}

}  // namespace

namespace ecmv::library {

ecmv_status fail(ecmv_status status, const char* sentence) noexcept {
  size_t length = std::strlen(sentence);
  if (length >= sizeof(last_error))  // cut between two characters
    for (length = sizeof(last_error) - 1; length > 0 && (sentence[length] & 0xC0) == 0x80;) --length;
  std::memcpy(last_error, sentence, length);
  last_error[length] = 0;
  return status;
}

void need(const void* pointer, const char* what) {
  if (pointer == nullptr) throw Failure(ECMV_INVALID_ARGUMENT, std::string("The argument '") + what + "' is NULL.");
}

void expect_struct(size_t bytes, size_t least, const char* what) {
  if (bytes < least)
    throw Failure(ECMV_INVALID_ARGUMENT, std::string("The field struct_bytes of the ") + what + " is " +
                                             std::to_string(bytes) + ", not its size.");
}

std::unique_lock<std::mutex> lock_gpu(const Devices& devices) {
  return !devices.empty() && is_gpu(*devices.front()) ? std::unique_lock(gpu_mutex) : std::unique_lock<std::mutex>();
}

const codecs::CodecEntry& codec_entry(const std::string& id) {
  const std::shared_lock lock(registry_mutex);
  if (const codecs::CodecEntry* entry = codecs::find_codec(id); entry != nullptr) return *entry;
  std::vector<std::string_view> known;
  for (const codecs::CodecEntry& entry : codecs::all_codecs()) known.push_back(entry.id);
  throw Failure(ECMV_INVALID_ARGUMENT, "There is no codec '" + id + "'." + codecs::did_you_mean(id, known));
}

datasets::ElementType element_type(const std::string& name) {
  std::string known;
  for (int i = 0; i <= static_cast<int>(datasets::ElementType::f8_e4m3); ++i) {
    const auto type = static_cast<datasets::ElementType>(i);
    if (datasets::element_type_name(type) == name) return type;
    known += (i == 0 ? "" : ", ") + std::string(datasets::element_type_name(type));
  }
  throw Failure(ECMV_INVALID_ARGUMENT, "There is no element type '" + name + "'; there are: " + known + ".");
}

void expect_shape(int64_t rows, int64_t cols) {
  if (rows < 0 || cols < 0 || rows > kMaxSide || cols > kMaxSide || rows * cols > kMaxElements)
    throw Failure(ECMV_INVALID_ARGUMENT,
                  "There is no matrix of " + std::to_string(rows) + " rows and " + std::to_string(cols) + " columns.");
}

std::shared_ptr<backends::UploadedMatrix> upload(const ecmv_compressed_matrix& matrix, backends::Device& device) {
  const std::scoped_lock lock(matrix.mutex);
  std::weak_ptr<backends::UploadedMatrix>& slot = matrix.uploads[std::string(device.memory())];
  std::shared_ptr<backends::UploadedMatrix> uploaded = slot.lock();
  if (uploaded == nullptr) slot = uploaded = device.upload(matrix.matrix);
  return uploaded;
}

}  // namespace ecmv::library

std::mutex& ecmv_pass::turn() { return is_gpu(*devices.front()) ? gpu_mutex : mutex; }

extern "C" {

const char* ecmv_last_error(void) { return last_error; }

const char* ecmv_version(void) { return ECMV_VERSION; }

ecmv_status ecmv_describe_build(ecmv_build* build) {
  return guarded([&] {
    need(build, "build");
    expect_struct(build->struct_bytes, sizeof(ecmv_build), "build");
    *build = {build->struct_bytes, ECMV_GIT_REVISION,   ECMV_GIT_DIRTY,
              ECMV_COMPILER,       ECMV_COMPILER_FLAGS, ECMV_BUILD_TYPE};
  });
}

const char* ecmv_codec_id(size_t number) {
  const CodecText* text = nullptr;
  return guarded([&] { text = codec_text(number); }) == ECMV_OK && text != nullptr ? text->id.c_str() : nullptr;
}

const char* ecmv_codec_summary(size_t number) {
  const CodecText* text = nullptr;
  return guarded([&] { text = codec_text(number); }) == ECMV_OK && text != nullptr ? text->summary.c_str() : nullptr;
}

ecmv_status ecmv_load_codec_library(const char* file) {
  return guarded([&] {
    const std::unique_lock lock(registry_mutex);
    if (file == nullptr)
      codecs::load_codecs_of_environment();
    else
      codecs::load_codec_library(file);
  });
}

ecmv_status ecmv_encode(const char* codec, const char* settings, const char* element_type, int64_t rows, int64_t cols,
                        const void* elements, ecmv_compressed_matrix** matrix) {
  if (matrix != nullptr) *matrix = nullptr;
  return guarded([&] {
    need(matrix, "matrix");
    const codecs::CodecEntry& entry = codec_entry(&given(codec, "codec"));
    const backends::Settings resolved = ecmv::library::parse_settings(entry, settings == nullptr ? "" : settings);
    const datasets::MatrixView view = array_view(&given(element_type, "element_type"), rows, cols, elements);
    auto made = std::make_unique<ecmv_compressed_matrix>();
    made->entry = &entry;
    made->matrix = ecmv::library::encode_and_compare(entry, view, resolved);
    *matrix = made.release();
  });
}

void ecmv_free_matrix(ecmv_compressed_matrix* matrix) { delete matrix; }

ecmv_status ecmv_sizes_of(const ecmv_compressed_matrix* matrix, ecmv_sizes* sizes) {
  return guarded([&] {
    const backends::CompressedMatrix& compressed = given(matrix, "matrix").matrix;
    const size_t bytes = given(sizes, "sizes").struct_bytes;
    if (bytes < kFirstSizesBytes)
      throw Failure(ECMV_INVALID_ARGUMENT,
                    "The field struct_bytes of the sizes is " + std::to_string(bytes) + ", not sizeof(ecmv_sizes).");
    ecmv_sizes all = {};
    all.payload = compressed.stored_bytes(backends::Role::payload);
    all.table = compressed.stored_bytes(backends::Role::table);
    all.index = compressed.stored_bytes(backends::Role::index);
    all.scale = compressed.stored_bytes(backends::Role::scale);
    all.padding = compressed.padding_bytes();
    all.stored = compressed.stored_bytes();
    const int64_t elements = compressed.shape.elements();
    if (elements > 0) all.bits_per_element = 8.0 * static_cast<double>(all.stored) / static_cast<double>(elements);
    // Fill in only the fields that the caller knows, and set the caller's further fields to 0.
    std::memset(sizes, 0, bytes);
    std::memcpy(sizes, &all, std::min(bytes, sizeof(all)));
    sizes->struct_bytes = bytes;
  });
}

ecmv_status ecmv_decode(const ecmv_compressed_matrix* matrix, void* out, size_t out_bytes) {
  return guarded([&] {
    const backends::CompressedMatrix& compressed = given(matrix, "matrix").matrix;
    matrix->entry->codec->decode(compressed.view(),
                                 output(out, out_bytes, compressed.shape, datasets::element_bytes(compressed.type)));
  });
}

ecmv_status ecmv_open(const char* backend, int threads, int device, ecmv_context** context) {
  if (context != nullptr) *context = nullptr;
  return guarded([&] {
    need(context, "context");
    if (threads < 0 || threads > kMaxThreads)
      throw Failure(ECMV_INVALID_ARGUMENT, "Threads are 1 to " + std::to_string(kMaxThreads) + ", or 0 for all, not " +
                                               std::to_string(threads) + ".");
    backends::DeviceRequest request;
    request.threads = threads;
    request.index = device;
    const std::scoped_lock lock(gpu_mutex);
    auto made = std::make_unique<ecmv_context>();
    made->devices = open_devices(backend == nullptr ? "best" : backend, request);
    *context = made.release();
  });
}

void ecmv_close(ecmv_context* context) {
  if (context == nullptr) return;
  const auto lock = lock_gpu(context->devices);
  delete context;
}

ecmv_status ecmv_tuned_settings(const ecmv_context* context, const char* file, const char* op, const char* codec,
                                const char* settings, const char* element_type, int64_t rows, int64_t cols, char* found,
                                size_t found_bytes) {
  return guarded([&] {
    const auto& devices = given(context, "context").devices;
    const codecs::CodecEntry& entry = codec_entry(&given(codec, "codec"));
    const backends::Settings asked = ecmv::library::parse_settings(entry, settings == nullptr ? "" : settings);
    const std::string wanted = &given(op, "op");
    if (std::ranges::find(backends::kOpNames, wanted) == std::end(backends::kOpNames))
      throw Failure(ECMV_INVALID_ARGUMENT, "There is no op '" + wanted + "'; there are decode, matvec and matmul.");
    need(file, "file");
    need(found, "found");
    const std::string type(datasets::element_type_name(::element_type(&given(element_type, "element_type"))));
    std::string text;
    for (const auto& device : devices) {  // of `best`, those of the first that the file knows
      const backends::DeviceInfo& info = device->info();
      text = ecmv::library::tuned_settings(file, {info.backend, info.name, wanted, type, {rows, cols}}, entry, asked);
      if (ecmv::library::parse_settings(entry, text) != asked) break;
    }
    if (text.size() >= found_bytes)
      throw Failure(ECMV_INVALID_ARGUMENT, "The settings take " + std::to_string(text.size() + 1) + " bytes.");
    std::memcpy(found, text.c_str(), text.size() + 1);
  });
}

ecmv_status ecmv_prepare_matvec(const ecmv_context* context, const ecmv_compressed_matrix* matrix, ecmv_pass** pass) {
  return prepare(context, matrix, backends::Op::matvec, 1, pass);
}

ecmv_status ecmv_prepare_matmul(const ecmv_context* context, const ecmv_compressed_matrix* matrix, int batch,
                                ecmv_pass** pass) {
  return prepare(context, matrix, backends::Op::matmul, batch, pass);
}

ecmv_status ecmv_prepare_decode(const ecmv_context* context, const ecmv_compressed_matrix* matrix, ecmv_pass** pass) {
  return prepare(context, matrix, backends::Op::decode, 1, pass);
}

ecmv_status ecmv_run_matvec(ecmv_pass* pass, const int8_t* x, int32_t* y) {
  return guarded([&] {
    const datasets::Shape shape = given(pass, "pass").shape;
    run(*pass, backends::Op::matvec, checked(x, shape.cols, y, shape.rows),
        [&](backends::Pass& done) { copy_out(done.accumulators(0), y); });
  });
}

ecmv_status ecmv_run_matmul(ecmv_pass* pass, const float* x, float* y) {
  return guarded([&] {
    const datasets::Shape shape = given(pass, "pass").shape;
    run(*pass, backends::Op::matmul, checked(x, pass->batch * shape.cols, y, pass->batch * shape.rows),
        [&](backends::Pass& done) { copy_out(done.products(0), y); });
  });
}

ecmv_status ecmv_run_decode(ecmv_pass* pass, void* out, size_t out_bytes) {
  return guarded([&] {
    const std::span<std::byte> place = output(out, out_bytes, given(pass, "pass").shape, pass->element_bytes);
    run(*pass, backends::Op::decode, {}, [&](backends::Pass& done) { copy_out(done.decoded(), place.data()); });
  });
}

const char* ecmv_pass_kernel(const ecmv_pass* pass) { return pass == nullptr ? "" : pass->kernel.c_str(); }

void ecmv_free_pass(ecmv_pass* pass) {
  if (pass == nullptr) return;
  const auto lock = lock_gpu(pass->devices);
  delete pass;
}

}  // extern "C"

// See product.h.
#include "experiments/library/product/product.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "backends/activations.h"
#include "backends/exact_product.h"
#include "backends/kernel_order.h"
#include "backends/pass/pass_memory.h"
#include "backends/pass/rounding_limits.h"
#include "experiments/library/product/measured_choice.h"

namespace ecmv::library {
namespace {

using backends::Activations;
using backends::Op;

// Every number of tokens up to 8 has a kernel of its own; above, they are rounded up to multiples of 8, from 64 on to
// powers of two, and from 256 on, where a BLAS takes longer for each token more, also to one and a half times these.
std::vector<int> batches_up_to(int64_t max_tokens) {
  constexpr int kEach = 8, kStep = 8, kLastPower = 256;
  const auto most = static_cast<int>(std::min<int64_t>(max_tokens, backends::kMostTokens));
  const auto after = [](int batch) {
    if (batch < backends::kMaxBatch) return batch + (batch < kEach ? 1 : kStep);
    if (batch < kLastPower) return 2 * batch;
    return std::has_single_bit(static_cast<unsigned>(batch)) ? batch / 2 * 3 : batch / 3 * 4;
  };
  std::vector<int> batches;
  for (int batch = 1; batch < most; batch = after(batch)) batches.push_back(batch);
  batches.push_back(most);
  return batches;
}

// Memory for more than 64 tokens at once is at most this part of the device's: a prompt is no reason to give back what
// coding has saved.
constexpr int64_t kPartOfMemory = 256;

// The codec's reference decoder as a kernel: one block, so one thread.
struct ReferenceDecode {
  const codecs::Codec* codec;
  const backends::CompressedView* matrix;
  void operator()(void*, const backends::DecodeArgs& args) const {
    codec->decode(*matrix, {args.out, static_cast<size_t>(backends::matrix_bytes(*matrix))});
  }
};

// A kernel that reads the matrix again for each so many tokens wins nothing by more of them than by parts, whose sums
// take less memory: by their sizes 0.29 GB less of the 0.91 of Llama 3 8B, whose head had memory for 1024 tokens.
int most_fused(const backends::Kernel& kernel) {
  if (kernel.tokens_at_once == 0) return kernel.most_tokens;
  return std::min(kernel.most_tokens, std::max(kernel.tokens_at_once, backends::kMaxBatch));
}

int64_t bytes_of_numbers(int64_t count, int64_t stride, int64_t length, Activations type) {
  return ((count - 1) * stride + length) * backends::bytes_of(type);
}

}  // namespace

// --- binding ---------------------------------------------------------------------------------------------

Product::Product(std::shared_ptr<Workspace> workspace, PlacedMatrix matrix, ProductRequest request)
    : workspace_(std::move(workspace)),
      matrix_(std::move(matrix)),
      entry_(*matrix_.entry),
      view_(&matrix_.view),
      request_(std::move(request)) {
  backends::Device& device = *workspace_->engines.front().device;
  if (request_.bias != nullptr) {
    expect_aligned(request_.bias, backends::bytes_of(request_.y), "The bias");
    expect_usable(request_.bias, view_->shape.rows * backends::bytes_of(request_.y), "The bias");
  }
  for (const int batch : batches_up_to(request_.max_tokens))
    if (auto part = bind_part(batch)) parts_.push_back(std::move(part));
  piece_ = workspace_->piece_for(needs());
  if (is_gpu(device)) run_all_once();
}

Product::~Product() { wait(); }

// --- kernels ---------------------------------------------------------------------------------------------

std::string Product::Candidate::name() const {
  return engine->device->info().backend + "/" + std::string(backends::op_name(kernel->op)) + "/" +
         std::string(kernel->variant) + "/" + std::string(policy->name) + (kernel->op == Op::matmul ? "" : ", unfused");
}

// In the order in which a kernel is taken where nothing is measured; of several devices, which are backends of one CPU,
// fused kernels come before decoders. With more than 64 tokens only a BLAS pays for decoding the whole matrix.
std::vector<Product::Candidate> Product::candidates(int batch) {
  std::vector<Candidate> all;
  for (Engine& engine : workspace_->engines) {
    engine.executor->select();
    const backends::DeviceInfo& info = engine.device->info();
    const bool blas = backends::multiplies_by_blas(*engine.executor, *view_, false, request_.x);
    const int most_decoded = blas ? engine.executor->most_decoded_tokens() : backends::kMaxBatch;
    const backends::WantedKernel wanted{.batch = batch, .tokens = request_.x, .widens = true, .blas = blas};
    for (const auto& [kernel, policy] : kernels_in_order(entry_.kernels(info.backend), *view_, info, wanted))
      if (batch <= (kernel->op == Op::matmul ? most_fused(*kernel) : most_decoded))
        all.push_back({&engine, kernel, policy});
  }
  // Where fewer tokens were multiplied best by decoding the matrix, more are, too, and in parts where memory does not
  // last: 4096 tokens of 28672 x 4096 took 3.6 ms by fused kernels and 1.6 ms in two parts (H200).
  if (!parts_.empty() && parts_.back()->is_unfused)
    std::erase_if(all, [](const Candidate& one) { return one.kernel->op == Op::matmul; });
  if (workspace_->engines.size() > 1)
    std::ranges::stable_partition(all, [](const Candidate& one) { return one.kernel->op == Op::matmul; });
  return all;
}

// nullptr: so many tokens are multiplied in parts. One at least has a part; on CPUs the reference decoder comes last.
std::unique_ptr<Product::Part> Product::bind_part(int batch) {
  const std::vector<Candidate> all = candidates(batch);
  const bool emulated = workspace_->engines.front().device->info().emulated;  // its times say nothing
  std::unique_ptr<Part> part =
      request_.measure && !emulated && view_->shape.elements() > 0 ? fastest_part(all, batch) : first_part(all, batch);
  if (part != nullptr || !parts_.empty()) return part;
  if (workspace_->engines.front().executor->runs_host_code()) return reference_part(batch);
  throw Failure(ECMV_REFUSED, !first_reason_.empty()
                                  ? first_reason_
                                  : "The codec '" + std::string(entry_.id) + "' has no kernel for it on the backend '" +
                                        workspace_->engines.front().device->info().backend + "'.");
}

std::unique_ptr<Product::Part> Product::first_part(const std::vector<Candidate>& candidates, int batch) {
  for (const Candidate& candidate : candidates)
    if (auto part = try_candidate(candidate, batch)) return part;
  return nullptr;
}

std::unique_ptr<Product::Part> Product::fastest_part(const std::vector<Candidate>& candidates, int batch) {
  const std::string key = key_of(batch), known = known_fastest(key);
  for (const Candidate& candidate : candidates)
    if (!known.empty() && candidate.name() == known)
      if (auto part = try_candidate(candidate, batch)) return part;
  std::unique_ptr<Part> fastest;
  double least = 0;
  for (const Candidate& candidate : candidates) try {
      auto part = try_candidate(candidate, batch);
      if (part == nullptr) continue;
      const double seconds = measured_seconds(*part);
      if (fastest == nullptr || seconds < least) fastest = std::move(part), least = seconds;
    } catch (const backends::OutOfMemory&) {
      // Decoders need the whole matrix as scratch. There may be others.
    }
  if (fastest != nullptr) keep_fastest(key, fastest->kernel);
  return fastest;
}

std::string Product::key_of(int batch) const {
  const backends::Device& device = *workspace_->engines.front().device;
  std::string key = std::string(device.memory()) + "|" + device.info().backend;
  for (const Engine& engine : workspace_->engines)
    key += "|" + engine.device->info().name + " " + std::to_string(engine.device->info().threads);
  return key + "|" + std::string(entry_.id) + "|" + matrix_.settings->to_string() + "|" +
         std::string(datasets::element_type_name(view_->type)) + "|" + std::to_string(view_->shape.rows) + "|" +
         std::to_string(view_->shape.cols) + "|" + std::string(backends::activations_name(request_.x)) + "|" +
         std::to_string(batch);
}

double Product::measured_seconds(const Part& part) {
  const std::shared_ptr<Workspace::Piece> piece = workspace_->make_piece(needs_of(part));
  part.engine->executor->set_scratch(piece->scratch_places);
  const double seconds =
      seconds_of(part.product, product_args(part, *piece), view_->shape.rows, *part.engine->executor);
  part.engine->executor->wait();
  return seconds;
}

std::unique_ptr<Product::Part> Product::try_candidate(const Candidate& candidate, int batch) {
  const auto& [engine, kernel, policy] = candidate;
  std::string reason = kernel->refuses(*view_, engine->device->info(), *policy);
  if (reason.empty()) try {
      auto part = std::make_unique<Part>();
      part->batch = batch;
      part->engine = engine;
      part->place = std::make_unique<backends::PassPlace>(*engine->executor);
      part->place->begin(1);
      part->kernel = candidate.name();
      const backends::Layer layer{.matrix = view_};
      engine->executor->select();
      const backends::BoundKernel bound =
          kernel->bind(*policy, {&layer, 1}, kernel->op == Op::matmul ? batch : 1, *part->place);
      if (kernel->op == Op::matmul) reason = backends::why_too_loose(bound.facts.rounding, *view_, kernel->activations);
      if (reason.empty() && !bound.facts.capturable && !engine->device->info().emulated)
        reason = "The kernel's launches cannot be captured in a graph.";
      if (reason.empty()) {
        part->activations = kernel->activations;
        part->is_unfused = kernel->op == Op::decode;
        (kernel->op == Op::matmul ? part->product : part->decode) = bound;
        if (kernel->op == Op::decode) multiply_decoded(*part);
        if (is_affordable(*part)) return part;
        reason = "There is not enough memory for so many tokens at once.";
      }
    } catch (const backends::Refused& refused) {
      reason = refused.what();
    }
  if (first_reason_.empty()) first_reason_ = reason;
  return nullptr;
}

std::unique_ptr<Product::Part> Product::reference_part(int batch) {
  auto part = std::make_unique<Part>();
  part->batch = batch;
  part->engine = &workspace_->engines.front();
  part->decode = backends::BoundKernel(ReferenceDecode{entry_.codec, view_},
                                       {.rows_per_block = std::max<int64_t>(1, view_->shape.rows)});
  part->kernel = part->engine->device->info().backend + "/reference";
  part->engine->executor->select();
  multiply_decoded(*part);
  return part;
}

void Product::multiply_decoded(Part& part) {
  backends::Executor& executor = *part.engine->executor;
  part.activations = executor.decoded_activations(*view_, false, request_.x);
  part.product = executor.multiply_decoded(Op::matmul, part.decode, *view_, {}, request_.x, part.batch);
}

Workspace::Needs Product::needs_of(const Part& part) const {
  const auto [rows, cols] = view_->shape;
  const int64_t token = backends::token_stride(cols, part.activations) * backends::bytes_of(part.activations);
  return {.tokens = part.batch * token,
          .sums = part.batch * rows * static_cast<int64_t>(sizeof(float)),
          .scratch = part.product.facts.scratch_bytes};
}

bool Product::is_affordable(const Part& part) const {
  const int64_t memory = part.engine->device->info().memory_bytes;
  const Workspace::Needs needs = needs_of(part);
  return part.batch <= backends::kMaxBatch || memory == 0 ||
         needs.tokens + needs.sums + needs.scratch <= memory / kPartOfMemory;
}

Workspace::Needs Product::needs() const {
  Workspace::Needs most;
  for (const auto& part : parts_) most = most.with(needs_of(*part));
  return most;
}

// --- calls -----------------------------------------------------------------------------------------------

// A device loads a kernel when it is first launched, which must not be inside a capture. The product's own memory
// stands in for the caller's; it is as large, and what it holds means nothing. Other kernels run where tokens and
// products need not be brought from place to place. A BLAS takes the same kernels for all matrices of a shape, so only
// the first one runs all of those.
void Product::run_all_once() {
  if (view_->shape.rows == 0) return;
  bool decodes = false;
  for (const auto& part : parts_) {
    const bool has_decoded = std::exchange(decodes, decodes || part->is_unfused);
    if (part->is_unfused && !workspace_->is_first(key_of(part->batch) + part->kernel) && has_decoded) continue;
    for (const bool in_place : {true, false})
      enqueue_part(*part, nullptr, {piece_->tokens->data(), view_->shape.cols}, in_place ? part->batch : 1,
                   {piece_->sums->data(), view_->shape.rows}, in_place);
  }
  workspace_->engines.front().executor->wait();
}

const Product::Part& Product::part_for(int64_t tokens) const {
  return **std::ranges::find_if(parts_, [&](const auto& part) { return part->batch >= tokens; });
}

const char* Product::kernel(int64_t tokens) const {
  if (tokens < 1 || tokens > request_.max_tokens) return nullptr;
  return part_for(std::min<int64_t>(tokens, parts_.back()->batch)).kernel.c_str();
}

void Product::expect_usable(const std::byte* place, int64_t bytes, const std::string& what) const {
  const std::string why = workspace_->engines.front().executor->why_unusable(place, bytes, what);
  if (!why.empty()) throw Failure(ECMV_INVALID_ARGUMENT, why);
}

void Product::expect_call(const Tokens& x, int64_t tokens, const Tokens& y) const {
  const auto [rows, cols] = view_->shape;
  if (tokens < 1 || tokens > request_.max_tokens)
    throw Failure(ECMV_INVALID_ARGUMENT, "The product was bound for 1 to " + std::to_string(request_.max_tokens) +
                                             " tokens, not for " + std::to_string(tokens) + ".");
  static const std::string kX = "The argument 'x'", kY = "The argument 'y'";  // a call allocates nothing
  const auto expect = [&](const Tokens& numbers, int64_t length, Activations type, const std::string& who) {
    if (numbers.stride < length || numbers.stride > kMaxSide)
      throw Failure(ECMV_INVALID_ARGUMENT, who + " has a stride of " + std::to_string(numbers.stride) +
                                               ", and a token has " + std::to_string(length) + " elements.");
    if (tokens * numbers.stride > kMaxElements)
      throw Failure(ECMV_INVALID_ARGUMENT, who + " would have more elements than any memory.");
    if (length == 0) return int64_t{0};
    if (numbers.place == nullptr) throw Failure(ECMV_INVALID_ARGUMENT, who + " is NULL.");
    expect_aligned(numbers.place, backends::bytes_of(type), who);
    const int64_t bytes = bytes_of_numbers(tokens, numbers.stride, length, type);
    expect_usable(numbers.place, bytes, who);
    return bytes;
  };
  const int64_t x_bytes = expect(x, cols, request_.x, kX), y_bytes = expect(y, rows, request_.y, kY);
  if (x_bytes > 0 && y_bytes > 0 && x.place < y.place + y_bytes && y.place < x.place + x_bytes)
    throw Failure(ECMV_INVALID_ARGUMENT, "The arguments 'x' and 'y' overlap.");
}

void Product::enqueue(void* stream, Tokens x, int64_t tokens, Tokens y) {
  expect_call(x, tokens, y);
  const int64_t most = parts_.back()->batch;
  for (int64_t first = 0; first < tokens && view_->shape.rows > 0; first += most) {
    const int64_t count = std::min(most, tokens - first);
    enqueue_part(part_for(count), stream, {x.place + first * x.stride * backends::bytes_of(request_.x), x.stride},
                 static_cast<int>(count), {y.place + first * y.stride * backends::bytes_of(request_.y), y.stride});
  }
}

backends::MatmulArgs Product::product_args(const Part& part, const Workspace::Piece& piece) const {
  const std::byte* const tokens = piece.tokens->data();
  const bool is_f32 = part.activations == Activations::f32;
  return {.x = is_f32 ? reinterpret_cast<const float*>(tokens) : nullptr,
          .x_bf16 = is_f32 ? nullptr : reinterpret_cast<const uint16_t*>(tokens),
          .x_stride = backends::token_stride(view_->shape.cols, part.activations),
          .y = reinterpret_cast<float*>(piece.sums->data()),
          .y_stride = view_->shape.rows};
}

// Does the kernel multiply just so many tokens? A BLAS does not: for another number it may take a kernel that would be
// loaded inside a capture.
bool Product::takes(const Part& part, int tokens) {
  return tokens == part.batch || part.product.facts.takes_fewer_tokens;
}

// Does the kernel read the tokens where the caller has them?
bool Product::reads_in_place(const Part& part, Tokens x, int tokens) const {
  constexpr int64_t kMultiple = backends::kTokenMultiple;
  return part.product.facts.takes_callers_tokens && part.activations == Activations::bf16 &&
         request_.x == Activations::bf16 && takes(part, tokens) && view_->shape.cols % kMultiple == 0 &&
         (tokens == 1 ||
          (x.stride % kMultiple == 0 && x.stride <= std::numeric_limits<int>::max())) &&  // as a BLAS counts
         reinterpret_cast<uintptr_t>(x.place) % static_cast<uintptr_t>(kMultiple * backends::bytes_of(request_.x)) == 0;
}

// Does the kernel store the products where the caller wants them?
bool Product::stores_in_place(const Part& part, int tokens, Tokens y) const {
  return part.product.facts.stores_bf16 && request_.y == Activations::bf16 && request_.bias == nullptr &&
         takes(part, tokens) && (tokens == 1 || y.stride == view_->shape.rows);
}

// A kernel that takes no fewer tokens than it was bound for multiplies what an earlier call left as well. Launches that
// bring tokens and products from place to place are left out where the kernel can do without them.
void Product::enqueue_part(const Part& part, void* stream, Tokens x, int tokens, Tokens y, bool in_place) {
  const auto [rows, cols] = view_->shape;
  backends::MatmulArgs args = product_args(part, *piece_);
  std::array<backends::Step, 3> steps;
  size_t count = 0;
  args.tokens = part.product.facts.takes_fewer_tokens ? tokens : 0;
  if (in_place && reads_in_place(part, x, tokens))
    args.x_bf16 = reinterpret_cast<const uint16_t*>(x.place), args.x_stride = tokens == 1 ? cols : x.stride;
  else
    steps[count++] = backends::LoadTokens{x.place,          request_.x,    x.stride, piece_->tokens->data(),
                                          part.activations, args.x_stride, cols,     tokens};
  const bool stores = in_place && stores_in_place(part, tokens, y);
  std::byte* const to = const_cast<std::byte*>(y.place);
  if (stores) args.y_bf16 = reinterpret_cast<uint16_t*>(to);
  steps[count++] = backends::Enqueue{&part.product, rows, 0, args};
  if (!stores)
    steps[count++] =
        backends::StoreProducts{&part.product, rows, tokens, args.y, request_.bias, request_.y, to, y.stride};
  part.engine->executor->set_scratch(piece_->scratch_places);
  try {
    part.engine->executor->enqueue_on(stream, std::span(steps).first(count));
  } catch (const std::invalid_argument& error) {  // a stream where there are none
    throw Failure(ECMV_INVALID_ARGUMENT, error.what());
  }
}

}  // namespace ecmv::library

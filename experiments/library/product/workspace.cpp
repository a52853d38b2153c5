// See workspace.h.
#include "experiments/library/product/workspace.h"

namespace ecmv::library {

int64_t Workspace::Piece::bytes() const {
  int64_t all = tokens->size() + sums->size();
  for (const auto& buffer : scratch) all += buffer->size();
  return all;
}

Workspace::Workspace(Devices of) : devices(std::move(of)), readers(devices) {
  for (const auto& device : devices) engines.emplace_back(device);
}

std::shared_ptr<Workspace::Piece> Workspace::piece_for(const Needs& needs) {
  const Needs size = last_ == nullptr ? needs : last_->size.with(needs);
  return last_ != nullptr && size == last_->size ? last_ : last_ = make_piece(size);
}

std::shared_ptr<Workspace::Piece> Workspace::make_piece(const Needs& size) {
  backends::Executor& executor = *engines.front().executor;
  auto piece = std::make_shared<Piece>();
  piece->size = size;
  piece->tokens = executor.allocate(size.tokens, "the tokens");
  piece->sums = executor.allocate(size.sums, "the products");
  for (int worker = 0; worker < executor.workers(); ++worker) {
    piece->scratch.push_back(executor.allocate(size.scratch, "the scratch"));
    piece->scratch_places.push_back(piece->scratch.back()->data());
  }
  return piece;
}

void Workspace::wait() {
  for (Engine& engine : engines) try {
      engine.executor->wait();
    } catch (const std::exception&) {
      // A lost device has nothing left to wait for, and the caller's synchronisation tells the loss.
    }
}

void expect_aligned(const std::byte* place, int64_t alignment, const std::string& what) {
  if (reinterpret_cast<uintptr_t>(place) % static_cast<uintptr_t>(alignment) != 0)
    throw Failure(ECMV_INVALID_ARGUMENT, what + " is not aligned to " + std::to_string(alignment) + " bytes.");
}

}  // namespace ecmv::library

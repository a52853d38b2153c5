// See checked_memory.h. Ranges never overlap, so only the last one that begins at or before an address can hold it.
#include "backends/emulator/checked_memory.h"

#include <map>
#include <memory>

#include "backends/emulator/block_runner.h"

namespace ecmv::backends::emulator {
namespace {

using Ranges = std::map<const std::byte*, std::unique_ptr<MemoryRange>>;

Ranges& ranges() {
  static Ranges all;
  return all;
}

}  // namespace

void name_range(const std::byte* data, int64_t bytes, const std::string& name, const uint8_t* in_flight) {
  ranges()[data] = std::make_unique<MemoryRange>(MemoryRange{data, bytes, name, in_flight});
}

void forget_range(const std::byte* data) { ranges().erase(data); }

const MemoryRange* find_range(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  auto next = ranges().upper_bound(byte);
  if (next == ranges().begin()) return nullptr;
  const MemoryRange* range = std::prev(next)->second.get();
  return byte <= range->begin + range->bytes ? range : nullptr;
}

void refuse_access(const MemoryRange* range, const void* address, size_t bytes) {
  if (range == nullptr) fault("an access of " + std::to_string(bytes) + " bytes through a pointer into no buffer.");
  const int64_t offset = static_cast<const std::byte*>(address) - range->begin;
  if (offset >= 0 && offset + static_cast<int64_t>(bytes) <= range->bytes)
    fault("a misaligned access of " + std::to_string(bytes) + " bytes at byte " + std::to_string(offset) + " of " +
          range->name + ".");
  fault("an access of " + std::to_string(bytes) + " bytes at byte " + std::to_string(offset) + " of " + range->name +
        ", which has " + std::to_string(range->bytes) + " bytes.");
}

void refuse_in_flight(const MemoryRange* range, const void* address, size_t bytes) {
  fault("an access of " + std::to_string(bytes) + " bytes at byte " +
        std::to_string(static_cast<const std::byte*>(address) - range->begin) + " of " + range->name +
        ", to which an asynchronous copy is under way.");
}

}  // namespace ecmv::backends::emulator

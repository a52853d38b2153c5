// Records which function of a loaded codec each thread is in, so that a report of a crash, an exit or an endless call
// can name the codec.
#pragma once

#include <cstdint>

#include "backends/cpu/foreign/surroundings.h"
#include "codecs/loaded/tables.h"

namespace ecmv::codecs::loaded {

// While it lives, this thread counts as being in that function of that codec, for a matrix of rows x cols. `function`
// is a constant; `variant` is the kernel's, null for functions of the codec. It costs a few stores.
class Call {
 public:
  Call(const CodecTables& tables, const char* function, int64_t rows, int64_t cols, const char* variant = nullptr);
  Call(const Call&) = delete;
  ~Call();
};

// The same around a call outside the clock: whatever else the function changes is as before afterwards.
class CarefulCall {
 public:
  template <typename... Args>
  explicit CarefulCall(const Args&... args) : call_(args...) {}

 private:
  backends::cpu::Surroundings kept_;
  Call call_;
};

}  // namespace ecmv::codecs::loaded

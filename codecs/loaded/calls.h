// Records which function of a loaded codec each thread is in, so that a report of a crash, an exit or an endless call
// can name the codec.
#pragma once

#include <cstdint>

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

}  // namespace ecmv::codecs::loaded

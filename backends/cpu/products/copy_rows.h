// The decode kernel on CPUs for elements that are stored unchanged.
#pragma once

#include <cstring>

#include "backends/kernel.h"

namespace ecmv::backends::cpu {

// `elements` [rows, cols] row-major, `row_bytes` bytes from row to row; host memory.
struct CopyRows {
  const std::byte* elements;
  int64_t row_bytes;
  void operator()(void*, const DecodeArgs& args) const {
    if (const int64_t bytes = args.rows.count() * row_bytes; bytes > 0)
      std::memcpy(args.out, elements + args.rows.begin * row_bytes, static_cast<size_t>(bytes));
  }
};

}  // namespace ecmv::backends::cpu

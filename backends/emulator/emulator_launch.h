// The emulator's half of backends/gpu/launch.h.
#pragma once

#include <tuple>

#include "backends/emulator/block_runner.h"
#include "backends/emulator/emulator_api.h"

#define ECMV_GPU_KERNEL
#define ECMV_GPU_DEVICE inline
#define ECMV_GPU_BOTH inline
#define ECMV_GPU_BOUNDS(threads, blocks)
#define ECMV_GPU_GRID_CONSTANT
#define ECMV_GPU_UNROLL
#define ECMV_GPU_NO_UNROLL

namespace ecmv::backends::emulator {

struct LaunchShape {
  int64_t grid = 1;
  int block = 1;
  int64_t shared_bytes = 0;
  bool early = false;  // here kernels never overlap
  bool together = false;
  int cluster = 1;
  bool in_order = false;
};
inline void let_next_begin() {}
inline void wait_for_previous() {}

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), LaunchShape shape, void* stream, Arguments... arguments) {
  if (shape.grid <= 0) return;
  const std::tuple<Parameters...> parameters{static_cast<Parameters>(arguments)...};
  Grid grid;
  grid.blocks = shape.grid;
  grid.threads = shape.block;
  grid.shared_bytes = shape.shared_bytes;
  grid.together = shape.together;
  grid.cluster = shape.cluster;
  grid.in_order = shape.in_order;
  static_cast<Stream*>(stream)->run(grid, [&] { std::apply(kernel, parameters); });
}

inline void sync_block(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  meet({"sync_block", file, line, kWholeBlock}, 0);
}

inline void sync_first_threads(int threads, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  meet({"sync_first_threads", file, line, -threads - 1}, 0);
}

}  // namespace ecmv::backends::emulator

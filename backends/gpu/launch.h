// Starts a kernel, in the same way on CUDA, HIP and the emulator:
//   gpu::launch(kernel, {grid, block, shared_bytes}, call.stream, arguments...)
// A kernel is `template <...> ECMV_GPU_KERNEL void name(parameters)`. Parameters are numbers, pointers
// (gpu::Pointer<T>) or structs of those. If a launch fails, the next wait for the stream shows it.
#pragma once

#include <cstdint>

#include "backends/gpu/early_launches.h"

#if defined(ECMV_GPU_EMULATOR)
#include "backends/emulator/emulator_launch.h"
#else

#define ECMV_GPU_KERNEL __global__
#define ECMV_GPU_DEVICE __device__ __forceinline__
#define ECMV_GPU_BOTH __host__ __device__ __forceinline__
// At most `threads` a block. On CUDA nvcc also chooses registers so that `blocks` blocks fit on a multiprocessor.
#if defined(__HIP__)
#define ECMV_GPU_BOUNDS(threads, blocks) __launch_bounds__(threads)
#else
#define ECMV_GPU_BOUNDS(threads, blocks) \
  __launch_bounds__(threads, ::ecmv::backends::ECMV_GPU_NAMESPACE::blocks_that_fit(threads, blocks))
#endif
// A parameter that is only read. It stays in parameter memory although it is indexed.
#if defined(__HIP__)
#define ECMV_GPU_GRID_CONSTANT
#else
#define ECMV_GPU_GRID_CONSTANT __grid_constant__
#endif
#define ECMV_GPU_UNROLL _Pragma("unroll")
#define ECMV_GPU_NO_UNROLL _Pragma("unroll 1")

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// `blocks`, but no more than the threads of the architecture being compiled for allow.
constexpr int blocks_that_fit(int threads, int blocks) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
  constexpr int kThreads = 1024;
#elif defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
  constexpr int kThreads = 1536;
#else
  constexpr int kThreads = 2048;
#endif
  return blocks * threads <= kThreads ? blocks : kThreads / threads;
}

struct LaunchShape {
  int64_t grid = 1;  // thread blocks; 0 launches nothing
  int block = 1;     // of each block
  int64_t shared_bytes = 0;
  // The kernel may begin while the one before it in the stream still runs, if that one has called let_next_begin() in
  // all its blocks. It must call wait_for_previous() in every thread before it touches memory that another kernel reads
  // or writes. Only devices that have_early_launches(); elsewhere it begins as usual.
  bool early = false;
  // All blocks run at the same time, so they may wait for each other (exchange.h). This is a cooperative launch, which
  // fails if the blocks do not all fit on the device at once. Not together with `early`.
  bool together = false;
  // Blocks in a cluster (cluster.h); `grid` is a multiple of it. Only devices that have_clusters().
  int cluster = 1;
  // Blocks may wait for blocks of lower numbers (exchange.h). No device promises that those begin first, but all that
  // are known do. The emulator begins all other blocks in a shuffled order.
  bool in_order = false;
};

// A kernel must ask for more dynamic shared memory than this.
inline constexpr int64_t kUnaskedSharedBytes = int64_t{48} << 10;

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), LaunchShape shape, void* stream, Arguments... arguments) {
  if (shape.grid <= 0) return;
  auto body = [&](Parameters... parameters) {
    void* addresses[] = {&parameters..., nullptr};
    const void* function = reinterpret_cast<const void*>(kernel);
    // The next Stream::synchronize() finds the error of either call.
    if (shape.shared_bytes > kUnaskedSharedBytes)
      (void)ECMV_GPU_API(FuncSetAttribute)(function, ECMV_GPU_API(FuncAttributeMaxDynamicSharedMemorySize),
                                           static_cast<int>(shape.shared_bytes));
#if defined(ECMV_GPU_CUDA)
    cudaLaunchAttribute attributes[3] = {};
    unsigned count = 0;
    if (shape.together) {
      attributes[count].id = cudaLaunchAttributeCooperative;
      attributes[count++].val.cooperative = 1;
    }
    if (shape.early) {
      attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (shape.cluster > 1) {
      attributes[count].id = cudaLaunchAttributeClusterDimension;
      attributes[count].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
      attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
      ++count;
    }
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(shape.grid));
    config.blockDim = dim3(static_cast<unsigned>(shape.block));
    config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
    config.stream = static_cast<StreamHandle>(stream);
    config.attrs = attributes;
    config.numAttrs = count;
    (void)cudaLaunchKernelExC(&config, function, addresses);
#else
    const dim3 grid(static_cast<unsigned>(shape.grid)), block(static_cast<unsigned>(shape.block));
    if (shape.together)
      (void)hipLaunchCooperativeKernel(function, grid, block, addresses, static_cast<unsigned>(shape.shared_bytes),
                                       static_cast<StreamHandle>(stream));
    else
      (void)hipLaunchKernel(function, grid, block, addresses, static_cast<size_t>(shape.shared_bytes),
                            static_cast<StreamHandle>(stream));
#endif
  };
  body(static_cast<Parameters>(arguments)...);
}

ECMV_GPU_DEVICE void let_next_begin() {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
ECMV_GPU_DEVICE void wait_for_previous() {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

ECMV_GPU_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
ECMV_GPU_DEVICE int block_size() { return static_cast<int>(blockDim.x); }
ECMV_GPU_DEVICE int64_t block_index() { return blockIdx.x; }
ECMV_GPU_DEVICE int64_t grid_size() { return gridDim.x; }
// A barrier for all threads of the block, which then see what the others wrote to memory.
ECMV_GPU_DEVICE void sync_block() { __syncthreads(); }
// A barrier for the block's first `threads` threads, whole waves; on AMD devices for all of the block.
ECMV_GPU_DEVICE void sync_first_threads(int threads) {
#if defined(__HIP__)
  __syncthreads();
#elif defined(__CUDA_ARCH__)
  asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
#endif
}
// Call it between two polls for another block's write; the emulator then runs the others.
ECMV_GPU_DEVICE void pause() {}
// The same for a write of another device.
ECMV_GPU_DEVICE void pause_for_peers() {}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

#endif  // !ECMV_GPU_EMULATOR

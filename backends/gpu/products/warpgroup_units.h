// Products of small matrices of bf16 by four lane groups (a warpgroup) together: A [64, 16] lies in their registers, 16
// rows each, B [16, 8 kTokenTiles] in shared memory, and sums are in float32. The matrix units of sm_90a ("wgmma") read
// B themselves, once for all four groups, and multiply twice as fast as one lane group's (token_units.h), which do it
// elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/products/token_units.h"

#if !defined(__HIP__) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ECMV_GPU_HAS_WARPGROUP_UNITS
#endif

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Whether the device that is being compiled for has them, or is emulated. Kernels that need them have no body
// elsewhere: packed_exponents took 103 s to compile for gfx90a, and takes 43 s without them.
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS) || defined(ECMV_GPU_EMULATOR)
inline constexpr bool kWarpgroupUnits = true;
#else
inline constexpr bool kWarpgroupUnits = false;
#endif

// Host code.
inline bool have_warpgroup_units(const DeviceInfo& device) {
#if defined(ECMV_GPU_EMULATOR)
  (void)device;
  return true;
#else
  return device.simd_target == "sm_90";
#endif
}

// Tokens in shared memory come in blocks of 64 columns, [tokens, 64]: 32 pairs of numbers a token, in parts of 16 bytes
// that change places from token to token, so that the same part of eight tokens lies in different banks. A block begins
// at a multiple of kBlockAlignment bytes of the address, not of the offset.
inline constexpr int kBlockCols = 64, kBlockTokenBytes = 2 * kBlockCols, kBlockAlignment = 8 * kBlockTokenBytes,
                     kWarpgroup = 4, kUnitCols = 16, kUnitsOfBlock = kBlockCols / kUnitCols;
ECMV_GPU_DEVICE int pair_place(int token, int pair) {
  return token * kBlockTokenBytes + ((pair / 4 ^ (token & 7)) * 16 + pair % 4 * 4);
}
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
ECMV_GPU_DEVICE uint32_t address_of_shared(const std::byte* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
#endif
// The first place for a block from `at` on; kBlockAlignment more bytes must be there.
ECMV_GPU_DEVICE Pointer<std::byte> first_block(Pointer<std::byte> at) {
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
  return at + static_cast<int>(-address_of_shared(at) & (kBlockAlignment - 1));
#elif defined(ECMV_GPU_EMULATOR)
  return at + static_cast<int>(-reinterpret_cast<uintptr_t>(at.address()) & (kBlockAlignment - 1));
#else
  return at;
#endif
}

// Orders this lane's writes to blocks before the matrix units' reads after a following barrier.
ECMV_GPU_DEVICE void order_before_units() {
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// Three fences: before products, once the registers of A and C are final; after products; and until they are done.
// Units read the registers of A long after the instruction, and nvcc takes them as free where a loop begins again, so
// code that multiplies must wait before the end of the loop's body. (H200, without that wait: one row in nine of
// raw_bf16 was wrong, always where the next step's rows had been loaded into registers that were still read.)
ECMV_GPU_DEVICE void begin_products() {
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
ECMV_GPU_DEVICE void commit_products() {
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Waits until at most the kPending groups of products committed last are unfinished.
template <int kPending = 0>
ECMV_GPU_DEVICE void wait_for_products() {
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}

// Gives a lane of all four lane groups this many registers, from now on.
template <int kRegisters, bool kMore>
ECMV_GPU_DEVICE void change_registers() {
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
  if constexpr (kMore)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// Blocks in shared memory, in the form that matrix units take: one addition for each product.
class SharedBlocks {
 public:
  explicit ECMV_GPU_DEVICE SharedBlocks(Pointer<const std::byte> first) : first_(first) {
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
    low_ = 1u << 16 | (address_of_shared(first) >> 4 & 0x3FFF);
#elif defined(ECMV_GPU_EMULATOR)
    if (reinterpret_cast<uintptr_t>(first.address()) % kBlockAlignment != 0)
      fault("a block of tokens begins at no multiple of " + std::to_string(kBlockAlignment) + " bytes.");
#endif
  }
  ECMV_GPU_DEVICE Pointer<const std::byte> first() const { return first_; }
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
  // Describes 16 columns of the block `bytes` further: the address, and the bytes from eight tokens to the next eight,
  // both in units of 16; parts change places over 128 bytes.
  ECMV_GPU_DEVICE uint64_t descriptor(int bytes, int unit) const {
    constexpr uint64_t kHigh = uint64_t{1} << 30 | kBlockAlignment / 16;
    return kHigh << 32 | (low_ + static_cast<uint32_t>(bytes + unit * 2 * kUnitCols) / 16);
  }
#endif

 private:
  Pointer<const std::byte> first_;
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
  uint32_t low_;
#endif
};

#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
// An instruction for 8 k tokens and its operands: 4 k sums, A, and the descriptor of B, numbered in this order.
#define ECMV_NUMBERS_4 "%0, %1, %2, %3"
#define ECMV_NUMBERS_8 ECMV_NUMBERS_4 ", %4, %5, %6, %7"
#define ECMV_NUMBERS_16 ECMV_NUMBERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define ECMV_NUMBERS_32 \
  ECMV_NUMBERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ECMV_NUMBERS_64                                                              \
  ECMV_NUMBERS_32                                                                    \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ECMV_NUMBERS_128                                                                                               \
  ECMV_NUMBERS_64                                                                                                      \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85"     \
  ", %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106"   \
  ", %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125" \
  ", %126, %127"
#define ECMV_SUMS(k) "+f"(c[k][0]), "+f"(c[k][1]), "+f"(c[k][2]), "+f"(c[k][3])
#define ECMV_SUMS4(k) ECMV_SUMS(k), ECMV_SUMS(k + 1), ECMV_SUMS(k + 2), ECMV_SUMS(k + 3)
#define ECMV_SUMS16(k) ECMV_SUMS4(k), ECMV_SUMS4(k + 4), ECMV_SUMS4(k + 8), ECMV_SUMS4(k + 12)
#define ECMV_MULTIPLY(tokens, numbers, a_and_b, ...)                                                    \
  asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.u32 p, 1, 1;\n\twgmma.mma_async.sync.aligned.m64n" tokens     \
               "k16.f32.bf16.bf16 {" numbers "}, " a_and_b ";\n\t}" : __VA_ARGS__
#endif

// C += A B, by all four lane groups: `a` as for multiply_tokens, B the columns 16 `unit` to 16 `unit` + 15 of the block
// `bytes` after the first, sums[k] as of multiply_tokens for tokens 8 k to 8 k + 7.
template <int kTokenTiles>
ECMV_GPU_DEVICE void multiply_block(uint4 a, const SharedBlocks& blocks, int bytes, int unit,
                                    float (&c)[kTokenTiles][4]) {
  static_assert(kTokenTiles <= 32);
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
  static_assert(kTokenTiles == 1 || kTokenTiles == 2 || kTokenTiles == 4 || kTokenTiles == 8 || kTokenTiles == 16 ||
                kTokenTiles == 32);
  const uint64_t b = blocks.descriptor(bytes, unit);
  if constexpr (kTokenTiles == 1) {
    ECMV_MULTIPLY("8", ECMV_NUMBERS_4, "{%4, %5, %6, %7}, %8, p, 1, 1, 0", ECMV_SUMS(0))
    : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
  } else if constexpr (kTokenTiles == 2) {
    ECMV_MULTIPLY("16", ECMV_NUMBERS_8, "{%8, %9, %10, %11}, %12, p, 1, 1, 0", ECMV_SUMS(0), ECMV_SUMS(1))
    : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
  } else if constexpr (kTokenTiles == 4) {
    ECMV_MULTIPLY("32", ECMV_NUMBERS_16, "{%16, %17, %18, %19}, %20, p, 1, 1, 0", ECMV_SUMS4(0))
    : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
  } else if constexpr (kTokenTiles == 8) {
    ECMV_MULTIPLY("64", ECMV_NUMBERS_32, "{%32, %33, %34, %35}, %36, p, 1, 1, 0", ECMV_SUMS4(0), ECMV_SUMS4(4))
    : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
  } else if constexpr (kTokenTiles == 16) {
    ECMV_MULTIPLY("128", ECMV_NUMBERS_64, "{%64, %65, %66, %67}, %68, p, 1, 1, 0", ECMV_SUMS16(0))
    : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
  } else if constexpr (kTokenTiles == 32) {
    ECMV_MULTIPLY("256", ECMV_NUMBERS_128, "{%128, %129, %130, %131}, %132, p, 1, 1, 0", ECMV_SUMS16(0),
                  ECMV_SUMS16(16))
    : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
  }
#else
  const int g = Lanes<32>::lane() / 4, t = Lanes<32>::lane() % 4;
  ECMV_GPU_UNROLL
  for (int k = 0; k < kTokenTiles; ++k) {
    const auto pair = [&](int number) {
      return *cast<const uint32_t>(blocks.first() + (bytes + pair_place(8 * k + g, number)));
    };
    multiply_tokens(a, uint2{pair(8 * unit + t), pair(8 * unit + 4 + t)}, c[k]);
  }
#endif
}

// The same for A [64, 16] in shared memory, columns 16 `unit` to 16 `unit` + 15 of a block whose "tokens" are rows.
// Lane group number `own` of the four gets the sums of rows 16 `own` to 16 `own` + 15.
template <int kTokenTiles>
ECMV_GPU_DEVICE void multiply_shared(const SharedBlocks& a, int own, const SharedBlocks& blocks, int unit,
                                     float (&c)[kTokenTiles][4]) {
  static_assert(kTokenTiles == 16);
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
  (void)own;
  const uint64_t a_rows = a.descriptor(0, unit), b = blocks.descriptor(0, unit);
  ECMV_MULTIPLY("128", ECMV_NUMBERS_64, "%64, %65, p, 1, 1, 0, 0", ECMV_SUMS16(0))
  : "l"(a_rows), "l"(b));
#else
  const int row = 16 * own + Lanes<32>::lane() / 4, t = Lanes<32>::lane() % 4;
  const auto pair = [&](int of_row, int number) {
    return *cast<const uint32_t>(a.first() + pair_place(of_row, number));
  };
  multiply_block(uint4{pair(row, 8 * unit + t), pair(row + 8, 8 * unit + t), pair(row, 8 * unit + 4 + t),
                       pair(row + 8, 8 * unit + 4 + t)},
                 blocks, 0, unit, c);
#endif
}
#if defined(ECMV_GPU_HAS_WARPGROUP_UNITS)
#undef ECMV_MULTIPLY
#undef ECMV_SUMS16
#undef ECMV_SUMS4
#undef ECMV_SUMS
#undef ECMV_NUMBERS_4
#undef ECMV_NUMBERS_8
#undef ECMV_NUMBERS_16
#undef ECMV_NUMBERS_32
#undef ECMV_NUMBERS_64
#undef ECMV_NUMBERS_128
#endif

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

// Y = W X for batches of tokens in float32, some rows by up to two vectors of tokens in registers. The tokens are
// packed once a call, so that one load gives a column of many of them; rows become panels of a few KiB in the
// first-level cache, of which one weight is broadcast after the other. No sum is added across a vector. Through
// Highway, on the instruction set chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/kernel.h"
#include "datasets/matrix.h"

namespace ecmv::backends::cpu {

enum class PanelForm : uint8_t {
  widened,      // weights and tokens become float32
  pairs,        // two columns a word of 32 bits, both of bf16; the halves are taken apart in registers
  avx512_bf16,  // the same, multiplied by the instruction of AVX512-BF16
  amx,          // the same, 16 rows, 32 columns and 16 tokens at once by Intel's AMX
};

// Up to so many tokens dense_matmul.h is faster.
inline constexpr int kFewTokens = 2;

// Why a form does not run on the chosen instruction set, as a sentence; "" if it does.
std::string why_not(PanelForm form);

// Whether a form multiplies elements of a type: pairs are of bf16, amx also of the types of a byte, which bf16 holds
// exactly.
bool takes(PanelForm form, datasets::ElementType type);

// The fastest one for such elements and tokens of bf16: an instruction for pairs, or without it floats, which are as
// fast.
PanelForm fastest_pairs(datasets::ElementType type);

// How results round. Instructions for pairs take numbers below 2^-126 as zero.
ProductRounding panel_rounding(PanelForm form);

// Bytes of packed tokens, enough for every batch.
int64_t packed_bytes(int64_t cols);

// Packs the tokens of `args`, of float32 or bf16. Pairs need numbers of bf16.
void pack_tokens(PanelForm form, const MatmulArgs& args, int batch, int64_t cols, std::byte* packed);

// Rows whose elements are of a type that why_no_float_product (exact_product.h) and `takes` let pass.
struct PanelRows {
  datasets::ElementType type = datasets::ElementType::bf16;
  const std::byte* elements = nullptr;
  int64_t row_bytes = 0;  // from row to row
  int64_t rows = 0, cols = 0;
  bool streamed = false;  // they come from memory: what follows is asked for ahead
};

// y[t * y_stride + r] = W x_t for t < batch, r < rows.
void multiply_panels(PanelForm form, const PanelRows& rows, const std::byte* packed, int batch, float* y,
                     int64_t y_stride);

// The same piece by piece, for kernels that decode a part of some rows into a near cache: at most kPanelSumRows rows, a
// part of whose columns begins at an even one of the product's.
inline constexpr int64_t kPanelSumRows = 32;
struct PanelSums {
  alignas(64) float of[kPanelSumRows * kMaxBatch] = {};
};
struct PackedTokens {
  const std::byte* packed = nullptr;
  int64_t cols = 0, first_col = 0;  // of all that was packed; where the part begins
};
void add_panels(PanelForm form, const PanelRows& rows, const PackedTokens& tokens, int batch, PanelSums& sums);
// y[t * y_stride + r] = the sums.
void store_sums(const PanelSums& sums, int64_t rows, int batch, float* y, int64_t y_stride);

// The same as kernels of codecs that store rows as they are.
struct PanelPolicy : Policy {
  PanelForm form;
};
inline constexpr PanelPolicy kFloatPanels[] = {{{"widened"}, PanelForm::widened}};
inline constexpr PanelPolicy kPanels[] = {{{"widened"}, PanelForm::widened},
                                          {{"pairs"}, PanelForm::pairs},
                                          {{"avx512_bf16"}, PanelForm::avx512_bf16},
                                          {{"amx"}, PanelForm::amx}};
BoundKernel bind_panels(const Policy& policy, const PanelRows& rows, int batch);

}  // namespace ecmv::backends::cpu

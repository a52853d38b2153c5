// Y = W X for batches of tokens in float32: some rows times up to two vectors of tokens stay in registers. Tokens are
// packed once a call, so that one load gives a column of many tokens. Rows become panels of a few KiB in the
// first-level cache, and the product broadcasts one weight of a panel after the other. No sum is added across a vector.
// Runs through Highway, on the instruction set chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/kernel.h"
#include "datasets/matrix.h"

namespace ecmv::backends::cpu {

enum class PanelForm : uint8_t {
  widened,      // weights and tokens become float32
  pairs,        // two columns of bf16 a word of 32 bits; the halves are separated in registers
  avx512_bf16,  // the same, multiplied by the instruction of AVX512-BF16
  amx,          // the same by Intel's AMX, 16 rows, 32 columns and 16 tokens at once
};

// Up to this many tokens dense_matmul.h is faster.
inline constexpr int kFewTokens = 2;

// Why a form does not run on the chosen instruction set, as a sentence; "" if it does.
std::string why_not(PanelForm form);

// Whether a form multiplies elements of a type. Pairs need bf16; amx also takes the types of one byte, which bf16 holds
// exactly.
bool takes(PanelForm form, datasets::ElementType type);

// The fastest form for these elements and tokens of bf16: an instruction for pairs, or, without one, floats, which are
// as fast as pairs.
PanelForm fastest_pairs(datasets::ElementType type);

// How results round. Instructions for pairs take numbers below 2^-126 as zero.
ProductRounding panel_rounding(PanelForm form);

// Bytes of packed tokens, enough for every batch.
int64_t packed_bytes(int64_t cols);

// Packs the tokens of `args`, of float32 or bf16. Pairs need numbers of bf16.
void pack_tokens(PanelForm form, const MatmulArgs& args, int batch, int64_t cols, std::byte* packed);

// Rows whose element type why_no_float_product (exact_product.h) and `takes` allow.
struct PanelRows {
  datasets::ElementType type = datasets::ElementType::bf16;
  const std::byte* elements = nullptr;
  int64_t row_bytes = 0;  // from one row to the next
  int64_t rows = 0, cols = 0;
  bool streamed = false;  // rows come from memory, so the next ones are requested ahead
};

// y[t * y_stride + r] = W x_t for t < batch, r < rows.
void multiply_panels(PanelForm form, const PanelRows& rows, const std::byte* packed, int batch, float* y,
                     int64_t y_stride);

// The same piece by piece, for kernels that decode a part of some rows into a near cache: at most kPanelSumRows rows,
// and the part begins at an even column of the product.
inline constexpr int64_t kPanelSumRows = 32;
struct PanelSums {
  alignas(64) float of[kPanelSumRows * kMaxBatch] = {};
};
struct PackedTokens {
  const std::byte* packed = nullptr;
  int64_t cols = 0, first_col = 0;  // all packed columns; where the part begins
};
void add_panels(PanelForm form, const PanelRows& rows, const PackedTokens& tokens, int batch, PanelSums& sums);
// y[t * y_stride + r] = the sums.
void store_sums(const PanelSums& sums, int64_t rows, int batch, float* y, int64_t y_stride);

// Panels as kernels of codecs that store rows unchanged.
struct PanelPolicy : Policy {
  PanelForm form;
};
inline constexpr PanelPolicy kFloatPanels[] = {{{"widened"}, PanelForm::widened}};
inline constexpr PanelPolicy kPanels[] = {{{"widened"}, PanelForm::widened},
                                          {{"pairs"}, PanelForm::pairs},
                                          {{"avx512_bf16"}, PanelForm::avx512_bf16},
                                          {{"amx"}, PanelForm::amx}};
// Kernel::choose for kernels of bf16 tokens with policies of these names: that of fastest_pairs().
std::string_view choose_panels(const CompressedView& matrix, const DeviceInfo&, int batch);
BoundKernel bind_panels(const Policy& policy, const PanelRows& rows, int batch);

}  // namespace ecmv::backends::cpu

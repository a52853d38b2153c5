// Y = W X for a batch of tokens in float32 on a GPU, for uncompressed rows of any element type that float32 holds. It
// is the uncompressed codecs' tuned kernel, and the second half of products that decode to memory first. A wave works
// on kRows rows and kTokens tokens. A lane issues kLoads independent streaming loads a row before it uses the first, as
// in dense_matvec.h, and unpacks each load once for all tokens. Thread blocks with the same rows and other tokens are
// neighbours, so that they find the weights in the L2 cache.
#pragma once

#include <cstdint>

#include "backends/gpu/lanes.h"
#include "backends/gpu/products/dense_matrix.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

ECMV_GPU_DEVICE float float_of(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
ECMV_GPU_DEVICE uint32_t bits_of(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The nearest number of bf16, of two equally near ones the even one. NaNs stay NaNs.
ECMV_GPU_DEVICE uint16_t bf16_of(float number) {
  const uint32_t bits = bits_of(number);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Sums over the wave; every lane gets the sum.
ECMV_GPU_DEVICE float wave_sum(float value) {
  ECMV_GPU_UNROLL
  for (int distance = Wave::size() / 2; distance > 0; distance /= 2) value += Wave::shuffle_xor(value, distance);
  return value;
}

// Where a matmul kernel reads tokens and writes results.
struct TokenView {
  Pointer<const float> x;  // [batch, x_stride]
  int64_t x_stride;
  Pointer<float> y;  // [batch, rows]
  int64_t rows;
  int batch;
  // One lane calls it for every row and token.
  ECMV_GPU_DEVICE void store(int64_t row, int token, float value) const { y[token * rows + row] = value; }
};
// `batch` tokens from `first` on.
inline TokenView tokens_of(const MatmulArgs& args, int batch, int first = 0) {
  return {args.x + first * args.x_stride, args.x_stride, args.y + first * args.y_stride, args.y_stride, batch};
}

// Element types: the number of elements in a word, and their numbers. A narrow exponent and fraction, shifted to
// float32's places, give the number divided by a power of two. NaN and infinities do not occur (see exact_product.h).
struct Bf16 {
  static constexpr int kPerWord = 2;
  static ECMV_GPU_DEVICE void unpack(uint32_t word, float* out) {
    out[0] = float_of(word << 16);
    out[1] = float_of(word & 0xFFFF0000u);
  }
};
// The largest exponent, of infinities and NaN, has to become the largest one.
ECMV_GPU_DEVICE float f16_number(uint32_t bits) {
  const uint32_t largest = (bits & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0;
  return float_of(bits_of(float_of((bits & 0x7FFFu) << 13) * 0x1p112f) | (bits & 0x8000u) << 16 | largest);
}
ECMV_GPU_DEVICE float f8_e4m3_number(uint32_t bits) {
  return float_of(bits_of(float_of((bits & 0x7Fu) << 20) * 0x1p120f) | (bits & 0x80u) << 24);
}
struct F16 {
  static constexpr int kPerWord = 2;
  static ECMV_GPU_DEVICE void unpack(uint32_t word, float* out) {
    out[0] = f16_number(word);
    out[1] = f16_number(word >> 16);
  }
};
struct F8E5M2 {
  static constexpr int kPerWord = 4;
  static ECMV_GPU_DEVICE void unpack(uint32_t word, float* out) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = f16_number((word >> (8 * i) & 0xFF) << 8);
  }
};
struct F8E4M3 {
  static constexpr int kPerWord = 4;
  static ECMV_GPU_DEVICE void unpack(uint32_t word, float* out) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = f8_e4m3_number(word >> (8 * i));
  }
};
struct F32 {
  static constexpr int kPerWord = 1;
  static ECMV_GPU_DEVICE void unpack(uint32_t word, float* out) { out[0] = float_of(word); }
};
// Integers of one or two bytes.
template <typename Int>
struct Integers {
  static constexpr int kPerWord = 4 / static_cast<int>(sizeof(Int));
  static ECMV_GPU_DEVICE void unpack(uint32_t word, float* out) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < kPerWord; ++i) out[i] = static_cast<float>(static_cast<Int>(word >> (32 / kPerWord * i)));
  }
};

ECMV_GPU_DEVICE uint32_t word_of(uint4 words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}
ECMV_GPU_DEVICE uint32_t word_of(uint2 words, int i) { return i == 0 ? words.x : words.y; }

// Adds the products of one chunk of each row with the tokens' numbers there. `x` points to the first token's numbers;
// the others lie x_offsets further.
template <typename Number, typename Chunk, int kRows, int kTokens>
ECMV_GPU_DEVICE void multiply_chunk(const Chunk (&weights)[kRows], Pointer<const float> x,
                                    const int (&x_offsets)[kTokens], float (&sums)[kRows][kTokens]) {
  constexpr int kWords = sizeof(Chunk) / 4, kNumbers = kWords * Number::kPerWord;
  // Numbers in one load of x.
  constexpr int kWide = kNumbers % 4 == 0 ? 4 : 2,
                kWordsOfPiece = kWide / Number::kPerWord > 0 ? kWide / Number::kPerWord : 1;
  static_assert(kNumbers % kWide == 0 && kWide % Number::kPerWord == 0);
  ECMV_GPU_UNROLL
  for (int piece = 0; piece < kNumbers / kWide; ++piece) {
    float numbers[kRows][kWide];
    ECMV_GPU_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < kWordsOfPiece; ++i)
        Number::unpack(word_of(weights[r], piece * kWordsOfPiece + i), numbers[r] + i * Number::kPerWord);
    }
    ECMV_GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      float inputs[kWide];
      if constexpr (kWide == 4) {
        const uint4 loaded = *cast<const uint4>(x + (x_offsets[t] + piece * kWide));
        inputs[0] = float_of(loaded.x), inputs[1] = float_of(loaded.y), inputs[2] = float_of(loaded.z),
        inputs[3] = float_of(loaded.w);
      } else {
        const uint2 loaded = *cast<const uint2>(x + (x_offsets[t] + piece * kWide));
        inputs[0] = float_of(loaded.x), inputs[1] = float_of(loaded.y);
      }
      ECMV_GPU_UNROLL
      for (int i = 0; i < kWide; ++i) {
        ECMV_GPU_UNROLL
        for (int r = 0; r < kRows; ++r) sums[r][t] += numbers[r][i] * inputs[i];
      }
    }
  }
}

// Chunk is the type of one load: uint4 or uint2. A row has `chunks` of them, and there are at least kRows rows.
// kResident: as in dense_matvec.h.
template <typename Number, typename Chunk, int kWaves, int kLoads, int kRows, int kTokens, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kWaves* kLargestWave, kResident / kWaves) void dense_matmul_rows(Pointer<const Chunk> w,
                                                                                                 int chunks,
                                                                                                 TokenView tokens) {
  const int token_blocks = (tokens.batch + kTokens - 1) / kTokens;
  const int64_t wanted = (block_index() / token_blocks * kWaves + Wave::group()) * kRows;
  const int first_token = static_cast<int>(block_index() % token_blocks) * kTokens;
  let_next_begin();
  if (wanted >= tokens.rows) return;
  // The last wave repeats rows of the one before rather than take fewer; their results are the same.
  const int64_t first = wanted + kRows <= tokens.rows ? wanted : tokens.rows - kRows;
  constexpr int kNumbers = sizeof(Chunk) / 4 * Number::kPerWord;
  const Pointer<const Chunk> rows = w + (first * chunks + Wave::lane());
  float sums[kRows][kTokens];
  ECMV_GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ECMV_GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) sums[r][t] = 0;
  }
  int x_offsets[kTokens];
  ECMV_GPU_UNROLL
  for (int t = 0; t < kTokens; ++t)
    x_offsets[t] =
        static_cast<int>(tokens.x_stride) * (first_token + t < tokens.batch ? t : tokens.batch - 1 - first_token);
  const Pointer<const float> x = tokens.x + (first_token * tokens.x_stride + int64_t{Wave::lane()} * kNumbers);
  const int step = kLoads * Wave::size();
  int begin = 0;
  for (; begin + step <= chunks; begin += step) {
    Chunk weights[kLoads][kRows];
    ECMV_GPU_UNROLL
    for (int l = 0; l < kLoads; ++l) {
      ECMV_GPU_UNROLL
      for (int r = 0; r < kRows; ++r) weights[l][r] = load_streaming(rows + (begin + l * Wave::size() + r * chunks));
    }
    if (begin == 0) wait_for_previous();
    ECMV_GPU_UNROLL
    for (int l = 0; l < kLoads; ++l)
      multiply_chunk<Number>(weights[l], x + (begin + l * Wave::size()) * kNumbers, x_offsets, sums);
  }
  if (begin == 0) wait_for_previous();
  ECMV_GPU_NO_UNROLL
  for (; begin + Wave::lane() < chunks; begin += Wave::size()) {
    Chunk weights[kRows];
    ECMV_GPU_UNROLL
    for (int r = 0; r < kRows; ++r) weights[r] = load_streaming(rows + (begin + r * chunks));
    multiply_chunk<Number>(weights, x + begin * kNumbers, x_offsets, sums);
  }
  ECMV_GPU_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ECMV_GPU_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const float sum = wave_sum(sums[r][t]);
      if (Wave::lane() == 0 && first_token + t < tokens.batch) tokens.store(first + r, first_token + t, sum);
    }
  }
}

// Element i of the type at `elements`.
ECMV_GPU_DEVICE float number_at(Pointer<const std::byte> elements, int64_t i, datasets::ElementType type) {
  using enum datasets::ElementType;
  switch (type) {
    case u8: return *cast<const uint8_t>(elements + i);
    case i16: return *cast<const int16_t>(elements + 2 * i);
    case u16: return *cast<const uint16_t>(elements + 2 * i);
    case bf16: return float_of(uint32_t{*cast<const uint16_t>(elements + 2 * i)} << 16);
    case f16: return f16_number(*cast<const uint16_t>(elements + 2 * i));
    case f8_e5m2: return f16_number(uint32_t{*cast<const uint8_t>(elements + i)} << 8);
    case f8_e4m3: return f8_e4m3_number(*cast<const uint8_t>(elements + i));
    case f32: return *cast<const float>(elements + 4 * i);
    default: return *cast<const int8_t>(elements + i);
  }
}

// For rows without alignment: one wave a row, element by element.
template <int kTokens>
ECMV_GPU_KERNEL void dense_matmul_elements(Pointer<const std::byte> w, datasets::ElementType type, int64_t cols,
                                           TokenView tokens) {
  const int token_blocks = (tokens.batch + kTokens - 1) / kTokens;
  const int64_t row = block_index() / token_blocks * (block_size() / wave_size()) + Wave::group();
  const int first_token = static_cast<int>(block_index() % token_blocks) * kTokens;
  if (row >= tokens.rows) return;
  float sums[kTokens] = {};
  for (int64_t col = Wave::lane(); col < cols; col += Wave::size()) {
    const float number = number_at(w, row * cols + col, type);
    ECMV_GPU_UNROLL
    for (int t = 0; t < kTokens; ++t)
      if (first_token + t < tokens.batch) sums[t] += number * tokens.x[(first_token + t) * tokens.x_stride + col];
  }
  ECMV_GPU_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    const float sum = wave_sum(sums[t]);
    if (Wave::lane() == 0 && first_token + t < tokens.batch) tokens.store(row, first_token + t, sum);
  }
}

inline void launch_matmul_elements(const DenseMatrix& matrix, void* stream, const MatmulArgs& args, int batch) {
  constexpr int kWaves = 8, kTokens = 8;
  const datasets::Shape shape = matrix.shape;
  launch(dense_matmul_elements<kTokens>,
         {(shape.rows + kWaves - 1) / kWaves * ((batch + kTokens - 1) / kTokens), kWaves * matrix.wave_size, 0}, stream,
         matrix.elements, matrix.type, shape.cols, tokens_of(args, batch));
}

// Y = W X; asynchronous on the stream. Rows whose length is no multiple of sizeof(Chunk) bytes, or fewer than kRows
// rows, are multiplied element by element.
template <typename Number, typename Chunk, int kWaves, int kLoads, int kRows, int kTokens, int kResident>
void launch_matmul_rows(const DenseMatrix& matrix, void* stream, const MatmulArgs& args, int batch) {
  const datasets::Shape shape = matrix.shape;
  if (shape.cols * datasets::element_bytes(matrix.type) % static_cast<int64_t>(sizeof(Chunk)) != 0 ||
      shape.rows < kRows)
    return launch_matmul_elements(matrix, stream, args, batch);
  constexpr int64_t kRowsOfBlock = kWaves * kRows, kNumbers = sizeof(Chunk) / 4 * Number::kPerWord;
  const LaunchShape launch_shape{(shape.rows + kRowsOfBlock - 1) / kRowsOfBlock * ((batch + kTokens - 1) / kTokens),
                                 kWaves * matrix.wave_size, 0, matrix.early};
  launch(dense_matmul_rows<Number, Chunk, kWaves, kLoads, kRows, kTokens, kResident>, launch_shape, stream,
         reinterpret_cast<const Chunk*>(matrix.elements), shape.cols / kNumbers, tokens_of(args, batch));
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

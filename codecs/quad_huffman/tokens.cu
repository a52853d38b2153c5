// Kernels of products with tokens of bf16, beside gpu.cu so that both compile at once.
#include "codecs/quad_huffman/token_kernels_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// Null where there is none. Kernels are for symbols of four and eight columns with kLeastRaw to kMostRaw raw bits, and for bf16 and
// f8 elements, two symbols a window: what is left out would double the compiling, twice.
template <int kLeastRaw, int kMostRaw, typename Make>
auto for_token_code(const Code& code, Make make) {
  using Kernel = decltype(make(Constant<4>{}, Constant<2>{}));
  const auto kernel = [&](auto symbol_cols, auto form, auto) -> Kernel {
    constexpr int kSymbolCols = decltype(symbol_cols)::value, kForm = decltype(form)::value;
    if constexpr (kSymbolCols == 2 ||
                  (!is_float(kForm) && (raw_bits_of(kForm) < kLeastRaw || raw_bits_of(kForm) > kMostRaw)))
      return nullptr;
    else
      return make(symbol_cols, form);
  };
  return is_float(code.form) ? for_float_code(code, kernel) : for_code(code, kernel);
}

template <int kTokenTiles, Multiply kMultiply>
TokenKernel token_kernel(const Code& code) {
  return for_token_code<2, 4>(code, [](auto symbol_cols, auto form) -> TokenKernel {
    constexpr int kForm = decltype(form)::value;
    if constexpr ((kMultiply == Multiply::scaled && is_float(kForm)) ||
                  (kMultiply == Multiply::alone && is_f8(kForm)) ||
                  has_exponent_eights(decltype(symbol_cols)::value, kForm))
      return nullptr;
    else
      return token_product<decltype(symbol_cols)::value, decltype(form)::value, 2, kTokenTiles, kMultiply, 512>;
  });
}

template <int kTiles, int kMostThreads>
FewKernel few_kernel(const Code& code) {
  return for_token_code<2, 5>(code, [](auto symbol_cols, auto form) -> FewKernel {
    if constexpr (has_exponent_eights(decltype(symbol_cols)::value, decltype(form)::value))
      return nullptr;
    else
      return few_tokens<decltype(symbol_cols)::value, decltype(form)::value, 2, kTiles, kMostThreads>;
  });
}

template <bool kTogether>
FragmentsKernel fragments_kernel(const Code& code) {
  return for_token_code<2, 4>(code, [](auto symbol_cols, auto form) -> FragmentsKernel {
    // int8 elements whose cells are not folded would be as many kernels again.
    if constexpr (!is_float(decltype(form)::value) && !is_folded(decltype(form)::value))
      return nullptr;
    else
      return fragment_tokens<decltype(symbol_cols)::value, decltype(form)::value, 2, kTogether, 32 * kLanes>;
  });
}

FragmentsKernel digits_kernel(const Code& code) {
  return for_token_code<2, 4>(code, [](auto symbol_cols, auto form) -> FragmentsKernel {
    // Symbols of four are slower so than with numbers of bf16 (NOTES.md).
    if constexpr (decltype(symbol_cols)::value != 8 || !is_folded(decltype(form)::value))
      return nullptr;
    else
      return fragment_digits<decltype(symbol_cols)::value, decltype(form)::value, 2, 24 * kLanes>;
  });
}

template <int kTokenTiles>
TogetherKernel together_kernel(const Code& code) {
  return for_token_code<2, 5>(code, [](auto symbol_cols, auto form) -> TogetherKernel {
    if constexpr (is_float(decltype(form)::value) &&
                  (!is_f8(decltype(form)::value) || decltype(symbol_cols)::value == 8))
      return fragments_together<decltype(symbol_cols)::value, decltype(form)::value, 2, kTokenTiles,
                                most_together(decltype(symbol_cols)::value) * kLanes>;
    else
      return nullptr;
  });
}

template <int kMostThreads>
RingTokensKernel ring_tokens_kernel(const Code& code) {
  return for_float_code(code, [](auto symbol_cols, auto form, auto symbols) -> RingTokensKernel {
    constexpr int kThreads = most_threads(decltype(form)::value, kMostThreads);
    if constexpr (has_exponent_eights(decltype(symbol_cols)::value, decltype(form)::value))
      return nullptr;
    else
      return ring_tokens<decltype(symbol_cols)::value, decltype(form)::value, decltype(symbols)::value, kThreads>;
  });
}

}  // namespace

TokenKernel token_kernel(const Code& code, Multiply multiply, int token_tiles) {
  if (multiply == Multiply::alone) return token_kernel<2, Multiply::alone>(code);
  if (multiply == Multiply::scaled) return token_kernel<2, Multiply::scaled>(code);
  return token_tiles == 2 ? token_kernel<2, Multiply::together>(code) : token_kernel<8, Multiply::together>(code);
}

FewKernel few_kernel(const Code& code, int tiles) {
  return tiles == 1 ? few_kernel<1, kMostFewLaneGroups * kLanes>(code)
                    : few_kernel<kFewTiles, kMostFewLaneGroups * kLanes>(code);
}

FragmentsKernel fragments_kernel(const Code& code, FragmentMultiply multiply) {
  switch (multiply) {
    case FragmentMultiply::alone: return fragments_kernel<false>(code);
    case FragmentMultiply::together: return fragments_kernel<true>(code);
    case FragmentMultiply::digits: return digits_kernel(code);
  }
  return nullptr;
}

TogetherKernel together_kernel(const Code& code, int token_tiles) {
  return token_tiles <= 2 ? together_kernel<2>(code) : together_kernel<8>(code);
}

OneKernel one_kernel(const Code& code) {
  return for_token_code<0, 7>(code, [](auto symbol_cols, auto form) -> OneKernel {
    if constexpr (is_float(decltype(form)::value))
      return nullptr;
    else
      return one_token<decltype(symbol_cols)::value, decltype(form)::value, 2, 32 * kLanes>;
  });
}

// Up to 16 lane groups have twice the registers.
RingTokensKernel ring_tokens_kernel(const Code& code, int lane_groups) {
  return lane_groups <= 16 ? ring_tokens_kernel<16 * kLanes>(code) : ring_tokens_kernel<32 * kLanes>(code);
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE

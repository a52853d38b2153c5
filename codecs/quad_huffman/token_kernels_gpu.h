// The kernels of products with tokens of bf16, which tokens.cu has: the instance for a shape, null where there is none.
#pragma once

#include "codecs/quad_huffman/gpu/fragment_digits.cu"
#include "codecs/quad_huffman/gpu/fragments_many.cu"
#include "codecs/quad_huffman/gpu/one_token.cu"
#include "codecs/quad_huffman/gpu/plan.h"
#include "codecs/quad_huffman/gpu/ring_tokens.cu"
#include "codecs/quad_huffman/gpu/many_tokens.cu"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Tiles of eight tokens: 2, or 8 where lane groups multiply together.
using TokenKernel = void (*)(Matrix, Plan, TokenLayout, Hidden, gpu::Bf16Tokens);
TokenKernel token_kernel(const Code& code, Multiply multiply, int token_tiles);

// Tiles of four tokens: 1 or kFewTiles. More lane groups would not have the registers.
inline constexpr int kMostFewLaneGroups = 16;
using FewKernel = void (*)(Matrix, Plan, FewLayout, Hidden, gpu::Bf16Tokens);
FewKernel few_kernel(const Code& code, int tiles);

// How lane groups multiply fragments: each by itself, up to 8 tokens, or four together up to 16, numbers of bf16 or bytes with
// the tokens' digits.
enum class FragmentMultiply { alone, together, digits };
using FragmentsKernel = void (*)(Matrix, Plan, FragmentsLayout, Hidden, int, gpu::Bf16Tokens);
FragmentsKernel fragments_kernel(const Code& code, FragmentMultiply multiply);

// Of bf16, null for others. Tiles of eight tokens: 2 or 8.
using TogetherKernel = void (*)(Matrix, Plan, TogetherLayout, Hidden, gpu::Bf16Tokens);
TogetherKernel together_kernel(const Code& code, int token_tiles);

using OneKernel = void (*)(Matrix, Plan, Division, Hidden, gpu::Pointer<const uint16_t>, gpu::Pointer<float>,
                           gpu::Exchange);
OneKernel one_kernel(const Code& code);

// Up to kRingTokens of bf16, bf16 elements.
using RingTokensKernel = void (*)(Matrix, Plan, Division, Hidden, gpu::Bf16Tokens, gpu::Exchange);
RingTokensKernel ring_tokens_kernel(const Code& code, int lane_groups);

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE

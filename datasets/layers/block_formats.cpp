// See block_formats.h. The constants of blocks come from ggml.
#include "datasets/layers/block_formats.h"

#include <algorithm>
#include <iterator>

namespace ecmv::datasets {
namespace {

constexpr BlockFormat kBlockFormats[] = {
    {.name = "Q8_0", .bytes = 34, .bits = 8},
    {.name = "Q4_0", .bytes = 18, .bits = 4, .zero = 8},
    {.name = "Q4_1", .bytes = 20, .bits = 4, .has_minimum = true},
    {.name = "MXFP4", .bytes = 17, .bits = 4, .code = Code::e2m1, .scale = ScaleType::e8m0},
    {.name = "NVFP4",
     .elements = 64,
     .bytes = 36,
     .bits = 4,
     .code = Code::e2m1,
     .scale = ScaleType::e4m3,
     .scale_cols = 16},
    {.name = "Q5_0", .bytes = 22},
    {.name = "Q5_1", .bytes = 24},
    {.name = "Q8_1", .bytes = 36},
    {.name = "Q2_K", .elements = 256, .bytes = 84},
    {.name = "Q3_K", .elements = 256, .bytes = 110},
    {.name = "Q4_K", .elements = 256, .bytes = 144},
    {.name = "Q5_K", .elements = 256, .bytes = 176},
    {.name = "Q6_K", .elements = 256, .bytes = 210},
    {.name = "Q8_K", .elements = 256, .bytes = 292},
    {.name = "IQ2_XXS", .elements = 256, .bytes = 66},
    {.name = "IQ2_XS", .elements = 256, .bytes = 74},
    {.name = "IQ3_XXS", .elements = 256, .bytes = 98},
    {.name = "IQ1_S", .elements = 256, .bytes = 50},
    {.name = "IQ4_NL", .bytes = 18},
    {.name = "IQ3_S", .elements = 256, .bytes = 110},
    {.name = "IQ2_S", .elements = 256, .bytes = 82},
    {.name = "IQ4_XS", .elements = 256, .bytes = 136},
    {.name = "IQ1_M", .elements = 256, .bytes = 56},
    {.name = "TQ1_0", .elements = 256, .bytes = 54},
    {.name = "TQ2_0", .elements = 256, .bytes = 66},
    {.name = "Q1_0", .elements = 128, .bytes = 18},
};

using Order = PackedType::Order;

constexpr PackedType kPackedTypes[] = {{"F4", 4, Code::e2m1},
                                       {"INT4", 4, Code::signed_number},
                                       {"UINT4", 4},
                                       {"INT2", 2, Code::signed_number},
                                       {"UINT2", 2},
                                       {"UINT3", 3},
                                       {"UINT5", 5},
                                       {"UINT6", 6},
                                       {"NF4", 4, Code::unsigned_number, Order::high_first},
                                       {"FP4", 4, Code::unsigned_number, Order::high_first},
                                       {"GPTQ_INT2", 2, Code::unsigned_number, Order::gptq},
                                       {"GPTQ_INT3", 3, Code::unsigned_number, Order::gptq},
                                       {"GPTQ_INT4", 4, Code::unsigned_number, Order::gptq},
                                       {"GPTQ_INT8", 8, Code::unsigned_number, Order::gptq},
                                       {"AWQ_INT4", 4, Code::unsigned_number, Order::awq}};

const auto* find_by_name(const auto& list, std::string_view name) {
  const auto found = std::ranges::find_if(list, [&](const auto& one) { return one.name == name; });
  return found == std::end(list) ? nullptr : &*found;
}

}  // namespace

int8_t element_of_code(Code code, int bits, int value) {
  constexpr int8_t kMagnitudes[] = {0, 1, 2, 3, 4, 6, 8, 12};
  const int sign = 1 << (bits - 1);
  if (code == Code::e2m1) return int8_t((value & sign) != 0 ? -kMagnitudes[value & 7] : kMagnitudes[value & 7]);
  return int8_t(code == Code::signed_number ? (value ^ sign) - sign : value);
}

const BlockFormat* find_block_format(std::string_view dtype) { return find_by_name(kBlockFormats, dtype); }
const PackedType* find_packed_type(std::string_view dtype) { return find_by_name(kPackedTypes, dtype); }

}  // namespace ecmv::datasets

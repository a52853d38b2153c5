// Policies of rans_byte_planes on CPUs with SIMD.
#pragma once

#include "backends/cpu/products/panel_product.h"
#include "backends/kernel.h"

namespace ecmv::codecs::rans_byte_planes {

// Policies set how far ahead of the position in stream and raw bits to prefetch (2 KiB gain much from DRAM), and which
// lanes share a register of new states (decode_rounds.inc). `halves` is for Intel, whose permutes have one port.
struct PlanesPolicy : backends::Policy {
  int64_t ahead;
  bool halves;
};
inline constexpr PlanesPolicy kPlanesPolicies[] = {{{"prefetch2k"}, 2048, false},
                                                   {{"prefetch4k"}, 4096, false},
                                                   {{"no_prefetch"}, 0, false},
                                                   {{"halves_prefetch2k"}, 2048, true},
                                                   {{"halves_prefetch4k"}, 4096, true}};

// Products of bf16: how tokens are multiplied (one and two tokens of `pairs` as with `widened`, of `amx` as with
// `avx512_bf16`), and which lanes share a register.
struct FloatPolicy : backends::Policy {
  backends::cpu::PanelForm form;
  bool halves;
};
inline constexpr FloatPolicy kFloatPolicies[] = {{{"widened"}, backends::cpu::PanelForm::widened, false},
                                                 {{"halves_widened"}, backends::cpu::PanelForm::widened, true}};
inline constexpr FloatPolicy kBf16Policies[] = {{{"widened"}, backends::cpu::PanelForm::widened, false},
                                                {{"pairs"}, backends::cpu::PanelForm::pairs, false},
                                                {{"avx512_bf16"}, backends::cpu::PanelForm::avx512_bf16, false},
                                                {{"amx"}, backends::cpu::PanelForm::amx, false},
                                                {{"halves_pairs"}, backends::cpu::PanelForm::pairs, true},
                                                {{"halves_avx512_bf16"}, backends::cpu::PanelForm::avx512_bf16, true},
                                                {{"halves_amx"}, backends::cpu::PanelForm::amx, true}};

}  // namespace ecmv::codecs::rans_byte_planes

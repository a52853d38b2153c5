// What kernels refuse by layout and elements, and which instance of a kernel a code gets.
#pragma once

#include <string>
#include <type_traits>

#include "codecs/quad_huffman/gpu/plan.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

enum class Elements { any, int8, floats };

inline constexpr const char* kRefusesSharedMemory =
    "The table, the rings of two lane groups and the inputs do not fit the shared memory of a thread block.";

// Says why a kernel for one layout and for such elements does not take a matrix; "" if it does.
inline std::string refuses_matrix(const backends::CompressedView& matrix, Layout layout, Elements elements) {
  if (is_plain(matrix)) return kRefusesPlain;
  if (header_of(matrix).layout != layout) {
    if (layout == Layout::strips) return "The kernel takes strips.";
    return layout == Layout::rows
               ? "The kernel takes lanes' rows for rows of the matrix; these are fragments or strips."
               : "The kernel takes fragments; these are rows or strips: encode with layout=fragments.";
  }
  if (elements == Elements::int8 && has_floats(matrix)) return "The kernel multiplies int8 elements.";
  if (elements == Elements::floats && !has_floats(matrix)) return "The kernel multiplies bf16 and f8 elements.";
  return "";
}
inline std::string refuses_empty(const backends::CompressedView& matrix) {
  return matrix.shape.elements() == 0 ? "The kernel takes at least one row and one column." : "";
}

template <int kValue>
using Constant = std::integral_constant<int, kValue>;

// Codes that settings for speed choose and that published configurations name. They have kernels for windows of three
// symbols, which need tables of at most 2^10 entries. All other codes have one kernel a product, because every further
// template argument is compiled for all of them.
constexpr bool is_chosen_code(int symbol_cols, int form) {
  if (symbol_cols == 4) return form == 0 || form == 3 || form == 4 || form == kFolded + 3 || form == kFolded + 4;
  return form == 1 || form == 2 || (form >= kFolded + 3 && form <= kFolded + 5);
}

// Calls f(columns of a symbol, form, symbols a window), all constants, for a code of int8 elements. f returns the
// kernel, a pointer of one type for all. kShortWindows(columns of a symbol, form) says whether there is a kernel for
// windows of three symbols.
template <bool (*kShortWindows)(int, int) = is_chosen_code, typename F>
auto for_code(const Header& code, F f) {
  using Kernel = decltype(f(Constant<4>{}, Constant<0>{}, Constant<2>{}));
  const auto for_window = [&](auto symbol_cols, auto form) -> Kernel {
    constexpr Form kForm = form();
    if constexpr (kForm.raw_bits < least_raw_bits(symbol_cols, kForm.folded) ||
                  kForm.raw_bits > most_raw_bits(symbol_cols, kForm.folded)) {
      return nullptr;
    } else {
      if constexpr (kShortWindows(symbol_cols, form))
        if (code.table_bits <= 10) return f(symbol_cols, form, Constant<3>{});
      return f(symbol_cols, form, Constant<2>{});
    }
  };
  const auto for_form = [&]<int... kForm>(auto symbol_cols, std::integer_sequence<int, kForm...>)->Kernel {
    Kernel kernel = nullptr;
    (void)((code.form == kForm && (kernel = for_window(symbol_cols, Constant<kForm>{}), true)) || ...);
    return kernel;
  };
  using Forms = std::integer_sequence<int, 0, 1, 2, 3, 4, 5, 6, 7, kFolded + 1, kFolded + 2, kFolded + 3, kFolded + 4,
                                      kFolded + 5>;
  return code.symbol_cols == 4 ? for_form(Constant<4>{}, Forms{}) : for_form(Constant<8>{}, Forms{});
}

// The same for codes of bf16 and f8 elements. Windows of f8 and of symbols of eight always have two symbols.
template <typename F>
auto for_float_code(const Header& code, F f) {
  if (is_f8(code.form) && code.symbol_cols == 8) return f(Constant<8>{}, Constant<f8_form(8)>{}, Constant<2>{});
  if (is_f8(code.form)) return f(Constant<4>{}, Constant<f8_form(4)>{}, Constant<2>{});
  if (code.symbol_cols == 8) return f(Constant<8>{}, Constant<float_raw_bits(8)>{}, Constant<2>{});
  constexpr Constant<float_raw_bits(4)> kBits;
  return code.table_bits <= 10 ? f(Constant<4>{}, kBits, Constant<3>{}) : f(Constant<4>{}, kBits, Constant<2>{});
}

constexpr bool has_no_short_windows(int, int) { return false; }

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE

// Names for the parts of a case, so that a word can ask for them in tables and figures (--x, --y, --series, --facet),
// and the labels that tables and figures share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record.h"

namespace ecmv::reports {

// The names of fields that group cases, sorted.
std::vector<std::string_view> field_names();
// Whether `name` is a field, or an older name of one, as "tuning" of "policy".
bool is_field(std::string_view name);

// Text of a field, "" if the case has none. "setting.NAME" is the codec with its value of that setting, or the codec
// alone if it has no such setting. Throws ReportError (with the known names) for an unknown field.
std::string field_text(const CaseRecord& record, std::string_view field);

// The same, but of "setting.NAME" the value alone, "" if the codec has no such setting.
std::string field_value(const CaseRecord& record, std::string_view field);

// Number of a field that has one (rows, cols, dimension, sigma, layers, seed, threads, elements, batch), else NaN.
double field_number(const CaseRecord& record, std::string_view field);

// "1 token", "8 tokens".
std::string tokens_text(const CaseRecord& record);
// For op step: "32 blocks in memory", "32 blocks in memory, copies of 2 that were encoded".
std::string blocks_text(const CaseRecord& record);

// "coder", or "coder†" if it came from a shared object.
std::string codec_name(const CaseRecord& record);
// "coder[lanes=32,prob_bits=12]": the name with the settings that differ from the codec's defaults. Older records do
// not know the defaults; for them all settings are shown except those that are switched off (0, false, "", none, auto,
// default).
std::string codec_label(const CaseRecord& record);
// Whether it is a kernel apart from the fused one. `auto` may decode first and is one kernel all the same.
bool is_unfused_kernel(const CaseRecord& record);
// "simd block_rows AVX3 x2": backend, variant, policy unless default, instruction set, threads.
std::string kernel_label(const CaseRecord& record);
// "AMD EPYC, 2 threads"; for a GPU its name alone.
std::string device_label(const CaseRecord& record);
// "gaussian σ=4": the data without its shape, with the parameters other than sigma.
std::string source_label(const CaseRecord& record);
// The same without the quantiser.
std::string weights_label(const CaseRecord& record);
// "absmax[bits=4,group=128]"; "" without a quantiser.
std::string quantiser_label(const CaseRecord& record);
// "4096 × 4096 (10 layers)"; for mixed shapes "4096 × 4096 (2 layers), 11008 × 4096 (1 layer)".
std::string shape_label(const CaseRecord& record);

// Elements of all layers: time.elements if the case was timed, else the elements of the shapes.
std::int64_t elements_of(const CaseRecord& record);
// Rows of a square matrix; square root of the element count of one matrix otherwise. NaN for layers of mixed shapes.
double dimension_of(const CaseRecord& record);
// Whether all layers are square and of one size.
bool is_square(const CaseRecord& record);

// Whether the elements come back unchanged; for lossy codecs `check.decode` names the bound that they keep instead.
bool is_exact(const CaseRecord& record);

// Bits of an element of that type, from its name: 8 for "i8" and "f8_e5m2", 16 for "bf16"; 8 if it has no number. For
// several types, "i8, u8", their common number of bits, else NaN.
double type_bits(std::string_view type);

// "12.3 G", "4.56 M", "0.464": three digits, and an SI prefix from 1000 on. "–" for NaN.
std::string si_text(double value);
// "32 KiB", "1.5 MiB".
std::string bytes_text(double bytes);
// Rounded to `digits` after the point, "–" for NaN.
std::string fixed_text(double value, int digits);
// Only lower case letters, digits and '_', for file names and HTML ids.
std::string slug(std::string_view text);

// Text from outside as one line that every output can hold: control characters become blanks, and bytes that are not
// UTF-8 question marks.
std::string one_line(std::string_view text);

}  // namespace ecmv::reports

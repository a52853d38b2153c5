// Names for the parts of a case, so that tables and figures can be asked for them by a word (--x, --y, --series,
// --facet), and the labels that all of them share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record.h"

namespace ecmv::reports {

// The fields that group cases, sorted.
std::vector<std::string_view> field_names();
// Whether `name` is one of them, or an older name of one: "tuning" of "policy".
bool is_field(std::string_view name);

// Text of a field, "" when the case has none. "setting.NAME" is the codec with its value of that setting, or the codec
// alone where it has no such setting. Throws ReportError (with the known names) for an unknown field.
std::string field_text(const CaseRecord& record, std::string_view field);

// Number of a field that has one (rows, cols, dimension, sigma, layers, threads, elements, batch), else NaN.
double field_number(const CaseRecord& record, std::string_view field);

// "1 token", "8 tokens".
std::string tokens_text(const CaseRecord& record);
// For op step: "32 blocks in memory", "32 blocks in memory, copies of 2 that were encoded".
std::string blocks_text(const CaseRecord& record);

// "coder", or "coder†" where it came from a shared object.
std::string codec_name(const CaseRecord& record);
// "coder[lanes=32,prob_bits=12]": the name with the settings that are not the codec's defaults. Older records do not
// tell which these are: there all are shown but those that are switched off (0, false, "", none, auto, default).
std::string codec_label(const CaseRecord& record);
// "simd block_rows AVX3 x2": backend, variant, policy unless default, instruction set, threads.
std::string kernel_label(const CaseRecord& record);
// "AMD EPYC, 2 threads"; of a GPU its name alone.
std::string device_label(const CaseRecord& record);
// "gaussian σ=4": the data without its shape; parameters that are not the sigma are added.
std::string source_label(const CaseRecord& record);
// The same without the quantiser: what was there before it.
std::string weights_label(const CaseRecord& record);
// "absmax[bits=4,group=128]"; "" where nothing was quantised.
std::string quantiser_label(const CaseRecord& record);
// "4096 × 4096 (10 layers)"; of mixed shapes "4096 × 4096 (2 layers), 11008 × 4096 (1 layer)".
std::string shape_label(const CaseRecord& record);

// Elements of all layers: time.elements when the case was timed, else what the shapes say.
std::int64_t elements_of(const CaseRecord& record);
// Rows of a square matrix; square root of the element count of one matrix otherwise. NaN for layers of mixed shapes.
double dimension_of(const CaseRecord& record);
// Whether all layers are square and of one size.
bool is_square(const CaseRecord& record);

// Whether the elements come back as they were: of lossy codecs `check.decode` says which bound they keep instead.
bool is_exact(const CaseRecord& record);

// Bits of an element of that type, from its name: 8 of "i8" and "f8_e5m2", 16 of "bf16"; 8 where there is no number in
// it. Of several types, "i8, u8", what they have in common, else NaN.
double type_bits(std::string_view type);

// "12.3 G", "4.56 M": three digits and an SI prefix. "–" for NaN.
std::string si_text(double value);
// "32 KiB", "1.5 MiB".
std::string bytes_text(double bytes);
// Rounded to `digits` after the point, "–" for NaN.
std::string fixed_text(double value, int digits);
// Lower case letters, digits and '_' only: for file names and HTML ids.
std::string slug(std::string_view text);

// Text from outside as one line that every output can hold: control characters are blanks, bytes that are no UTF-8 a
// question mark each.
std::string one_line(std::string_view text);

}  // namespace ecmv::reports

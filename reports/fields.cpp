// The table of fields, and the labels made from them.
#include "reports/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace ecmv::reports {
namespace {

std::string positive_text(std::int64_t value) { return value > 0 ? fmt::format("{}", value) : ""; }

bool is_switched_off(const Value& value) {
  const std::string text = to_string(value);
  return text.empty() || text == "0" || text == "false" || text == "none" || text == "auto" || text == "default";
}

std::string list_text(const Values& values, bool hide_switched_off) {
  std::string list;
  for (const auto& [name, value] : values) {
    if (hide_switched_off && is_switched_off(value)) continue;
    list += fmt::format("{}{}={}", list.empty() ? "" : ",", name, to_string(value));
  }
  return list;
}

// ", seeds 1, 2, 3" of a case that stands for several.
std::string seeds_text(const CaseRecord& r) {
  return r.pooled.seeds.empty() ? "" : fmt::format(", seeds {}", fmt::join(r.pooled.seeds, ", "));
}

struct Field {
  std::string_view name;
  std::string (*text)(const CaseRecord&);
};

constexpr std::array kFields = {
    Field{"activations", [](const CaseRecord& r) { return has_tokens(r) ? r.kernel.activations : ""; }},
    Field{"backend", [](const CaseRecord& r) { return r.kernel.backend; }},
    Field{"batch", [](const CaseRecord& r) { return has_tokens(r) ? positive_text(r.kernel.batch) : std::string(); }},
    Field{"cache", [](const CaseRecord& r) { return r.time.cache; }},
    Field{"codec", [](const CaseRecord& r) { return r.codec.id; }},
    Field{"codec_library", [](const CaseRecord& r) { return r.codec.library_path; }},
    Field{"configuration", [](const CaseRecord& r) { return codec_label(r) + " · " + kernel_label(r); }},
    Field{"data", [](const CaseRecord& r) { return source_label(r) + ", " + shape_label(r) + seeds_text(r); }},
    Field{"data_source", [](const CaseRecord& r) { return r.data.source; }},
    Field{"device", [](const CaseRecord& r) { return r.kernel.device; }},
    Field{"dimension",
          [](const CaseRecord& r) {
            const double dimension = dimension_of(r);
            return std::isnan(dimension) ? std::string() : fmt::format("{}", std::llround(dimension));
          }},
    Field{"engine", [](const CaseRecord& r) { return r.ranks.engine; }},
    Field{"experiment", [](const CaseRecord& r) { return r.experiment; }},
    Field{"kernel", [](const CaseRecord& r) { return kernel_label(r); }},
    Field{"launch", [](const CaseRecord& r) { return r.kernel.launch; }},
    Field{"layers", [](const CaseRecord& r) { return positive_text(r.data.layers); }},
    Field{"op", [](const CaseRecord& r) { return r.kernel.op; }},
    Field{"policy", [](const CaseRecord& r) { return r.kernel.policy; }},
    Field{"quantiser", [](const CaseRecord& r) { return quantiser_label(r); }},
    Field{"ranks", [](const CaseRecord& r) { return positive_text(r.ranks.count); }},
    Field{"run", [](const CaseRecord& r) { return r.run; }},
    Field{"scheme", [](const CaseRecord& r) { return codec_label(r); }},
    Field{"seed",
          [](const CaseRecord& r) {
            return r.pooled.seeds.empty() ? fmt::format("{}", r.data.seed)
                                          : fmt::format("{}", fmt::join(r.pooled.seeds, ", "));
          }},
    Field{"settings", [](const CaseRecord& r) { return list_text(r.codec.settings, false); }},
    Field{"shape", [](const CaseRecord& r) { return shape_label(r); }},
    Field{"sigma",
          [](const CaseRecord& r) {
            return std::isnan(r.data.sigma) ? std::string() : fmt::format("{:.4g}", r.data.sigma);
          }},
    Field{"simd_target", [](const CaseRecord& r) { return r.kernel.simd_target; }},
    Field{"source", [](const CaseRecord& r) { return source_label(r); }},
    Field{"split", [](const CaseRecord& r) { return r.ranks.split; }},
    Field{"threads", [](const CaseRecord& r) { return positive_text(r.kernel.threads); }},
    Field{"type", [](const CaseRecord& r) { return r.data.type; }},
    Field{"variant", [](const CaseRecord& r) { return r.kernel.variant; }},
    Field{"weights", [](const CaseRecord& r) { return weights_label(r) + ", " + shape_label(r); }},
};

const Field* find_field(std::string_view name) {
  if (name == "tuning") name = "policy";  // its older name
  for (const Field& field : kFields)
    if (field.name == name) return &field;
  return nullptr;
}

}  // namespace

std::vector<std::string_view> field_names() {
  std::vector<std::string_view> names;
  for (const Field& field : kFields) names.push_back(field.name);
  return names;
}

bool is_field(std::string_view name) { return find_field(name) != nullptr; }

std::string field_text(const CaseRecord& record, std::string_view field) {
  if (constexpr std::string_view kSetting = "setting."; field.starts_with(kSetting)) {
    const std::string name(field.substr(kSetting.size()));
    const auto setting = record.codec.settings.find(name);
    return setting == record.codec.settings.end()
               ? codec_name(record)
               : fmt::format("{} {}={}", codec_name(record), name, to_string(setting->second));
  }
  if (const Field* known = find_field(field)) return known->text(record);
  throw ReportError(
      fmt::format("a case has no field \"{}\"; the fields are {}", field, fmt::join(field_names(), ", ")));
}

std::string field_value(const CaseRecord& record, std::string_view field) {
  constexpr std::string_view kSetting = "setting.";
  if (!field.starts_with(kSetting)) return field_text(record, field);
  const auto setting = record.codec.settings.find(std::string(field.substr(kSetting.size())));
  return setting == record.codec.settings.end() ? "" : to_string(setting->second);
}

double field_number(const CaseRecord& record, std::string_view field) {
  if (field == "rows") return static_cast<double>(record.data.rows);
  if (field == "cols") return static_cast<double>(record.data.cols);
  if (field == "dimension") return dimension_of(record);
  if (field == "sigma") return record.data.sigma;
  if (field == "seed") return static_cast<double>(record.data.seed);
  if (field == "layers") return static_cast<double>(record.data.layers);
  if (field == "threads") return static_cast<double>(record.kernel.threads);
  if (field == "ranks") return static_cast<double>(record.ranks.count);
  if (field == "batch") return static_cast<double>(record.kernel.batch);
  if (field == "elements") return static_cast<double>(elements_of(record));
  return kUnknown;
}

bool is_of_program(const CaseRecord& record) { return record.kernel.op == "generate" || record.kernel.op == "prompt"; }

bool has_tokens(const CaseRecord& record) {
  return record.kernel.op == "matmul" || record.kernel.op == "step" || is_of_program(record);
}

std::string tokens_text(const CaseRecord& record) {
  return fmt::format("{} token{}{}", record.kernel.batch, record.kernel.batch == 1 ? "" : "s",
                     record.kernel.activations == "f32" ? "" : " of " + record.kernel.activations);
}

std::string blocks_text(const CaseRecord& record) {
  const auto [blocks, encoded] = std::pair(record.step.blocks, record.step.encoded_blocks);
  const std::string text = fmt::format("{} block{} in memory", blocks, blocks == 1 ? "" : "s");
  return blocks == encoded
             ? text
             : text + fmt::format(", copies of {} that {} encoded", encoded, encoded == 1 ? "was" : "were");
}

std::string codec_name(const CaseRecord& record) {
  return record.codec.library_path.empty() ? record.codec.id : record.codec.id + "†";
}

std::string codec_label(const CaseRecord& record) {
  std::string settings;
  if (record.codec.non_default) {
    Values shown;
    for (const std::string& name : *record.codec.non_default)
      if (const auto setting = record.codec.settings.find(name); setting != record.codec.settings.end())
        shown.insert(*setting);
    settings = list_text(shown, false);
  } else {  // an older record
    settings = list_text(record.codec.settings, true);
  }
  return settings.empty() ? codec_name(record) : fmt::format("{}[{}]", codec_name(record), settings);
}

bool is_unfused_kernel(const CaseRecord& record) { return record.kernel.unfused && record.kernel.variant != "auto"; }

std::string kernel_label(const CaseRecord& record) {
  const auto& kernel = record.kernel;
  std::string label = kernel.backend;
  auto add = [&](const std::string& word) {
    if (!word.empty()) label += (label.empty() ? "" : " ") + word;
  };
  add(kernel.variant);
  if (kernel.policy != "default" && kernel.policy != kernel.variant) add(kernel.policy);
  add(kernel.simd_target);
  if (is_unfused_kernel(record)) add("unfused");
  if (kernel.launch == "plain") add("plain launches");
  add(record.ranks.engine);
  if (record.ranks.split == "pairs") add("pairs");
  if (kernel.threads > 0 && kernel.compute_units == 0) add(fmt::format("×{}", kernel.threads));
  return label;
}

std::string device_label(const CaseRecord& record) {
  const auto& kernel = record.kernel;
  std::string label = kernel.device.empty() ? kernel.backend : kernel.device;
  if (kernel.threads > 0 && kernel.compute_units == 0)
    label += fmt::format("{}{} thread{}", label.empty() ? "" : ", ", kernel.threads, kernel.threads == 1 ? "" : "s");
  return label;
}

std::string quantiser_label(const CaseRecord& record) {
  const auto found = record.data.parameters.find("quantise");
  return found == record.data.parameters.end() ? "" : to_string(found->second);
}

std::string weights_label(const CaseRecord& record) {
  CaseRecord before;
  before.data = record.data;
  before.data.parameters.erase("quantise");
  return source_label(before);
}

std::string source_label(const CaseRecord& record) {
  std::string label = record.data.source;
  if (std::isfinite(record.data.sigma)) label += fmt::format(" σ={:.4g}", record.data.sigma);
  Values others = record.data.parameters;
  others.erase("sigma");
  const std::string list = list_text(others, true);
  return list.empty() ? label : fmt::format("{} ({})", label, list);
}

std::string shape_label(const CaseRecord& record) {
  if (!record.data.shapes.empty()) {
    std::string list;
    for (const auto& [rows, cols, layers] : record.data.shapes)
      list +=
          fmt::format("{}{} × {} ({} layer{})", list.empty() ? "" : ", ", rows, cols, layers, layers == 1 ? "" : "s");
    return list;
  }
  const std::string shape = fmt::format("{} × {}", record.data.rows, record.data.cols);
  return record.data.layers > 1 ? fmt::format("{} ({} layers)", shape, record.data.layers) : shape;
}

bool CaseRecord::Data::operator==(const Data& other) const {
  const bool same_sigma = sigma == other.sigma || (std::isnan(sigma) && std::isnan(other.sigma));
  return same_sigma && source == other.source && rows == other.rows && cols == other.cols && shapes == other.shapes &&
         type == other.type && layers == other.layers && seed == other.seed && hash == other.hash &&
         parameters == other.parameters;
}

std::int64_t elements_of(const CaseRecord& record) {
  if (record.time.elements > 0) return record.time.elements;
  const auto product = [](std::initializer_list<std::int64_t> factors) {
    std::int64_t elements = 1;  // a case refused for its size may have more than a number holds
    for (const std::int64_t factor : factors)
      if (__builtin_mul_overflow(elements, factor, &elements)) return std::numeric_limits<std::int64_t>::max();
    return elements;
  };
  if (record.data.shapes.empty()) return product({record.data.rows, record.data.cols, record.data.layers});
  std::int64_t elements = 0;
  for (const auto& [rows, cols, layers] : record.data.shapes)
    if (__builtin_add_overflow(elements, product({rows, cols, layers}), &elements))
      return std::numeric_limits<std::int64_t>::max();
  return elements;
}

bool is_square(const CaseRecord& record) { return record.data.shapes.empty() && record.data.rows == record.data.cols; }

double dimension_of(const CaseRecord& record) {
  if (!record.data.shapes.empty()) return kUnknown;
  return std::sqrt(static_cast<double>(record.data.rows) * static_cast<double>(record.data.cols));
}

bool is_exact(const CaseRecord& record) { return record.check.decode.empty() || record.check.decode == "exact"; }

bool has_distortion(const CaseRecord& record) { return !std::isnan(record.distortion.largest_error); }

double type_bits(std::string_view type) {
  if (const std::size_t end = type.find(", "); end != std::string_view::npos) {
    const double first = type_bits(type.substr(0, end)), others = type_bits(type.substr(end + 2));
    return first == others ? first : kUnknown;
  }
  const std::size_t first = type.find_first_of("0123456789");
  double bits = 0;
  for (std::size_t i = first; i < type.size() && std::isdigit(static_cast<unsigned char>(type[i])); ++i)
    bits = 10 * bits + (type[i] - '0');
  return bits > 0 ? bits : 8;
}

std::string si_text(double value) {
  if (!std::isfinite(value)) return "–";
  if (value != 0 && std::abs(value) < 0.9995) return fmt::format("{:.3g}", value);  // not "464 m"
  constexpr std::array<std::string_view, 5> kPrefixes = {"", "k", "M", "G", "T"};
  std::size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix < 4) value /= 1000, ++prefix;
  const int digits = std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}{}", value, digits, kPrefixes[prefix].empty() ? "" : " ", kPrefixes[prefix]);
}

std::string bytes_text(double bytes) {
  if (!std::isfinite(bytes)) return "–";
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) bytes /= 1024, ++unit;
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

std::string fixed_text(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "–";
}

std::string one_line(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const std::size_t length = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
    bool whole = length > 0 && i + length <= text.size();
    for (std::size_t k = 1; whole && k < length; ++k) whole = (static_cast<unsigned char>(text[i + k]) & 0xC0) == 0x80;
    if (whole && length >= 3) {  // shortest form, no surrogates, within Unicode
      const unsigned char second = static_cast<unsigned char>(text[i + 1]);
      whole = !(c == 0xE0 && second < 0xA0) && !(c == 0xED && second >= 0xA0) && !(c == 0xF0 && second < 0x90) &&
              !(c == 0xF4 && second >= 0x90);
    }
    if (!whole)
      line += '?';
    else if (c < 0x20 || c == 0x7F)
      line += ' ';
    else
      line += text.substr(i, length);
    i += whole ? length : 1;
  }
  return line;
}

std::string slug(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (text.substr(i).starts_with("σ"))
      result += "sigma", ++i;
    else if (std::isalnum(c))
      result += static_cast<char>(std::tolower(c));
    else if (c == '.' && !result.empty())
      result += 'p';
    else if (!result.empty() && result.back() != '_')
      result += '_';
  }
  while (!result.empty() && result.back() == '_') result.pop_back();
  return result;
}

}  // namespace ecmv::reports

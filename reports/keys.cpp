// Parts of names, separated by '/', the words of a part by ','.
#include "reports/keys.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <set>
#include <string_view>
#include <vector>

#include "reports/fields.h"
#include "reports/tables/tables.h"

namespace ecmv::reports {
namespace {

// Replaces characters that TeX or a shell might interpret by '-'.
std::string plain(std::string_view text) {
  std::string word;
  for (const char c : text) {
    const bool kept =
        std::isalnum(static_cast<unsigned char>(c)) || std::string_view(".=+").find(c) != std::string_view::npos;
    if (kept)
      word += c;
    else if (!word.empty() && word.back() != '-')
      word += '-';
  }
  while (!word.empty() && word.back() == '-') word.pop_back();
  return word;
}

std::string joined(const std::vector<std::string>& words, char separator) {
  std::string text;
  for (const std::string& word : words)
    if (!word.empty()) text += (text.empty() ? "" : std::string(1, separator)) + word;
  return text;
}

std::string codec_part(const CaseRecord& r) {
  std::vector<std::string> words = {plain(r.codec.id)};
  const auto add = [&](const std::string& name, const Value& value) {
    words.push_back(plain(name) + "=" + plain(to_string(value)));
  };
  if (!r.codec.non_default) {  // an older record: all settings
    for (const auto& [name, value] : r.codec.settings) add(name, value);
    return joined(words, ',');
  }
  for (const std::string& name : *r.codec.non_default)
    if (const auto setting = r.codec.settings.find(name); setting != r.codec.settings.end()) add(name, setting->second);
  return joined(words, ',');
}

std::string source_part(const CaseRecord& r) {
  std::vector<std::string> words;
  if (r.data.source != "gaussian") words.push_back(plain(r.data.source));
  for (const auto& [name, value] : r.data.parameters)
    if (name != "sigma") words.push_back(plain(name) + "=" + plain(to_string(value)));
  if (std::isfinite(r.data.sigma) && (r.data.parameters.contains("sigma") || r.data.parameters.empty()))
    words.push_back(fmt::format("s{:.4g}", r.data.sigma));
  return words.empty() ? "gaussian" : joined(words, ',');
}

std::string shape_part(const CaseRecord& r) {
  const auto shape = [](std::int64_t rows, std::int64_t cols) {
    return rows == cols ? fmt::format("{}", rows) : fmt::format("{}x{}", rows, cols);
  };
  if (r.data.shapes.empty()) return shape(r.data.rows, r.data.cols);
  std::vector<std::string> shapes;
  for (const auto& [rows, cols, layers] : r.data.shapes) shapes.push_back(shape(rows, cols));
  return joined(shapes, '+');
}

std::string op_part(const CaseRecord& r) {
  if (!has_tokens(r)) return plain(r.kernel.op);
  return fmt::format("{},b{}{}", r.kernel.op, r.kernel.batch,
                     r.kernel.activations == "f32" ? "" : "," + plain(r.kernel.activations));
}

std::string kernel_part(const CaseRecord& r) {
  const auto& kernel = r.kernel;
  return joined(
      {plain(kernel.backend), plain(kernel.variant), kernel.policy == "default" ? "" : plain(kernel.policy),
       plain(kernel.simd_target), is_unfused_kernel(r) ? "unfused" : "", kernel.launch == "plain" ? "plain" : "",
       plain(r.ranks.engine), r.ranks.split == "pairs" ? "pairs" : ""},
      ',');
}

std::string threads_part(const CaseRecord& r) {
  return r.kernel.threads > 0 ? fmt::format("t{}", r.kernel.threads) : "";
}

}  // namespace

std::string full_name(const CaseRecord& r) {
  std::string data = shape_part(r);
  if (r.data.layers > 1) data += fmt::format(",layers={}", r.data.layers);
  if (r.data.seed > 1) data += fmt::format(",seed={}", r.data.seed);
  return joined({op_part(r), codec_part(r), source_part(r), data, joined({kernel_part(r), threads_part(r)}, ',')}, '/');
}

CaseKeys::CaseKeys(const RecordSet& records) {
  std::set<std::string> devices, threads;
  for (const CaseRecord& r : records.cases) {
    if (r.status != Status::ok) continue;
    devices.insert(r.kernel.device);
    threads.insert(threads_part(r));
  }
  for (const CaseRecord* record : sorted_cases(records)) {  // by speed
    const CaseRecord& r = *record;
    const std::string base = joined(
        {codec_part(r), source_part(r), shape_part(r), r.kernel.op == "matvec" ? "" : op_part(r),
         joined({devices.size() > 1 ? plain(r.kernel.device) : "", threads.size() > 1 ? threads_part(r) : ""}, ',')},
        '/');
    std::string key = base;
    if (r.status != Status::ok) {
      keys_[record] = base;  // this case has no values to name
      continue;
    }
    if (cases_.contains(base)) key = joined({base, kernel_part(r)}, '/');
    const std::string wanted = key;
    for (int copy = 2; cases_.contains(key); ++copy) key = fmt::format("{}.{}", wanted, copy);
    cases_[key] = record;
    keys_[record] = key;
  }
}

const CaseRecord* CaseKeys::find(const std::string& key) const {
  const auto found = cases_.find(key);
  return found == cases_.end() ? nullptr : found->second;
}

}  // namespace ecmv::reports

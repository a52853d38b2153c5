// Compares two sets of records, or the codecs of one set. Medians alone mislead: two runs of the same binary differ by
// a few percent on a shared machine. So a verdict requires that the whole interval of the ratio lies on one side.
#include "reports/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "reports/fields.h"
#include "reports/keys.h"
#include "reports/metrics.h"
#include "reports/tables/tables.h"

namespace ecmv::reports {
namespace {

// How many of the smallest (and as many of the largest) of the n * m pairwise ratios lie outside of the interval: the
// largest k with P(U <= k - 1) <= (1 - confidence) / 2 for the rank statistic U of two samples of n and m; 0 if there
// is none. Exact counts up to 40 samples a side, the normal approximation above.
std::size_t cut_pairs(std::size_t n, std::size_t m, double confidence) {
  const double tail = (1 - confidence) / 2;
  if (n > 40 || m > 40) {
    const double nm = static_cast<double>(n) * static_cast<double>(m);
    const double deviation = std::sqrt(nm * static_cast<double>(n + m + 1) / 12);
    double low = -10, high = 0;  // finds the quantile of the normal distribution by bisection
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (0.5 * std::erfc(-middle / std::sqrt(2.0)) < tail ? low : high) = middle;
    }
    return static_cast<std::size_t>(std::max(0.0, std::floor(nm / 2 + low * deviation)));
  }
  // ways[u]: the number of orders of i samples of one set and m of the other whose statistic is u. Samples of the first
  // set are added one at a time by the generating function, the Gaussian binomial coefficient.
  std::vector<double> ways(n * m + 1, 0.0);
  ways[0] = 1;
  for (std::size_t i = 1; i <= n; ++i) {
    for (std::size_t u = n * m; u + 1 > m + i; --u) ways[u] -= ways[u - (m + i)];
    for (std::size_t u = i; u <= n * m; ++u) ways[u] += ways[u - i];
  }
  double total = 0, below = 0;
  for (double count : ways) total += count;
  std::size_t cut = 0;
  for (; cut < ways.size(); ++cut) {
    below += ways[cut];
    if (below / total > tail) break;
  }
  return cut;
}

// All n * m ratios of two samples by rank, without storing them.
class Ratios {
 public:
  Ratios(std::vector<double> base, std::vector<double> other) : base_(std::move(base)), other_(std::move(other)) {
    std::sort(base_.begin(), base_.end());
    std::sort(other_.rbegin(), other_.rend());
  }
  // The ratio of this rank, by bisection of bit patterns: positive numbers sort like their bits.
  double ranked(std::size_t rank) const {
    auto low = std::bit_cast<std::uint64_t>(base_.front() / other_.front()),
         high = std::bit_cast<std::uint64_t>(base_.back() / other_.back());
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (count_up_to(std::bit_cast<double>(middle)) > rank)
        high = middle;
      else
        low = middle + 1;
    }
    return std::bit_cast<double>(low);
  }

 private:
  std::size_t count_up_to(double limit) const {
    std::size_t count = 0, fitting = other_.size();  // of the other sample, largest first
    for (const double b : base_) {
      while (fitting > 0 && b / other_[fitting - 1] > limit) --fitting;
      count += fitting;
    }
    return count;
  }
  std::vector<double> base_, other_;
};

using LastRecords = std::map<std::string, const CaseRecord*>;

LastRecords last_records(const RecordSet& records) {
  LastRecords last;
  for (const CaseRecord& record : records.cases) {
    const CaseRecord*& kept = last[record.case_key];
    if (!kept || record.status == Status::ok || kept->status != Status::ok) kept = &record;
  }
  return last;
}

// What a case is, wherever its data lay: their hash instead of their path.
std::string content_of(const CaseRecord& r) {
  if (r.data.hash.empty()) return "";
  CaseRecord same;
  same.status = Status::ok;
  same.data = r.data, same.codec = r.codec, same.kernel = r.kernel;
  same.codec.library_path.clear(), same.kernel.device.clear();
  for (auto& [name, value] : same.data.parameters)
    if (auto* text = std::get_if<std::string>(&value)) text->erase(0, text->find_last_of('/') + 1);
  same.ranks.count = r.ranks.count, same.ranks.engine = r.ranks.engine, same.ranks.split = r.ranks.split;
  same.kernel.compute_units = 0;
  return to_json_line(same);
}

// Gives records of the same content the key that they have in `base`.
void pair_by_content(const LastRecords& base, LastRecords& other) {
  std::map<std::string, std::string> keys;
  for (const auto& [key, record] : base)
    if (const std::string content = content_of(*record); !other.contains(key) && !content.empty()) keys[content] = key;
  if (keys.empty()) return;
  for (auto at = other.begin(); at != other.end();) {
    const auto found = base.contains(at->first) ? keys.end() : keys.find(content_of(*at->second));
    if (found == keys.end()) {
      ++at;
      continue;
    }
    other.emplace(found->second, at->second);
    keys.erase(found);
    at = other.erase(at);
  }
}

bool has_several_seeds(const RecordSet& records) {
  std::map<std::string, std::uint64_t> seeds;
  return std::any_of(records.cases.begin(), records.cases.end(), [&](const CaseRecord& r) {
    return seeds.try_emplace(field_text(r, "data"), r.data.seed).first->second != r.data.seed;
  });
}

int rank(Verdict verdict) {
  constexpr std::array kWorstFirst = {Verdict::broken, Verdict::slower, Verdict::larger,    Verdict::lost,
                                      Verdict::unsure, Verdict::faster, Verdict::smaller,   Verdict::repaired,
                                      Verdict::added,  Verdict::same,   Verdict::same_size, Verdict::not_ok};
  return static_cast<int>(std::find(kWorstFirst.begin(), kWorstFirst.end(), verdict) - kWorstFirst.begin());
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  constexpr std::array<std::string_view, 12> kNames = {"SAME",   "FASTER", "SLOWER",   "UNSURE", "SAME SIZE", "SMALLER",
                                                       "LARGER", "BROKEN", "REPAIRED", "NOT OK", "LOST",      "ADDED"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

Interval ratio_interval(const std::vector<double>& base, const std::vector<double>& other, double confidence) {
  for (const auto* samples : {&base, &other})
    for (double sample : *samples)
      if (!(sample > 0)) throw ReportError("a time sample is not a positive number of seconds");
  if (base.empty() || other.empty()) throw ReportError("there are no samples to compare");
  const Ratios ratios(base, other);
  const std::size_t count = base.size() * other.size();
  const double middle = std::sqrt(ratios.ranked((count - 1) / 2) * ratios.ranked(count / 2));
  const std::size_t cut = cut_pairs(base.size(), other.size(), confidence);
  if (cut == 0) return {0, middle, INFINITY};
  return {ratios.ranked(cut - 1), middle, ratios.ranked(count - cut)};
}

Comparison compare_cases(const CaseRecord& base, const CaseRecord& other, const CompareOptions& options) {
  Comparison row{Verdict::unsure, &base, &other, {kUnknown, kUnknown, kUnknown}};
  const bool base_ok = base.status == Status::ok, other_ok = other.status == Status::ok;
  if (base.size.stored_bytes > 0 && other.size.stored_bytes > 0) {
    row.stored_bytes_change = other.size.stored_bytes - base.size.stored_bytes;
  }
  if (!base_ok || !other_ok) {
    row.verdict = base_ok ? Verdict::broken : other_ok ? Verdict::repaired : Verdict::not_ok;
    row.note = fmt::format("{} -> {}{}{}", to_string(base.status), to_string(other.status),
                           other.reason.empty() ? "" : ": ", other.reason);
    return row;
  }
  if (base.kernel.op == "size" && other.kernel.op == "size") {
    row.verdict = row.stored_bytes_change == 0  ? Verdict::same_size
                  : row.stored_bytes_change > 0 ? Verdict::larger
                                                : Verdict::smaller;
    return row;
  }
  if (base.time.elements != other.time.elements || base.time.cache != other.time.cache) {
    row.note = "not comparable: different elements or cache class";
    return row;
  }
  if (base.time.samples_s.empty() || other.time.samples_s.empty()) {
    row.note = "not comparable: no samples";
    return row;
  }
  row.speed_ratio = ratio_interval(base.time.samples_s, other.time.samples_s, options.confidence);
  if (is_disturbed(base) || is_disturbed(other)) {
    Disturbers disturbers;
    for (const CaseRecord* record : {&base, &other})
      if (is_disturbed(*record)) disturbers.add(*record);
    row.note = "disturbed: " + disturbers.text() + " were in the way";
    return row;
  }
  const double up = 1 + options.smallest_change, down = 1 / up;
  if (row.speed_ratio.low > up)
    row.verdict = Verdict::faster;
  else if (row.speed_ratio.high < down)
    row.verdict = Verdict::slower;
  else if (row.speed_ratio.low >= down && row.speed_ratio.high <= up)
    row.verdict = Verdict::same;
  else if (row.speed_ratio.low == 0)
    row.note = "too few samples for the confidence";
  return row;
}

ComparisonResult compare(const RecordSet& base, const RecordSet& other, const CompareOptions& options) {
  const LastRecords base_last = last_records(base);
  LastRecords other_last = last_records(other);
  pair_by_content(base_last, other_last);
  ComparisonResult result;
  result.several_seeds = has_several_seeds(base) || has_several_seeds(other);
  bool any_pair = false;
  for (const auto& [key, record] : base_last) {
    auto found = other_last.find(key);
    if (found == other_last.end()) {
      result.rows.push_back({Verdict::lost, record, nullptr, {kUnknown, kUnknown, kUnknown}});
      continue;
    }
    any_pair = true;
    result.rows.push_back(compare_cases(*record, *found->second, options));
  }
  if (!any_pair) {
    const auto name_in = [](const LastRecords& records) {
      return records.empty() ? "nothing" : full_name(*records.begin()->second);
    };
    throw ReportError(
        fmt::format("nothing to compare: none of {} and {} cases is in both records; one has {}, the other {}",
                    base_last.size(), other_last.size(), name_in(base_last), name_in(other_last)));
  }
  for (const auto& [key, record] : other_last) {
    if (!base_last.contains(key))
      result.rows.push_back({Verdict::added, nullptr, record, {kUnknown, kUnknown, kUnknown}});
  }
  for (const Comparison& row : result.rows) {
    result.regression |=
        row.verdict == Verdict::slower || row.verdict == Verdict::broken || row.stored_bytes_change > 0;
  }
  std::stable_sort(result.rows.begin(), result.rows.end(),
                   [](const Comparison& a, const Comparison& b) { return rank(a.verdict) < rank(b.verdict); });
  return result;
}

ComparisonResult compare_with_baseline(const RecordSet& records, const std::string& baseline_codecs,
                                       const CompareOptions& options) {
  const Contexts contexts(records, baseline_codecs);
  ComparisonResult result;
  result.baseline_codecs = baseline_codecs;
  result.several_seeds = has_several_seeds(records);
  std::set<std::string> codecs;
  bool any_baseline = false;
  for (const CaseRecord* record : sorted_cases(records)) {
    codecs.insert(record->codec.id);
    if (contexts.is_baseline(*record)) {
      any_baseline = true;
      continue;
    }
    const Context context = contexts.of(*record);
    Comparison row{Verdict::unsure, nullptr, record, {kUnknown, kUnknown, kUnknown}};
    if (record->status != Status::ok)
      row.note = fmt::format("{}: {}", to_string(record->status), record->reason);  // not BROKEN: it was never ok here
    else if (!context.baseline)
      row.note = context.why_no_baseline;
    else
      row = compare_cases(*context.baseline, *record, options);
    result.rows.push_back(std::move(row));
  }
  if (!any_baseline)
    throw ReportError(
        fmt::format("no case has the codec {}; the records have {}", baseline_codecs, fmt::join(codecs, ", ")));
  const auto pairs_end = std::stable_partition(result.rows.begin(), result.rows.end(),
                                               [](const Comparison& row) { return row.base != nullptr; });
  if (pairs_end == result.rows.begin())
    throw ReportError(
        fmt::format("nothing to compare: none of {} cases of other codecs is ok and has a case of {} beside it",
                    result.rows.size(), baseline_codecs));
  return result;
}

std::string ComparisonResult::data_of(const CaseRecord& record) const {
  return field_text(record, "data") + (several_seeds ? fmt::format(", seed {}", record.data.seed) : "");
}

ComparisonSummary summary_of(const ComparisonResult& result) {
  ComparisonSummary summary;
  std::map<int, std::pair<Verdict, std::size_t>> counts;
  double logarithms = 0;
  for (const Comparison& row : result.rows) {
    auto& [verdict, count] = counts[rank(row.verdict)];
    verdict = row.verdict;
    ++count;
    if (!(row.speed_ratio.middle > 0)) continue;
    ++summary.ratios;
    logarithms += std::log(row.speed_ratio.middle);
  }
  for (const auto& [rank, count] : counts) summary.counts.push_back(count);
  if (summary.ratios > 0) summary.mean_ratio = std::exp(logarithms / static_cast<double>(summary.ratios));
  return summary;
}

std::string to_string(const ComparisonSummary& summary) {
  std::string list;
  std::size_t cases = 0;
  for (const auto& [verdict, count] : summary.counts) {
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, to_string(verdict));
    cases += count;
  }
  std::string text = fmt::format("{} case{}: {}", cases, cases == 1 ? "" : "s", list);
  if (summary.ratios > 0)
    text += fmt::format("; geometric mean of {1} speed ratio{2}: {0} ×", fixed_text(summary.mean_ratio, 3),
                        summary.ratios, summary.ratios == 1 ? "" : "s");
  return text;
}

bool is_folded(Verdict verdict) {
  return verdict == Verdict::lost || verdict == Verdict::added || verdict == Verdict::not_ok;
}

Table comparison_table(const ComparisonResult& result, bool all) {
  using Align = Column::Align;
  const bool within_one = !result.baseline_codecs.empty();
  Table table{"comparison",
              within_one ? fmt::format("Comparison with {}", result.baseline_codecs) : "Comparison, base against new",
              "The speed ratio is new over base, with its confidence interval.",
              {},
              {}};
  if (within_one)
    table.caption +=
        " The base of a case is the fastest of these codecs in the same run with the same data, backend and op.";
  table.columns = {{"verdict", "verdict", ""},
                   {"speed_ratio", "speed", "×", Align::right},
                   {"speed_ratio_low", "from", "×", Align::right},
                   {"speed_ratio_high", "to", "×", Align::right},
                   {"base_stored_bytes", "base size", "", Align::right},
                   {"stored_bytes", "size", "", Align::right},
                   {"stored_bytes_change", "size change", "B", Align::right},
                   {"data", "data", ""},
                   {"codec", "codec", ""},
                   {"kernel", "kernel", ""},
                   {"op", "op", ""}};
  if (within_one) table.columns.push_back({"base", "base", ""});  // between two sets the base is the same case
  table.columns.push_back({"note", "note", ""});
  for (const Comparison& row : result.rows) {
    if (!all && is_folded(row.verdict)) continue;
    const CaseRecord& record = row.other ? *row.other : *row.base;
    Cell verdict = text_cell(std::string(to_string(row.verdict)));
    const bool bad = row.verdict == Verdict::slower || row.verdict == Verdict::broken || row.verdict == Verdict::larger;
    const bool good =
        row.verdict == Verdict::faster || row.verdict == Verdict::repaired || row.verdict == Verdict::smaller;
    verdict.tone = bad ? Cell::Tone::bad : good ? Cell::Tone::good : Cell::Tone::plain;
    auto ratio = [](double value) { return number_cell(value, fixed_text(value, 3)); };
    auto size = [](const CaseRecord* r) {
      const std::int64_t bytes = r ? r->size.stored_bytes : 0;
      return bytes > 0 ? Cell{bytes_text(static_cast<double>(bytes)), bytes} : number_cell(kUnknown, "–");
    };
    const std::int64_t bytes_change = row.stored_bytes_change;
    Cell change{bytes_change == 0 ? "0" : fmt::format("{:+d}", bytes_change), bytes_change};
    if (!row.base || !row.other) change = number_cell(kUnknown, "–");
    std::vector<Cell> cells = {verdict,
                               ratio(row.speed_ratio.middle),
                               ratio(row.speed_ratio.low),
                               ratio(row.speed_ratio.high),
                               size(row.base),
                               size(row.other),
                               change,
                               text_cell(result.data_of(record)),
                               text_cell(codec_label(record)),
                               text_cell(kernel_label(record)),
                               text_cell(record.kernel.op)};
    if (within_one)
      cells.push_back(text_cell(row.base ? fmt::format("{} {}", codec_label(*row.base), kernel_label(*row.base)) : ""));
    cells.push_back(text_cell(row.note));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace ecmv::reports

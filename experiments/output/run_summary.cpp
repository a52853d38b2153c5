// See run_summary.h.
#include "experiments/output/run_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <set>

#include <fmt/format.h>

#include "experiments/output/terminal_table.h"
#include "reports/compare.h"
#include "reports/fields.h"
#include "reports/metrics.h"
#include "reports/tables/seeds.h"
#include "reports/tables/tables.h"

namespace ecmv::experiments {
namespace {

using reports::CaseRecord;
using reports::Cell;
using reports::Column;
using reports::Table;

constexpr size_t kMostRows = 16, kMostReasons = 5, kMostFailures = 20, kMostNames = 3;

// The facts that all rows of a table share.
std::string title_of(const CaseRecord& r) {
  std::string title = r.kernel.op;
  if (reports::has_tokens(r)) title += " of " + reports::tokens_text(r);
  title += fmt::format(", {}", reports::field_text(r, "data"));
  if (r.kernel.op == "size") return title;
  if (r.kernel.op == "step") title += ", " + reports::blocks_text(r);
  title += fmt::format(", {}, {} on {}", r.time.cache, r.kernel.backend, r.kernel.device);
  if (r.kernel.compute_units == 0)
    title += fmt::format(" with {} thread{}", r.kernel.threads, r.kernel.threads == 1 ? "" : "s");
  return title;
}

std::string gigabytes_of(const CaseRecord& r) {
  const double gigabytes = 1e-9 * static_cast<double>(r.size.stored_bytes);
  return reports::fixed_text(gigabytes, gigabytes < 10 ? 3 : gigabytes < 100 ? 2 : 1);
}

Cell fixed(double value, int digits) {  // two significant digits at least
  return reports::interval_cell(value, {reports::kUnknown, reports::kUnknown}, 1, digits);
}

// "1.33 (1.31 … 1.35)", "1" for the baseline; "!" if the machine was busy.
std::vector<Cell> speedup_of(const CaseRecord& r, const reports::Context& context) {
  Cell ratio = fixed(reports::find_metric("speedup_vs_raw").value(r, context), 2), interval = reports::text_cell("");
  if (context.baseline != nullptr && context.baseline != &r) {
    const reports::Interval found = reports::compare_cases(*context.baseline, r).speed_ratio;
    if (found.low > 0) interval.text = fmt::format("{:.2f} … {:.2f}", found.low, found.high);
  }
  if (const std::string_view mark = reports::mark_of(reports::disturbance_of(r, context)); !mark.empty())
    interval.text += mark.substr(interval.text.empty() ? 1 : 0);
  return {ratio, interval};
}

// The part of the kernel's name that the title lacks.
std::string kernel_of(const CaseRecord& r) {
  std::string name = (reports::is_unfused_kernel(r) ? "unfused " : "") + r.kernel.variant;
  if (r.kernel.policy != "default" && r.kernel.policy != r.kernel.variant) name += " " + r.kernel.policy;
  if (!r.kernel.chosen.empty()) name += " (" + r.kernel.chosen + ")";
  if (r.kernel.compute_units == 0 && !r.kernel.simd_target.empty()) name += " " + r.kernel.simd_target;
  if (!r.ranks.engine.empty()) name += " " + r.ranks.engine;
  if (r.ranks.split == "pairs") name += " pairs";
  return name + (r.kernel.launch == "plain" ? " plain launches" : "");
}

std::vector<Cell> row_of(const CaseRecord& r, const reports::Context& context, bool lossy) {
  const double bits = r.size.bits_per_element;
  std::vector<Cell> row = {fixed(bits, 3), fixed(bits / r.size.entropy_bits_per_element, 3)};
  if (lossy) {
    const double error = r.distortion.largest_error;
    row.push_back(fixed(r.distortion.snr_db, 2));
    row.push_back(reports::number_cell(error, std::isnan(error) ? "–" : fmt::format("{:.3g}", error)));
  }
  if (r.kernel.op != "size") {
    const bool step = r.kernel.op == "step";
    const double speed = reports::find_metric(step ? "tokens_per_s" : "elements_per_s").value(r, context);
    if (step) row.push_back(reports::number_cell(double(r.size.stored_bytes), gigabytes_of(r)));
    if (step) row.push_back(fixed(1e6 * r.time.median_s, r.time.median_s < 1e-3 ? 1 : 0));
    row.push_back(reports::number_cell(speed, reports::si_text(speed)));
    for (Cell& cell : speedup_of(r, context)) row.push_back(std::move(cell));
  }
  row.push_back(reports::text_cell(reports::codec_label(r)));
  row.push_back(reports::text_cell(r.kernel.op == "size" ? r.check.decode : kernel_of(r)));
  return row;
}

std::vector<Column> columns_of(const CaseRecord& r, bool lossy) {
  constexpr auto kRight = Column::Align::right;
  std::vector<Column> columns = {{"bits_per_element", "stored bits", "", kRight},
                                 {"of_entropy", "of entropy", "", kRight}};
  if (lossy) {
    columns.push_back({"snr_db", "SNR dB", "", kRight});
    columns.push_back({"largest_error", "largest error", "", kRight});
  }
  if (r.kernel.op != "size") {
    if (r.kernel.op == "step") {
      columns.push_back({"stored_bytes", "stored GB", "", kRight});
      columns.push_back({"us_per_pass", "µs a step", "", kRight});
      columns.push_back({"tokens_per_s", "tokens/s", "", kRight});
    } else {
      columns.push_back({"elements_per_s", "elements/s", "", kRight});
    }
    columns.push_back({"speedup_vs_raw", "vs raw", "", kRight});
    columns.push_back({"interval", "95 % interval", ""});
  }
  columns.push_back({"codec", "codec", ""});
  columns.push_back(r.kernel.op == "size" ? Column{"decoded", "decoded", ""} : Column{"kernel", "kernel", ""});
  return columns;
}

// ", SNR 28.38 dB, largest error 0.181"; "" for the source's own numbers.
std::string distance_of(const CaseRecord& r) {
  if (!reports::has_distortion(r)) return {};
  const std::string snr =
      std::isfinite(r.distortion.snr_db) ? fmt::format(", SNR {:.2f} dB", r.distortion.snr_db) : std::string();
  return snr + fmt::format(", largest error {:.3g}", r.distortion.largest_error);
}

// The first case of each name.
std::vector<const CaseRecord*> first_of_each(const std::vector<const CaseRecord*>& cases,
                                             std::string (*name)(const CaseRecord&)) {
  std::set<std::string> seen;
  std::vector<const CaseRecord*> first;
  for (const CaseRecord* one : cases)
    if (seen.insert(name(*one)).second) first.push_back(one);
  return first;
}

}  // namespace

std::vector<Table> fastest_cases(const reports::RecordSet& each_seed, const std::string& baseline_codecs) {
  const reports::RecordSet records = reports::pooled_seeds(each_seed).records;
  const reports::Contexts contexts(records, baseline_codecs);
  std::vector<std::string> titles;  // in the order of the data
  std::map<std::string, std::vector<const CaseRecord*>> cases;
  for (const CaseRecord* one : reports::sorted_cases(records)) {  // by speed
    if (one->status != reports::Status::ok) continue;
    auto& group = cases[title_of(*one)];
    if (group.empty()) titles.push_back(title_of(*one));
    group.push_back(one);
  }
  std::vector<Table> tables;
  for (const std::string& title : titles) {
    std::vector<const CaseRecord*> shown = first_of_each(cases[title], reports::codec_label);
    Table& table = tables.emplace_back();
    table.title = title;
    if (const size_t all = shown.size(); all > kMostRows) {
      shown = first_of_each(shown, reports::codec_name);
      if (shown.size() < all)
        table.title += fmt::format("; of each codec the {} of its settings",
                                   shown.front()->kernel.op == "size" ? "smallest" : "fastest");
    }
    // Lossless codecs share the quantiser's distance, so the title has it and lines stay short.
    const std::string distance = distance_of(*shown.front());
    const bool lossy = std::ranges::any_of(shown, [&](const CaseRecord* r) { return distance_of(*r) != distance; });
    if (!lossy) table.title += distance;
    for (const CaseRecord* one : shown)
      if (const std::string filtered = contexts.of(*one).raw_text(); !filtered.empty()) {
        table.title += "; " + filtered;
        break;
      }
    table.columns = columns_of(*shown.front(), lossy);
    for (const CaseRecord* one : shown) table.rows.push_back(row_of(*one, contexts.of(*one), lossy));
  }
  return tables;
}

void print_refusals(const std::map<std::string, int>& refusals, const std::string& where, std::ostream& out) {
  if (refusals.empty()) return;
  std::vector<std::pair<int, std::string>> reasons;
  int count = 0;
  for (const auto& [reason, cases] : refusals) {
    reasons.emplace_back(-cases, reason);
    count += cases;
  }
  std::ranges::sort(reasons);
  out << fmt::format("{} refused for {} reason{}{}:\n", count, reasons.size(), reasons.size() == 1 ? "" : "s", where);
  for (size_t i = 0; i < std::min(reasons.size(), kMostReasons); ++i)
    out << fmt::format("{:7}  {}\n", -reasons[i].first,
                       shortened(reports::one_line(reasons[i].second), kLineColumns - 9));
  if (reasons.size() > kMostReasons) {
    const int rest = std::accumulate(reasons.begin() + kMostReasons, reasons.end(), 0,
                                     [](int sum, const auto& reason) { return sum - reason.first; });
    out << fmt::format("{:7}  for {} other reasons\n", rest, reasons.size() - kMostReasons);
  }
}

void print_failures(const std::vector<std::pair<std::string, std::string>>& failures, const std::string& where,
                    std::ostream& out) {
  std::vector<std::string> reasons;  // in order of appearance
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& [name, reason] : failures) {
    if (names[reason].empty()) reasons.push_back(reason);
    names[reason].push_back(name);
  }
  for (size_t i = 0; i < std::min(reasons.size(), kMostFailures); ++i) {
    const std::vector<std::string>& of_reason = names[reasons[i]];
    for (size_t k = 0; k < std::min(of_reason.size(), kMostNames); ++k)
      out << fmt::format("FAILED {}\n", shortened(of_reason[k], kLineColumns - 7));
    if (of_reason.size() > kMostNames)
      out << fmt::format("       and {} more{}\n", of_reason.size() - kMostNames, where);
    for (const std::string& line : wrapped(reports::one_line(reasons[i]), kLineColumns - 7))
      out << "       " << line << "\n";
  }
  if (reasons.size() > kMostFailures)
    out << fmt::format("FAILED for {} more reasons{}\n", reasons.size() - kMostFailures, where);
}

}  // namespace ecmv::experiments

// Tables beside the results: failures, refusals, coverage, and the flat table of every case.
#include "reports/tables/tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "reports/fields.h"

namespace ecmv::reports {
namespace {

using Align = Column::Align;
using Tone = Cell::Tone;

Tone tone_of(Status status) {
  switch (status) {
    case Status::ok: return Tone::good;
    case Status::refused:
    case Status::unavailable: return Tone::caution;
    default: return Tone::bad;
  }
}

int severity(Status status) {
  switch (status) {
    case Status::incorrect: return 0;
    case Status::error: return 1;
    case Status::out_of_memory: return 2;
    case Status::timed_out: return 3;
    case Status::unavailable: return 4;
    case Status::refused: return 5;
    case Status::ok: break;
  }
  return 6;
}

std::string joined(const std::set<std::string>& words, const char* separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

}  // namespace

std::vector<const CaseRecord*> sorted_cases(const RecordSet& records) {
  const auto key = [](const CaseRecord& r) {
    const double speed = find_metric("elements_per_s").value(r, {});
    const double sigma = std::isnan(r.data.sigma) ? -1 : r.data.sigma;
    // Lossy cases come after lossless ones; untimed cases are sorted by size.
    const double bits = std::isnan(r.size.bits_per_element) ? 0 : r.size.bits_per_element;
    return std::tuple(r.data.source, sigma, elements_of(r), field_text(r, "data"), r.kernel.batch, r.kernel.activations,
                      !is_exact(r), std::isnan(speed) ? 0 : -speed, r.kernel.op == "size" ? bits : 0);
  };
  using Key = decltype(key(std::declval<const CaseRecord&>()));
  std::vector<std::pair<Key, const CaseRecord*>> keyed;
  for (const CaseRecord& record : records.cases) keyed.emplace_back(key(record), &record);
  std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const CaseRecord*> cases;
  for (const auto& [first, record] : keyed) cases.push_back(record);
  return cases;
}

void mark_cell(Cell& cell, Disturbance disturbance) {
  const bool known = !std::holds_alternative<std::monostate>(cell.value);
  if (disturbance == Disturbance::none || !known || cell.text.ends_with("!")) return;
  cell.text += mark_of(disturbance);
}

Table failures_table(const RecordSet& records) {
  Table table{"failures", "Failed cases", "", {}, {}};
  table.columns = {{"status", "status", ""}, {"reason", "reason", ""}, {"data", "data", ""},     {"codec", "codec", ""},
                   {"kernel", "kernel", ""}, {"op", "op", ""},         {"checks", "checks", ""}, {"case", "case", ""}};
  auto cases = sorted_cases(records);
  std::stable_sort(cases.begin(), cases.end(),
                   [](auto* a, auto* b) { return severity(a->status) < severity(b->status); });
  for (const CaseRecord* r : cases) {
    if (severity(r->status) > severity(Status::timed_out)) continue;
    Cell status = text_cell(std::string(to_string(r->status)));
    status.tone = Tone::bad;
    std::set<std::string> checks;
    if (!r->check.decode.empty()) checks.insert("decode " + r->check.decode);
    if (!r->check.outputs.empty()) checks.insert("outputs " + r->check.outputs);
    if (!r->check.guards.empty()) checks.insert("guards " + r->check.guards);
    table.rows.push_back({status, text_cell(r->reason), text_cell(field_text(*r, "data")), text_cell(codec_label(*r)),
                          text_cell(kernel_label(*r)), text_cell(r->kernel.op), text_cell(joined(checks, ", ")),
                          text_cell(r->case_key)});
  }
  return table;
}

Table refusals_table(const RecordSet& records) {
  Table table{
      "refusals", "Refused and unavailable cases", "Cases with the same codec, kernel and reason share a row.", {}, {}};
  table.columns = {{"status", "status", ""},
                   {"reason", "reason", ""},
                   {"codec", "codec", ""},
                   {"kernel", "kernel", ""},
                   {"cases", "cases", "", Align::right}};
  struct Group {
    std::int64_t count = 0;
    std::set<std::string> codecs, data;
  };
  std::map<std::tuple<Status, std::string, std::string, std::string>, Group> groups;
  for (const CaseRecord& r : records.cases) {
    if (r.status != Status::refused && r.status != Status::unavailable) continue;
    std::string kernel = kernel_label(r);
    if (!r.kernel.op.empty()) kernel += (kernel.empty() ? "" : " ") + r.kernel.op;
    Group& group = groups[{r.status, codec_name(r), kernel, r.reason}];
    ++group.count;
    group.codecs.insert(codec_label(r));
    group.data.insert(field_text(r, "data"));
  }
  for (const auto& [key, group] : groups) {
    const auto& [status, codec, kernel, reason] = key;
    Cell status_cell = text_cell(std::string(to_string(status)));
    status_cell.tone = Tone::caution;
    Cell codec_cell = text_cell(group.codecs.size() == 1 ? *group.codecs.begin() : codec);
    codec_cell.note = joined(group.codecs, "; ");
    Cell count = count_cell(group.count);
    count.note = joined(group.data, "; ");
    table.rows.push_back({status_cell, text_cell(reason), codec_cell, text_cell(kernel), count});
  }
  return table;
}

Table with_columns(const Table& table, const std::vector<std::string>& ids) {
  Table chosen{table.id, table.title, table.caption, {}, {}};
  chosen.rows.resize(table.rows.size());
  for (const std::string& id : ids) {
    const auto column =
        std::find_if(table.columns.begin(), table.columns.end(), [&](const Column& one) { return one.id == id; });
    if (column == table.columns.end()) {
      std::vector<std::string> known;
      for (const Column& one : table.columns) known.push_back(one.id);
      throw ReportError(fmt::format("there is no column \"{}\"; the columns are {}", id, fmt::join(known, ", ")));
    }
    chosen.columns.push_back(*column);
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      Cell cell = table.rows[row][static_cast<std::size_t>(column - table.columns.begin())];
      const auto* number = std::get_if<double>(&cell.value);
      cell.text = number != nullptr ? fmt::format("{:.4g}", *number) : value_text(cell);
      chosen.rows[row].push_back(std::move(cell));
    }
  }
  return chosen;
}

Table coverage_table(const RecordSet& records) {
  Table table{
      "coverage",
      "Coverage: codec × backend × op",
      "Cases of each status, kernels that ran of those in the build, and settings of the codec; reasons show on "
      "hover. An empty cell: not tried.",
      {},
      {}};
  struct Tally {
    std::map<Status, int> counts;
    std::set<std::string> reasons;
    CaseRecord::Entrants entrants;  // where there were fewest
  };
  std::map<std::string, std::map<std::string, Tally>> rows;
  std::set<std::string> headings;
  for (const CaseRecord& r : records.cases) {
    // A codec that refuses the data itself has no kernel.
    std::string heading = r.kernel.backend.empty() && r.kernel.op != "size" ? "encode" : r.kernel.backend;
    if (!r.kernel.simd_target.empty()) heading += " " + r.kernel.simd_target;
    if (!r.kernel.op.empty()) heading += (heading.empty() ? "" : " ") + r.kernel.op;
    headings.insert(heading);
    Tally& tally = rows[codec_name(r)][heading];
    ++tally.counts[r.status];
    if (tally.entrants.known_kernels == 0 || r.entrants.kernels < tally.entrants.kernels) tally.entrants = r.entrants;
    if (!r.reason.empty()) tally.reasons.insert(fmt::format("{}: {}", to_string(r.status), r.reason));
  }
  table.columns.push_back({"codec", "codec", ""});
  for (const std::string& heading : headings) table.columns.push_back({slug(heading), heading, ""});
  for (const auto& [codec, cells] : rows) {
    std::vector<Cell>& row = table.rows.emplace_back();
    row.push_back(text_cell(codec));
    for (const std::string& heading : headings) {
      auto found = cells.find(heading);
      if (found == cells.end()) {
        row.push_back(Cell{"", std::string("none"), "nothing was tried", Tone::quiet});
        continue;
      }
      Cell cell;
      Status worst = Status::ok;
      for (const auto& [status, count] : found->second.counts) {
        const std::string number = count > 1 ? fmt::format(" {}", count) : "";
        cell.text += fmt::format("{}{}{}", cell.text.empty() ? "" : ", ", to_string(status), number);
        if (severity(status) < severity(worst)) worst = status;
      }
      if (const auto& [kernels, known, settings] = found->second.entrants; known > 0)
        cell.text +=
            fmt::format("; {} of {} kernels, {} setting{}", kernels, known, settings, settings == 1 ? "" : "s");
      const bool only_partly_refused = found->second.counts.contains(Status::ok) && tone_of(worst) == Tone::caution;
      cell.tone = only_partly_refused ? Tone::good : tone_of(worst);
      cell.note = joined(found->second.reasons, "; ");
      cell.value = cell.text;
      row.push_back(cell);
    }
  }
  return table;
}

}  // namespace ecmv::reports

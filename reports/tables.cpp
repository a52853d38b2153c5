// Builders of the tables. Every number comes out of the table of metrics; here are only choice, order and
// rounding.
#include "reports/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "reports/compare.h"
#include "reports/fields.h"

namespace ecmv::reports {
namespace {

using Align = Column::Align;
using Tone = Cell::Tone;

double value(const char* metric, const CaseRecord& record, const Context& context) {
  return find_metric(metric).value(record, context);
}

Tone tone_of(Status status) {
  switch (status) {
    case Status::ok: return Tone::good;
    case Status::refused:
    case Status::unavailable: return Tone::caution;
    default: return Tone::bad;
  }
}

struct ResultColumn {
  Column column;
  bool in_summary;
  Cell (*cell)(const CaseRecord&, const Context&);
  // Which tables have it: gpus are those with a GPU's case, batches those of op matmul.
  enum class In { all, timed, sizes, gpus, batches } in = In::all;
};

Cell scaled(double value, double unit, int digits) { return number_cell(value, fixed_text(value / unit, digits)); }

Cell bits_cell(const char* metric, const CaseRecord& r, const Context& c) { return scaled(value(metric, r, c), 1, 3); }

const std::vector<ResultColumn>& result_columns() {
  static const std::vector<ResultColumn> columns = {
      {{"data", "data", ""},
       true,
       [](const CaseRecord& r, const Context&) { return text_cell(field_text(r, "data")); }},
      {{"codec", "codec", ""}, true, [](const CaseRecord& r, const Context&) { return text_cell(codec_label(r)); }},
      {{"kernel", "kernel", ""},
       true,
       [](const CaseRecord& r, const Context&) { return text_cell(kernel_label(r)); },
       ResultColumn::In::timed},
      {{"batch", "batch", "", Align::right},
       true,
       [](const CaseRecord& r, const Context&) { return count_cell(r.kernel.batch); },
       ResultColumn::In::batches},
      {{"macs_per_s", "MAC/s", "G/s", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return scaled(value("macs_per_s", r, c), 1e9, 3); },
       ResultColumn::In::batches},
      {{"tokens_per_s", "tokens/s", "", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return scaled(value("tokens_per_s", r, c), 1, 1); },
       ResultColumn::In::batches},
      {{"elements_per_s", "elements/s", "G/s", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return scaled(value("elements_per_s", r, c), 1e9, 3); },
       ResultColumn::In::timed},
      {{"elements_per_s_spread", "p10 … p90", "G/s", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) {
         const double low = value("elements_per_s_p10", r, c), high = value("elements_per_s_p90", r, c);
         Cell cell = text_cell(fixed_text(low / 1e9, 3) + " … " + fixed_text(high / 1e9, 3));
         cell.note = fmt::format("{} samples of {} passes", r.time.samples_s.size(), r.time.iterations_per_sample);
         if (is_disturbed(r)) {
           cell.text += " !";
           cell.tone = Tone::bad;
           cell.note += fmt::format("; disturbed: {} samples, other programs used {} cores",
                                    r.time.disturbed_samples.size(), fixed_text(r.host.other_cores, 1));
         }
         return cell;
       },
       ResultColumn::In::timed},
      {{"speedup_vs_raw", "vs raw", "×", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) {
         const double speedup = value("speedup_vs_raw", r, c);
         Cell cell = scaled(speedup, 1, 2);
         cell.note = c.baseline ? "against " + kernel_label(*c.baseline) : c.why_no_baseline;
         if (c.baseline && c.baseline != &r) {
           const Comparison found = compare_cases(*c.baseline, r);
           if (found.verdict == Verdict::faster) cell.tone = Tone::good;
           if (found.verdict == Verdict::slower) cell.tone = Tone::bad;
           if (!found.note.empty()) cell.note += "; " + found.note;
         }
         return cell;
       },
       ResultColumn::In::timed},
      {{"speedup_vs_raw_interval", "95 % interval", "×", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) {
         if (!c.baseline || c.baseline == &r) return number_cell(kUnknown, "–");
         const Interval found = compare_cases(*c.baseline, r).speed_ratio;
         Cell cell =
             found.low > 0 ? text_cell(fixed_text(found.low, 2) + " … " + fixed_text(found.high, 2)) : text_cell("–");
         cell.note = found.low > 0 ? "colour only where the whole interval lies beyond 1 ± 2 %"
                                   : "too few samples for an interval";
         return cell;
       },
       ResultColumn::In::timed},
      {{"bits_per_element", "stored", "bit/el.", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return bits_cell("bits_per_element", r, c); }},
      {{"payload_bits_per_element", "payload", "bit/el.", Align::right},
       false,
       [](const CaseRecord& r, const Context& c) { return bits_cell("payload_bits_per_element", r, c); }},
      {{"table_bits_per_element", "table", "bit/el.", Align::right},
       false,
       [](const CaseRecord& r, const Context& c) { return bits_cell("table_bits_per_element", r, c); }},
      {{"index_bits_per_element", "index", "bit/el.", Align::right},
       false,
       [](const CaseRecord& r, const Context& c) { return bits_cell("index_bits_per_element", r, c); }},
      {{"scale_bits_per_element", "scale", "bit/el.", Align::right},
       false,
       [](const CaseRecord& r, const Context& c) { return bits_cell("scale_bits_per_element", r, c); }},
      {{"padding_bits_per_element", "of which padding", "bit/el.", Align::right},
       false,
       [](const CaseRecord& r, const Context& c) { return bits_cell("padding_bits_per_element", r, c); }},
      {{"entropy_bits_per_element", "entropy", "bit/el.", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return bits_cell("entropy_bits_per_element", r, c); }},
      {{"excess_over_entropy_percent", "excess", "%", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return scaled(value("excess_over_entropy_percent", r, c), 1, 2); }},
      {{"ideal_bits_per_element", "ideal code", "bit/el.", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return bits_cell("ideal_bits_per_element", r, c); },
       ResultColumn::In::sizes},
      {{"excess_over_ideal_bits", "above ideal", "bit/el.", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return scaled(value("excess_over_ideal_bits", r, c), 1, 4); },
       ResultColumn::In::sizes},
      {{"compression_ratio", "ratio", "", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return scaled(value("compression_ratio", r, c), 1, 3); },
       ResultColumn::In::sizes},
      {{"decode_check", "decoded", ""},
       true,
       [](const CaseRecord& r, const Context&) { return text_cell(r.check.decode); },
       ResultColumn::In::sizes},
      {{"stored_bytes_per_s", "stored bytes/s", "GB/s", Align::right},
       false,
       [](const CaseRecord& r, const Context& c) { return scaled(value("stored_bytes_per_s", r, c), 1e9, 2); },
       ResultColumn::In::timed},
      {{"bandwidth_fraction", "of read bandwidth", "%", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) {
         Cell cell = scaled(value("bandwidth_fraction", r, c), 0.01, 1);
         if (value("bandwidth_fraction", r, c) > 1.02) {
           cell.text += " !";
           cell.tone = Tone::bad;
           cell.note = fmt::format("more than the {}B/s that were measured: that measurement is too low",
                                   si_text(c.bandwidth->read_bytes_per_s));
         } else if (c.bandwidth)
           cell.note = fmt::format("of {}B/s", si_text(c.bandwidth->read_bytes_per_s));
         else
           cell.note = r.time.cache == "resident" ? "read from a cache, so not compared with memory"
                                                  : "no bandwidth was measured for this device and thread count";
         return cell;
       },
       ResultColumn::In::timed},
      {{"elements_per_clock_and_unit", "elements a clock and unit", "", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) {
         Cell cell = scaled(value("elements_per_clock_and_unit", r, c), 1, 2);
         const bool measured = r.time.clock_after_hz > 0 || r.time.clock_before_hz > 0;
         cell.note = fmt::format(
             "{} compute units, {}; throttle reasons: {}", r.kernel.compute_units,
             measured ? fmt::format("at {} to {}Hz", si_text(r.time.clock_before_hz), si_text(r.time.clock_after_hz))
                      : fmt::format("at most {}Hz", si_text(r.kernel.highest_clock_hz)),
             r.time.throttle_reasons.empty() ? "unknown" : r.time.throttle_reasons);
         return cell;
       },
       ResultColumn::In::gpus},
      {{"break_even_bandwidth_bytes_per_s", "break-even", "GB/s", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) {
         return scaled(value("break_even_bandwidth_bytes_per_s", r, c), 1e9, 0);
       },
       ResultColumn::In::gpus},
  };
  return columns;
}

// What a table holds one of: an op and a cache class. Sorts products before decoding before sizes, and streamed before
// resident.
using TableKey = std::tuple<int, std::string, bool, std::string>;

TableKey table_key(const CaseRecord& record) {
  const std::string &op = record.kernel.op, &cache = record.time.cache;
  return {op == "size" ? 2 : op == "decode" ? 1 : 0, op, cache != "streamed", cache};
}

struct Choice {
  bool summary = false;  // fewer columns
  bool fastest = false;  // only the fastest kernel of each codec and settings on each data, backend, device and threads
};

std::string competitors(const CaseRecord& r) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", r.run, codec_label(r), field_text(r, "data"), r.kernel.op,
                     r.kernel.batch, r.time.cache, r.kernel.backend, r.kernel.device, r.kernel.threads);
}

std::vector<Table> tables_of(const RecordSet& records, const Contexts& contexts, const Choice& choice) {
  std::set<TableKey> with_gpus;
  for (const CaseRecord& record : records.cases)
    if (record.status == Status::ok && record.kernel.compute_units > 0) with_gpus.insert(table_key(record));
  const auto shown = [&](const ResultColumn& column, const TableKey& key) {
    const bool sizes = std::get<1>(key) == "size";
    if (column.in == ResultColumn::In::sizes && !sizes) return false;
    if (column.in == ResultColumn::In::batches && std::get<1>(key) != "matmul") return false;
    if (column.in != ResultColumn::In::sizes && column.in != ResultColumn::In::all && sizes) return false;
    return (column.in_summary || !choice.summary) && (column.in != ResultColumn::In::gpus || with_gpus.contains(key));
  };
  std::map<TableKey, Table> tables;
  std::set<std::string> seen;
  for (const CaseRecord* record : sorted_cases(records)) {  // the fastest first
    if (record->status != Status::ok) continue;
    if (choice.fastest && !seen.insert(competitors(*record)).second) continue;
    const std::string& op = record->kernel.op;
    const std::string& cache = record->time.cache;
    const TableKey key = table_key(*record);
    Table& table = tables[key];
    if (table.columns.empty()) {
      table.id = slug((choice.fastest ? "fastest_" : "results_") + op + "_" + cache);
      table.title = op == "size" ? "sizes" : fmt::format("{}, {}", op, cache.empty() ? "cache class unknown" : cache);
      if (op == "size")
        table.caption = "Encoded, decoded by the reference and compared; nothing was timed. Smallest first.";
      if (cache == "streamed") {
        table.caption = "Every pass reads at least four times the last-level cache: the bytes come from memory.";
      } else if (cache == "resident") {
        table.caption =
            "The bytes of a pass fit (or nearly fit) the last-level cache: not comparable with streamed "
            "cases.";
      }
      if (choice.fastest) {
        table.title += ": the fastest kernel of each codec";
        table.caption += " Of all kernels and tunings of a codec and its settings, the one with the smallest median.";
      }
      for (const ResultColumn& result : result_columns()) {
        if (shown(result, key)) table.columns.push_back(result.column);
      }
    }
    const Context context = contexts.of(*record);
    std::vector<Cell>& row = table.rows.emplace_back();
    for (const ResultColumn& result : result_columns()) {
      if (shown(result, key)) row.push_back(result.cell(*record, context));
    }
  }
  std::vector<Table> list;
  for (auto& [key, table] : tables) list.push_back(std::move(table));
  return list;
}

std::size_t rows_of(const std::vector<Table>& tables) {
  std::size_t rows = 0;
  for (const Table& table : tables) rows += table.rows.size();
  return rows;
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
    // What was not timed goes by size.
    const double bits = std::isnan(r.size.bits_per_element) ? 0 : r.size.bits_per_element;
    return std::tuple(r.data.source, sigma, elements_of(r), field_text(r, "data"), r.kernel.batch,
                      std::isnan(speed) ? 0 : -speed, r.kernel.op == "size" ? bits : 0);
  };
  using Key = decltype(key(std::declval<const CaseRecord&>()));
  std::vector<std::pair<Key, const CaseRecord*>> keyed;
  for (const CaseRecord& record : records.cases) keyed.emplace_back(key(record), &record);
  std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const CaseRecord*> cases;
  for (const auto& [first, record] : keyed) cases.push_back(record);
  return cases;
}

std::vector<Table> results_tables(const RecordSet& records, const Contexts& contexts) {
  return tables_of(records, contexts, {});
}

std::vector<Table> fastest_tables(const RecordSet& records, const Contexts& contexts) {
  std::vector<Table> fastest = tables_of(records, contexts, {.summary = true, .fastest = true});
  if (rows_of(fastest) == rows_of(tables_of(records, contexts, {}))) return {};
  return fastest;
}

std::vector<Table> summary_tables(const RecordSet& records, const Contexts& contexts) {
  return tables_of(records, contexts, {.summary = true});
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

Table coverage_table(const RecordSet& records) {
  Table table{"coverage",
              "Coverage: codec × backend × op",
              "How many cases of each status ran; the reasons show on pointing. An empty cell: nothing was tried.",
              {},
              {}};
  struct Tally {
    std::map<Status, int> counts;
    std::set<std::string> reasons;
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
      const bool only_partly_refused = found->second.counts.contains(Status::ok) && tone_of(worst) == Tone::caution;
      cell.tone = only_partly_refused ? Tone::good : tone_of(worst);
      cell.note = joined(found->second.reasons, "; ");
      cell.value = cell.text;
      row.push_back(cell);
    }
  }
  return table;
}

Table flat_table(const RecordSet& records, const Contexts& contexts) {
  Table table{"cases", "All cases", "", {}, {}};
  table.columns = {{"case", "case", ""}, {"status", "status", ""}, {"reason", "reason", ""}};
  for (std::string_view field : field_names()) table.columns.push_back({std::string(field), std::string(field), ""});
  for (const char* id : {"rows", "cols", "elements", "stored_bytes", "median_s", "p10_s", "p90_s", "samples"}) {
    table.columns.push_back({id, id, "", Align::right});
  }
  for (const Metric& metric : all_metrics()) {
    table.columns.push_back({std::string(metric.id), std::string(metric.name), std::string(metric.unit), Align::right});
  }
  auto plain = [](double number) { return number_cell(number, fmt::format("{:.6g}", number)); };
  for (const CaseRecord* record : sorted_cases(records)) {
    const CaseRecord& r = *record;
    const Context context = contexts.of(r);
    std::vector<Cell>& row = table.rows.emplace_back();
    row = {text_cell(r.case_key), text_cell(std::string(to_string(r.status))), text_cell(r.reason)};
    for (std::string_view field : field_names()) row.push_back(text_cell(field_text(r, field)));
    row.insert(row.end(), {count_cell(r.data.rows), count_cell(r.data.cols), count_cell(elements_of(r)),
                           count_cell(r.size.stored_bytes), plain(r.time.median_s), plain(r.time.p10_s),
                           plain(r.time.p90_s), count_cell(static_cast<std::int64_t>(r.time.samples_s.size()))});
    for (const Metric& metric : all_metrics()) row.push_back(plain(metric.value(r, context)));
  }
  return table;
}

}  // namespace ecmv::reports

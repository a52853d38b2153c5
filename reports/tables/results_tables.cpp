// Tables of verified cases: their columns, rows and groups. A reader compares codecs on the same data, so the rows of
// one matrix stand together below its name, with the numbers before the kernels.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "reports/compare.h"
#include "reports/fields.h"
#include "reports/tables/tables.h"

namespace ecmv::reports {
namespace {

using Align = Column::Align;
using Tone = Cell::Tone;

double value(const char* metric, const CaseRecord& record, const Context& context) {
  return find_metric(metric).value(record, context);
}

// At least three digits, whatever the size.
int digits_of(double number) { return number < 10 ? 3 : number < 100 ? 2 : number < 1000 ? 1 : 0; }

Cell scaled(double value, double unit, int digits) { return number_cell(value, fixed_text(value / unit, digits)); }

// The median, and the larger distance to the 10th and 90th percentile.
Cell speed_cell(const char* metric, const CaseRecord& r, const Context& c) {
  const double median = value(metric, r, c), scale = median / value("elements_per_s", r, c);
  const Ends ends{scale * value("elements_per_s_p10", r, c), scale * value("elements_per_s_p90", r, c)};
  Cell cell = interval_cell(median, ends, 1e9, digits_of(median / 1e9));
  cell.note += fmt::format(" between the 10th and 90th percentile of {} samples of {} passes", r.time.samples_s.size(),
                           r.time.iterations_per_sample);
  if (is_disturbed(r)) {
    cell.tone = Tone::bad;
    cell.note += fmt::format("; disturbed: threads waited in {} samples, other programs used {} cores",
                             r.time.disturbed_samples.size(), fixed_text(r.host.other_cores, 1));
    if (!r.time.unsteady_samples.empty())
      cell.note += fmt::format("; cores were unsteady in {} samples, at {} of their clock and {} of their throughput",
                               r.time.unsteady_samples.size(), fixed_text(r.host.clock_share, 2),
                               fixed_text(r.host.throughput_share, 2));
  }
  return cell;
}

Cell speedup_cell(const CaseRecord& r, const Context& c) {
  const double speedup = value("speedup_vs_raw", r, c);
  Cell cell = scaled(speedup, 1, 2);
  if (!c.baseline) {
    cell.note = c.why_no_baseline;
    return cell;
  }
  if (c.baseline == &r) {
    cell.note = "the baseline of the others";
    return cell;
  }
  const Comparison found = compare_cases(*c.baseline, r);
  const bool any_interval = found.speed_ratio.low > 0;
  if (any_interval) cell = interval_cell(speedup, {found.speed_ratio.low, found.speed_ratio.high}, 1, 2);
  cell.note = fmt::format("{}; against {}",
                          any_interval ? "95 % interval " + cell.note + ", coloured where it lies beyond 1 ± 2 %"
                                       : "too few samples for an interval",
                          kernel_label(*c.baseline));
  if (found.verdict == Verdict::faster) cell.tone = Tone::good;
  if (found.verdict == Verdict::slower) cell.tone = Tone::bad;
  for (const std::string& more : {found.note, c.raw_text()})
    if (!more.empty()) cell.note += "; " + more;
  return cell;
}

Cell bandwidth_cell(const CaseRecord& r, const Context& c) {
  const double fraction = value("bandwidth_fraction", r, c);
  Cell cell = scaled(fraction, 0.01, 1);
  if (fraction > 1.02) {
    cell.text += beats_bandwidth(r, c) ? " !!" : " !";
    cell.tone = Tone::bad;
    cell.note =
        fmt::format("above the measured {}B/s, so that measurement is too low", si_text(c.bandwidth->read_bytes_per_s));
  } else if (c.bandwidth)
    cell.note = fmt::format("of {}B/s", si_text(c.bandwidth->read_bytes_per_s));
  else
    cell.note = r.time.cache == "resident" ? "read from a cache, not from memory"
                                           : "no measured bandwidth for this device and thread count";
  return cell;
}

Cell decode_rate_cell(const CaseRecord& r, const Context& c) {
  Cell cell = scaled(value("elements_per_clock_and_unit", r, c), 1, 2);
  const bool measured = r.time.clock_after_hz > 0 || r.time.clock_before_hz > 0;
  cell.note = fmt::format(
      "{} compute units, {}; throttle reasons: {}", r.kernel.compute_units,
      measured ? fmt::format("at {} to {}Hz", si_text(r.time.clock_before_hz), si_text(r.time.clock_after_hz))
               : fmt::format("at most {}Hz", si_text(r.kernel.highest_clock_hz)),
      r.time.throttle_reasons.empty() ? "unknown" : r.time.throttle_reasons);
  return cell;
}

template <const char* metric, int digits>
Cell number(const CaseRecord& r, const Context& c) {
  return scaled(value(metric, r, c), 1, digits);
}

// The mean of several seeds shows how far they lie apart.
Cell stored_cell(const CaseRecord& r, const Context& c) {
  const double bits = value("bits_per_element", r, c);
  if (r.pooled.seeds.empty()) return scaled(bits, 1, 3);
  Cell cell = interval_cell(bits, {r.pooled.least_bits, r.pooled.most_bits}, 1, 3);
  cell.note += fmt::format(" over {} seeds", r.pooled.seeds.size());
  return cell;
}

struct ResultColumn {
  Column column;
  bool in_short;  // also in the table of fastest kernels
  Cell (*cell)(const CaseRecord&, const Context&);
  // The tables that have the column. gpus: any case on a GPU; batches: ops with tokens; steps: op step; lossy: with a
  // case whose numbers are not the source's.
  enum class In { all, timed, sizes, gpus, batches, steps, lossy } in = In::all;
};

// A column that shows the metric of that id unchanged.
template <const char* metric, int digits>
ResultColumn plain(const char* name, const char* unit, bool in_short, ResultColumn::In in = ResultColumn::In::all) {
  return {{metric, name, unit, Align::right}, in_short, number<metric, digits>, in};
}

constexpr char kPayload[] = "payload_bits_per_element", kTable[] = "table_bits_per_element",
               kIndex[] = "index_bits_per_element", kScale[] = "scale_bits_per_element",
               kPadding[] = "padding_bits_per_element", kExcess[] = "excess_over_entropy_percent",
               kIdeal[] = "ideal_bits_per_element", kAboveIdeal[] = "excess_over_ideal_bits",
               kRatio[] = "compression_ratio", kTokens[] = "tokens_per_s", kStep[] = "us_per_pass", kSnr[] = "snr_db";

// Whether its number comes from times.
bool shows_time(const ResultColumn& result) {
  using In = ResultColumn::In;
  return result.in != In::all && result.in != In::sizes && result.in != In::lossy && result.column.id != "kernel" &&
         result.column.id != "stored_bytes";
}

const std::vector<ResultColumn>& result_columns() {
  using In = ResultColumn::In;
  static const std::vector<ResultColumn> columns = {
      {{"codec", "codec", ""}, true, [](const CaseRecord& r, const Context&) { return text_cell(codec_label(r)); }},
      {{"kernel", "kernel", ""},
       true,
       [](const CaseRecord& r, const Context&) { return text_cell(kernel_label(r)); },
       In::timed},
      {{"speedup_vs_raw", "vs raw", "×", Align::right}, true, speedup_cell, In::timed},
      {{"elements_per_s", "elements/s", "G/s", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return speed_cell("elements_per_s", r, c); },
       In::timed},
      {{"macs_per_s", "MAC/s", "G/s", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return speed_cell("macs_per_s", r, c); },
       In::batches},
      {{"compute_fraction", "of matrix units", "%", Align::right},
       true,
       [](const CaseRecord& r, const Context& c) { return scaled(value("compute_fraction", r, c), 0.01, 1); },
       In::batches},
      plain<kTokens, 1>("tokens/s", "", true, In::batches),
      plain<kStep, 1>("a step", "µs", true, In::steps),
      {{"stored_bytes", "stored", "GB", Align::right},
       true,
       [](const CaseRecord& r, const Context&) {
         const auto bytes = static_cast<double>(r.size.stored_bytes);
         return scaled(bytes, 1e9, digits_of(bytes / 1e9));
       },
       In::steps},
      {{"bits_per_element", "stored", "bit/el.", Align::right}, true, stored_cell},
      plain<kExcess, 2>("over entropy", "%", true),
      plain<kIdeal, 3>("ideal code", "bit/el.", true, In::sizes),
      plain<kAboveIdeal, 4>("above ideal", "bit/el.", true, In::sizes),
      plain<kRatio, 3>("ratio", "", true, In::sizes),
      plain<kSnr, 2>("SNR", "dB", true, In::lossy),
      {{"largest_error", "largest error", "", Align::right},
       true,
       [](const CaseRecord& r, const Context&) {
         const double error = r.distortion.largest_error;
         return number_cell(error, std::isnan(error) ? "" : fmt::format("{:.3g}", error));
       },
       In::lossy},
      {{"decode_check", "decoded", ""},
       true,
       [](const CaseRecord& r, const Context&) { return text_cell(r.check.decode); },
       In::sizes},
      {{"bandwidth_fraction", "of bandwidth", "%", Align::right}, true, bandwidth_cell, In::timed},
      plain<kPayload, 3>("payload", "bit/el.", false),
      plain<kTable, 3>("table", "bit/el.", false),
      plain<kIndex, 3>("index", "bit/el.", false),
      plain<kScale, 3>("scale", "bit/el.", false),
      plain<kPadding, 3>("included padding", "bit/el.", false),
      {{"stored_bytes_per_s", "stored bytes/s", "GB/s", Align::right},
       false,
       [](const CaseRecord& r, const Context& c) { return scaled(value("stored_bytes_per_s", r, c), 1e9, 2); },
       In::timed},
      {{"elements_per_clock_and_unit", "elements a clock and unit", "", Align::right},
       true,
       decode_rate_cell,
       In::gpus},
      {{"break_even_bandwidth_bytes_per_s", "break-even", "GB/s", Align::right},
       false,
       [](const CaseRecord& r, const Context& c) {
         return scaled(value("break_even_bandwidth_bytes_per_s", r, c), 1e9, 0);
       },
       In::gpus},
  };
  return columns;
}

// There is a table for each op and cache class. Sorts products before decoding before sizes, and streamed before
// resident.
using TableKey = std::tuple<int, std::string, bool, std::string>;

TableKey table_key(const CaseRecord& record) {
  const std::string &op = record.kernel.op, &cache = record.time.cache;
  return {op == "size" ? 2 : op == "decode" ? 1 : 0, op, cache != "streamed", cache};
}

std::string competitors(const CaseRecord& r) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", r.run, codec_label(r), field_text(r, "data"), r.kernel.op,
                     r.kernel.batch, r.kernel.activations, r.time.cache, r.kernel.backend, r.kernel.device,
                     r.kernel.threads);
}

// "gaussian σ=4, 4096 × 4096, batch 4 · entropy 4.051 bits · AMD EPYC, 2 threads".
std::string group_heading(const CaseRecord& r, const Context& c) {
  std::string heading = field_text(r, "data");
  if (r.kernel.op == "step")
    heading += fmt::format(", {} · {}", tokens_text(r), blocks_text(r));
  else if (has_tokens(r))
    heading += ", " + tokens_text(r);
  if (std::isfinite(r.size.entropy_bits_per_element))
    heading += fmt::format(" · entropy {:.3f} bits", r.size.entropy_bits_per_element);
  if (const std::string device = device_label(r); !device.empty()) heading += " · " + device;
  if (const std::string filtered = c.raw_text(); !filtered.empty()) heading += " · " + filtered;
  return heading;
}

// A table under construction, with each row below its group's heading.
struct Collected {
  std::vector<std::string> order;  // headings in order of appearance
  std::map<std::string, std::vector<const CaseRecord*>> groups;
};

// Drops columns without any value; whether there was a baseline is always worth a column.
void drop_empty_columns(Table& table) {
  for (std::size_t i = table.columns.size(); i-- > 0;) {
    const auto is_empty = [&](const std::vector<Cell>& row) { return value_text(row[i]).empty(); };
    if (table.columns[i].id == "speedup_vs_raw" || !std::all_of(table.rows.begin(), table.rows.end(), is_empty))
      continue;
    table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(i));
    for (auto& row : table.rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Table table_of(const TableKey& key, const Collected& collected, const Contexts& contexts, bool fastest) {
  const auto& [rank, op, not_streamed, cache] = key;
  Table table;
  table.id = slug((fastest ? "fastest_" : "results_") + op + "_" + cache);
  table.title = op == "size" ? "sizes" : fmt::format("{}, {}", op, cache.empty() ? "cache class unknown" : cache);
  if (op == "size") table.caption = "Encoded, decoded by the reference decoder and compared; not timed.";
  if (cache == "streamed") table.caption = "A pass reads at least four times the last-level cache.";
  if (cache == "resident")
    table.caption = "A pass fits the last-level cache or nearly does; not comparable with streamed.";
  if (op == "size")
    table.caption += " Smallest first.";
  else
    table.caption += " Fastest first. ± of elements/s: 10th to 90th percentile; ± of vs raw: 95 % interval.";
  if (fastest && op != "size") table.title += ": the fastest kernel of each codec and settings";

  bool with_gpus = false, lossy = false, disturbed = false, tokens = false;
  for (const auto& [heading, cases] : collected.groups)
    for (const CaseRecord* record : cases) {
      with_gpus |= record->kernel.compute_units > 0;
      lossy |= has_distortion(*record);
      tokens |= has_tokens(*record);
      disturbed |= is_disturbed(*record);
    }
  if (disturbed) table.caption += " ! marks disturbed times, !! those that this ruined.";
  std::vector<const ResultColumn*> columns;
  for (const ResultColumn& result : result_columns()) {
    using In = ResultColumn::In;
    const bool sizes = op == "size";
    if (fastest && !result.in_short) continue;
    if (result.in == In::sizes && !sizes) continue;
    if (result.in == In::lossy && !lossy) continue;
    if (result.in != In::sizes && result.in != In::all && result.in != In::lossy && sizes) continue;
    if (result.in == In::batches && !tokens) continue;
    if (result.in == In::steps && op != "step") continue;
    if (result.in == In::gpus && !with_gpus) continue;
    columns.push_back(&result);
    table.columns.push_back(result.column);
  }
  for (const std::string& heading : collected.order) {
    table.groups.push_back({table.rows.size(), heading});
    for (const CaseRecord* record : collected.groups.at(heading)) {
      const Context context = contexts.of(*record);
      std::vector<Cell>& row = table.rows.emplace_back();
      for (const ResultColumn* column : columns) {
        row.push_back(column->cell(*record, context));
        const bool compared = column->column.id == "speedup_vs_raw";
        if (shows_time(*column))
          mark_cell(row.back(), compared ? disturbance_of(*record, context) : disturbance_of(*record));
      }
    }
  }
  if (fastest) drop_empty_columns(table);
  return table;
}

// `fastest`: fewer columns, and only the fastest kernel of each codec and settings on each data, backend, device and
// number of threads.
std::vector<Table> tables_of(const RecordSet& records, const Contexts& contexts, bool fastest) {
  std::map<TableKey, Collected> tables;
  std::set<std::string> seen;
  for (const CaseRecord* record : sorted_cases(records)) {  // by speed
    if (record->status != Status::ok) continue;
    if (fastest && !seen.insert(competitors(*record)).second) continue;
    Collected& table = tables[table_key(*record)];
    const std::string heading = group_heading(*record, contexts.of(*record));
    auto& group = table.groups[heading];
    if (group.empty()) table.order.push_back(heading);
    group.push_back(record);
  }
  std::vector<Table> list;
  for (const auto& [key, collected] : tables) list.push_back(table_of(key, collected, contexts, fastest));
  return list;
}

}  // namespace

std::vector<Table> results_tables(const RecordSet& records, const Contexts& contexts) {
  return tables_of(records, contexts, false);
}

std::vector<Table> fastest_tables(const RecordSet& records, const Contexts& contexts) {
  return tables_of(records, contexts, true);
}

}  // namespace ecmv::reports

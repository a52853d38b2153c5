// Pools counted blocks over types and workloads.
#include "reports/tables/block_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "reports/fields.h"

namespace ecmv::reports {
namespace {

// The memory of the MPC paper: three links of 26.6 GB/s instead of 637.5 GB/s.
constexpr double kFullBandwidth = 637.5e9, kLinkBandwidth = kFullBandwidth / 8;

// "stored" is not a codec's rule; it means the whole bytes of payload, tables and index.
constexpr const char* kStoredKey = "stored";

struct Sum {
  double original = 0, coded = 0;  // in bits, or in bytes on the link
  void add(const Sum& other) { original += other.original, coded += other.coded; }
  double ratio() const { return original / coded; }
};

std::string parameter(const CaseRecord& record, const std::string& name) {
  const auto found = record.data.parameters.find(name);
  return found == record.data.parameters.end() ? "" : to_string(found->second);
}

// One data set of one type under one codec.
struct Entry {
  std::string workload, part, type, codec;
  Sum sum;
};

// All entries of one table.
struct Sheet {
  std::vector<Entry> entries;

  // Sums by codec over the entries that fit.
  template <class Fits>
  std::map<std::string, Sum> pooled(Fits fits) const {
    std::map<std::string, Sum> sums;
    for (const Entry& entry : entries)
      if (fits(entry)) sums[entry.codec].add(entry.sum);
    return sums;
  }
  template <class Text>
  std::set<std::string> distinct(Text text) const {
    std::set<std::string> out;
    for (const Entry& entry : entries) out.insert(text(entry));
    return out;
  }
};

std::string workload_of(const CaseRecord& record) {
  const std::string name = parameter(record, "workload");
  return name.empty() ? field_text(record, "data") : name;
}

// A workload is unseen if its data says so; test parts belong to seen ones.
std::string group_of(const std::string& part) { return part == "test" ? "seen" : part; }

// Names codecs by their ids and the settings in which a codec's records differ. The block size has a table of its own.
class CodecNames {
 public:
  explicit CodecNames(const std::vector<const CaseRecord*>& records) {
    for (const CaseRecord* record : records)
      for (const auto& [name, value] : record->codec.settings) values_[record->codec.id][name].insert(to_string(value));
  }
  std::string of(const CaseRecord& record) const {
    std::string text;
    for (const auto& [name, value] : record.codec.settings)
      if (name != "block_bytes" && values_.at(record.codec.id).at(name).size() > 1)
        text += (text.empty() ? " " : ", ") + to_string(value);
    return record.codec.id + text;
  }

 private:
  std::map<std::string, std::map<std::string, std::set<std::string>>> values_;  // codec -> setting -> values
};

// Records that count: the last one of each case.
std::vector<const CaseRecord*> counted_cases(const RecordSet& records) {
  std::vector<const CaseRecord*> out;
  std::set<std::string> keys;
  for (auto record = records.cases.rbegin(); record != records.cases.rend(); ++record)
    if (record->status == Status::ok && !record->blocks.empty() && keys.insert(record->case_key).second)
      out.push_back(&*record);
  std::reverse(out.begin(), out.end());
  return out;
}

Entry entry_of(const CaseRecord& record, const CodecNames& names, Sum sum) {
  return {workload_of(record), group_of(parameter(record, "part")), record.data.type, names.of(record), sum};
}

double original_bits(const CaseRecord::Blocks& blocks) {
  return 8.0 * static_cast<double>(blocks.block_bytes) * static_cast<double>(blocks.blocks);
}

// A row of numbers by codec, and the codec with the largest (or smallest).
void add_row(Table& table, const std::vector<std::string>& codecs, std::string name, std::string group,
             const std::map<std::string, double>& values, int digits, bool highest_wins) {
  std::vector<Cell> row = {text_cell(std::move(name)), text_cell(std::move(group))};
  std::string best;
  for (const std::string& codec : codecs) {
    const auto found = values.find(codec);
    row.push_back(found == values.end() ? number_cell(kUnknown, fixed_text(kUnknown, digits))
                                        : number_cell(found->second, fixed_text(found->second, digits)));
    if (found == values.end()) continue;
    if (best.empty() || (highest_wins ? found->second > values.at(best) : found->second < values.at(best)))
      best = codec;
  }
  row.push_back(text_cell(best));
  table.rows.push_back(std::move(row));
}

Table empty_table(const Sheet& sheet, std::vector<std::string>& codecs, std::string id, std::string title,
                  std::string caption, const char* unit) {
  const std::set<std::string> names = sheet.distinct([](const Entry& e) { return e.codec; });
  codecs.assign(names.begin(), names.end());
  Table table{
      slug(id), std::move(title), std::move(caption), {{"workload", "workload", ""}, {"group", "group", ""}}, {}};
  for (const std::string& codec : codecs) table.columns.push_back({slug(codec), codec, unit, Column::Align::right});
  table.columns.push_back({"best", "best", ""});
  return table;
}

std::map<std::string, double> ratios(const std::map<std::string, Sum>& sums) {
  std::map<std::string, double> out;
  for (const auto& [codec, sum] : sums) out[codec] = sum.ratio();
  return out;
}

struct Row {
  std::string name, group;
  std::map<std::string, Sum> sums;
};

// Workloads, the seen ones first.
std::vector<Row> workload_rows(const Sheet& sheet) {
  std::set<std::tuple<std::string, std::string>> names;
  for (const Entry& entry : sheet.entries) names.emplace(entry.part, entry.workload);
  std::vector<Row> rows;
  for (const auto& name : names) {
    const auto& [group, workload] = name;
    const auto is_of_it = [&](const Entry& e) { return std::tie(e.part, e.workload) == name; };
    rows.push_back({workload, group, sheet.pooled(is_of_it)});
  }
  return rows;
}

void add_means(Table& table, const std::vector<std::string>& codecs, const std::vector<Row>& workloads,
               const Sheet& sheet, const std::string& group) {
  const bool all = group.empty();
  std::map<std::string, double> sums, logs, counts;
  for (const Row& row : workloads) {
    if (!all && row.group != group) continue;
    for (const auto& [codec, sum] : row.sums) {
      sums[codec] += sum.ratio();
      logs[codec] += std::log(sum.ratio());
      counts[codec] += 1;
    }
  }
  std::map<std::string, double> arithmetic, geometric;
  for (const auto& [codec, count] : counts)
    arithmetic[codec] = sums[codec] / count, geometric[codec] = std::exp(logs[codec] / count);
  const std::string label = all ? "all" : group;
  add_row(table, codecs, "pooled", label, ratios(sheet.pooled([&](const Entry& e) { return all || e.part == group; })),
          3, true);
  add_row(table, codecs, "arithmetic mean", label, arithmetic, 3, true);
  add_row(table, codecs, "geometric mean", label, geometric, 3, true);
}

Table ratio_table(const Sheet& sheet, const std::string& accounting, std::int64_t block_bytes) {
  std::vector<std::string> codecs;
  Table table = empty_table(
      sheet, codecs, fmt::format("blocks_{}_{}", block_bytes, accounting),
      fmt::format("blocks of {} bytes, compression ratios, accounting {}", block_bytes, accounting),
      accounting == kStoredKey
          ? "Original bytes / all stored bytes: blocks, tables and the index of positions."
          : "Original bits / coded bits of the blocks by this rule, without shared tables, models and the index. A "
            "workload's types are pooled: sum of original / sum of coded. Means are over workloads, pooled is over "
            "blocks.",
      "×");
  const std::vector<Row> workloads = workload_rows(sheet);
  for (const Row& row : workloads) add_row(table, codecs, row.name, row.group, ratios(row.sums), 2, true);
  const std::set<std::string> types = sheet.distinct([](const Entry& e) { return e.type; });
  for (const std::string& type : types)
    add_row(table, codecs, "pooled " + type, "all",
            ratios(sheet.pooled([&](const Entry& e) { return e.type == type; })), 3, true);
  // Types of floating point have names with f: bf16, f32, f64.
  for (const bool floats : {false, true})
    add_row(table, codecs, floats ? "pooled floating point" : "pooled integers", "all",
            ratios(sheet.pooled([&](const Entry& e) { return (e.type.find('f') != std::string::npos) == floats; })), 3,
            true);
  for (const std::string& group : sheet.distinct([](const Entry& e) { return e.part; }))
    if (!group.empty()) add_means(table, codecs, workloads, sheet, group);
  add_means(table, codecs, workloads, sheet, "");
  return table;
}

Table link_table(const Sheet& sheet, std::int64_t block_bytes) {
  std::vector<std::string> codecs;
  Table table = empty_table(sheet, codecs, fmt::format("blocks_{}_link", block_bytes),
                            fmt::format("blocks of {} bytes, predicted time on a link", block_bytes),
                            fmt::format("Time to move every block of a workload once, in packets of at most 4096 bytes "
                                        "of payload after 8 bytes of header, each "
                                        "block after a tag of 9 bits and never cut, at {:.1f} GB/s, an eighth of "
                                        "{:.1f}; codecs with the bit that bounds their "
                                        "growth or without it, whichever is less. Computation and latency are not in "
                                        "it: it is what a program that waits for "
                                        "memory alone would take.",
                                        kLinkBandwidth / 1e9, kFullBandwidth / 1e9),
                            "µs");
  const auto full = table.columns.begin() + 2;
  table.columns.insert(full, {{"full_us", "not coded, full bandwidth", "µs", Column::Align::right},
                              {"raw_us", "not coded", "µs", Column::Align::right}});
  const auto add = [&](const std::string& name, const std::string& group, const std::map<std::string, Sum>& sums) {
    std::map<std::string, double> times;
    double raw = 0;
    for (const auto& [codec, sum] : sums)
      times[codec] = sum.coded / kLinkBandwidth * 1e6, raw = std::max(raw, sum.original);
    add_row(table, codecs, name, group, times, 2, false);
    std::vector<Cell>& row = table.rows.back();
    const double full_us = raw / kFullBandwidth * 1e6, raw_us = raw / kLinkBandwidth * 1e6;
    row.insert(row.begin() + 2,
               {number_cell(full_us, fixed_text(full_us, 2)), number_cell(raw_us, fixed_text(raw_us, 2))});
  };
  for (const Row& row : workload_rows(sheet)) add(row.name, row.group, row.sums);
  add("together", "all", sheet.pooled([](const Entry&) { return true; }));
  return table;
}

}  // namespace

std::vector<Figure> block_figures(const RecordSet& records) {
  std::vector<Figure> figures;
  for (const Table& table : block_tables(records)) {
    if (!table.id.ends_with("_stream") || table.columns.size() < 5) continue;  // workload, group, two codecs, best
    HeatMap map{"codec", "workload", {}, {}, {}, 1, "compression ratio"};
    for (std::size_t column = 2; column + 1 < table.columns.size(); ++column)
      map.x_names.push_back(table.columns[column].name);
    for (const std::vector<Cell>& row : table.rows) {
      if (row[0].text.starts_with("pooled")) break;  // the means follow
      map.y_names.push_back(row[0].text + (row[1].text.empty() ? "" : ", " + row[1].text));
      std::vector<double>& values = map.values.emplace_back();
      for (std::size_t column = 2; column + 1 < row.size(); ++column) {
        const double* const ratio = std::get_if<double>(&row[column].value);
        values.push_back(ratio == nullptr ? kUnknown : *ratio);
      }
    }
    figures.push_back({table.id, "Compression ratios by workload", table.title,
                       "Above one a workload gets smaller. A workload's element types are pooled.", std::move(map)});
  }
  return figures;
}

std::vector<Table> block_tables(const RecordSet& records) {
  std::map<std::pair<std::int64_t, std::string>, Sheet> by_accounting;
  std::map<std::int64_t, Sheet> stored, links;
  const std::vector<const CaseRecord*> cases = counted_cases(records);
  const CodecNames names(cases);
  for (const CaseRecord* counted : cases) {
    const CaseRecord& record = *counted;
    const std::int64_t size = record.blocks.front().block_bytes;
    const double original = original_bits(record.blocks.front());
    Sum link;
    for (const CaseRecord::Blocks& blocks : record.blocks) {
      by_accounting[{size, blocks.accounting}].entries.push_back(
          entry_of(record, names, {original, static_cast<double>(blocks.bits)}));
      if (!blocks.accounting.starts_with("stream")) continue;
      const auto bytes = static_cast<double>(blocks.link_bytes);
      if (link.coded == 0 || bytes < link.coded) link = {static_cast<double>(blocks.raw_link_bytes), bytes};
    }
    if (link.coded > 0) links[size].entries.push_back(entry_of(record, names, link));
    stored[size].entries.push_back(
        entry_of(record, names, {original, 8.0 * static_cast<double>(record.size.stored_bytes)}));
  }
  std::vector<Table> tables;
  for (const auto& [key, sheet] : by_accounting) tables.push_back(ratio_table(sheet, key.second, key.first));
  for (const auto& [size, sheet] : stored) tables.push_back(ratio_table(sheet, kStoredKey, size));
  for (const auto& [size, sheet] : links) tables.push_back(link_table(sheet, size));
  return tables;
}

}  // namespace ecmv::reports

#include "tests/reports/readmes/printed_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "reports/fields.h"
#include "reports/metrics.h"
#include "reports/tables/block_tables.h"

namespace ecmv::reports {
namespace {

using Filter = std::map<std::string, std::string>;

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(separator, from)) != std::string::npos; from = at + separator.size())
    parts.push_back(trimmed(text.substr(from, at - from)));
  parts.push_back(trimmed(text.substr(from)));
  return parts;
}

// A number as it is printed.
struct Printed {
  double value = 0, unit = 1;
  int digits = 0;  // after the point
};

std::optional<Printed> first_number(const std::string& text) {
  static const std::regex expression(R"re(^[^0-9A-Za-z]*([0-9]+)(?:\.([0-9]+))?(?:\s?([TGM])(?:B/s|(?![A-Za-z])))?)re");
  std::smatch match;
  if (!std::regex_search(text, match, expression)) return std::nullopt;
  Printed printed;
  printed.digits = static_cast<int>(match[2].length());
  printed.value = std::stod(match[1].str() + "." + match[2].str() + "0");
  const std::string prefix = match[3];
  printed.unit = prefix == "T" ? 1e12 : prefix == "G" ? 1e9 : prefix == "M" ? 1e6 : 1;
  return printed;
}

// Numbers of a text that look like results: with a decimal point, or followed by T, G or %.
std::vector<std::string> result_numbers(const std::string& text) {
  static const std::regex expression(
      R"re((^|[^0-9A-Za-z_.])([0-9]+\.[0-9]+(?![0-9.])|[0-9]+(?=\s?(?:[TG](?![A-Za-z])|%))))re");
  static const std::regex elsewhere(R"re(\]\([^)]*\)|`[^`]*`)re");  // addresses of links, code
  const std::string words = std::regex_replace(text, elsewhere, "]");
  std::vector<std::string> numbers;
  for (std::sregex_iterator i(words.begin(), words.end(), expression), end; i != end; ++i) numbers.push_back((*i)[2]);
  return numbers;
}

// Files are read once.
class Source {
 public:
  explicit Source(const std::filesystem::path& path)
      : records(read_records(path)), contexts(records, "raw_int8,raw_bf16,raw_f8"), blocks(block_tables(records)) {
    for (const CaseRecord& record : records.cases)
      if (beats_bandwidth(record, contexts.of(record))) runs_beyond.insert(record.run);
    for (const RunRecord& run : records.runs) is_clean = is_clean && !run.git_dirty;
  }
  const RecordSet records;
  const Contexts contexts;
  const std::vector<Table> blocks;
  std::set<std::string> runs_beyond;  // with a case that beats their bandwidth
  bool is_clean = true;
};

struct Chosen {
  const Source* source;
  const CaseRecord* record;
};

bool matches(const CaseRecord& record, const std::string& key, const std::string& value) {
  if (key == "record") return true;
  if (key == "rows") return std::to_string(record.data.rows) == value;
  if (key == "cols") return std::to_string(record.data.cols) == value;
  if (key == "type") return record.data.type == value;
  if (key == "source") return record.data.source == value;
  if (const auto setting = record.codec.settings.find(key); setting != record.codec.settings.end())
    return to_string(setting->second) == value;
  if (const auto given = record.data.parameters.find(key); given != record.data.parameters.end())
    return to_string(given->second) == value;
  return is_field(key) && field_text(record, key) == value;
}

class Checker {
 public:
  explicit Checker(std::filesystem::path root) : root_(std::move(root)) {}

  // The value of `expression` for cases of `filter`, divided by that for cases of `over` (or null).
  double value(const std::string& expression, const Filter& filter, const Filter* over) {
    double unit = 1;
    std::string formula = expression;
    static const std::regex unit_at_the_end(R"re(^(.*) in ([MGT])$)re");
    if (std::smatch match; std::regex_match(formula, match, unit_at_the_end)) {
      unit = match[2] == "T" ? 1e12 : match[2] == "G" ? 1e9 : 1e6;
      formula = match.str(1);
    }
    const std::vector<std::string> parts = split(formula, " / ");
    if (parts.size() > 2) throw Fault("\"" + expression + "\" divides twice");
    if (parts.size() == 1 && !over && formula.starts_with("pooled "))
      return pooled(with(filter, formula.substr(7))) / unit;
    std::string metric;
    const auto [first, number] = of(parts[0], filter, metric);
    if (parts.size() == 1 && !over) return number / unit;
    const auto [second, divisor] = of(parts.size() == 2 ? parts[1] : parts[0], over ? *over : filter, metric);
    if (first.record->run != second.record->run) throw Fault("\"" + expression + "\" compares cases of different runs");
    if (first.record->time.cache != second.record->time.cache)
      throw Fault(fmt::format("\"{}\" compares a {} case with a {} one", expression, first.record->time.cache,
                              second.record->time.cache));
    return number / divisor;
  }

  static Filter with(Filter filter, const std::string& words) {
    std::istringstream stream(words);
    for (std::string word; stream >> word;) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) throw Fault("\"" + word + "\" is not key=value");
      filter[word.substr(0, equals)] = word.substr(equals + 1);
    }
    return filter;
  }

  CheckedDocument found;  // only the sets of records

 private:
  // "METRIC key=value ..."; without a metric, the one before the division.
  std::pair<Chosen, double> of(const std::string& part, const Filter& filter, std::string& metric) {
    const std::string first = part.substr(0, part.find(' '));
    std::string words = part;
    if (first.find('=') == std::string::npos) metric = first, words = part.substr(first.size());
    const Filter all = with(filter, words);
    const Chosen chosen = fastest(all);
    const Context context = chosen.source->contexts.of(*chosen.record);
    if (chosen.source->runs_beyond.contains(chosen.record->run)) found.beyond_bandwidth.insert(all.at("record"));
    if (metric == "speedup_vs_raw" && context.raw_is_filtered()) found.filtered.insert(all.at("record"));
    if (metric == "speedup_vs_raw" && context.known_raw_kernels == 0)
      found.of_unknown_entrants.insert(all.at("record"));
    double number = kUnknown;
    if (metric == "read_bandwidth")
      number = context.bandwidth ? context.bandwidth->read_bytes_per_s : kUnknown;
    else
      number = number_of(*chosen.record, context, metric);
    if (!std::isfinite(number)) throw Fault(fmt::format("\"{}\" has no {}", part, metric));
    return {chosen, number};
  }

  const Source& source_of(const Filter& filter) {
    const auto file = filter.find("record");
    if (file == filter.end()) throw Fault("a comment names no record");
    std::unique_ptr<Source>& source = sources_[file->second];
    if (!source) source = std::make_unique<Source>(root_ / file->second);
    return *source;
  }

  // The cell of a table of memory blocks in the row that pools a group of workloads.
  double pooled(const Filter& filter) {
    const Source& source = source_of(filter);
    if (!source.is_clean) throw Fault(filter.at("record") + ": a run is not of a clean build");
    for (const char* key : {"table", "group", "column"})
      if (!filter.contains(key)) throw Fault(std::string("pooled needs ") + key + "=...");
    for (const Table& table : source.blocks) {
      if (table.id != filter.at("table")) continue;
      for (const std::vector<Cell>& row : table.rows) {
        const bool pools = row[0].text == "pooled" || row[0].text == "together";
        if (!pools || row[1].text != filter.at("group")) continue;
        for (std::size_t i = 2; i < row.size(); ++i)
          if (const double* number = std::get_if<double>(&row[i].value);
              number && table.columns[i].id == filter.at("column"))
            return *number;
      }
    }
    throw Fault("no table " + filter.at("table") + " pools " + filter.at("group") + " for " + filter.at("column"));
  }

  Chosen fastest(const Filter& filter) {
    const Source& source = source_of(filter);
    std::set<std::string> kinds;
    const CaseRecord* best = nullptr;
    std::string words;
    for (const auto& [key, value] : filter) words += " " + key + "=" + value;
    for (const CaseRecord& record : source.records.cases) {
      if (record.status != Status::ok) continue;
      if (!std::all_of(filter.begin(), filter.end(),
                       [&](const auto& entry) { return matches(record, entry.first, entry.second); }))
        continue;
      std::string kind;
      for (const char* field : {"codec", "data", "op", "batch", "backend", "device", "threads", "cache"})
        kind += field_text(record, field) + " · ";
      kinds.insert(kind);
      auto speed = [&](const CaseRecord& r) { return static_cast<double>(elements_of(r)) / r.time.median_s; };
      if (!best || speed(record) > speed(*best)) best = &record;
    }
    if (!best) throw Fault("no case has" + words);
    if (kinds.size() > 1)
      throw Fault(fmt::format("cases of different kinds have{}: {} and {}", words, *kinds.begin(), *kinds.rbegin()));
    const RunRecord* run = source.records.find_run(best->run);
    if (!run || run->git_dirty)
      throw Fault(filter.at("record") + ": the run " + best->run + " is not of a clean build");
    return {&source, best};
  }

  const std::filesystem::path root_;
  std::map<std::string, std::unique_ptr<Source>> sources_;
};

// A comment's claims.
struct Claims {
  Filter filter;
  std::vector<std::string> columns, rows, texts;
  std::set<std::string> plain;
};

Claims parse(const std::vector<std::string>& lines) {
  Claims claims;
  for (const std::string& line : lines) {
    const auto colon = line.find(':');
    const std::string kind = trimmed(line.substr(0, colon)),
                      rest = colon == std::string::npos ? "" : trimmed(line.substr(colon + 1));
    if (kind == "numbers")
      claims.filter = Checker::with({}, rest);
    else if (kind == "columns")
      claims.columns = split(rest, "|");
    else if (kind == "row")
      claims.rows.push_back(rest);
    else if (kind == "text")
      claims.texts.push_back(rest);
    else if (kind == "plain") {
      std::istringstream words(rest);
      for (std::string word; words >> word;) claims.plain.insert(word);
    } else if (!trimmed(line).empty())
      throw Fault("a comment has a line \"" + line + "\"");
  }
  return claims;
}

using Comments = std::vector<std::vector<std::string>>;  // lines of each group that begins with `numbers:`

// Claims of a sidecar for the block that has `words`.
struct BlockClaims {
  std::string words;
  Comments comments;
  int found = 0;  // blocks with these words
};

std::vector<BlockClaims> parse_sidecar(const std::string& text) {
  std::vector<BlockClaims> blocks;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    line = trimmed(line);
    if (line.empty() || line.starts_with("#") || line.starts_with("page:")) continue;
    if (line.starts_with("block:")) {
      blocks.push_back({trimmed(line.substr(6)), {}});
      continue;
    }
    if (blocks.empty()) throw Fault("the sidecar has \"" + line + "\" before its first block");
    Comments& comments = blocks.back().comments;
    if (comments.empty() || line.starts_with("numbers:")) comments.emplace_back();
    comments.back().push_back(line);
  }
  return blocks;
}

std::string joined(const std::vector<std::string>& block) {
  std::string text;
  for (const std::string& line : block) text += (text.empty() ? "" : " ") + trimmed(line);
  return text;
}

class Document {
 public:
  Document(const std::string& text, const std::filesystem::path& root, const std::string& sidecar)
      : sidecar_(parse_sidecar(sidecar)), checker_(root) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines_.push_back(line);
  }

  CheckedDocument check() {
    Comments comments;
    for (std::size_t at = 0; at < lines_.size();) {
      if (lines_[at].starts_with("<!-- numbers:")) {
        comments.push_back(comment(at));
      } else if (lines_[at].starts_with("```")) {
        for (++at; at < lines_.size() && !lines_[at].starts_with("```");) ++at;
        ++at;
      } else if (trimmed(lines_[at]).empty()) {
        ++at;
      } else {
        if (lines_[at].starts_with("#")) heading_ = trimmed(lines_[at].substr(lines_[at].find(' ')));
        std::vector<std::string> block;
        while (at < lines_.size() && !trimmed(lines_[at]).empty() && !lines_[at].starts_with("<!-- numbers:"))
          block.push_back(lines_[at++]);
        add_from_sidecar(joined(block), comments);
        if (comments.empty())
          note_results(block);
        else
          check_block(block, comments);
        comments.clear();
      }
    }
    if (!comments.empty()) document_.faults.push_back("a comment of numbers stands before nothing");
    for (const BlockClaims& block : sidecar_)
      if (block.found != 1)
        document_.faults.push_back(
            fmt::format("{} paragraphs or tables have the words \"{}\" of the sidecar", block.found, block.words));
    document_.beyond_bandwidth = checker_.found.beyond_bandwidth;
    document_.filtered = checker_.found.filtered;
    document_.of_unknown_entrants = checker_.found.of_unknown_entrants;
    return document_;
  }

 private:
  void add_from_sidecar(const std::string& text, Comments& comments) {
    for (BlockClaims& block : sidecar_) {
      if (text.find(block.words) == std::string::npos) continue;
      ++block.found;
      comments.insert(comments.end(), block.comments.begin(), block.comments.end());
    }
  }

  std::vector<std::string> comment(std::size_t& at) {
    std::vector<std::string> lines;
    for (bool last = false; !last;) {
      if (at == lines_.size()) {
        document_.faults.push_back("a comment of numbers has no end");
        break;
      }
      std::string line = lines_[at++];
      if (line.starts_with("<!-- ")) line = line.substr(5);
      if (const auto end = line.find("-->"); end != std::string::npos) line = line.substr(0, end), last = true;
      lines.push_back(line);
    }
    return lines;
  }

  void fault(const std::string& what) { document_.faults.push_back(heading_ + ": " + what); }

  void compare(const std::string& printed_text, const std::string& expression, const Filter& filter,
               const Filter* over) {
    const std::optional<Printed> printed = first_number(printed_text);
    if (!printed) return fault("no number in \"" + printed_text + "\"");
    ++document_.numbers;
    const double value = checker_.value(expression, filter, over) / printed->unit;
    const std::string rounded = fixed_text(value, printed->digits);
    if (rounded != fixed_text(printed->value, printed->digits))
      fault(fmt::format("it says \"{}\", and the record {} ({})", trimmed(printed_text), rounded, expression));
  }

  void check_block(const std::vector<std::string>& block, const Comments& comments) {
    const std::string text = joined(block);
    std::multiset<std::string> open;
    for (const std::string& number : result_numbers(text)) open.insert(number);
    auto close = [&](const std::string& piece) {
      for (const std::string& number : result_numbers(piece))
        if (const auto found = open.find(number); found != open.end()) open.erase(found);
    };
    std::size_t next_row = 2;  // after the heading and the line below it
    for (const auto& lines : comments) try {
        const Claims claims = parse(lines);
        for (const std::string& claim : claims.texts)
          guarded([&] {
            const auto equals = claim.find(" = ");
            if (equals == std::string::npos) throw Fault("\"" + claim + "\" has no =");
            const std::string piece = trimmed(claim.substr(0, equals));
            if (text.find(piece) == std::string::npos) throw Fault("the text has no \"" + piece + "\"");
            if (result_numbers(piece).size() > 1) throw Fault("\"" + piece + "\" has several numbers");
            compare(piece, trimmed(claim.substr(equals + 3)), claims.filter, nullptr);
            close(piece);
          });
        for (const std::string& row : claims.rows)
          guarded([&] {
            if (next_row >= block.size()) throw Fault("the table has fewer rows than its comment");
            check_row(block[next_row++], row, claims, close);
          });
        for (const std::string& number : claims.plain) open.erase(number);
      } catch (const std::exception& error) {
        fault(error.what());
      }
    if (block.front().starts_with("|") && next_row != block.size())
      fault(fmt::format("the table has {} rows and its comment {}", block.size() - 2, next_row - 2));
    for (const std::string& number : open) fault("\"" + number + "\" has no record");
  }

  template <class Check>
  void guarded(const Check& check) {
    try {
      check();
    } catch (const std::exception& error) {
      fault(error.what());
    }
  }

  template <class Close>
  void check_row(const std::string& line, const std::string& row, const Claims& claims, const Close& close) {
    if (row == "-") return;
    std::vector<std::string> cells = split(line, "|");
    cells.erase(cells.begin()), cells.pop_back();
    if (cells.size() != claims.columns.size())
      throw Fault(fmt::format("a row has {} cells and the comment {} columns", cells.size(), claims.columns.size()));
    const std::vector<std::string> parts = split(row, " / ");
    const Filter filter = Checker::with(claims.filter, parts[0]);
    const Filter over = parts.size() > 1 ? Checker::with(claims.filter, parts[1]) : Filter{};
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (claims.columns[i] == "-" || cells[i].empty()) continue;
      guarded([&] { compare(cells[i], claims.columns[i], filter, parts.size() > 1 ? &over : nullptr); });
      if (result_numbers(cells[i]).size() > 1) fault("the cell \"" + cells[i] + "\" has several numbers");
      close(cells[i]);
    }
  }

  void note_results(const std::vector<std::string>& block) {
    const bool table = block.front().starts_with("|");
    bool published = table, numbers = false;
    for (const std::string& line : block) {
      published = published || line.find("reports/published") != std::string::npos;
      numbers = numbers || !result_numbers(line).empty();
    }
    if (!numbers) return;
    const std::string name = heading_ + (table ? " (table)" : " (text)");
    document_.without_claims.push_back(name);
    if (published) document_.without_records.push_back(name);
  }

  std::vector<std::string> lines_;
  std::string heading_;
  std::vector<BlockClaims> sidecar_;
  Checker checker_;
  CheckedDocument document_;
};

}  // namespace

CheckedDocument check_printed_numbers(const std::string& text, const std::filesystem::path& root,
                                      const std::string& sidecar) {
  return Document(text, root, sidecar).check();
}

std::map<std::string, std::string> read_sidecars(const std::filesystem::path& folder) {
  std::map<std::string, std::string> sidecars;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::string first = text.substr(0, text.find('\n'));
    if (!first.starts_with("page:")) throw Fault(entry.path().string() + " does not begin with \"page: PATH\"");
    if (!sidecars.emplace(trimmed(first.substr(5)), text).second)
      throw Fault(entry.path().string() + " is a second sidecar of " + trimmed(first.substr(5)));
  }
  return sidecars;
}

}  // namespace ecmv::reports

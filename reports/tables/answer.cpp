// Turns verdicts into English. The numbers come from metrics.h and compare.h; nothing is computed here.
#include "reports/tables/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "reports/compare.h"
#include "reports/fields.h"
#include "reports/tables/tables.h"

namespace ecmv::reports {
namespace {

// Cases of the same work, the fastest first, sizes smallest first, as sorted_cases orders them.
struct Competition {
  std::vector<const CaseRecord*> others;
  const CaseRecord* baseline = nullptr;  // the best case of an uncompressed codec
  Context context = {};                  // of the first case

  const CaseRecord& first() const { return others.empty() ? *baseline : *others.front(); }
  bool is_size() const { return first().kernel.op == "size"; }
  // The smallest lossless case, or the smallest of all if every case loses something; a baseline counts like the
  // others.
  const CaseRecord& smallest() const {
    const CaseRecord* best = nullptr;
    for (const CaseRecord* record : others)
      if (best == nullptr || (!is_exact(*best) && is_exact(*record))) best = record;
    if (best == nullptr) return *baseline;
    const bool raw_is_smaller = baseline != nullptr && baseline->size.stored_bytes < best->size.stored_bytes;
    return raw_is_smaller ? *baseline : *best;
  }
  // The best other case; nullopt if there is none.
  std::optional<Comparison> comparison() const {
    if (others.empty() || baseline == nullptr || is_size()) return std::nullopt;
    return compare_cases(*baseline, *others.front());
  }
};

std::string bold(const std::string& text) { return "**" + text + "**"; }

std::string on_device(const CaseRecord& r) {
  const std::string device = device_label(r);
  return device.empty() ? "" : "On " + device + ", ";
}

std::string work(const CaseRecord& r) {
  std::string text = fmt::format("{} of {}", r.kernel.op == "size" ? "sizes" : r.kernel.op, field_text(r, "data"));
  if (has_tokens(r)) text += ", " + tokens_text(r);
  return r.time.cache.empty() ? text : text + ", " + r.time.cache;
}

std::string with_bits(const CaseRecord& r) {
  const double bits = find_metric("bits_per_element").value(r, {}), entropy = r.size.entropy_bits_per_element;
  if (!std::isfinite(bits)) return "";
  const std::string text = fmt::format(" with {:.3f} stored bits an element", bits);
  const std::string loss =
      std::isfinite(r.distortion.snr_db) ? fmt::format(", {:.1f} dB SNR", r.distortion.snr_db) : "";
  if (!std::isfinite(entropy)) return text + loss;
  const double excess = find_metric("excess_over_entropy_percent").value(r, {});
  if (!std::isfinite(excess)) return text + fmt::format(" at an entropy of {:.3f}", entropy) + loss;
  return text +
         fmt::format(", {:.1f} % {} the entropy of {:.3f}", std::abs(excess), excess < 0 ? "below" : "above", entropy) +
         loss;
}

// The ratio of the medians, as tables show it, with the interval of the samples.
std::string times(const Comparison& found) {
  const Metric& speed = find_metric("elements_per_s");
  return fixed_text(speed.value(*found.other, {}) / speed.value(*found.base, {}), 2) + " times";
}

std::string interval(const Comparison& found) {
  const Interval& ratio = found.speed_ratio;
  return ratio.low > 0 ? fmt::format(" (95 % interval {:.2f} to {:.2f})", ratio.low, ratio.high)
                       : " (too few samples for an interval)";
}

std::string speed(const CaseRecord& r) { return si_text(find_metric("elements_per_s").value(r, {})) + " elements/s"; }

// "; the best of 13 uncompressed kernels", or how many of them ran. Nobody knows for older records.
std::string rivals(const Context& context) {
  if (context.raw_is_filtered()) return "; only " + context.raw_text();
  return context.raw_is_complete() && context.known_raw_kernels > 1
             ? fmt::format("; {} is the best of {} uncompressed kernels", codec_label(*context.baseline),
                           context.known_raw_kernels)
             : "";
}

// "X is the fastest ...", for one competition.
std::string sentence_of(const Competition& competition) {
  const CaseRecord& first = competition.first();
  const std::string where = ", in " + work(first), device = on_device(first);
  if (competition.others.empty())
    return fmt::format("{}only the uncompressed {} was verified: {}{}.", device, bold(codec_label(first)), speed(first),
                       where);
  if (competition.baseline == nullptr)
    return fmt::format("{}{} is the fastest: {}{}{}; no uncompressed codec ran.", device, bold(codec_label(first)),
                       speed(first), with_bits(first), where);
  const Comparison found = *competition.comparison();
  const std::string name = bold(codec_label(first)), rival = bold(codec_label(*competition.baseline));
  const std::string ratio = bold(times(found)),
                    rest = interval(found) + with_bits(first) + where + rivals(competition.context);
  switch (found.verdict) {
    case Verdict::faster: return fmt::format("{}{} beats {}: {} its speed{}.", device, name, rival, ratio, rest);
    case Verdict::slower:
      return fmt::format("{}nothing beats {}: the fastest other codec, {}, runs at {} its speed{}.", device, rival,
                         name, ratio, rest);
    case Verdict::same:
      return fmt::format("{}nothing beats {}: the fastest other codec, {}, ties at {} its speed{}.", device, rival,
                         name, ratio, rest);
    default:
      return fmt::format("{}undecided{}: {} ran at {} the speed of {}{}.", device,
                         found.note.starts_with("disturbed: ") ? " because " + found.note.substr(11) : "", name, ratio,
                         rival, rest);
  }
}

// "X stores the fewest bits ...", if nothing was timed. `chosen` is one of the competitions.
std::string sentence_of_sizes(const std::vector<Competition>& competitions, const Competition& chosen) {
  const CaseRecord& least = chosen.smallest();
  const std::string loss = is_exact(least) && !has_distortion(least) ? " without loss" : "";
  const std::string detail = fmt::format("{}, in {}; nothing was timed.", with_bits(least), work(least));
  std::map<std::string, int> wins;
  int all = 0;
  for (const Competition& competition : competitions)
    if (competition.is_size()) ++wins[competition.smallest().codec.id], ++all;
  if (all < 2) return fmt::format("{} stores the fewest bits{}:{}", bold(codec_label(least)), loss, detail);
  const auto most =
      std::max_element(wins.begin(), wins.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return fmt::format("{} stores the fewest bits{} in {} of {} datasets; on the largest it is {}{}", bold(most->first),
                     loss, bold(std::to_string(most->second)), all, bold(codec_label(least)), detail);
}

// The case with the fewest bits that beats the baseline, if it is not the fastest.
std::string smallest_winner(const Competition& competition) {
  if (competition.baseline == nullptr || competition.is_size()) return "";
  const CaseRecord* smallest = nullptr;
  for (const CaseRecord* record : competition.others) {
    if (smallest && record->size.stored_bytes >= smallest->size.stored_bytes) continue;
    if (compare_cases(*competition.baseline, *record).verdict == Verdict::faster) smallest = record;
  }
  if (smallest == nullptr || smallest->size.stored_bytes == competition.others.front()->size.stored_bytes) return "";
  const Comparison found = compare_cases(*competition.baseline, *smallest);
  return fmt::format("Among the faster codecs, {} stores the fewest bits: {} its speed{}{}.", codec_label(*smallest),
                     times(found), interval(found), with_bits(*smallest));
}

// The results of all competitions with a baseline.
std::string tally(const std::vector<Competition>& competitions) {
  int faster = 0, level = 0, slower = 0, unsure = 0;
  for (const Competition& competition : competitions) {
    const auto found = competition.comparison();
    if (!found) continue;
    switch (found->verdict) {
      case Verdict::faster: ++faster; break;
      case Verdict::slower: ++slower; break;
      case Verdict::same: ++level; break;
      default: ++unsure;
    }
  }
  const int all = faster + level + slower + unsure;
  if (all < 2) return "";
  std::string text =
      fmt::format("The fastest codec beats the uncompressed one in {1} of {0} combinations of data, batch and device",
                  all, faster == 0 ? "none" : std::to_string(faster));
  if (slower > 0) text += fmt::format(", is slower in {}", slower);
  if (level > 0) text += fmt::format(", ties in {}", level);
  if (unsure > 0) text += fmt::format("; {} {} undecided", unsure, unsure == 1 ? "is" : "are");
  return text + ".";
}

// A sort key: the least comes first.
auto importance(const Competition& competition) {
  const CaseRecord& r = competition.first();
  const int op = r.kernel.op == "size" ? 2 : r.kernel.op == "decode" ? 1 : 0;
  const bool compared = competition.baseline != nullptr && !competition.others.empty();
  return std::tuple(op, has_distortion(r), !compared, r.time.cache != "streamed", r.kernel.batch, -elements_of(r),
                    -r.kernel.threads);
}

}  // namespace

Answer answer(const RecordSet& records, const Contexts& contexts) {
  std::map<std::string, std::size_t> places;
  std::vector<Competition> competitions;
  for (const CaseRecord* record : sorted_cases(records)) {
    if (record->status != Status::ok) continue;
    const CaseRecord& r = *record;
    const std::string key =
        fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", r.run, r.kernel.op, r.kernel.batch, r.kernel.activations,
                    field_text(r, "data"), r.data.hash, r.kernel.device, r.kernel.threads, r.time.cache);
    const auto [place, is_new] = places.try_emplace(key, competitions.size());
    if (is_new) competitions.emplace_back().context = contexts.of(r);
    Competition& competition = competitions[place->second];
    if (!contexts.is_baseline(r))
      competition.others.push_back(record);
    else if (competition.baseline == nullptr)
      competition.baseline = record;
  }
  if (competitions.empty()) return {"Nothing was verified.", "", nullptr};
  const Competition& chosen =
      *std::min_element(competitions.begin(), competitions.end(),
                        [](const Competition& a, const Competition& b) { return importance(a) < importance(b); });
  Answer found{chosen.is_size() ? sentence_of_sizes(competitions, chosen) : sentence_of(chosen),
               smallest_winner(chosen), chosen.is_size() ? &chosen.smallest() : &chosen.first()};
  found.sentence.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(found.sentence.front())));
  if (const std::string counts = tally(competitions); !counts.empty())
    found.more += (found.more.empty() ? "" : " ") + counts;
  return found;
}

}  // namespace ecmv::reports

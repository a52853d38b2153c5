// See search.h.
#include "experiments/tune/search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "datasets/source.h"
#include "experiments/check/outcome.h"
#include "experiments/config/experiment.h"
#include "experiments/run/loaded_dataset.h"
#include "experiments/tune/take_tuned.h"

namespace ecmv::experiments {
namespace {

using Measured = std::map<std::string, MeasuredCase>;

constexpr double kLevel = 0.99;           // less than a percent faster is no reason to change
constexpr int64_t kWidestRange = 64;      // a wider one is not searched
constexpr size_t kMostCandidates = 4096;  // of a whole grid

// All values of a setting, the open one among them; none of a wide range.
std::vector<std::string> values_of(const codecs::SettingInfo& info) {
  std::vector<std::string> values = codecs::listed_values(info);
  if (values.empty() && info.max - info.min <= kWidestRange)
    for (int64_t value = info.min; value <= info.max; ++value) values.push_back(std::to_string(value));
  return values;
}

// What cases of one search have in common.
std::string search_of(const Case& one) {
  const DataSpec& data = one.data;
  std::string texts;
  for (const auto& [name, value] : data.texts) texts += fmt::format("{}={},", name, value);
  const TunedPass pass = tuned_pass(one.kernel);
  return fmt::format("{}|{}x{}|{}|{}|{}|{}|{}|{}|{}", data.source, data.shape.rows, data.shape.cols, texts,
                     data.quantiser.id.empty() ? "" : data.quantiser.name(), one.codec.name(), one.kernel.backend,
                     one.kernel.device, pass.op, pass.activations);
}

std::string condition_of(const Case& one) {
  return fmt::format("{}|{}|{}|{}", one.data.name(), one.kernel.batch, one.kernel.threads, one.kernel.simd_target);
}

// Seconds of each condition's fastest kernel.
std::map<std::string, double> fastest(const std::vector<Case>& cases, const Measured& measured) {
  std::map<std::string, double> seconds;
  for (const Case& one : cases)
    if (const auto found = measured.find(one.key()); found != measured.end()) {
      const auto [known, is_new] = seconds.try_emplace(condition_of(one), found->second.seconds);
      known->second = std::min(known->second, found->second.seconds);
    }
  return seconds;
}

double most_bits(const std::vector<Case>& cases, const Measured& measured) {
  double bits = 0;
  for (const Case& one : cases)
    if (const auto found = measured.find(one.key()); found != measured.end()) bits = std::max(bits, found->second.bits);
  return bits;
}

// The geometric mean over these conditions; infinite if one was not measured.
double mean_over(const std::map<std::string, double>& conditions, const std::map<std::string, double>& seconds) {
  double sum = 0;
  for (const auto& [condition, unused] : conditions) {
    const auto found = seconds.find(condition);
    if (found == seconds.end()) return std::numeric_limits<double>::infinity();
    sum += std::log(found->second);
  }
  return std::exp(sum / static_cast<double>(std::max<size_t>(1, conditions.size())));
}

std::optional<backends::Settings> with_value(const codecs::CodecEntry& entry, const backends::Settings& settings,
                                             const std::string& name, const std::string& value) {
  GivenSettings given;
  for (const auto& [known, its_value] : settings.values()) given[known] = setting_text(its_value);
  given[name] = value;
  std::vector<std::string> refused;
  backends::Settings changed = codecs::resolve_settings(entry.codec->settings, given, refused);
  return refused.empty() ? std::optional(std::move(changed)) : std::nullopt;
}

// The first rows of a matrix that is drawn; none for files, and where the codec refuses even what was asked.
std::optional<datasets::Matrix> sample_for(const Case& one, const codecs::Codec& codec) {
  const datasets::DataSource* const source = datasets::find_source(one.data.source);
  if (source == nullptr || !source->uses_shape) return std::nullopt;
  DataSpec data = one.data;
  data.layers = 1;
  data.shape.rows = std::min<int64_t>(data.shape.rows, 16);
  std::optional<datasets::Matrix> sample;
  const Outcome loaded = guarded([&]() -> Outcome {
    datasets::Dataset dataset = load_dataset(data);
    if (!dataset.layers.empty() && codec.refuses(dataset.layers.front().view(), one.codec.settings).empty())
      sample = std::move(dataset.layers.front());
    return {};
  });
  return loaded.fine() ? std::move(sample) : std::nullopt;
}

}  // namespace

std::vector<TuneSearch::Open> TuneSearch::open_settings(const codecs::CodecEntry& entry,
                                                        const backends::Settings& settings) {
  std::vector<Open> open;
  for (const codecs::SettingInfo& info : entry.codec->settings)
    if (!info.open.empty() && setting_text(settings.values().find(info.name)->second) == info.open)
      if (const std::vector<std::string> values = values_of(info); !values.empty())
        open.push_back({std::string(info.name), values});
  std::ranges::stable_sort(open, {}, [](const Open& one) { return one.values.size(); });
  return open;
}

TuneSearch::TuneSearch(const std::vector<Case>& cases, std::span<const codecs::CodecEntry> codecs,
                       const SearchOptions& options)
    : options_(options) {
  std::map<std::string, size_t> known;
  for (const Case& asked : cases) {
    const auto entry = std::ranges::find(codecs, asked.codec.id, &codecs::CodecEntry::id);
    if (entry == codecs.end()) continue;
    const std::vector<Open> open = open_settings(*entry, asked.codec.settings);
    if (open.empty()) continue;
    if (asked.kernel.task == Task::size || asked.kernel.task == Task::step)
      throw std::invalid_argument(
          "tune measures one shape at a time, with the ops decode, matvec and matmul; steps take what it finds for the "
          "shapes of their layers.");
    if (asked.kernel.ranks > 1) throw std::invalid_argument("tune measures on one device or process.");
    Case one = asked;
    one.codec.tuned.clear();
    const auto [place, is_new] = known.try_emplace(search_of(one), searches_.size());
    if (is_new) searches_.push_back({&*entry, {}, open, one.codec.settings});
    searches_[place->second].cases.push_back(std::move(one));
  }
  for (Search& search : searches_) {
    size_t grid = 1;
    for (const Open& one : search.open) grid = std::min(kMostCandidates, grid * one.values.size());
    search.whole_grid = search.open.size() == 1 || grid <= std::min(options.whole_grid, kMostCandidates);
    search.tried.insert(search.asked().to_string());
    search.sample = sample_for(search.cases.front(), *search.entry->codec);
  }
  if (searches_.empty())
    throw std::invalid_argument(
        "No codec of these cases has an open setting. 'ecmv list codecs NAME --json' tells the value that leaves a "
        "setting open.");
}

TuneSearch::Candidates TuneSearch::variations(const Search& search, size_t setting) {
  Candidates all = {search.best};
  for (size_t i = 0; i < search.open.size(); ++i) {
    if (!search.whole_grid && i != setting) continue;
    Candidates changed;
    for (const backends::Settings& one : all)
      for (const std::string& value : search.open[i].values)
        if (auto settings = with_value(*search.entry, one, search.open[i].name, value))
          changed.push_back(std::move(*settings));
    all = std::move(changed);
  }
  std::erase_if(all, [&](const backends::Settings& one) {
    return search.tried.contains(one.to_string()) ||
           (search.sample && !search.entry->codec->refuses(search.sample->view(), one).empty());
  });
  return all;
}

std::vector<Case> TuneSearch::cases_with(const Search& search, const Candidates& candidates) {
  std::vector<Case> cases;
  for (const backends::Settings& settings : candidates)
    for (const Case& asked : search.cases) {
      cases.push_back(asked);
      cases.back().codec = make_codec_spec(*search.entry, settings);
    }
  return cases;
}

std::vector<Case> TuneSearch::first_cases() const {
  std::vector<Case> cases;
  for (const Search& search : searches_) {
    std::ranges::move(cases_with(search, {search.asked()}), std::back_inserter(cases));
    for (size_t i = 0; i < (search.whole_grid ? 1 : search.open.size()); ++i)
      std::ranges::move(cases_with(search, variations(search, i)), std::back_inserter(cases));
  }
  return together(std::move(cases));
}

size_t TuneSearch::most_cases() const {
  size_t count = 0;
  for (const Search& search : searches_) {
    size_t candidates = 2;  // of the final comparison
    if (search.whole_grid) {
      candidates += 1 + variations(search, 0).size();
    } else {
      for (const Open& one : search.open) candidates += static_cast<size_t>(options_.rounds) * (one.values.size() + 2);
    }
    count += candidates * search.cases.size();
  }
  return count;
}

// Tries one setting of every search. Returns whether anything was found.
bool TuneSearch::improve(const MeasureCases& measure, size_t setting) {
  std::vector<Candidates> all;
  std::vector<Case> cases;
  bool any = false;
  for (Search& search : searches_) {
    const bool takes_part = search.whole_grid ? setting == 0 : setting < search.open.size();
    Candidates& candidates = all.emplace_back(takes_part ? variations(search, setting) : Candidates());
    if (candidates.empty()) continue;
    any = true;
    for (const backends::Settings& one : candidates) search.tried.insert(one.to_string());
    candidates.push_back(search.best);
    if (search.best != search.asked()) candidates.push_back(search.asked());
    std::ranges::move(cases_with(search, candidates), std::back_inserter(cases));
  }
  if (!any) return false;
  const Measured measured = measure(together(std::move(cases)));
  bool better = false;
  for (size_t i = 0; i < searches_.size(); ++i) {
    Search& search = searches_[i];
    if (all[i].empty()) continue;
    const std::vector<Case> asked = cases_with(search, {search.asked()});
    const auto conditions = fastest(asked, measured);
    if (conditions.empty()) continue;
    const double allowed_bits = options_.most_bits * most_bits(asked, measured);
    double least = kLevel * mean_over(conditions, fastest(cases_with(search, {search.best}), measured));
    for (const backends::Settings& one : all[i]) {
      const std::vector<Case> cases = cases_with(search, {one});
      const double seconds = mean_over(conditions, fastest(cases, measured));
      if (seconds >= least || most_bits(cases, measured) > allowed_bits) continue;
      least = seconds;
      search.best = one;
      better = true;
    }
  }
  return better;
}

std::optional<TunedResult> TuneSearch::compared(const Search& search, const Measured& measured) {
  const Case& asked = search.cases.front();
  const std::vector<Case> open_cases = cases_with(search, {search.asked()});
  const auto conditions = fastest(open_cases, measured);
  const std::string name = asked.data.short_name() + "/" + asked.codec.short_name();
  if (conditions.empty()) {
    remarks_.push_back(fmt::format("{}: no case with these open settings was timed.", name));
    return std::nullopt;
  }
  TunedResult result;
  result.open_s = mean_over(conditions, conditions);
  const std::vector<Case> found_cases = cases_with(search, {search.best});
  result.found_s = mean_over(conditions, fastest(found_cases, measured));
  const bool better = result.found_s < result.open_s;
  if (!better) result.found_s = result.open_s;
  const auto one = std::ranges::find_if(open_cases, [&](const Case& c) { return measured.contains(c.key()); });
  const MeasuredCase& facts = measured.at(one->key());
  result.open_bits = most_bits(open_cases, measured);
  result.found_bits = better ? most_bits(found_cases, measured) : result.open_bits;
  if (facts.shape.elements() == 0) {
    remarks_.push_back(fmt::format("{}: its matrices differ in shape; tune shapes one by one.", name));
    return std::nullopt;
  }
  const TunedPass pass = tuned_pass(asked.kernel);
  result.entry.key = {.backend = asked.kernel.backend,
                      .device = device_model(asked.kernel),
                      .codec = asked.codec.id,
                      .format_version = asked.codec.format_version,
                      .asked = given_settings(*search.entry, search.asked()),
                      .type = facts.type,
                      .shape = facts.shape,
                      .op = pass.op,
                      .activations = pass.activations};
  if (better)
    for (const Open& open : search.open)
      if (const auto& value = search.best.values().at(open.name); value != search.asked().values().at(open.name))
        result.entry.found[open.name] = setting_text(value);
  if (asked.kernel.takes_tokens())
    for (const Case& each : search.cases)
      if (std::ranges::find(result.entry.batches, each.kernel.batch) == result.entry.batches.end())
        result.entry.batches.push_back(each.kernel.batch);
  result.entry.model_off = result.open_s / result.found_s;
  return result;
}

std::vector<TunedResult> TuneSearch::run(const MeasureCases& measure, const std::function<bool()>& interrupted) {
  size_t settings = 0;
  for (const Search& search : searches_) settings = std::max(settings, search.open.size());
  bool better = true;
  for (int round = 0; round < options_.rounds && std::exchange(better, false); ++round)
    for (size_t i = 0; i < settings && !interrupted(); ++i) better |= improve(measure, i);
  if (interrupted()) return {};
  std::vector<Case> last;
  for (const Search& search : searches_) {
    Candidates both = {search.asked()};
    if (search.best != search.asked()) both.push_back(search.best);
    std::ranges::move(cases_with(search, both), std::back_inserter(last));
  }
  const Measured measured = measure(together(std::move(last)));
  std::vector<TunedResult> results;
  for (const Search& search : searches_)
    if (auto result = compared(search, measured); result && !interrupted()) results.push_back(std::move(*result));
  return results;
}

}  // namespace ecmv::experiments

// See seeds.h.
#include "reports/tables/seeds.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "reports/metrics.h"

namespace ecmv::reports {
namespace {

// Everything that two seeds of a case have in common, as text.
std::string common_text(const CaseRecord& r) {
  CaseRecord common;
  common.status = r.status, common.run = r.run, common.experiment = r.experiment;
  common.data = r.data, common.codec = r.codec, common.kernel = r.kernel;
  common.data.seed = 0, common.data.hash.clear();
  if (!r.data.parameters.empty()) common.data.sigma = kUnknown;  // they have it, or it was measured
  common.ranks.count = r.ranks.count, common.ranks.engine = r.ranks.engine, common.ranks.split = r.ranks.split;
  common.time.cache = r.time.cache, common.time.elements = r.time.elements;
  common.step.blocks = r.step.blocks;
  return to_json_line(common);
}

double mean_of(const std::vector<const CaseRecord*>& cases, auto CaseRecord::Size::*member) {
  double sum = 0;
  for (const CaseRecord* r : cases) sum += static_cast<double>(r->size.*member);
  return sum / static_cast<double>(cases.size());
}

void pool_sizes(CaseRecord::Size& all, const std::vector<const CaseRecord*>& cases) {
  using Size = CaseRecord::Size;
  for (const auto bytes :
       {&Size::payload_bytes, &Size::table_bytes, &Size::index_bytes, &Size::scale_bytes, &Size::padding_bits})
    all.*bytes = std::llround(mean_of(cases, bytes));
  all.stored_bytes = all.payload_bytes + all.table_bytes + all.index_bytes + all.scale_bytes;
  for (const auto bits : {&Size::bits_per_element, &Size::entropy_bits_per_element, &Size::ideal_bits_per_element})
    all.*bits = mean_of(cases, bits);
}

CaseRecord pooled(const std::vector<const CaseRecord*>& cases) {
  CaseRecord all = *cases.front();
  std::vector<double> sigmas, snrs;
  all.time.samples_s.clear(), all.time.disturbed_samples.clear(), all.time.unsteady_samples.clear();
  all.pooled = {{}, INFINITY, -INFINITY};
  for (const CaseRecord* r : cases) {
    all.pooled.seeds.push_back(r->data.seed);
    all.pooled.least_bits = std::min(all.pooled.least_bits, r->size.bits_per_element);
    all.pooled.most_bits = std::max(all.pooled.most_bits, r->size.bits_per_element);
    const auto before = static_cast<std::int64_t>(all.time.samples_s.size());
    all.time.samples_s.insert(all.time.samples_s.end(), r->time.samples_s.begin(), r->time.samples_s.end());
    for (const auto numbers : {&CaseRecord::Time::disturbed_samples, &CaseRecord::Time::unsteady_samples})
      for (const std::int64_t number : r->time.*numbers) (all.time.*numbers).push_back(before + number);
    all.distortion.largest_error = std::max(all.distortion.largest_error, r->distortion.largest_error);
    all.host.other_cores = std::max(all.host.other_cores, r->host.other_cores);
    all.host.waiting_share = std::max(all.host.waiting_share, r->host.waiting_share);
    sigmas.push_back(r->data.sigma), snrs.push_back(r->distortion.snr_db);
  }
  pool_sizes(all.size, cases);
  all.data.sigma = quantile(sigmas, 0.5), all.distortion.snr_db = quantile(snrs, 0.5);
  all.data.hash = fmt::format("seeds {}", fmt::join(all.pooled.seeds, ", "));
  all.time.median_s = quantile(all.time.samples_s, 0.5);
  all.time.p10_s = quantile(all.time.samples_s, 0.1), all.time.p90_s = quantile(all.time.samples_s, 0.9);
  return all;
}

}  // namespace

PooledSeeds pooled_seeds(const RecordSet& records) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < records.cases.size(); ++i)
    if (records.cases[i].status == Status::ok && records.cases[i].blocks.empty())
      groups[common_text(records.cases[i])].push_back(i);
  PooledSeeds result;
  result.records.runs = records.runs, result.records.bandwidths = records.bandwidths;
  result.records.notes = records.notes;
  result.place_of.assign(records.cases.size(), records.cases.size());
  std::map<std::size_t, std::vector<const CaseRecord*>> seeds_of;  // by the first case of a group
  for (auto& [text, group] : groups) {
    std::map<std::uint64_t, const CaseRecord*> seeds;
    for (const std::size_t i : group) seeds.emplace(records.cases[i].data.seed, &records.cases[i]);
    if (seeds.size() < 2) continue;
    for (const auto& [seed, record] : seeds) seeds_of[group.front()].push_back(record);
    for (const std::size_t i : group) result.place_of[i] = group.front();  // for now, the place in `records`
  }
  for (std::size_t i = 0; i < records.cases.size(); ++i) {
    const std::size_t first = result.place_of[i];
    result.place_of[i] = first < i ? result.place_of[first] : result.records.cases.size();
    if (first < i) continue;
    const auto seeds = seeds_of.find(i);
    result.records.cases.push_back(seeds == seeds_of.end() ? records.cases[i] : pooled(seeds->second));
  }
  return result;
}

}  // namespace ecmv::reports

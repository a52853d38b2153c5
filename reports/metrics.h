// What can be computed from a case: ONE table, metric -> meaning, unit, formula, direction, function. Nothing
// here is stored in records, so a metric added today is there for every old record. Metrics that compare need
// a context: the uncompressed baseline of the same run and the measured read bandwidth of the same device.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record.h"

namespace ecmv::reports {

struct Context {
  const CaseRecord* baseline = nullptr;
  const BandwidthRecord* bandwidth = nullptr;
  std::string why_no_baseline;  // one sentence when baseline is null
};

enum class Better { higher, lower, neither };

struct Metric {
  std::string_view id;
  std::string_view name;  // for headings
  std::string_view unit;  // SI base unit, "" for a ratio
  Better better;
  std::string_view formula;
  std::string_view meaning;
  double (*value)(const CaseRecord&, const Context&);  // NaN when it does not exist for the case
};

std::span<const Metric> all_metrics();
const Metric& find_metric(std::string_view id);  // throws ReportError with the known ids

// Finds contexts. `baseline_codecs` are the ids of the uncompressed codecs; each takes other element types:
// "a,b". The records must outlive this object.
class Contexts {
 public:
  Contexts(const RecordSet& records, std::string baseline_codecs);
  // Baseline: the fastest (of sizes the smallest) ok case of a baseline codec with the same run, data, backend, device,
  // op, batch, threads and cache class. Bandwidth: the fastest record of the same run, device, threads and cache class.
  Context of(const CaseRecord& record) const;
  bool is_baseline(const CaseRecord& record) const;

 private:
  struct Baselines {
    bool failed = false;                            // some were not ok
    std::map<std::string, const CaseRecord*> best;  // by cache class
  };
  Context find(const CaseRecord& record) const;
  const RecordSet& records_;
  std::string baseline_codecs_;
  std::map<std::string, Baselines> baselines_;                // by everything but the cache class
  std::map<std::string, const BandwidthRecord*> bandwidths_;  // the fastest
  mutable std::vector<std::optional<Context>> found_;         // of the records' cases, once each
};

// A metric's value or, when `name` is a numeric field (see fields.h), that field's.
double number_of(const CaseRecord& record, const Context& context, std::string_view name);

// Fewer bits than independent elements of these values can be stored in, without loss.
bool stores_below_entropy(const CaseRecord& record);

// Sentences about records that contradict themselves: sizes by role that do not add up, bits that do not
// follow from the bytes, medians that are not the samples'. An empty list is the good case.
std::vector<std::string> contradictions(const RecordSet& records);

}  // namespace ecmv::reports

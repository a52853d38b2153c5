// Everything that can be computed from a case, in ONE table: metric -> meaning, unit, formula, direction, function.
// Records store none of it, so a metric added today works for every old record. Metrics that compare need a context:
// the uncompressed baseline of the same run, and the measured read bandwidth of the same device.
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
  std::string why_no_baseline;  // one sentence if baseline is null
  // The baseline codecs' kernels that were in the run, and those that the build has; 0: unknown, in older records.
  std::int64_t raw_kernels = 0, known_raw_kernels = 0;
  bool raw_is_filtered() const { return raw_kernels < known_raw_kernels; }
  bool raw_is_complete() const { return known_raw_kernels > 0 && !raw_is_filtered(); }
  std::string raw_text() const;  // "3 of 13 uncompressed kernels ran"; "" if all did, or nobody knows
};

// How far a number that compares the two was disturbed.
Disturbance disturbance_of(const CaseRecord& record, const Context& context);

// Whether a streamed case read more than its run's read bandwidth by more than a twentieth. Then something was in the
// way of one of the two measurements, and no page cites the run.
bool beats_bandwidth(const CaseRecord& record, const Context& context);

// Linear interpolation between order statistics, q in [0, 1]; NaN for no values.
double quantile(std::vector<double> values, double q);

enum class Better { higher, lower, neither };

struct Metric {
  std::string_view id;
  std::string_view name;  // for headings
  std::string_view unit;  // SI base unit, "" for a ratio
  Better better;
  std::string_view formula;
  std::string_view meaning;
  double (*value)(const CaseRecord&, const Context&);  // NaN if the case has no such value
};

std::span<const Metric> all_metrics();
bool is_metric(std::string_view id);
const Metric& find_metric(std::string_view id);  // throws ReportError with the known ids

// Finds contexts. `baseline_codecs` are the ids of the uncompressed codecs, "a,b"; each takes other element types. The
// records must outlive this object.
class Contexts {
 public:
  Contexts(const RecordSet& records, std::string baseline_codecs);
  // The baseline is the fastest (for sizes, the smallest) ok case of a baseline codec with the same run, data, backend,
  // device, op, batch, threads and cache class. The bandwidth is the fastest record of the same run, device, threads
  // and cache class.
  Context of(const CaseRecord& record) const;
  bool is_baseline(const CaseRecord& record) const;

 private:
  struct Baselines {
    bool failed = false;                                   // some were not ok
    std::map<std::string, const CaseRecord*> best;         // by cache class
    std::map<std::string, CaseRecord::Entrants> entrants;  // by codec
  };
  Context find(const CaseRecord& record) const;
  const RecordSet& records_;
  std::string baseline_codecs_;
  std::map<std::string, Baselines> baselines_;                // by everything but the cache class
  std::map<std::string, const BandwidthRecord*> bandwidths_;  // the fastest
  mutable std::vector<std::optional<Context>> found_;         // of the records' cases, once each
};

// A sentence for each run with cases that beat its read bandwidth (beats_bandwidth).
std::vector<std::string> runs_beyond_bandwidth(const RecordSet& records, const Contexts& contexts);

// Whether number_of takes it: a metric or a numeric field.
bool is_number(std::string_view name);
// A metric's value or, if `name` is a numeric field (see fields.h), that field's.
double number_of(const CaseRecord& record, const Context& context, std::string_view name);

// Whether it stores fewer bits than independent elements with these values allow, without loss.
bool stores_below_entropy(const CaseRecord& record);

// Sentences about records that contradict themselves: sizes by role that do not add up, bits that do not follow from
// the bytes, medians that are not the samples'. Empty if all is well.
std::vector<std::string> contradictions(const RecordSet& records);

}  // namespace ecmv::reports

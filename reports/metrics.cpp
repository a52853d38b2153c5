// The table of metrics, and the search for a case's baseline.
#include "reports/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "reports/fields.h"

namespace ecmv::reports {
namespace {

bool is_timed(const CaseRecord& r) { return r.status == Status::ok && r.time.median_s > 0; }

double per_second(const CaseRecord& r, double amount, double seconds) {
  return is_timed(r) && seconds > 0 ? amount / seconds : kUnknown;
}

double elements_per_s(const CaseRecord& r, const Context&) {
  return per_second(r, static_cast<double>(r.time.elements), r.time.median_s);
}

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

double variation_percent(const CaseRecord& r, const Context&) {
  const auto count = static_cast<double>(r.time.samples_s.size());
  if (!is_timed(r) || count < 2) return kUnknown;
  double mean = 0, squares = 0;
  for (const double sample : r.time.samples_s) mean += sample / count;
  for (const double sample : r.time.samples_s) squares += (sample - mean) * (sample - mean);
  return 100 * std::sqrt(squares / (count - 1)) / mean;
}

// Whether matrix elements are multiplied and added; decoding does not.
bool is_product(const CaseRecord& r) { return r.kernel.op == "matvec" || has_tokens(r); }

double macs_per_s(const CaseRecord& r, const Context&) {
  const double macs = static_cast<double>(r.time.elements) * static_cast<double>(r.kernel.batch);
  return is_product(r) ? per_second(r, macs, r.time.median_s) : kUnknown;
}

// Multiply-accumulates of bf16 that a multiprocessor's matrix units do in a clock, by NVIDIA's own figures: 312 TFLOP/s
// of an A100 (108 units at 1.41 GHz), 989 of an H100 (132 at 1.83 GHz). No sparsity.
double macs_a_clock(const std::string& architecture) {
  if (architecture == "sm_80") return 1024;
  return architecture == "sm_90" ? 2048 : kUnknown;
}

double compute_fraction(const CaseRecord& r, const Context& c) {
  if (!has_tokens(r) || r.kernel.activations != "bf16" || r.kernel.compute_units <= 0) return kUnknown;
  return macs_per_s(r, c) /
         (macs_a_clock(r.kernel.simd_target) * static_cast<double>(r.kernel.compute_units) * r.kernel.highest_clock_hz);
}

// The time of a pass whose only cost is reading its stored bytes.
double predicted_s(const CaseRecord& r, const Context& c) {
  return c.bandwidth && r.size.stored_bytes > 0
             ? static_cast<double>(r.size.stored_bytes) / c.bandwidth->read_bytes_per_s
             : kUnknown;
}

double stored_bytes_per_s(const CaseRecord& r, const Context&) {
  return per_second(r, static_cast<double>(r.size.stored_bytes), r.time.median_s);
}

double bits(const CaseRecord& r, double bytes) {
  const double elements = static_cast<double>(elements_of(r));
  return r.size.stored_bytes > 0 && elements > 0 ? 8.0 * bytes / elements : kUnknown;
}

double bits_per_element(const CaseRecord& r, const Context&) {
  return bits(r, static_cast<double>(r.size.stored_bytes));
}

double roof_elements_per_s(const CaseRecord& r, const Context& c) {
  return c.bandwidth ? 8.0 * c.bandwidth->read_bytes_per_s / bits_per_element(r, c) : kUnknown;
}

// The clock of the compute units during the case: measured right after its batch, else right before, else the highest
// possible.
double clock_hz(const CaseRecord& r) {
  for (const double clock : {r.time.clock_after_hz, r.time.clock_before_hz, r.kernel.highest_clock_hz})
    if (clock > 0) return clock;
  return kUnknown;
}

constexpr std::array kMetrics = {
    Metric{"elements_per_s", "elements/s", "1/s", Better::higher, "elements / median pass time",
           "Matrix elements a second, decoded and, in a product, multiplied and added.", elements_per_s},
    Metric{"elements_per_s_p10", "elements/s, slow end", "1/s", Better::higher,
           "elements / 90th percentile of the pass time", "Nine passes in ten were at least this fast.",
           [](const CaseRecord& r, const Context&) {
             return per_second(r, static_cast<double>(r.time.elements), r.time.p90_s);
           }},
    Metric{"elements_per_s_p90", "elements/s, fast end", "1/s", Better::higher,
           "elements / 10th percentile of the pass time", "One pass in ten was at least this fast.",
           [](const CaseRecord& r, const Context&) {
             return per_second(r, static_cast<double>(r.time.elements), r.time.p10_s);
           }},
    Metric{"macs_per_s", "MAC/s", "1/s", Better::higher, "elements * batch / median pass time",
           "Products: multiply-accumulates a second, every token counted. For one token, the elements/s.", macs_per_s},
    Metric{"compute_fraction", "of the matrix units", "", Better::higher,
           "MAC/s / (MACs of bf16 a clock and multiprocessor * multiprocessors * highest clock)",
           "Tokens of bf16 on sm_80 and sm_90: share of what the matrix units could multiply. Near 1, they limit.",
           compute_fraction},
    Metric{"tokens_per_s", "tokens/s", "1/s", Better::higher, "batch / median pass time",
           "Products: tokens a second through all layers. A batch reads the weights once.",
           [](const CaseRecord& r, const Context&) {
             return is_product(r) ? per_second(r, static_cast<double>(r.kernel.batch), r.time.median_s) : kUnknown;
           }},
    Metric{
        "us_per_pass", "µs a pass", "µs", Better::lower, "1e6 * median pass time",
        "Time of all layers for a batch; for op step, the time of a decoding step; for ops generate and prompt, of the "
        "whole model.",
        [](const CaseRecord& r, const Context&) { return is_timed(r) ? 1e6 * r.time.median_s : kUnknown; }},
    Metric{"weight_bytes_per_token", "weight bytes/token", "B", Better::lower, "stored bytes / batch",
           "Products: weight bytes read for each token.",
           [](const CaseRecord& r, const Context&) {
             return is_product(r) && r.size.stored_bytes > 0
                        ? static_cast<double>(r.size.stored_bytes) / static_cast<double>(r.kernel.batch)
                        : kUnknown;
           }},
    Metric{"ns_per_element", "ns/element", "ns", Better::lower, "1e9 * median pass time / elements",
           "Time of an element with all threads.",
           [](const CaseRecord& r, const Context& c) { return 1e9 / elements_per_s(r, c); }},
    Metric{"stored_bytes_per_s", "stored bytes/s", "B/s", Better::higher, "stored bytes / median pass time",
           "Compressed bytes read a second. A worse code reads more.", stored_bytes_per_s},
    Metric{"bits_per_element", "stored bits/element", "bit", Better::lower, "8 * stored bytes / elements",
           "Counts everything a kernel may read: payload, tables, indices, scales, padding.", bits_per_element},
    Metric{"payload_bits_per_element", "payload bits/element", "bit", Better::lower, "8 * payload bytes / elements",
           "Coded symbols.",
           [](const CaseRecord& r, const Context&) { return bits(r, static_cast<double>(r.size.payload_bytes)); }},
    Metric{"table_bits_per_element", "table bits/element", "bit", Better::lower, "8 * table bytes / elements",
           "Code and probability tables.",
           [](const CaseRecord& r, const Context&) { return bits(r, static_cast<double>(r.size.table_bytes)); }},
    Metric{"index_bits_per_element", "index bits/element", "bit", Better::lower, "8 * index bytes / elements",
           "Offsets for decoding rows or blocks independently.",
           [](const CaseRecord& r, const Context&) { return bits(r, static_cast<double>(r.size.index_bytes)); }},
    Metric{"scale_bits_per_element", "scale bits/element", "bit", Better::lower, "8 * scale bytes / elements",
           "Scales: the codec's own and those of the quantised data.",
           [](const CaseRecord& r, const Context&) { return bits(r, static_cast<double>(r.size.scale_bytes)); }},
    Metric{"padding_bits_per_element", "included padding", "bit", Better::lower, "padding bits / elements",
           "Filler: alignment, bytes past the end, lanes and tiles filled up. The four roles include it.",
           [](const CaseRecord& r, const Context&) { return bits(r, static_cast<double>(r.size.padding_bits) / 8.0); }},
    Metric{"entropy_bits_per_element", "entropy", "bit", Better::neither, "-sum p log2 p of the elements' histogram",
           "Lower bound of a code with one model of single elements for each matrix, without tables. Codes with more "
           "models (rows, blocks, contexts) or other symbols can take less.",
           [](const CaseRecord& r, const Context&) { return r.size.entropy_bits_per_element; }},
    Metric{"excess_over_entropy_percent", "excess over entropy", "%", Better::lower,
           "100 * (stored bits per element / entropy - 1)",
           "Cost of the format above the entropy. Only for lossless codecs.",
           [](const CaseRecord& r, const Context& c) {
             const double entropy = r.size.entropy_bits_per_element;
             return entropy > 0 && is_exact(r) ? 100.0 * (bits_per_element(r, c) / entropy - 1.0) : kUnknown;
           }},
    Metric{"ideal_bits_per_element", "ideal code", "bit", Better::neither,
           "sum of the codec's own symbols' -p log2 p and raw bits / elements",
           "Size of an ideal entropy coder for the codec's symbols, without tables and indices. Only other symbols can "
           "take less.",
           [](const CaseRecord& r, const Context&) { return r.size.ideal_bits_per_element; }},
    Metric{
        "excess_over_ideal_bits", "above the ideal code", "bit", Better::lower,
        "stored bits per element - ideal bits per element",
        "Cost of coder, tables, indices and padding above an ideal entropy coder for the same symbols.",
        [](const CaseRecord& r, const Context& c) { return bits_per_element(r, c) - r.size.ideal_bits_per_element; }},
    Metric{"compression_ratio", "ratio", "", Better::higher, "bits of the element type / stored bits per element",
           "Size of the plain elements over the stored size.",
           [](const CaseRecord& r, const Context& c) { return type_bits(r.data.type) / bits_per_element(r, c); }},
    Metric{"snr_db", "signal to noise", "dB", Better::higher,
           "10 log10(sum of squared weights / sum of squared errors)",
           "Quantised data and lossy codecs: signal to noise against the source's floats, over all layers.",
           [](const CaseRecord& r, const Context&) { return r.distortion.snr_db; }},
    Metric{"largest_error", "largest error", "", Better::lower, "max |number - weight|",
           "Quantised data and lossy codecs: the largest error against the source's floats.",
           [](const CaseRecord& r, const Context&) { return r.distortion.largest_error; }},
    Metric{"speedup_vs_raw", "speed-up over raw", "", Better::higher, "elements/s / elements/s of the baseline",
           "Against the fastest uncompressed case of the same run, data, backend, op, thread count and cache "
           "class.",
           [](const CaseRecord& r, const Context& c) {
             return c.baseline ? elements_per_s(r, c) / elements_per_s(*c.baseline, c) : kUnknown;
           }},
    Metric{"roof_speedup", "roof of the speed-up", "", Better::higher,
           "bits of the element type / stored bits per element", "Speed-up over raw if both only read memory.",
           [](const CaseRecord& r, const Context& c) { return type_bits(r.data.type) / bits_per_element(r, c); }},
    Metric{"bandwidth_fraction", "of read bandwidth", "", Better::higher, "stored bytes/s / measured read bandwidth",
           "Streamed cases: share of the memory roof. Well below 1, computation limits.",
           [](const CaseRecord& r, const Context& c) {
             return c.bandwidth ? stored_bytes_per_s(r, c) / c.bandwidth->read_bytes_per_s : kUnknown;
           }},
    Metric{"roof_elements_per_s", "memory roof", "1/s", Better::higher,
           "8 * measured read bandwidth / stored bits per element", "Elements/s at the measured read bandwidth.",
           roof_elements_per_s},
    Metric{"predicted_s", "predicted pass time", "s", Better::lower, "stored bytes / measured read bandwidth",
           "Streamed cases: time of a pass that only memory limits.", predicted_s},
    Metric{"measured_over_predicted", "measured / predicted", "", Better::lower,
           "median pass time * measured read bandwidth / stored bytes",
           "Time of a pass over the time of reading its bytes. Well above 1, computation limits.",
           [](const CaseRecord& r, const Context& c) {
             return is_timed(r) ? r.time.median_s / predicted_s(r, c) : kUnknown;
           }},
    Metric{
        "break_even_bandwidth_bytes_per_s", "break-even bandwidth", "B/s", Better::higher,
        "elements/s * 1 byte, of one-byte elements stored in less than 8 bits",
        "An ideal int8 product reads one byte an element, so at bandwidth B it does B elements a second. A kernel "
        "with r elements/s wins on memory slower than r bytes/s (with the same cores). If memory limited the kernel, "
        "its break-even is higher.",
        [](const CaseRecord& r, const Context& c) {
          return bits_per_element(r, c) < 8.0 && type_bits(r.data.type) == 8 ? elements_per_s(r, c) : kUnknown;
        }},
    Metric{
        "elements_per_clock_and_unit", "elements a clock and compute unit", "", Better::higher,
        "elements/s / (clock * compute units)",
        "GPUs: elements that a multiprocessor or compute unit decodes (and multiplies) in a clock; it carries over to "
        "other devices of the architecture. The clock is the one measured after the case's batch, else the highest.",
        [](const CaseRecord& r, const Context& c) {
          return r.kernel.compute_units > 0
                     ? elements_per_s(r, c) / (clock_hz(r) * static_cast<double>(r.kernel.compute_units))
                     : kUnknown;
        }},
    Metric{"exchange_share", "exchange share", "", Better::lower, "median exchange alone / median pass time",
           "Products of several ranks: share of a pass for exchanging vectors, measured alone.",
           [](const CaseRecord& r, const Context&) {
             return is_timed(r) && r.ranks.count > 1 ? median(r.ranks.exchange_samples_s) / r.time.median_s : kUnknown;
           }},
    Metric{"min_s", "fastest pass", "s", Better::lower, "least pass time", "The fastest of the samples.",
           [](const CaseRecord& r, const Context&) { return is_timed(r) ? quantile(r.time.samples_s, 0) : kUnknown; }},
    Metric{
        "p99_s", "99th percentile", "s", Better::lower, "99th percentile of the pass time",
        "The slow end of the samples; with fewer than a hundred, between the two slowest.",
        [](const CaseRecord& r, const Context&) { return is_timed(r) ? quantile(r.time.samples_s, 0.99) : kUnknown; }},
    Metric{"variation_percent", "coefficient of variation", "%", Better::lower,
           "100 * standard deviation / mean of the pass times",
           "How far samples scatter around their mean; the deviation is that of a sample (n - 1).", variation_percent},
    Metric{"joules_per_pass", "energy of a pass", "J", Better::lower, "energy of the samples / their passes",
           "What the CPU packages or the GPU took while it was measured, where their counter is readable.",
           [](const CaseRecord& r, const Context&) { return is_timed(r) ? r.time.energy_j : kUnknown; }},
    Metric{
        "joules_per_element", "energy of an element", "J", Better::lower, "energy of a pass / elements",
        "The same for one matrix element.",
        [](const CaseRecord& r,
           const Context&) { return is_timed(r) ? r.time.energy_j / static_cast<double>(r.time.elements) : kUnknown; }},
    Metric{"product_alone_s", "product alone", "s", Better::lower, "median product alone",
           "Products of several ranks: a pass without the exchange, on the slowest rank.",
           [](const CaseRecord& r, const Context&) {
             return is_timed(r) && r.ranks.count > 1 ? median(r.ranks.product_samples_s) : kUnknown;
           }},
};

// Whether a baseline codec's case can serve for comparison, and which of two serves better. Sizes have no time, so the
// smaller one does.
bool is_usable(const CaseRecord& r) { return is_timed(r) || (r.status == Status::ok && r.kernel.op == "size"); }

bool is_better(const CaseRecord& a, const CaseRecord& b) {
  return a.kernel.op == "size" ? a.size.stored_bytes < b.size.stored_bytes
                               : elements_per_s(a, {}) > elements_per_s(b, {});
}

std::string baseline_key(const CaseRecord& r) {
  std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", r.run, r.kernel.backend, r.kernel.device, r.kernel.op,
                  r.kernel.batch, r.kernel.activations, r.kernel.threads, r.data.source, r.data.rows, r.data.cols,
                  r.data.type, r.data.sigma, r.data.layers, r.data.seed, r.data.hash);
  for (const auto& [name, value] : r.data.parameters) key += fmt::format("|{}={}", name, to_string(value));
  return key;
}

std::string bandwidth_key(const std::string& run, const std::string& device, std::int64_t threads,
                          const std::string& cache) {
  return fmt::format("{}|{}|{}|{}", run, device, threads, cache);
}

}  // namespace

std::span<const Metric> all_metrics() { return kMetrics; }

bool is_metric(std::string_view id) { return std::ranges::find(kMetrics, id, &Metric::id) != kMetrics.end(); }

const Metric& find_metric(std::string_view id) {
  for (const Metric& metric : kMetrics)
    if (metric.id == id) return metric;
  std::string known;
  for (const Metric& metric : kMetrics) known += fmt::format("{}{}", known.empty() ? "" : ", ", metric.id);
  throw ReportError(fmt::format("\"{}\" is no metric; the metrics are {}", id, known));
}

Contexts::Contexts(const RecordSet& records, std::string baseline_codecs)
    : records_(records), baseline_codecs_(std::move(baseline_codecs)), found_(records.cases.size()) {
  for (const BandwidthRecord& bandwidth : records_.bandwidths) {
    if (!(bandwidth.read_bytes_per_s > 0)) continue;
    const BandwidthRecord*& best =
        bandwidths_[bandwidth_key(bandwidth.run, bandwidth.device, bandwidth.threads, bandwidth.cache)];
    if (best == nullptr || bandwidth.read_bytes_per_s > best->read_bytes_per_s) best = &bandwidth;
  }
  for (const CaseRecord& record : records_.cases) {
    if (!is_baseline(record)) continue;
    Baselines& baselines = baselines_[baseline_key(record)];
    if (record.entrants.known_kernels > 0) baselines.entrants[record.codec.id] = record.entrants;
    if (!is_usable(record)) {
      baselines.failed = true;
      continue;
    }
    const CaseRecord*& best = baselines.best[record.time.cache];
    if (best == nullptr || is_better(record, *best)) best = &record;
  }
}

bool Contexts::is_baseline(const CaseRecord& record) const {
  const std::string listed = "," + baseline_codecs_ + ",";
  return !record.codec.id.empty() && listed.find("," + record.codec.id + ",") != std::string::npos;
}

Context Contexts::of(const CaseRecord& record) const {
  const CaseRecord* const first = records_.cases.data();
  const std::less<const CaseRecord*> before;
  if (before(&record, first) || !before(&record, first + found_.size())) return find(record);
  std::optional<Context>& known = found_[static_cast<std::size_t>(&record - first)];
  if (!known) known = find(record);
  return *known;
}

Context Contexts::find(const CaseRecord& record) const {
  Context context;
  const auto bandwidth =
      bandwidths_.find(bandwidth_key(record.run, record.kernel.device, record.kernel.threads, record.time.cache));
  if (bandwidth != bandwidths_.end()) context.bandwidth = bandwidth->second;
  if (const auto baselines = baselines_.find(baseline_key(record)); baselines != baselines_.end()) {
    const auto& [failed, best, entrants] = baselines->second;
    for (const auto& [codec, entered] : entrants)
      context.raw_kernels += entered.kernels, context.known_raw_kernels += entered.known_kernels;
    if (const auto same_cache = best.find(record.time.cache); same_cache != best.end())
      context.baseline = same_cache->second;
    else if (!best.empty())
      context.why_no_baseline = fmt::format("{} has another cache class than this case ({})", baseline_codecs_,
                                            record.time.cache.empty() ? "none" : record.time.cache);
    else if (failed)
      context.why_no_baseline = fmt::format("{} was not ok here", baseline_codecs_);
  } else {
    context.why_no_baseline =
        fmt::format("{} did not run with this data, backend, op and thread count", baseline_codecs_);
  }
  return context;
}

bool is_number(std::string_view name) {
  constexpr std::array kNumeric = {"rows",    "cols",     "dimension", "sigma", "layers",
                                   "threads", "elements", "batch",     "ranks", "seed"};
  return is_metric(name) || std::ranges::find(kNumeric, name) != kNumeric.end();
}

double number_of(const CaseRecord& record, const Context& context, std::string_view name) {
  for (const Metric& metric : kMetrics) {
    if (metric.id == name) return metric.value(record, context);
  }
  if (!is_number(name)) find_metric(name);  // throws
  return field_number(record, name);
}

std::string Context::raw_text() const {
  return raw_is_filtered() ? fmt::format("{} of {} uncompressed kernels ran", raw_kernels, known_raw_kernels) : "";
}

Disturbance disturbance_of(const CaseRecord& record, const Context& context) {
  const Disturbance own = disturbance_of(record);
  return context.baseline == nullptr ? own : std::max(own, disturbance_of(*context.baseline));
}

bool beats_bandwidth(const CaseRecord& record, const Context& context) {
  constexpr double kTolerated = 1.05;
  return record.time.cache == "streamed" && context.bandwidth != nullptr &&
         stored_bytes_per_s(record, context) > kTolerated * context.bandwidth->read_bytes_per_s;
}

std::vector<std::string> runs_beyond_bandwidth(const RecordSet& records, const Contexts& contexts) {
  struct Excess {
    int cases = 0, streamed = 0;
    double most = 0;
  };
  std::map<std::string, Excess> runs;
  for (const CaseRecord& r : records.cases) {
    const Context context = contexts.of(r);
    if (!is_timed(r) || r.time.cache != "streamed" || context.bandwidth == nullptr) continue;
    Excess& excess = runs[r.run];
    ++excess.streamed;
    if (!beats_bandwidth(r, context)) continue;
    ++excess.cases;
    excess.most = std::max(excess.most, stored_bytes_per_s(r, context) / context.bandwidth->read_bytes_per_s);
  }
  std::vector<std::string> sentences;
  for (const auto& [run, excess] : runs)
    if (excess.cases > 0)
      sentences.push_back(fmt::format(
          "BANDWIDTH: {} of {} streamed cases of run {} read more than memory gave when it was measured, up to {:.2f} "
          "times as much. One of the two is wrong: measure again before anybody cites this run",
          excess.cases, excess.streamed, run, excess.most));
  return sentences;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return kUnknown;
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(position);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (position - static_cast<double>(low)) * (values[high] - values[low]);
}

bool stores_below_entropy(const CaseRecord& record) {
  return is_exact(record) && record.size.entropy_bits_per_element > 0 &&
         bits_per_element(record, {}) < 0.999 * record.size.entropy_bits_per_element;
}

std::vector<std::string> contradictions(const RecordSet& records) {
  std::vector<std::string> found;
  auto differ = [](double a, double b) { return std::abs(a - b) > 1e-6 * std::max(std::abs(a), std::abs(b)); };
  for (const CaseRecord& r : records.cases) {
    const std::string name = fmt::format("case {} ({})", r.case_key, codec_label(r));
    const std::int64_t by_role = r.size.payload_bytes + r.size.table_bytes + r.size.index_bytes + r.size.scale_bytes;
    if (by_role != r.size.stored_bytes) {
      found.push_back(
          fmt::format("{}: the roles add up to {} bytes, but {} are stored", name, by_role, r.size.stored_bytes));
    }
    std::int64_t by_kind = 0;
    for (const CaseRecord::Step::Part& part : r.step.parts) by_kind += part.stored_bytes;
    if (!r.step.parts.empty() && by_kind != r.size.stored_bytes)
      found.push_back(fmt::format("{}: the kinds of layers add up to {} bytes, but {} are stored", name, by_kind,
                                  r.size.stored_bytes));
    if (r.size.padding_bits > 8 * r.size.stored_bytes) {
      found.push_back(fmt::format("{}: more padding than stored bytes", name));
    }
    const double expected_bits = bits_per_element(r, {});
    if (differ(expected_bits, r.size.bits_per_element)) {
      found.push_back(fmt::format("{}: the record says {:.6g} bits an element, its bytes say {:.6g}", name,
                                  r.size.bits_per_element, expected_bits));
    }
    if (r.status != Status::ok) continue;
    if (stores_below_entropy(r))
      found.push_back(fmt::format(
          "{}: stores {:.4f} bits an element, below the entropy of independent elements ({:.4f}): the elements "
          "are dependent and the codec uses it, or some stored data is not counted",
          name, r.size.bits_per_element, r.size.entropy_bits_per_element));
    if (r.kernel.op == "size") {
      if (r.check.decode.empty()) found.push_back(fmt::format("{}: the status is ok, but nothing was checked", name));
      continue;
    }
    if (!(r.time.median_s > 0) || r.time.samples_s.empty() || r.time.elements <= 0) {
      found.push_back(fmt::format("{}: the status is ok, but there is no time", name));
      continue;
    }
    const auto [fastest, slowest] = std::minmax_element(r.time.samples_s.begin(), r.time.samples_s.end());
    if (r.time.median_s < *fastest || r.time.median_s > *slowest) {
      found.push_back(fmt::format("{}: the median {} s lies outside of its samples", name, r.time.median_s));
    }
    if (r.time.cache != "resident" && r.time.cache != "streamed") {
      found.push_back(fmt::format("{}: the cache class is \"{}\", not resident or streamed", name, r.time.cache));
    }
    if (r.check.outputs.empty() && r.check.decode.empty()) {
      found.push_back(fmt::format("{}: the status is ok, but nothing was checked", name));
    }
  }
  return found;
}

}  // namespace ecmv::reports

// The figures of a report. A figure is one facet (one data set, backend, thread count, ...), so only comparable cases
// share axes. Where a codec has many settings and kernels, a line shows the best of them at each place, so no codec is
// shown at a setting that suits only one end. Nothing is averaged.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reports/figures/figure.h"
#include "reports/metrics.h"
#include "reports/record.h"

namespace ecmv::reports {

// The request of --x --y --series --facet.
struct XySpec {
  std::string id;     // slug prefix of the figures
  std::string title;  // "" -> "Y over X"
  // y is a metric (metrics.h) or a numeric field (fields.h); x may also be any other field, or "setting.NAME".
  std::string x, y;
  std::string series = "codec";     // field; "setting.NAME": a line for each value of a setting
  std::vector<std::string> facets;  // fields: one figure for each combination
  bool log_x = true, log_y = true;
  // True: each series has at each x its best settings and kernel. False: each configuration is a series.
  bool choose_configuration = true;
  bool square_only = false;  // leave other shapes out
  bool asked_for = false;    // by a reader: then it shows every codec that it can, and names the others
  std::string caption;
};

// Where cases stand on an x axis without numbers: the texts of a field, in their order.
class XPlaces {
 public:
  XPlaces(std::string_view name, const std::vector<const CaseRecord*>& cases);
  bool are_names() const { return !places_.empty(); }
  double of(const CaseRecord& record) const;
  void name_ticks(PlotAxis& axis) const;  // nothing where there are numbers

 private:
  std::string name_;
  std::map<std::string, double> places_;
};

class FigureMaker {
 public:
  FigureMaker(const RecordSet& records, const Contexts& contexts);

  std::vector<Figure> all() const;  // in the order of the page
  std::vector<Figure> xy(const XySpec& spec) const;

  std::vector<Figure> throughput_over_size() const;  // square matrices of two sizes or more
  std::vector<Figure> bits_against_speed() const;    // with the Pareto front
  std::vector<Figure> rate_distortion() const;       // two quantisers or lossy codecs of the same weights
  std::vector<Figure> size_by_role() const;
  std::vector<Figure> overhead_by_role() const;    // the same without the entropy, so that small parts show
  std::vector<Figure> speedup_over_sigma() const;  // two sigmas or more
  std::vector<Figure> speed_over_batch() const;    // MAC/s and tokens/s, two batches or more
  std::vector<Figure> speedup_by_shape() const;    // matrices that are not square
  std::vector<Figure> speedup_map() const;         // two sigmas and two sizes or more
  std::vector<Figure> tokens_map() const;          // three shapes and two batches or more
  std::vector<Figure> roofline() const;
  std::vector<Figure> break_even() const;
  std::vector<Figure> decode_rate() const;  // GPUs

 private:
  using Cases = std::vector<const CaseRecord*>;
  struct Facet {
    std::string id, subtitle;
    Cases cases;
  };
  // Bars of one metric, for the fastest kernel of each codec and settings, with the read bandwidth as a line.
  struct BarSpec {
    const char *id, *title, *metric, *unit_metric;  // unit_metric: elements/s in the unit of the metric
    const char *axis, *part, *caption;
    std::string (*text)(double);
  };
  std::vector<Figure> product_bars(const BarSpec& spec) const;
  void add_series(XyPlot& plot, const XySpec& spec, const XPlaces& places, const Cases& cases, std::set<double>& xs,
                  std::set<std::string>& drawn) const;
  // Facets by threads are also by device.
  std::vector<Facet> facets(const std::string& id, const Cases& cases, std::vector<std::string> fields) const;
  // The point with its error bar: percentiles for speeds, the interval for speed-ups, nothing for other metrics.
  Point with_spread(const CaseRecord& record, Point point, const std::string& y) const;
  // "", "!" or "!!" for a number that comes from the times of this case, and for a speed-up from those of its baseline.
  std::string mark_of(const CaseRecord& record, const std::string& metric) const;
  Cases ok_cases(bool with_blocks = false) const;
  Cases fastest_kernels(const Cases& cases) const;  // of each codec, settings, data and cache class
  Cases largest_of_each_source(const Cases& cases) const;
  // The case with the best y at each place, for each cache class.
  Cases best_at_each(const Cases& cases, const std::string& y,
                     const std::function<std::string(const CaseRecord&)>& place) const;
  bool is_better(const CaseRecord& a, const CaseRecord& b, const std::string& y) const;
  // A legend's name for the cases of one codec: their common settings and kernel, or a note that each is the best.
  struct Names {
    std::string label, detail;
  };
  static Names names_of(const Cases& cases, const std::string& where);
  double number(const CaseRecord& record, const std::string& name) const;
  int color(const CaseRecord& record) const;

  const RecordSet& records_;
  const Contexts& contexts_;
  std::map<std::string, int> colors_;  // codec id -> palette position
};

}  // namespace ecmv::reports

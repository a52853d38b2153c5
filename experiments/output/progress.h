// Progress of a run: the data, the phases, a line for each case with the numbers before the name, and the time left.
// Plain lines that fit kLineColumns.
#pragma once

#include <algorithm>
#include <chrono>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config/case.h"
#include "reports/record.h"

namespace ecmv::experiments {

// Estimates the time left: the share of cases that are refused stays the same, and each other case takes the median
// time so far. A mean would follow the one case that took a minute.
class TimeLeft {
 public:
  explicit TimeLeft(size_t cases) : left_(cases) {}
  void skip(size_t cases) { left_ -= std::min(left_, cases); }
  void refused();                            // takes almost no time
  void tried(size_t cases, double seconds);  // of these cases together
  std::optional<double> seconds() const;     // unknown before the first case

 private:
  size_t left_, refused_ = 0;
  std::vector<double> seconds_;  // of each case that was tried, in order
};

// "45 s", "3 min", "2.1 h".
std::string duration_text(double seconds);

class Progress {
 public:
  // A null `out` prints nothing. Without `every_case` only failures get lines, and phases at most one in two seconds.
  // Samples of a batch get a line at most every `pause`.
  Progress(std::ostream* out, size_t cases, bool every_case, std::chrono::milliseconds pause = std::chrono::seconds(10))
      : out_(out), total_(cases), every_case_(every_case), pause_(pause), left_(cases) {}

  void skip(size_t cases);          // done by an earlier run
  void data(const DataSpec& data);  // comes next
  void phase(const std::string& what);
  void aside(const std::string& what);  // in the middle of a phase
  void note(const std::string& sentence);
  // So many of a batch's samples took these seconds.
  void sampled(size_t samples, size_t of, double seconds);
  // These cases took the time since the last one ended and will be done in a moment: they were measured together.
  void together(size_t cases);
  void over(const Case& one, const reports::CaseRecord& record);

 private:
  using Clock = std::chrono::steady_clock;
  double since_last();
  std::string counted() const;  // "[ 12/300,  3 min left]"
  void line(const std::string& text);

  std::ostream* out_;
  size_t total_, over_ = 0, together_ = 0;
  bool every_case_;
  std::chrono::milliseconds pause_;
  TimeLeft left_;
  std::string phase_;
  Clock::time_point last_ = Clock::now();
  std::optional<Clock::time_point> told_;
  Clock::time_point written_ = Clock::now();
};

}  // namespace ecmv::experiments

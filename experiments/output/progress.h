// What a run says while it goes: the data, the phases, a line for each case with the numbers before the name, and how
// long the rest may take. Plain lines that fit kLineColumns.
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

// How long the rest may take: as many cases as will be tried, by the share that was until now, each at the median time
// of those. A mean would follow the one case that took a minute.
class TimeLeft {
 public:
  explicit TimeLeft(size_t cases) : left_(cases) {}
  void skip(size_t cases) { left_ -= std::min(left_, cases); }
  void refused();                            // costs next to nothing
  void tried(size_t cases, double seconds);  // that these cases took together
  std::optional<double> seconds() const;     // unknown before the first

 private:
  size_t left_, refused_ = 0;
  std::vector<double> seconds_;  // of each case that was tried, in order
};

// "45 s", "3 min", "2.1 h".
std::string duration_text(double seconds);

class Progress {
 public:
  // `out` may be null: silent. Without `every_case` only failures get lines, and phases no more than one in two
  // seconds.
  Progress(std::ostream* out, size_t cases, bool every_case)
      : out_(out), total_(cases), every_case_(every_case), left_(cases) {}

  void skip(size_t cases);          // done by an earlier run
  void data(const DataSpec& data);  // comes next
  void phase(const std::string& what);
  void aside(const std::string& what);  // in the middle of a phase
  void note(const std::string& sentence);
  // These cases took the time since the last one ended and will be over in a moment: they were measured together.
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
  TimeLeft left_;
  std::string phase_;
  Clock::time_point last_ = Clock::now();
  std::optional<Clock::time_point> told_;
};

}  // namespace ecmv::experiments

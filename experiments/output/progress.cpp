// See progress.h.
#include "experiments/output/progress.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include <fmt/format.h>

#include "experiments/output/terminal_table.h"
#include "experiments/plan/plan.h"
#include "reports/fields.h"
#include "reports/metrics.h"

namespace ecmv::experiments {
namespace {

using reports::CaseRecord;
using reports::Status;

std::string numbers_of(const CaseRecord& record) {
  if (record.kernel.op == "size") return fmt::format("{:7.4f} bits", record.size.bits_per_element);
  if (!(record.time.median_s > 0)) return fmt::format("{}", reports::to_string(record.status));
  const bool step = record.kernel.op == "step";
  const double amount = static_cast<double>(step ? record.kernel.batch : record.time.elements);
  return fmt::format("{:>6} {}/s{:3} {:6.3f} bits", reports::si_text(amount / record.time.median_s),
                     step ? "tokens" : "elements", reports::mark_of(reports::disturbance_of(record)),
                     record.size.bits_per_element);
}

std::string marks_of(const CaseRecord& record) {
  if (record.kernel.op == "size") return record.check.decode == "exact" ? "" : "  " + record.check.decode;
  return reports::stores_below_entropy(record) ? "  fewer bits than the entropy of independent elements" : "";
}

}  // namespace

void TimeLeft::refused() {
  skip(1);
  ++refused_;
}

void TimeLeft::tried(size_t cases, double seconds) {
  skip(cases);
  seconds_.insert(seconds_.end(), cases, seconds / static_cast<double>(cases));
}

std::optional<double> TimeLeft::seconds() const {
  if (seconds_.empty()) return std::nullopt;
  std::vector<double> sorted = seconds_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  const auto tried = static_cast<double>(sorted.size());
  return *middle * static_cast<double>(left_) * tried / (tried + static_cast<double>(refused_));
}

std::string duration_text(double seconds) {
  if (seconds < 99.5) return fmt::format("{:.0f} s", seconds);
  if (seconds < 99.5 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

void Progress::skip(size_t cases) {
  over_ += cases;
  left_.skip(cases);
}

void Progress::data(const DataSpec& data) {
  phase_.clear();
  const int64_t raw = memory_needed_bytes(data) / 4;
  const std::string size =
      raw > 0 ? fmt::format(": {} of matrices", reports::bytes_text(static_cast<double>(raw))) : std::string();
  if (every_case_) line(shortened(data.short_name(), kLineColumns - shown_width(size)) + size);
}

void Progress::phase(const std::string& what) {
  if (out_ == nullptr || what == phase_) return;
  phase_ = what;
  if (every_case_) return line("  " + shortened(what, kLineColumns - 2));
  constexpr std::chrono::seconds kPause(2);
  if (told_ && Clock::now() - *told_ < kPause) return;
  told_ = Clock::now();
  const std::string count = counted();
  line(count + " " + shortened(what, kLineColumns - 1 - shown_width(count)));
}

void Progress::aside(const std::string& what) {
  if (every_case_) line("  " + shortened(what, kLineColumns - 2));
}

void Progress::note(const std::string& sentence) {
  for (const std::string& part : wrapped(sentence, kLineColumns)) line(part);
}

void Progress::sampled(size_t samples, size_t of, double seconds) {
  if (samples == 0 || samples >= of || Clock::now() - written_ < pause_) return;
  const double left_s = seconds * static_cast<double>(of - samples) / static_cast<double>(samples);
  line("  " + fmt::format("{} of {} samples of the batch, {} left", samples, of, duration_text(left_s)));
}

void Progress::together(size_t cases) {
  left_.tried(cases, since_last());
  together_ = cases;
}

void Progress::over(const Case& one, const CaseRecord& record) {
  ++over_;
  const bool refused = record.status == Status::refused || record.status == Status::unavailable;
  if (together_ > 0)
    --together_;
  else if (refused)
    left_.refused();
  else
    left_.tried(1, since_last());
  if (out_ == nullptr || refused) return;  // a summary counts them
  const bool fine = record.status == Status::ok;
  if (fine && !every_case_) return;
  const std::string name = one.codec.short_name() + "/" + one.kernel.short_name(), count = counted();
  const std::string numbers = fine ? numbers_of(record) : fmt::format("FAILED ({})", reports::to_string(record.status));
  const std::string marks = fine ? marks_of(record) : "";
  const size_t taken = shown_width(count) + 1 + shown_width(numbers) + 2 + shown_width(marks);
  const size_t room = std::max<size_t>(kLineColumns - std::min(taken, kLineColumns), 30);
  line(fmt::format("{} {}  {}{}", count, numbers, shortened(name, room), marks));
  if (fine) return;
  if (!every_case_) line("    " + shortened(one.data.short_name(), kLineColumns - 4));
  for (const std::string& part : wrapped(reports::one_line(record.reason), kLineColumns - 4)) line("    " + part);
}

double Progress::since_last() {
  const Clock::time_point before = std::exchange(last_, Clock::now());
  return std::chrono::duration<double>(last_ - before).count();
}

std::string Progress::counted() const {
  const std::string total = std::to_string(total_);
  std::string text = fmt::format("[{:>{}}/{}", over_, total.size(), total);
  if (const auto seconds = left_.seconds(); seconds && *seconds >= 0.5)
    text += fmt::format(", {:>6} left", duration_text(*seconds));
  return text + "]";
}

void Progress::line(const std::string& text) {
  written_ = Clock::now();
  if (out_ == nullptr) return;
  *out_ << text << "\n";
  out_->flush();
}

}  // namespace ecmv::experiments

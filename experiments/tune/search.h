// The search of `ecmv tune`: which values of open settings are the fastest. It says what to measure and compares; what
// measures is handed in.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codecs/registry.h"
#include "experiments/config/case.h"
#include "experiments/tune/tuned_file.h"

namespace ecmv::experiments {

struct SearchOptions {
  size_t whole_grid = 64;  // up to so many combinations of values are all tried
  int rounds = 2;          // otherwise one setting after the other, so often
  double most_bits = 1.1;  // stored, over those of the open settings: or the fastest would be to code nothing
};

// A verified case that was timed.
struct MeasuredCase {
  double seconds = 0;  // of a layer
  double bits = 0;     // stored, an element
  std::string type;
  datasets::Shape shape;  // of all layers; empty where they differ
};
// Runs the cases; those that are not ok are missing in the result, by key.
using MeasureCases = std::function<std::map<std::string, MeasuredCase>(std::vector<Case> cases)>;

struct TunedResult {
  TunedEntry entry;
  double open_s = 0, found_s = 0;  // of a layer; of several batches the geometric mean
  double open_bits = 0, found_bits = 0;
};

class TuneSearch {
 public:
  // A search for each codec with open settings, and data, device, op and activations. Everything else that the cases
  // differ in (tokens, threads, seeds) is a condition: settings count by the geometric mean over all conditions, each
  // with its fastest kernel. Cases without open settings are left out. Throws std::invalid_argument with a sentence
  // where nothing is left, and for ops and shared products that have no key.
  TuneSearch(const std::vector<Case>& cases, std::span<const codecs::CodecEntry> codecs, const SearchOptions& options);

  size_t searches() const { return searches_.size(); }
  // With the open settings, and with the values that are tried first.
  std::vector<Case> first_cases() const;
  size_t most_cases() const;  // that the search may run, the last comparison included

  // A result comes from a last comparison of the found settings with the open ones, measured together. None once
  // `interrupted`.
  std::vector<TunedResult> run(const MeasureCases& measure, const std::function<bool()>& interrupted);

  // Sentences about searches without a result.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  struct Open {
    std::string name;
    std::vector<std::string> values;  // all that it takes
  };
  struct Search {
    const codecs::CodecEntry* entry = nullptr;
    std::vector<Case> cases;
    std::vector<Open> open;  // the setting with the fewest values first
    backends::Settings best;
    std::optional<datasets::Matrix> sample = {};  // which a codec is asked about
    std::set<std::string> tried = {};
    bool whole_grid = false;
    const backends::Settings& asked() const { return cases.front().codec.settings; }
  };
  using Candidates = std::vector<backends::Settings>;

  static std::vector<Open> open_settings(const codecs::CodecEntry& entry, const backends::Settings& settings);
  // Untried settings with each value of one open setting, or of all of them together.
  static Candidates variations(const Search& search, size_t setting);
  static std::vector<Case> cases_with(const Search& search, const Candidates& candidates);
  bool improve(const MeasureCases& measure, size_t setting);
  std::optional<TunedResult> compared(const Search& search, const std::map<std::string, MeasuredCase>& measured);

  SearchOptions options_;
  std::vector<Search> searches_;
  std::vector<std::string> remarks_;
};

}  // namespace ecmv::experiments

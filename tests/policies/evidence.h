// Evidence about policies from published records: how near each came to the best policy for the same codec, settings,
// data and device.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "reports/record.h"

namespace ecmv::tests {

// A policy counts as useful if it was within this factor of the fastest, in at least this many cases.
inline constexpr double kNearBest = 1.02;
inline constexpr int kEnoughCases = 2;

// One product of a codec on one kind of backend ("scalar", "simd", "gpu"): its policies compete with each other.
struct Product {
  std::string backend, codec, op, activations;  // activations: of a matmul, else ""
  auto operator<=>(const Product&) const = default;
};

struct PolicyName {
  Product product;
  std::string variant, policy;  // the names of today (tests/policies/older_names.h)
  auto operator<=>(const PolicyName&) const = default;
  std::string text() const;  // "gpu raw_bf16 matmul bf16 tokens groups8": words, the general ones first
};

struct Evidence {
  int cases = 0;            // cases that also measured another policy
  double nearest = 1e9;     // its time relative to the best, where it was nearest
  std::string nearest_run;  // the run of that case
};

// From the cases that are ok, timed and use a fused kernel.
std::map<PolicyName, Evidence> evidence_of(std::span<const reports::CaseRecord> cases);
// From all record files below `folder`.
std::map<PolicyName, Evidence> evidence_below(const std::filesystem::path& folder);

// Adds earlier_records.csv: evidence from records that are no longer published, for the policies of `build`.
void add_earlier(const std::string& csv, const std::set<PolicyName>& build, std::map<PolicyName, Evidence>& evidence);

// The policies of all kernels of this build. GPU kernels may come from any GPU backend, the emulator included.
std::set<PolicyName> policies_of_build();

enum class Verdict { near_best, slower, not_measured, without_rival };

// `rivals`: how many policies the build has for the product, itself included.
Verdict judge(const PolicyName& name, const std::map<PolicyName, Evidence>& evidence, int rivals);

// A line of kept.txt: policies that stay without evidence, and why.
struct KeptPolicy {
  enum class Kind { slower, not_measured, shared } kind;
  std::vector<std::string> words;  // the beginning of the policy's name
  std::string reason;              // for a shared policy, the other codec, or the other op of the same codec
  bool covers(const PolicyName& name) const;
  // Whether it excuses a policy with that verdict; a shared one must be near the best there.
  bool excuses(const PolicyName& name, Verdict verdict, const std::map<PolicyName, Evidence>& evidence) const;
};
// Throws std::runtime_error for a line that is no entry.
std::vector<KeptPolicy> parse_kept(const std::string& text);

}  // namespace ecmv::tests

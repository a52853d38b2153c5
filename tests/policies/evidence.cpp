#include "tests/policies/evidence.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "backends/backend.h"
#include "codecs/registry.h"
#include "reports/fields.h"
#include "tests/policies/older_names.h"

namespace ecmv::tests {
namespace {

using reports::CaseRecord;

std::string kind_of_backend(const std::string& backend) {
  return backend == "cuda" || backend == "hip" || backend == "emulator" ? "gpu" : backend;
}

// Everything that decides how fast a case is, except the variant and the policy.
std::string competition_of(const CaseRecord& record) {
  CaseRecord same;
  same.run = record.run;
  same.data = record.data;
  same.codec = record.codec;
  same.kernel = record.kernel;
  same.kernel.variant = same.kernel.policy = "";
  same.time.cache = record.time.cache;
  same.ranks.count = record.ranks.count;
  same.ranks.engine = record.ranks.engine;
  same.ranks.split = record.ranks.split;
  return reports::to_json_line(same);
}

PolicyName name_of(const CaseRecord& record) {
  const auto& kernel = record.kernel;
  return {
      {kind_of_backend(kernel.backend), record.codec.id, kernel.op, kernel.op == "matmul" ? kernel.activations : ""},
      current_policy_name(kernel.variant),
      current_policy_name(kernel.policy)};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(current_policy_name(word));
  return words;
}

}  // namespace

std::string PolicyName::text() const {
  std::string text = product.backend + " " + product.codec + " " + product.op;
  if (!product.activations.empty()) text += " " + product.activations;
  return text + " " + variant + " " + policy;
}

std::map<PolicyName, Evidence> evidence_of(std::span<const CaseRecord> cases) {
  std::map<std::string, std::map<PolicyName, const CaseRecord*>> competitions;
  for (const CaseRecord& record : cases) {
    const bool compared = record.status == reports::Status::ok && record.time.median_s > 0 && !record.kernel.unfused &&
                          record.kernel.op != "step" && record.kernel.variant != "auto";
    if (!compared) continue;
    const CaseRecord*& fastest = competitions[competition_of(record)][name_of(record)];
    if (!fastest || record.time.median_s < fastest->time.median_s) fastest = &record;
  }
  std::map<PolicyName, Evidence> evidence;
  for (const auto& [key, policies] : competitions) {
    if (policies.size() < 2) continue;
    double best = 1e300;
    for (const auto& [name, record] : policies) best = std::min(best, record->time.median_s);
    for (const auto& [name, record] : policies) {
      Evidence& known = evidence[name];
      ++known.cases;
      if (record->time.median_s / best >= known.nearest) continue;
      known.nearest = record->time.median_s / best;
      known.nearest_run = record->run;
    }
  }
  return evidence;
}

std::map<PolicyName, Evidence> evidence_below(const std::filesystem::path& folder) {
  std::vector<CaseRecord> cases;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".jsonl") && !name.ends_with(".jsonl.gz")) continue;
    reports::RecordSet records = reports::read_records(entry.path());
    std::move(records.cases.begin(), records.cases.end(), std::back_inserter(cases));
  }
  return evidence_of(cases);
}

void add_earlier(const std::string& csv, const std::set<PolicyName>& build, std::map<PolicyName, Evidence>& evidence) {
  std::map<std::string, Evidence> earlier;
  std::istringstream stream(csv);
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    std::istringstream cells(line);
    std::string name, cases, nearest, run;
    std::getline(cells, name, ',') && std::getline(cells, cases, ',') && std::getline(cells, nearest, ',') &&
        std::getline(cells, run);
    earlier[name] = {std::stoi(cases), std::stod(nearest), run};
  }
  for (const PolicyName& name : build) {
    const auto found = earlier.find(name.text());
    if (found == earlier.end()) continue;
    Evidence& known = evidence[name];
    known.cases = std::max(known.cases, found->second.cases);  // some records may be in both
    if (found->second.nearest >= known.nearest) continue;
    known.nearest = found->second.nearest;
    known.nearest_run = found->second.nearest_run;
  }
}

std::set<PolicyName> policies_of_build() {
  std::set<PolicyName> names;
  for (const codecs::CodecEntry& entry : codecs::all_codecs()) {
    if (entry.loaded()) continue;
    for (const backends::Backend& backend : backends::all_backends())
      for (const backends::Kernel& kernel : entry.kernels(backend.id))
        for (const backends::Policy& policy : kernel.policies)
          names.insert(
              {{kind_of_backend(std::string(backend.id)), std::string(entry.id),
                std::string(backends::op_name(kernel.op)),
                kernel.op == backends::Op::matmul ? std::string(backends::activations_name(kernel.activations)) : ""},
               current_policy_name(kernel.variant),
               current_policy_name(policy.name)});
  }
  return names;
}

bool KeptPolicy::covers(const PolicyName& name) const {
  const std::vector<std::string> all = words_of(name.text());
  return words.size() <= all.size() && std::equal(words.begin(), words.end(), all.begin());
}

bool KeptPolicy::excuses(const PolicyName& name, Verdict verdict,
                         const std::map<PolicyName, Evidence>& evidence) const {
  if (!covers(name)) return false;
  if (kind == Kind::slower) return verdict == Verdict::slower;
  if (kind == Kind::not_measured) return verdict == Verdict::not_measured;
  PolicyName other = name;
  const bool is_op = reason == "decode" || reason == "matvec" || reason == "matmul";
  (is_op ? other.product.op : other.product.codec) = reason;
  return judge(other, evidence, 2) == Verdict::near_best;
}

std::vector<KeptPolicy> parse_kept(const std::string& text) {
  static const std::map<std::string, KeptPolicy::Kind> kinds = {{"slower", KeptPolicy::Kind::slower},
                                                                {"not measured", KeptPolicy::Kind::not_measured},
                                                                {"shared", KeptPolicy::Kind::shared}};
  std::vector<KeptPolicy> kept;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    const std::size_t kind_end = line.find(':'), name_end = line.find(':', kind_end + 1);
    const auto kind = kinds.find(line.substr(0, kind_end));
    if (name_end == std::string::npos || kind == kinds.end())
      throw std::runtime_error("\"" + line +
                               "\" is not \"KIND: NAME: REASON\"; kinds are slower, not measured and shared");
    KeptPolicy& entry = kept.emplace_back();
    entry.kind = kind->second;
    entry.words = words_of(line.substr(kind_end + 1, name_end - kind_end - 1));
    entry.reason = line.substr(std::min(line.size(), name_end + 2));
    if (entry.words.size() < 3 || entry.reason.empty())
      throw std::runtime_error("\"" + line + "\" needs backend, codec and op at least, and a reason");
  }
  return kept;
}

Verdict judge(const PolicyName& name, const std::map<PolicyName, Evidence>& evidence, int rivals) {
  if (rivals < 2) return Verdict::without_rival;
  const auto found = evidence.find(name);
  if (found == evidence.end() || found->second.cases < kEnoughCases) return Verdict::not_measured;
  return found->second.nearest <= kNearBest ? Verdict::near_best : Verdict::slower;
}

}  // namespace ecmv::tests

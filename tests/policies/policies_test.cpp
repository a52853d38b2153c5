// Every policy on GPUs is within 2 % of the best in some published run, or kept.txt says why it stays.
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/policies/evidence.h"
#include "tests/policies/older_names.h"

using namespace ecmv;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path kRoot = ECMV_SOURCE_DIR;

std::string text_of(const char* name) {
  std::ifstream file(kRoot / "tests/policies" / name);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

std::map<PolicyName, Evidence> known_evidence(const std::set<PolicyName>& build) {
  std::map<PolicyName, Evidence> evidence = evidence_below(kRoot / "reports/published");
  add_earlier(text_of("earlier_records.csv"), build, evidence);
  return evidence;
}

// Policies with a rival that no record shows near the best.
std::map<PolicyName, Verdict> doubtful(const std::set<PolicyName>& build,
                                       const std::map<PolicyName, Evidence>& evidence) {
  std::map<Product, int> rivals;
  for (const PolicyName& name : build) ++rivals[name.product];
  std::map<PolicyName, Verdict> found;
  for (const PolicyName& name : build) {
    const Verdict verdict = judge(name, evidence, rivals.at(name.product));
    if (verdict == Verdict::slower || verdict == Verdict::not_measured) found[name] = verdict;
  }
  return found;
}

// As a line of kept.txt.
std::string line_of(const PolicyName& name, Verdict verdict, const std::map<PolicyName, Evidence>& evidence) {
  if (verdict == Verdict::not_measured)
    return fmt::format("not measured: {}: in fewer than {} cases\n", name.text(), kEnoughCases);
  const Evidence& known = evidence.at(name);
  return fmt::format("slower: {}: by {:.1f} % at least in {} cases, nearest in {}\n", name.text(),
                     100 * (known.nearest - 1), known.cases, known.nearest_run);
}

reports::CaseRecord timed(const std::string& variant, const std::string& policy, double seconds, std::int64_t rows) {
  reports::CaseRecord r;
  r.status = reports::Status::ok;
  r.run = "run";
  r.data.rows = r.data.cols = rows;
  r.codec.id = "coder";
  r.kernel.backend = "cuda";
  r.kernel.op = "matvec";
  r.kernel.variant = variant;
  r.kernel.policy = policy;
  r.time.median_s = seconds;
  return r;
}

}  // namespace

TEST_CASE("a policy on GPUs was within 2 % of the best once, or it is kept for a reason") {
#ifdef ECMV_SEARCH
  SKIP("a build that searches has policies that lose");
#endif
  const std::set<PolicyName> build = policies_of_build();
  const std::map<PolicyName, Evidence> evidence = known_evidence(build);
  const std::vector<KeptPolicy> kept = parse_kept(text_of("kept.txt"));
  std::vector<bool> needed(kept.size(), false);
  std::string report;
  for (const auto& [name, verdict] : doubtful(build, evidence)) {
    if (name.product.backend != "gpu") continue;
    bool is_kept = false;
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i].excuses(name, verdict, evidence)) is_kept = needed[i] = true;
    if (!is_kept) report += line_of(name, verdict, evidence);
  }
  std::cout << report;
  INFO("Delete the policies above, publish a run that shows their use, or add a line to tests/policies/kept.txt.");
  CHECK(report.empty());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const bool in_build = std::any_of(build.begin(), build.end(), [&](const PolicyName& name) {
      return kept[i].words[0] == name.product.backend && kept[i].words[1] == name.product.codec;
    });
    INFO("nothing needs this line of kept.txt: " << fmt::format("{}", fmt::join(kept[i].words, " ")));
    CHECK((needed[i] || !in_build));
  }
}

TEST_CASE("five slow policies at most are kept") {
  int slower = 0;
  for (const KeptPolicy& entry : parse_kept(text_of("kept.txt"))) slower += entry.kind == KeptPolicy::Kind::slower;
  CHECK(slower <= 5);
}

// Published records of CPUs come from few processors, so nothing is deleted for them. To list: test_policies "[.list]".
TEST_CASE("all policies without evidence, those on CPUs included", "[.list]") {
  const std::set<PolicyName> build = policies_of_build();
  const std::map<PolicyName, Evidence> evidence = known_evidence(build);
  std::string report;
  for (const auto& [name, verdict] : doubtful(build, evidence)) report += line_of(name, verdict, evidence);
  std::cout << report;
}

TEST_CASE("a policy is judged by the best of the same codec, data and device, under the name of today") {
  std::vector<reports::CaseRecord> cases;
  for (const std::int64_t rows : {1, 2, 3}) {
    cases.push_back(timed("rows", "waves4", 1.0, rows));
    cases.push_back(timed("rows", "groups8", rows == 3 ? 1.02 : 2.0, rows));
    cases.push_back(timed("rows", "waves16", 1.03, rows));
  }
  cases.push_back(timed("rows", "groups32", 1.0, 1));
  cases.push_back(timed("rows", "waves64", 0.1, 9));  // alone: there is nothing to compare it with
  const std::map<PolicyName, Evidence> evidence = evidence_of(cases);
  const auto verdict = [&](const char* policy, int rivals = 2) {
    return judge({{"gpu", "coder", "matvec", ""}, "rows", policy}, evidence, rivals);
  };
  CHECK(verdict("groups4") == Verdict::near_best);
  CHECK(verdict("groups8") == Verdict::near_best);
  CHECK(verdict("groups16") == Verdict::slower);
  CHECK(verdict("groups32") == Verdict::not_measured);
  CHECK(verdict("groups64") == Verdict::not_measured);
  CHECK(verdict("groups16", 1) == Verdict::without_rival);
}

TEST_CASE("words of policies are renamed whole, and kept.txt names policies from the general to the special") {
  CHECK(current_policy_name("waves16_ahead2") == "groups16_ahead2");
  CHECK(current_policy_name("bits13_waves48") == "bits13_groups48");
  CHECK(current_policy_name("halves_pair_dots") == "halves_avx512_bf16");
  CHECK(current_policy_name("together4") == "warpgroup4");
  CHECK(current_policy_name("wavesome_tilesets") == "wavesome_tilesets");
  const std::vector<KeptPolicy> kept = parse_kept(
      "# comment\n\nslower: gpu coder matmul bf16 tokens waves4: fits 64 KiB\n"
      "not measured: gpu coder decode: nobody decodes it\n");
  REQUIRE(kept.size() == 2);
  CHECK(kept[0].kind == KeptPolicy::Kind::slower);
  CHECK(kept[0].reason == "fits 64 KiB");
  CHECK(kept[0].covers({{"gpu", "coder", "matmul", "bf16"}, "tokens", "groups4"}));
  CHECK_FALSE(kept[0].covers({{"gpu", "coder", "matmul", "bf16"}, "tokens", "groups8"}));
  CHECK(kept[1].covers({{"gpu", "coder", "decode", ""}, "any", "groups8"}));
  CHECK_THROWS_WITH(parse_kept("perhaps: gpu coder decode: x\n"), ContainsSubstring("kinds are"));
  CHECK_THROWS_WITH(parse_kept("slower: gpu coder decode:\n"), ContainsSubstring("a reason"));

  const KeptPolicy shared = parse_kept("shared: gpu coder matvec rows groups4: other\n").at(0);
  const PolicyName name{{"gpu", "coder", "matvec", ""}, "rows", "groups4"};
  std::map<PolicyName, Evidence> evidence = {{name, {9, 1.5, "run"}}};
  CHECK_FALSE(shared.excuses(name, Verdict::slower, evidence));
  evidence[{{"gpu", "other", "matvec", ""}, "rows", "groups4"}] = {9, 1.0, "run"};
  CHECK(shared.excuses(name, Verdict::slower, evidence));
  const KeptPolicy by_op = parse_kept("shared: gpu coder matvec rows groups4: decode\n").at(0);
  CHECK_FALSE(by_op.excuses(name, Verdict::slower, evidence));
  evidence[{{"gpu", "coder", "decode", ""}, "rows", "groups4"}] = {9, 1.0, "run"};
  CHECK(by_op.excuses(name, Verdict::slower, evidence));
  add_earlier("# x\ngpu coder matvec rows groups4,7,1.0100,earlier\n", {name}, evidence);
  CHECK(evidence.at(name).cases == 9);
  CHECK(evidence.at(name).nearest_run == "earlier");
}

// Every policy of a build is within 2 % of the best in some published run, or kept.txt says why it stays.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <iterator>

#include "reports/older_names.h"
#include "tests/policies/evidence.h"

using namespace ecmv;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path kRoot = ECMV_SOURCE_DIR;

std::vector<KeptPolicy> kept_policies() {
  std::ifstream file(kRoot / "tests/policies/kept.txt");
  return parse_kept(std::string((std::istreambuf_iterator<char>(file)), {}));
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

TEST_CASE("a policy of the build was within 2 % of the best once, or it is kept for a reason") {
#ifdef ECMV_SEARCH
  SKIP("a build that searches has policies that lose");
#endif
  const std::set<PolicyName> build = policies_of_build();
  const std::map<PolicyName, Evidence> evidence = evidence_below(kRoot / "reports/published");
  const std::vector<KeptPolicy> kept = kept_policies();
  std::map<Product, int> rivals;
  for (const PolicyName& name : build) ++rivals[name.product];
  std::vector<bool> needed(kept.size(), false);
  std::string report;  // lines as kept.txt would have them
  for (const PolicyName& name : build) {
    const Verdict verdict = judge(name, evidence, rivals.at(name.product));
    if (verdict == Verdict::near_best || verdict == Verdict::without_rival) continue;
    bool is_kept = false;
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i].slower == (verdict == Verdict::slower) && kept[i].covers(name)) is_kept = needed[i] = true;
    if (is_kept) continue;
    if (verdict == Verdict::slower) {
      const Evidence& known = evidence.at(name);
      report += fmt::format("slower: {}: at least {:.1f} % slower than the best in all {} cases, nearest in {}\n",
                            name.text(), 100 * (known.nearest - 1), known.cases, known.nearest_run);
    } else {
      report += fmt::format("not measured: {}: in fewer than {} published cases\n", name.text(), kEnoughCases);
    }
  }
  INFO("Delete these policies, publish a run that shows their use, or add a line to tests/policies/kept.txt:\n"
       << report);
  CHECK(report.empty());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const bool in_build = std::any_of(build.begin(), build.end(), [&](const PolicyName& name) {
      return kept[i].words[0] == name.product.backend && kept[i].words[1] == name.product.codec;
    });
    INFO("kept.txt keeps, but nothing needs it: " << fmt::format("{}", fmt::join(kept[i].words, " ")));
    CHECK((needed[i] || !in_build));
  }
}

TEST_CASE("five slow policies at most are kept") {
  int slower = 0;
  for (const KeptPolicy& entry : kept_policies()) slower += entry.slower;
  CHECK(slower <= 5);
}

TEST_CASE("a policy is judged by the best of the same codec, data and device, under the name of today") {
  std::vector<reports::CaseRecord> cases;
  for (const std::int64_t rows : {1, 2, 3}) {
    cases.push_back(timed("rows", "waves4", 1.0, rows));
    cases.push_back(timed("rows", "groups8", rows == 3 ? 1.02 : 2.0, rows));
    cases.push_back(timed("rows", "waves16", 1.03, rows));
  }
  cases.push_back(timed("rows", "groups32", 1.0, 1));
  cases.push_back(timed("rows", "waves64", 0.1, 9));  // alone: compared with nothing
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
  CHECK(reports::current_policy_name("waves16_ahead2") == "groups16_ahead2");
  CHECK(reports::current_policy_name("bits13_waves48") == "bits13_groups48");
  CHECK(reports::current_policy_name("halves_pair_dots") == "halves_avx512_bf16");
  CHECK(reports::current_policy_name("together4") == "warpgroup4");
  CHECK(reports::current_policy_name("wavesome_tilesets") == "wavesome_tilesets");
  const std::vector<KeptPolicy> kept = parse_kept(
      "# comment\n\nslower: gpu coder matmul bf16 tokens waves4: fits 64 KiB\n"
      "not measured: gpu coder decode: nobody decodes it\n");
  REQUIRE(kept.size() == 2);
  CHECK(kept[0].slower);
  CHECK(kept[0].reason == "fits 64 KiB");
  CHECK(kept[0].covers({{"gpu", "coder", "matmul", "bf16"}, "tokens", "groups4"}));
  CHECK_FALSE(kept[0].covers({{"gpu", "coder", "matmul", "bf16"}, "tokens", "groups8"}));
  CHECK(kept[1].covers({{"gpu", "coder", "decode", ""}, "any", "groups8"}));
  CHECK_THROWS_WITH(parse_kept("perhaps: gpu coder decode: x\n"), ContainsSubstring("is neither"));
  CHECK_THROWS_WITH(parse_kept("slower: gpu coder decode:\n"), ContainsSubstring("a reason"));
}

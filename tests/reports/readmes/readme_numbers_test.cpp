// The numbers in READMEs come from the published records that they name (printed_numbers.h says how).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/reports/fixtures.h"
#include "tests/reports/readmes/printed_numbers.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::filesystem::path kRoot = ECMV_SOURCE_DIR;

// The README of the project, the page of published runs, the READMEs of the codecs, and other pages of codecs that
// claim numbers.
std::vector<std::string> readmes() {
  std::vector<std::string> names = {"README.md", "codecs/README.md", "reports/published/README.md",
                                    "reports/published/RESULTS.md"};
  for (const auto& codec : std::filesystem::directory_iterator(kRoot / "codecs")) {
    if (!codec.is_directory()) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(codec.path())) {
      if (entry.path().extension() != ".md") continue;
      const bool claims = file_text(entry.path()).find("<!-- numbers:") != std::string::npos;
      if (entry.path() == codec.path() / "README.md" || claims)
        names.push_back(std::filesystem::relative(entry.path(), kRoot).string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

CheckedDocument checked(const std::string& name) {
  static const std::map<std::string, std::string> sidecars = read_sidecars(kRoot / "reports/published/numbers");
  const auto found = sidecars.find(name);
  return check_printed_numbers(file_text(kRoot / name), kRoot, found == sidecars.end() ? "" : found->second);
}

// Records of speed-ups that are older than the count of kernels in the run. Delete an entry when its run is replaced.
const std::set<std::string> kOfUnknownEntrants = {
    "reports/published/2026-11-20-xeon-16-cores/records.jsonl",
    "reports/published/2026-11-22-h200/containers/records.jsonl",
    "reports/published/2026-11-25-h100/beat_int8/records.jsonl",
    "reports/published/2026-11-25-h200/beat_int8_wide/records.jsonl",
    "reports/published/2026-11-25-h200/devices/records.jsonl",
    "reports/published/2026-11-25-xeon-2-cores/batch_amx/records.jsonl",
    "reports/published/2026-11-25-xeon-2-cores/records.jsonl",
    "reports/published/2026-11-26-h100/batch_16384/records.jsonl",
    "reports/published/2026-11-26-h100/batch_8192/records.jsonl",
    "reports/published/2026-11-26-h100/batch_8192x28672/records.jsonl",
    "reports/published/2026-11-26-h100/batch_f8/records.jsonl",
    "reports/published/2026-11-26-h100/batch_int8/records.jsonl",
    "reports/published/2026-11-26-h100/low_rates/records.jsonl",
    "reports/published/2026-11-26-h200/batch_16384_second/records.jsonl",
    "reports/published/2026-11-26-h200/batch_8192_eights/records.jsonl",
    "reports/published/2026-11-26-h200/batch_8192x28672_wide/records.jsonl",
    "reports/published/2026-11-26-h200/batch_f8/records.jsonl",
    "reports/published/2026-11-26-xeon-16-cores/batch_amx/records.jsonl",
    "reports/published/2026-11-26-xeon-16-cores/beat_int8/records.jsonl",
    "reports/published/2026-11-26-xeon-16-cores/beat_int8_again/records.jsonl",
    "reports/published/2026-11-27-h200/headline/records.jsonl",
    "reports/published/2026-11-27-h200/low_rates/records.jsonl",
};

using Records = std::set<std::string>;

Records cited_records(Records CheckedDocument::*which) {
  Records all;
  for (const std::string& name : readmes()) all.merge(Records(checked(name).*which));
  return all;
}

void expect_listed(const Records& cited, const Records& listed, const std::string& what) {
  for (const std::string& record : cited) {
    INFO(record << " " << what);
    CHECK(listed.contains(record));
  }
  for (const std::string& record : listed) {
    INFO(record << " is listed, and no number needs that any more");
    CHECK(cited.contains(record));
  }
}

}  // namespace

TEST_CASE("no page cites a run with cases above its own read bandwidth") {
  for (const std::string& record : cited_records(&CheckedDocument::beyond_bandwidth)) {
    INFO(record << " has cases that read more than its bandwidth by 5 %");
    CHECK(record.empty());
  }
}

TEST_CASE("every speed-up that a page cites is over all uncompressed kernels, or of a record older than their count") {
  CHECK(cited_records(&CheckedDocument::filtered).empty());
  expect_listed(cited_records(&CheckedDocument::of_unknown_entrants), kOfUnknownEntrants,
                "does not know how many uncompressed kernels ran");
}

TEST_CASE("every number of a README that names its record is the record's") {
  int numbers = 0;
  for (const std::string& name : readmes()) {
    const CheckedDocument document = checked(name);
    for (const std::string& fault : document.faults) {
      INFO(name << ": " << fault);
      CHECK(fault.empty());
    }
    numbers += document.numbers;
  }
  CHECK(numbers > 100);
}

TEST_CASE("every sidecar is for a README that is checked") {
  const std::vector<std::string> names = readmes();
  for (const auto& [page, text] : read_sidecars(kRoot / "reports/published/numbers")) {
    INFO(page);
    CHECK(std::find(names.begin(), names.end(), page) != names.end());
  }
}

TEST_CASE("no number of the front page stands without a claim, wherever its paragraph links to") {
  for (const std::string& block : checked("README.md").without_claims) {
    INFO(block);
    CHECK(block.empty());
  }
}

TEST_CASE("every table of results, and every paragraph that links to published runs, names its record") {
  for (const std::string& name : readmes())
    for (const std::string& block : checked(name).without_records) {
      INFO(name << ": " << block << " has results and names no record");
      CHECK(block.empty());
    }
}

TEST_CASE("figures that READMEs show come from records of clean builds") {
  static const std::regex shown(R"re(!\[[^\]]*\]\(([^)]*)/figures/[^)/]*\))re");
  int figures = 0;
  for (const std::string& name : readmes()) {
    const std::string text = file_text(kRoot / name);
    for (std::sregex_iterator i(text.begin(), text.end(), shown), end; i != end; ++i, ++figures) {
      const RecordSet records = read_records((kRoot / name).parent_path() / (*i)[1].str() / "records.jsonl");
      for (const RunRecord& run : records.runs) {
        INFO(name << " shows " << (*i)[0]);
        CHECK_FALSE(run.git_dirty);
      }
    }
  }
  CHECK(figures >= 2);
}

namespace {

const std::string kTable = R"(## Results

<!-- numbers: record=tests/reports/fixtures/sweep.jsonl op=matvec rows=1000 sigma=4
columns: - | bits_per_element | elements_per_s in G | elements_per_s
row: codec=plain
row: codec=coder
row: codec=coder / codec=plain
-->

| codec | bits | G elements/s | again |
|---|---|---|---|
| `plain` | 8.000 | 2.00 | 2 G |
| `coder` | 5.0 | **1.82** | 1.8 G |
| ratio | 0.625 | 0.91 | |
)";

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::vector<std::string> faults(const std::string& text) { return check_printed_numbers(text, kRoot).faults; }

}  // namespace

TEST_CASE("a table with the record's numbers passes, and any number that is changed is found") {
  CHECK(faults(kTable).empty());
  CHECK(check_printed_numbers(kTable, kRoot).numbers == 8);
  for (const auto& [from, to] : std::map<std::string, std::string>{
           {"8.000", "8.001"}, {"2.00 ", "2.01 "}, {"2 G", "3 G"}, {"**1.82**", "**1.83**"}, {"0.625", "0.624"}}) {
    const std::vector<std::string> found = faults(changed(kTable, from, to));
    INFO(from);
    REQUIRE(found.size() == 1);
    CHECK_THAT(found[0], ContainsSubstring("Results: it says"));
  }
  CHECK_THAT(faults(changed(kTable, "row: codec=plain\n", "")).at(0), ContainsSubstring("it says"));
  CHECK_THAT(faults(changed(kTable, "| `plain` ", "| `plain` at 7.5 ")).at(0),
             ContainsSubstring("\"7.5\" has no record"));
  CHECK_THAT(faults(kTable + "| `other` | 6.000 | 1.00 | 1 G |\n").back(), ContainsSubstring("has no record"));
}

TEST_CASE("numbers of a text are looked up, and one without a record is found") {
  const std::string text =
      "<!-- numbers: record=tests/reports/fixtures/sweep.jsonl rows=1000\n"
      "text: 0.91 times = elements_per_s codec=coder sigma=4 / codec=plain sigma=4\n"
      "text: 2.50 GB/s = read_bandwidth codec=plain sigma=4\n"
      "plain: 4.8\n-->\n\nIt runs at 0.91 times\nthe speed, of 2.50 GB/s, with 4.8 bits ([records](a/b1.5.md), "
      "`1.7`).\n";
  CHECK(faults(text).empty());
  CHECK(faults(changed(text, "at 0.91 times", "at 0.92 times")).size() == 2);  // no such piece; no record of 0.92
  CHECK(faults(changed(text, "plain: 4.8\n", "")).size() == 1);
  CHECK(faults(changed(text, "with 4.8", "with 12 % and 4.8")).size() == 1);
  CHECK_THAT(faults(changed(text, "codec=coder sigma=4", "codec=coder")).at(0), ContainsSubstring("different kinds"));
  CHECK_THAT(faults(changed(text, "codec=coder", "codec=nobody")).at(0), ContainsSubstring("no case has"));
}

TEST_CASE("numbers that pool memory blocks are those of the report's tables") {
  // 1607680 bits of two seen workloads are coded in 1070668, 1905664 of an unseen one in 1872944.
  const std::string text =
      "<!-- numbers: record=tests/reports/fixtures/blocks.jsonl table=blocks_32_stream\n"
      "columns: - | pooled group=seen | pooled group=unseen\nrow: column=bdi\n-->\n\n"
      "| codec | seen | unseen |\n|---|---|---|\n| bdi | 1.502 | 1.017 |\n";
  CHECK(faults(text).empty());
  CHECK(faults(changed(text, "1.502", "1.503")).size() == 1);
  CHECK_THAT(faults(changed(text, "group=unseen", "group=hidden")).at(0), ContainsSubstring("pools hidden for bdi"));
  CHECK_THAT(faults(changed(text, " table=blocks_32_stream", "")).at(0), ContainsSubstring("pooled needs table="));
}

TEST_CASE("a sidecar's claims hold like those of comments, for the one block that has its words") {
  const std::string text =
      "It runs at 0.91 times\nthe speed, of 2.50 GB/s, with 4.8 bits.\n\n"
      "| codec | bits |\n|---|---|\n| plain | 8.000 |\n";
  const std::string sidecar =
      "page: x.md\n# The speed.\nblock: It runs at 0.91 times the speed\n"
      "numbers: record=tests/reports/fixtures/sweep.jsonl rows=1000\n"
      "text: 0.91 times = elements_per_s codec=coder sigma=4 / codec=plain sigma=4\n"
      "plain: 4.8\n"
      "numbers: record=tests/reports/fixtures/sweep.jsonl rows=1000 sigma=4\n"
      "text: 2.50 GB/s = read_bandwidth codec=plain\n\n"
      "block: | codec | bits |\nnumbers: record=tests/reports/fixtures/sweep.jsonl op=matvec rows=1000 sigma=4\n"
      "columns: - | bits_per_element\nrow: codec=plain\n";
  auto found = [&](const std::string& page, const std::string& claims) {
    return check_printed_numbers(page, kRoot, claims).faults;
  };
  CHECK(found(text, sidecar).empty());
  CHECK(check_printed_numbers(text, kRoot, sidecar).numbers == 3);
  CHECK(check_printed_numbers(text, kRoot).without_claims.size() == 2);
  CHECK_THAT(found(changed(text, "8.000", "8.001"), sidecar).at(0), ContainsSubstring("it says \"8.001\""));
  CHECK_THAT(found(text, changed(sidecar, "plain: 4.8\n", "")).at(0), ContainsSubstring("\"4.8\" has no record"));
  CHECK_THAT(found(text, changed(sidecar, "It runs", "It ran")).back(), ContainsSubstring("0 paragraphs or tables"));
  CHECK_THAT(found(text + "\n| codec | bits |\n|---|---|\n", sidecar).back(), ContainsSubstring("2 paragraphs"));
  CHECK_THROWS_WITH(found(text, "page: x.md\nplain: 4.8\n"), ContainsSubstring("before its first block"));
}

TEST_CASE("no number comes from a build with local changes or from a cache against memory") {
  const ScratchFolder folder;
  const std::string records = file_text(fixture_path("sweep.jsonl"));
  auto found = [&](const std::string& text) {
    std::ofstream(folder.path / "records.jsonl") << text;
    return check_printed_numbers(changed(kTable, "tests/reports/fixtures/sweep.jsonl", "records.jsonl"), folder.path)
        .faults;
  };
  CHECK(found(records).empty());
  CHECK_THAT(found(changed(records, "\"git_dirty\": false", "\"git_dirty\": true")).at(0),
             ContainsSubstring("is not of a clean build"));
  std::string resident;
  std::istringstream lines(records);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"coder\"") != std::string::npos) line = changed(line, "\"streamed\"", "\"resident\"");
    resident += line + "\n";
  }
  CHECK_THAT(found(resident).back(), ContainsSubstring("compares a resident case with a streamed one"));
}

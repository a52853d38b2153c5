// Claims about figures that a reader asks for: any field on x, several at once, linear axes, every codec drawn or
// named.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "reports/exports/pgfplots.h"
#include "reports/figures/figures.h"
#include "reports/figures/gnuplot.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

XySpec asked(const std::string& x, const std::string& y = "elements_per_s") {
  XySpec spec;
  spec.id = "asked_for";
  spec.x = x, spec.y = y;
  spec.asked_for = true;
  return spec;
}

// The sweep with a setting that differs from case to case.
RecordSet with_lanes() {
  RecordSet records = fixture("sweep.jsonl");
  std::int64_t lanes = 2;
  for (CaseRecord& record : records.cases)
    if (record.codec.id == "coder") record.codec.settings["lanes"] = lanes, lanes *= 2;
  return records;
}

std::vector<std::string> names_on_x(const Figure& figure) {
  std::vector<std::string> names;
  for (const Tick& tick : std::get<XyPlot>(figure.plot).x.ticks) names.push_back(tick.text);
  return names;
}

}  // namespace

TEST_CASE("codecs, shapes and settings stand on x in their order") {
  const RecordSet records = with_lanes();
  const Contexts contexts(records, "plain");
  const FigureMaker maker(records, contexts);
  const auto by_codec = maker.xy(asked("codec", "bits_per_element"));
  REQUIRE(by_codec.size() == 1);
  CHECK(names_on_x(by_codec[0]).front() == "coder");
  CHECK(std::get<XyPlot>(by_codec[0].plot).x.categories);
  const auto by_lanes = maker.xy(asked("setting.lanes"));
  REQUIRE(by_lanes.size() == 1);
  const std::vector<std::string> names = names_on_x(by_lanes[0]);
  REQUIRE(names.size() >= 4);
  CHECK(names[1] == "2");
  CHECK(names[2] == "4");
  CHECK(names[3] == "8");
  CHECK(maker.xy(asked("shape")).size() == 1);
  XySpec facets = asked("dimension");
  facets.facets = {"setting.lanes", "seed", "codec"};
  CHECK_NOTHROW(maker.xy(facets));
}

TEST_CASE("linear axes are linear, in both drawing languages") {
  const RecordSet records = fixture("sweep.jsonl");
  const Contexts contexts(records, "plain");
  XySpec spec = asked("sigma");
  spec.log_x = spec.log_y = false;
  const auto figures = FigureMaker(records, contexts).xy(spec);
  REQUIRE_FALSE(figures.empty());
  CHECK_FALSE(std::get<XyPlot>(figures[0].plot).x.log);
  CHECK_THAT(to_pgfplots(figures[0]), ContainsSubstring("xmode=linear") && ContainsSubstring("ymode=linear"));
  CHECK_THAT(gnuplot_script(figures[0]), !ContainsSubstring("set logscale x"));
}

TEST_CASE("a figure says which codecs it leaves out, and draws codecs of blocks where it can") {
  RecordSet records = fixture("sweep.jsonl");
  for (CaseRecord& record : records.cases)
    if (record.codec.id == "coder") record.blocks.push_back({"own", 64, 1, 1, 0, 1, 1});
  const Contexts contexts(records, "plain");
  const FigureMaker maker(records, contexts);
  const auto bits = maker.xy(asked("dimension", "bits_per_element"));
  REQUIRE_FALSE(bits.empty());
  CHECK(std::get<XyPlot>(bits[0].plot).series.size() == 3);
  CHECK(bits[0].caption.find("Left out") == std::string::npos);
  for (CaseRecord& record : records.cases)
    if (record.codec.id == "coder") record.kernel.op = "size", record.time = {};
  const Contexts again(records, "plain");
  const auto speeds = FigureMaker(records, again).xy(asked("dimension"));
  REQUIRE_FALSE(speeds.empty());
  CHECK_THAT(speeds[0].caption, ContainsSubstring("Left out, without elements/s: coder."));
}

TEST_CASE("pgfplots has the shapes of the SVG and the labels of points and guides") {
  const RecordSet records = fixture("sweep.jsonl");
  const Contexts contexts(records, "plain");
  std::string text;
  for (const Figure& figure : FigureMaker(records, contexts).all()) text += to_pgfplots(figure);
  CHECK_THAT(text, ContainsSubstring("mark=square*") && ContainsSubstring("mark=*") &&
                       ContainsSubstring("\\node[font=\\tiny, anchor=south west") &&
                       ContainsSubstring("node[pos=1, rotate=90") && ContainsSubstring("On the Pareto front:"));
}

// Claims about figures and the whole report.
#include "reports/report.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <regex>

#include "reports/exports/html.h"
#include "reports/figures/figures.h"
#include "reports/figures/gnuplot.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

ReportOptions options(const std::string& gnuplot = "gnuplot") {
  ReportOptions options;
  options.baseline_codec = "plain";
  options.gnuplot = gnuplot;
  return options;
}

bool any_contains(const std::vector<std::string>& texts, const std::string& part) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& t) { return t.find(part) != std::string::npos; });
}

const Figure& figure_of(const std::vector<Figure>& figures, const std::string& prefix) {
  for (const Figure& figure : figures) {
    if (figure.id.starts_with(prefix)) return figure;
  }
  throw ReportError("no figure " + prefix);
}

}  // namespace

TEST_CASE("a report says first what was in the way of its cases: other programs, unsteady cores, or both") {
  const ScratchFolder folder;
  RecordSet records = fixture("sweep.jsonl");
  const auto first_warning = [&] {
    return write_report(records, options("no-such-gnuplot"), folder.path).warnings.at(0);
  };
  CHECK_THAT(first_warning(), !ContainsSubstring("DISTURBED"));
  std::vector<CaseRecord*> timed;
  for (CaseRecord& record : records.cases)
    if (!record.time.samples_s.empty()) timed.push_back(&record);
  REQUIRE(timed.size() > 1);
  timed[0]->time.unsteady_samples = {0};
  const std::string all = std::to_string(records.cases.size());
  CHECK_THAT(first_warning(),
             ContainsSubstring("DISTURBED: unsteady cores were in the way of 1 of " + all + " cases."));
  timed[1]->time.disturbed_samples = {0};
  CHECK_THAT(first_warning(),
             ContainsSubstring("DISTURBED: other programs and unsteady cores were in the way of 2 of"));
}

TEST_CASE("batches are the x axis of figures of their own and never share another figure") {
  const ScratchFolder folder;
  RecordSet records = fixture("sweep.jsonl");
  std::vector<CaseRecord> batches;
  for (const CaseRecord& record : records.cases)
    for (const std::int64_t batch : {1, 4, 16}) {
      CaseRecord product = record;
      product.kernel.op = "matmul";
      product.kernel.batch = batch;
      batches.push_back(product);
    }
  const Contexts before(records, "plain");
  for (const Figure& figure : FigureMaker(records, before).all()) CHECK_FALSE(figure.id.starts_with("batch"));
  records.cases = batches;
  const Contexts contexts(records, "plain");
  const std::vector<Figure> figures = FigureMaker(records, contexts).all();
  const auto& macs = std::get<XyPlot>(figure_of(figures, "batch").plot);
  const auto& tokens = std::get<XyPlot>(figure_of(figures, "batch_tokens").plot);
  REQUIRE(!macs.series.empty());
  CHECK(macs.series.front().points.size() == 3);
  CHECK(macs.series.front().points.back().x == 16);
  CHECK(std::abs(macs.series.front().points[1].y / macs.series.front().points[0].y - 4) < 1e-9);  // the same times
  CHECK(std::abs(tokens.series.front().points[2].y / tokens.series.front().points[0].y - 16) < 1e-9);
  for (const Figure& figure : figures)
    if (figure.id.starts_with("pareto") || figure.id.starts_with("roofline"))
      CHECK(figure.subtitle.find("batch ") != std::string::npos);
}

TEST_CASE("without gnuplot the report is made, with scripts, data and a clear warning") {
  const ScratchFolder folder;
  const WrittenReport report = write_report(fixture("sweep.jsonl"), options("no-such-gnuplot"), folder.path);
  CHECK(any_contains(report.warnings, "\"no-such-gnuplot\" was not found"));
  for (const char* name : {"report.html", "results.md", "results.csv", "results.tex", "macros.tex"}) {
    INFO(name);
    CHECK(std::filesystem::file_size(folder.path / name) > 100);
  }
  for (const auto& file : report.files) CHECK(std::filesystem::exists(file));
  CHECK_THAT(file_text(folder.path / "report.html"), ContainsSubstring("not drawn"));
  bool script = false, svg = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path / "figures")) {
    script |= entry.path().extension() == ".gp";
    svg |= entry.path().extension() == ".svg";
  }
  CHECK(script);
  CHECK_FALSE(svg);
}

TEST_CASE("with gnuplot every figure is drawn as SVG and PDF") {
  const ScratchFolder folder;
  const WrittenReport report = write_report(fixture("sweep.jsonl"), options(), folder.path);
  if (any_contains(report.warnings, "was not found")) SKIP("gnuplot is not installed");
  CHECK_FALSE(any_contains(report.warnings, "could not draw"));
  std::size_t scripts = 0, svgs = 0, pdfs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path / "figures")) {
    scripts += entry.path().extension() == ".gp";
    svgs += entry.path().extension() == ".svg";
    pdfs += entry.path().extension() == ".pdf";
  }
  CHECK(scripts > 5);
  CHECK(svgs == scripts);
  CHECK(pdfs == scripts);
}

TEST_CASE("the page is self-contained, escapes what it shows and embeds the records as JSON") {
  const ScratchFolder folder;
  RecordSet records = fixture("sweep.jsonl");
  records.append(fixture("mixed.jsonl"));
  write_report(records, options(), folder.path);
  const std::string html = file_text(folder.path / "report.html");
  CHECK_FALSE(std::regex_search(html, std::regex("(src|href)\\s*=\\s*[\"']?(https?:)?//")));
  CHECK(html.find("http://") == std::string::npos);
  CHECK(html.find("https://") == std::string::npos);
  CHECK(html.find("<link") == std::string::npos);
  CHECK(html.find("@import") == std::string::npos);
  CHECK_THAT(html, ContainsSubstring("Is it &lt;faster&gt; &amp; smaller?"));
  CHECK(html.find("</script><b>") == std::string::npos);

  const std::string begin = "<script type=\"application/json\" id=\"records\">";
  const auto from = html.find(begin) + begin.size();
  const auto json = nlohmann::json::parse(html.substr(from, html.find("</script>", from) - from));
  CHECK(json.size() == records.cases.size() + records.runs.size() + records.bandwidths.size());
  CHECK(json[0]["config"]["text"].get<std::string>().find("</script><b>") != std::string::npos);
}

TEST_CASE("the answer comes first, then figures, failures, refusals folded, results, and the rest folded") {
  const ScratchFolder folder;
  const WrittenReport report = write_report(fixture("mixed.jsonl"), options("none"), folder.path);
  const std::string html = file_text(folder.path / "report.html"), markdown = file_text(folder.path / "results.md");
  std::size_t last = 0;
  for (const char* part : {"id=\"answer\"", "<figure id=", "id=\"failures\"", "<details id=\"refused\"",
                           "id=\"fastest_matvec_streamed\"", "<details id=\"kernels\"", "<details id=\"figures\"",
                           "<details id=\"glossary\"", "<details id=\"provenance-part\""}) {
    INFO(part);
    const std::size_t at = html.find(part);
    REQUIRE(at != std::string::npos);
    CHECK(at > last);
    last = at;
  }
  const std::size_t answer_at = markdown.find("**coder"), failures_at = markdown.find("### Failed cases");
  CHECK(answer_at < failures_at);
  CHECK(failures_at < markdown.find("### matvec, streamed"));
  CHECK(report.terminal_text.find("coder") < report.terminal_text.find("Failed cases"));
  CHECK(report.terminal_text.find("**") == std::string::npos);
  CHECK(any_contains(report.warnings, "incomplete"));
  CHECK_THAT(html, ContainsSubstring("the last line is incomplete"));
}

TEST_CASE("two figures lead, both of the case that the answer is about") {
  const ScratchFolder folder;
  const WrittenReport report = write_report(fixture("sweep.jsonl"), options("none"), folder.path);
  const std::string html = file_text(folder.path / "report.html");
  const std::string lead = html.substr(0, html.find("<details"));
  std::vector<std::string> figures;
  static const std::regex figure("<figure id=\"figure-([^\"]*)\"");
  for (std::sregex_iterator i(lead.begin(), lead.end(), figure), end; i != end; ++i) figures.push_back((*i)[1]);
  REQUIRE(figures.size() == 2);
  CHECK_THAT(figures[0], ContainsSubstring("pareto") && ContainsSubstring("2000_2000"));
  CHECK_THAT(figures[1], ContainsSubstring("throughput"));
}

TEST_CASE("records without a case are an error, not an empty report") {
  const ScratchFolder folder;
  CHECK_THROWS_AS(write_report(RecordSet{}, options(), folder.path), ReportError);
}

TEST_CASE("a case that was ok when tried again shows once, and the report says so") {
  RecordSet records = fixture("sweep.jsonl");
  CaseRecord failed = records.cases[0];
  failed.status = Status::timed_out;
  records.cases.insert(records.cases.begin(), failed);
  std::int64_t superseded = 0;
  CHECK(without_superseded(records, superseded).cases.size() == 12);
  CHECK(superseded == 1);
  std::swap(records.cases[0], records.cases[1]);  // failed after it was ok: stays
  CHECK(without_superseded(records, superseded).cases.size() == 13);
}

TEST_CASE("the Pareto front holds exactly the cases that no other beats in both") {
  const RecordSet records = fixture("mixed.jsonl");
  const Contexts contexts(records, "plain");
  const auto figures = FigureMaker(records, contexts).bits_against_speed();
  const XyPlot& plot = std::get<XyPlot>(figures.at(0).plot);
  const auto front =
      std::find_if(plot.series.begin(), plot.series.end(), [](const Series& s) { return s.label == "Pareto front"; });
  REQUIRE(front != plot.series.end());
  REQUIRE(front->points.size() == 1);  // coder: 5 bits at 2.5 G/s beats plain: 8 bits at 2 G/s
  CHECK(front->points[0].x == 5);
  REQUIRE(plot.vertical.size() == 2);
  CHECK(plot.vertical[0].at == 4.8);
  CHECK(plot.vertical[1].at == 8);
  CHECK(plot.horizontal.at(0).at == 2e9);
}

TEST_CASE("a sweep over sizes and sigmas has every kind of figure, with the values by hand") {
  const RecordSet records = fixture("sweep.jsonl");
  const Contexts contexts(records, "plain");
  const auto figures = FigureMaker(records, contexts).all();
  for (const char* kind : {"throughput", "pareto", "sigma", "map", "roofline", "break_even", "size", "overhead"}) {
    if (std::string(kind) == "overhead") continue;  // entropies of the fixture do not fit all bits
    CHECK_NOTHROW(figure_of(figures, kind));
  }
  const HeatMap& map = std::get<HeatMap>(figure_of(figures, "map_coder").plot);
  REQUIRE(map.values.size() == 2);
  CHECK(std::abs(map.values[0][0] - 1.25) < 1e-9);     // sigma 2: 0.8 of the time
  CHECK(std::abs(map.values[1][1] - 1 / 1.1) < 1e-9);  // sigma 4: 1.1 of it
  CHECK_THAT(gnuplot_script(figure_of(figures, "map_coder")),
             ContainsSubstring("linewidth 3 front"));  // the contour
  CHECK_THROWS_AS(figure_of(figures, "shapes"), ReportError);
}

TEST_CASE("streamed and resident cases are separate series of a throughput figure") {
  RecordSet records = fixture("sweep.jsonl");
  for (CaseRecord& record : records.cases) {
    if (record.data.rows == 1000) record.time.cache = "resident";
  }
  const Contexts contexts(records, "plain");
  const auto figures = FigureMaker(records, contexts).throughput_over_size();
  for (const Series& series : std::get<XyPlot>(figures.at(0).plot).series) CHECK(series.points.size() == 1);
}

TEST_CASE("a figure asked for by hand takes any metric or field and refuses unknown ones") {
  const RecordSet records = fixture("sweep.jsonl");
  const Contexts contexts(records, "plain");
  const FigureMaker maker(records, contexts);
  XySpec spec;
  spec.id = "mine";
  spec.x = "rows";
  spec.y = "bandwidth_fraction";
  spec.facets = {"sigma"};
  CHECK(maker.xy(spec).size() == 2);
  spec.y = "beauty";
  CHECK_THROWS_AS(maker.xy(spec), ReportError);
  spec.y = "elements_per_s";
  spec.facets = {"beauty"};
  CHECK_THROWS_AS(maker.xy(spec), ReportError);
}

TEST_CASE("figures of speed name their device, and have error bars where there are samples") {
  const RecordSet records = fixture("sweep.jsonl");
  const Contexts contexts(records, "plain");
  int with_bars = 0;
  for (const Figure& figure : FigureMaker(records, contexts).all()) {
    INFO(figure.id);
    if (!figure.id.starts_with("size") && !figure.id.starts_with("overhead"))
      CHECK_THAT(figure.subtitle, ContainsSubstring("cpu0"));
    const auto* plot = std::get_if<XyPlot>(&figure.plot);
    if (plot == nullptr || figure.id.starts_with("roofline")) continue;
    for (const Series& series : plot->series) {
      if (series.style == Series::Style::staircase) continue;
      for (const Point& point : series.points) {
        if (figure.id.starts_with("sigma")) continue;  // three samples have no 95 % interval
        CHECK(point.low <= point.y);
        CHECK(point.high >= point.y);
        ++with_bars;
      }
    }
  }
  CHECK(with_bars > 10);
}

TEST_CASE("texts cannot break out of a gnuplot script or the shell") {
  XyPlot plot;
  plot.x = {"say \"x\" \\", false, true, 0, 1, {{0.5, "half\nway"}}};
  plot.y = {"y", false, true, 0, 1, {}};
  plot.series.push_back({"l", "", 0, false, Series::Style::line, {{0, 0.5}, {1, 0.5}}});
  const std::vector<Figure> figures = {
      {"quote_test", "a \"title\"; `touch ran`\n!touch ran", "it's `touch ran`", "", plot}};
  const ScratchFolder folder;
  std::vector<std::string> warnings;
  const auto drawn = draw(figures, folder.path / "it's a folder", {}, warnings);
  if (any_contains(warnings, "was not found")) SKIP("gnuplot is not installed");
  CHECK(warnings.empty());
  CHECK(std::filesystem::exists(drawn.at(0).svg));
  CHECK_FALSE(std::filesystem::exists(folder.path / "it's a folder" / "ran"));
}

TEST_CASE("a line shows a codec's best settings at each x, not one that suits a single x") {
  // form=a of `coder` takes 0.8 of the time of form=b at sigma 2 and four times as long at sigma 4; it has a third
  // sigma.
  RecordSet records = fixture("sweep.jsonl");
  std::erase_if(records.cases, [](const CaseRecord& r) { return r.data.rows != 1000 || r.codec.id == "other"; });
  const std::vector<CaseRecord> before = records.cases;
  for (const CaseRecord& record : before) {
    if (record.data.sigma != 4) continue;
    CaseRecord third = record;
    third.data.sigma = 8;
    third.data.parameters["sigma"] = 8.0;
    third.data.hash = "third";
    records.cases.push_back(third);
  }
  std::vector<CaseRecord> slower;
  for (CaseRecord& record : records.cases) {
    if (record.codec.id != "coder") continue;
    CaseRecord other = record;
    record.codec.settings["form"] = std::string("a");
    other.codec.settings["form"] = std::string("b");
    if (record.data.sigma == 4) record.time.median_s *= 4;
    if (record.data.sigma == 2) other.time.median_s /= 0.8;
    if (record.data.sigma != 8) slower.push_back(other);
  }
  records.cases.insert(records.cases.end(), slower.begin(), slower.end());
  const Contexts contexts(records, "plain");
  const FigureMaker maker(records, contexts);
  const std::vector<Figure> figures = maker.speedup_over_sigma();
  const auto& plot = std::get<XyPlot>(figures.at(0).plot);
  REQUIRE(plot.series.size() == 1);
  const Series& line = plot.series[0];
  REQUIRE(line.points.size() == 3);
  CHECK(std::abs(line.points[0].y - 1.25) < 1e-9);     // sigma 2: form=a
  CHECK(std::abs(line.points[1].y - 1 / 1.1) < 1e-9);  // sigma 4: form=b, four times the other
  CHECK(line.label == "coder");                        // neither setting is all of the line
  CHECK_THAT(line.detail, ContainsSubstring("best settings at each point"));

  XySpec spec;
  spec.id = "by_form";
  spec.x = "sigma";
  spec.y = "speedup_vs_raw";
  spec.series = "setting.form";
  const std::vector<Figure> forms = maker.xy(spec);
  const auto& by_form = std::get<XyPlot>(forms.at(0).plot);
  REQUIRE(by_form.series.size() == 2);
  CHECK(by_form.series[0].label == "coder form=a");
  CHECK(by_form.series[0].points.size() == 3);
  CHECK(std::abs(by_form.series[0].points[1].y - 1 / 4.4) < 1e-9);
  CHECK(by_form.series[1].label == "coder form=b");
  CHECK(by_form.series[1].points.size() == 2);
}

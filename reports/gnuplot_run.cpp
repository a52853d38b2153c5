// Data files of figures, and the running of gnuplot on them: an external program, so that its absence costs
// figures and nothing else.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

#include "reports/gnuplot.h"

namespace ecmv::reports {
namespace {

struct DataWriter {
  std::string operator()(const XyPlot& plot) const {
    std::string text = "# x y low high, one block a series\n";
    for (const Series& series : plot.series) {
      text += fmt::format("# {} {}\n", series.label, series.detail);
      for (const Point& p : series.points) {
        const bool spread = std::isfinite(p.low) && std::isfinite(p.high);
        text += fmt::format("{} {} {} {}\n", p.x, p.y, spread ? p.low : p.y, spread ? p.high : p.y);
      }
      text += "\n\n";
    }
    return text;
  }
  std::string operator()(const BarPlot& plot) const {
    std::string text = "# middle y x_from x_to y_from y_to color, one block a part\n";
    const std::size_t parts = std::max<std::size_t>(1, plot.part_names.size());
    for (std::size_t part = 0; part < parts; ++part) {
      if (part < plot.part_names.size()) text += fmt::format("# {}\n", plot.part_names[part]);
      for (std::size_t i = 0; i < plot.bars.size(); ++i) {
        const auto& values = plot.bars[i].parts;
        const double from = std::accumulate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(part), 0.0,
                                            [](double sum, double value) { return sum + std::max(value, 0.0); });
        const double start = values[part] < 0 ? 0 : from;  // negative parts hang to the left of zero
        const double y = static_cast<double>(i);
        const std::string color = color_text(parts == 1 ? plot.bars[i].color : static_cast<int>(part));
        text += fmt::format("{} {} {} {} {} {} {} # {}\n", start + values[part] / 2, y, start, from + values[part],
                            y - 0.36, y + 0.36, std::stol(color.substr(1), nullptr, 16), plot.bars[i].label);
      }
      text += "\n\n";
    }
    return text;
  }
  std::string operator()(const HeatMap& plot) const {
    std::string text = "# column row value\n";
    for (std::size_t y = 0; y < plot.values.size(); ++y) {
      for (std::size_t x = 0; x < plot.values[y].size(); ++x)
        text += fmt::format("{} {} {}\n", x, y, plot.values[y][x]);
      text += "\n";
    }
    return text;
  }
};

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw ReportError(fmt::format("cannot write {}", path.string()));
}

bool can_run(const std::string& program) {
  if (program.empty()) return false;
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string shell_quoted(const std::string& text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// Runs a command, returns its exit status and what it printed.
std::pair<int, std::string> run(const std::string& command) {
  std::string output;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return {-1, "no shell"};
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  return {::pclose(pipe), output};
}

}  // namespace

std::string gnuplot_data(const Figure& figure) { return std::visit(DataWriter{}, figure.plot); }

std::vector<DrawnFigure> draw(const std::vector<Figure>& figures, const std::filesystem::path& directory,
                              const std::string& program, std::vector<std::string>& warnings) {
  std::filesystem::create_directories(directory);
  const bool can_draw = can_run(program);
  if (!can_draw && !figures.empty()) {
    warnings.push_back(
        fmt::format("the program \"{}\" was not found, so the figures were not drawn; install it (Debian and "
                    "Ubuntu: apt-get install "
                    "gnuplot-nox) and run the report again, or draw the .gp files in {} elsewhere",
                    program, directory.string()));
  }
  std::vector<DrawnFigure> drawn;
  for (const Figure& figure : figures) {
    write_file(directory / (figure.id + ".dat"), gnuplot_data(figure));
    write_file(directory / (figure.id + ".gp"), gnuplot_script(figure));
    DrawnFigure& result = drawn.emplace_back(DrawnFigure{&figure, {}, {}});
    if (!can_draw) continue;
    for (const char* format : {"svg", "pdf"}) {
      const std::filesystem::path file = directory / fmt::format("{}.{}", figure.id, format);
      std::filesystem::remove(file);
      const auto [status, output] =
          run(fmt::format("cd {} && {} -e {} {}", shell_quoted(directory.string()), shell_quoted(program),
                          shell_quoted(fmt::format("format=\"{}\"", format)), shell_quoted(figure.id + ".gp")));
      std::error_code missing;
      if (status != 0 || std::filesystem::file_size(file, missing) == 0 || missing) {
        warnings.push_back(fmt::format("gnuplot could not draw {}.{}: {}", figure.id, format, output));
      } else {
        (std::string_view(format) == "svg" ? result.svg : result.pdf) = file;
      }
    }
  }
  return drawn;
}

}  // namespace ecmv::reports

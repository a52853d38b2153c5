// Data files of figures, and runs of gnuplot on them. gnuplot is an external program, so its absence costs only
// figures.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>

#include "reports/fields.h"
#include "reports/figures/gnuplot.h"

namespace ecmv::reports {
namespace {

struct DataWriter {
  std::string operator()(const XyPlot& plot) const {
    std::string text = "# x y low high, one block a series\n";
    for (const Series& series : plot.series) {
      text += fmt::format("# {} {}\n", one_line(series.label), one_line(series.detail));
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
      if (part < plot.part_names.size()) text += fmt::format("# {}\n", one_line(plot.part_names[part]));
      for (std::size_t i = 0; i < plot.bars.size(); ++i) {
        const auto& values = plot.bars[i].parts;
        const double from = std::accumulate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(part), 0.0,
                                            [](double sum, double value) { return sum + std::max(value, 0.0); });
        const double start = values[part] < 0 ? 0 : from;  // negative parts extend to the left of zero
        const double y = static_cast<double>(i);
        const std::string color = color_text(parts == 1 ? plot.bars[i].color : static_cast<int>(part));
        text += fmt::format("{} {} {} {} {} {} {} # {}\n", start + values[part] / 2, y, start, from + values[part],
                            y + 0.02, y + 0.4, std::stol(color.substr(1), nullptr, 16), one_line(plot.bars[i].label));
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

struct Ended {
  bool in_time = true;
  int status = -1;  // as waitpid gives it
  std::string output;
};

std::int64_t milliseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Executes the program in `directory`, in a process group of its own, with both outputs going to `pipe`.
[[noreturn]] void become(const char* directory, char* const* words, int pipe) {
  ::setpgid(0, 0);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0 && ::dup2(nothing, STDIN_FILENO) >= 0 && ::dup2(pipe, STDOUT_FILENO) >= 0 &&
      ::dup2(pipe, STDERR_FILENO) >= 0 && ::chdir(directory) == 0)
    ::execvp(words[0], words);
  ::_exit(127);
}

// Runs a program and keeps the beginning of its output. If it takes too long, it is killed with all that it started.
Ended run(const std::string& directory, std::vector<std::string> words, int seconds) {
  constexpr std::size_t kKept = 4096;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {true, -1, std::strerror(errno)};
  const pid_t child = ::fork();
  if (child == 0) become(directory.c_str(), arguments.data(), ends[1]);
  ::close(ends[1]);
  Ended ended;
  if (child < 0) ended.output = std::strerror(errno);
  const std::int64_t deadline = milliseconds_now() + std::int64_t{seconds} * 1000;
  for (std::array<char, 4096> buffer; child > 0;) {
    const std::int64_t left = deadline - milliseconds_now();
    pollfd output{ends[0], POLLIN, 0};
    const int ready = left > 0 ? ::poll(&output, 1, static_cast<int>(std::min<std::int64_t>(left, 1000))) : 0;
    ended.in_time = left > 0;
    if (!ended.in_time) break;
    if (ready <= 0) continue;
    const ssize_t got = ::read(ends[0], buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;  // the last writer has ended
    ended.output.append(buffer.data(),
                        std::min<std::size_t>(static_cast<std::size_t>(got), kKept - ended.output.size()));
  }
  ::close(ends[0]);
  if (child < 0) return ended;
  // A program that has closed its outputs may still run; it gets the rest of its time.
  while (ended.in_time && ::waitpid(child, &ended.status, WNOHANG) == 0) {
    ended.in_time = milliseconds_now() < deadline;
    ::poll(nullptr, 0, 10);
  }
  if (!ended.in_time) {
    ::kill(-child, SIGKILL);
    while (::waitpid(child, &ended.status, 0) < 0 && errno == EINTR) {
    }
  }
  return ended;
}

}  // namespace

std::string gnuplot_data(const Figure& figure) { return std::visit(DataWriter{}, figure.plot); }

std::vector<DrawnFigure> draw(const std::vector<Figure>& figures, const std::filesystem::path& directory,
                              const Gnuplot& gnuplot, std::vector<std::string>& warnings) {
  std::filesystem::create_directories(directory);
  const std::string& program = gnuplot.program;
  bool can_draw = can_run(program);
  // The program runs in another folder.
  const std::string from_there =
      program.find('/') == std::string::npos ? program : std::filesystem::absolute(program).string();
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
      if (!can_draw) break;
      const Ended ended =
          run(directory.string(), {from_there, "-e", fmt::format("format=\"{}\"", format), figure.id + ".gp"},
              gnuplot.seconds);
      if (!ended.in_time) {
        can_draw = false;
        warnings.push_back(fmt::format(
            "gnuplot had not drawn {}.{} after {} s and was ended; this and the figures after it are not drawn",
            figure.id, format, gnuplot.seconds));
        break;
      }
      std::error_code missing;
      if (ended.status != 0 || std::filesystem::file_size(file, missing) == 0 || missing) {
        warnings.push_back(fmt::format("gnuplot could not draw {}.{}: {}", figure.id, format, one_line(ended.output)));
      } else {
        (std::string_view(format) == "svg" ? result.svg : result.pdf) = file;
      }
    }
  }
  return drawn;
}

}  // namespace ecmv::reports

// Texts, axes and headings of scripts.
#include "reports/figures/gnuplot_canvas.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "reports/fields.h"
#include "reports/figures/placement.h"

namespace ecmv::reports::gnuplot {

// gnuplot runs text in back quotes, even within double quotes; a newline would end a comment, and a NUL ends a text.
std::string harmless(const std::string& text) {
  std::string line = one_line(text);
  std::replace(line.begin(), line.end(), '`', '\'');
  return line;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : harmless(text)) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string quoted_tick(const std::string& text) {
  std::string format;
  for (char c : text) format.append(c == '%' ? 2 : 1, c);
  return quoted(std::as_const(format));
}

std::string shortened(const std::string& text, std::size_t most) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;
    if (++count > most) return text.substr(0, i) + "…";
  }
  return text;
}

double place(const PlotAxis& axis, double value) {
  return axis.log ? std::log(value / axis.min) / std::log(axis.max / axis.min)
                  : (value - axis.min) / (axis.max - axis.min);
}

namespace {

// A tick whose text would run into the one before gets no text. room() is the extent of a text of that many pixels
// along the axis, `length` that of the axis.
std::string ticks_text(const PlotAxis& axis, double length, double (*room)(const std::string&)) {
  std::string list;
  double end = -INFINITY;
  for (const Tick& tick : axis.ticks) {
    const double middle = place(axis, tick.at) * length, half = room(tick.text) / 2;
    const bool fits = axis.categories || middle - half > end;
    if (fits) end = middle + half;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", fits ? quoted_tick(tick.text) : "\"\"", tick.at);
  }
  return list;
}

}  // namespace

double width_and_gap(const std::string& text) { return text_width(text, kBase) + 7; }
static double line_height(const std::string&) { return kBase + 2; }

void set_axis(std::string& script, char name, const PlotAxis& axis, const Canvas& canvas) {
  const bool is_x = name == 'x';
  script += fmt::format("set {0}range [{1}:{2}]\nset {0}tics ({3})\n", name, axis.min, axis.max,
                        is_x ? ticks_text(axis, canvas.plot_width(), width_and_gap)
                             : ticks_text(axis, canvas.plot_height(), line_height));
  if (is_x) script += fmt::format("set xlabel {} textcolor rgb \"{}\" offset 0,0.2\n", quoted(axis.label), kInkColor);
  if (axis.log) script += fmt::format("set logscale {}\n", name);
}

void set_text(std::string& script, const std::string& text, const std::string& at, std::string_view color, int size,
              const char* more) {
  script +=
      fmt::format("set label {} at {} textcolor rgb \"{}\" font font{} {}\n", quoted(text), at, color, size, more);
}

namespace {

constexpr double kSubtitleLine = 17;

std::vector<std::string> subtitle_lines(const Figure& figure, const Canvas& canvas) {
  std::string text = harmless(figure.subtitle);  // a dot stays with the word before it
  for (std::size_t at = text.find(" · "); at != std::string::npos; at = text.find(" · ", at + 1))
    text.replace(at, 1, "\u00a0");
  return wrapped(text, kSmall, canvas.width - 28);
}

}  // namespace

double heading_height(const Figure& figure, const Canvas& canvas) {
  return 30 + kSubtitleLine * static_cast<double>(subtitle_lines(figure, canvas).size());
}

std::string begin(const Figure& figure, const Canvas& canvas) {
  std::string script = fmt::format(
      "# {0}. {1}\n# Draws {2}.dat; run gnuplot in this folder.\n"
      "if (!exists(\"format\")) format = \"svg\"\n"
      "if (format eq \"svg\") {{\n"
      "  set terminal svg size {3:.0f},{4:.0f} fixed noenhanced font \"Helvetica,{14}\" background "
      "\"#ffffff\"\n"
      "}} else {{\n"
      "  set terminal pdfcairo size {5}in,{6}in noenhanced font \"Helvetica,9.8\"\n}}\n"
      "pt = (format eq \"svg\") ? 1.0 : 0.72\n"
      "font0 = (format eq \"svg\") ? \",{15}\" : \",11.5\"\nfont1 = (format eq \"svg\") ? \",{14}\" : \",9.8\"\n"
      "font2 = (format eq \"svg\") ? \",{16}\" : \",9.1\"\n"
      "set output \"{2}.\".format\nset encoding utf8\nunset key\n"
      "set lmargin at screen {7:.4f}\nset rmargin at screen {8:.4f}\nset tmargin at screen {9:.4f}\nset "
      "bmargin at screen {10:.4f}\n"
      "set border 3 linecolor rgb \"{11}\"\nset tics nomirror scale 0.5 textcolor rgb \"{12}\"\n"
      "set grid xtics ytics linecolor rgb \"{13}\" linewidth 0.6 linetype 1\n",
      harmless(figure.title), harmless(figure.subtitle), figure.id, canvas.width, canvas.height, canvas.width / 100,
      canvas.height / 100, canvas.left / canvas.width, 1 - canvas.right / canvas.width, 1 - canvas.top / canvas.height,
      canvas.bottom / canvas.height, kQuietColor, kInkColor, kGridColor, kBase, kTitle, kSmall);
  set_text(script, shortened(figure.title, 54), canvas.at(14, 18), kInkColor, 0);
  double y = 38;
  for (const std::string& line : subtitle_lines(figure, canvas)) {
    set_text(script, line, canvas.at(14, y), kQuietColor, 2);
    y += kSubtitleLine;
  }
  return script;
}

}  // namespace ecmv::reports::gnuplot

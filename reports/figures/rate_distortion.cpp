// Stored bits against distortion: one point a codec and quantiser.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "reports/fields.h"
#include "reports/figures/figures.h"

namespace ecmv::reports {
namespace {

constexpr double kDecibelsOfBit = 6.020599913279624;  // 20 log10 2

std::string quantiser_and_codec(const CaseRecord& r) {
  const std::string quantiser = quantiser_label(r);
  return quantiser.empty() ? codec_label(r) : quantiser + " · " + codec_label(r);
}

// At a given distance every code of independent Gaussian weights needs at least these bits.
Series gaussian_bound(const PlotAxis& bits, double most_decibels) {
  const double first = std::max(bits.min, 0.0), last = std::min(bits.max, most_decibels / kDecibelsOfBit);
  return {"Gaussian bound",
          "6.02 dB a bit",
          kInk,
          false,
          Series::Style::dashes,
          {{first, first * kDecibelsOfBit}, {last, last * kDecibelsOfBit}}};
}

// The case with the fewest bits for each codec, quantiser and distance, since settings that do not suit a quantiser
// need many.
std::vector<const CaseRecord*> smallest_of_each(const std::vector<const CaseRecord*>& cases) {
  std::map<std::string, const CaseRecord*> smallest;
  for (const CaseRecord* record : cases) {
    const CaseRecord*& best =
        smallest[fmt::format("{}|{}|{:.6f}", record->codec.id, quantiser_label(*record), record->distortion.snr_db)];
    if (best == nullptr || record->size.stored_bytes < best->size.stored_bytes) best = record;
  }
  std::vector<const CaseRecord*> list;
  for (const auto& [key, record] : smallest) list.push_back(record);
  return list;
}

}  // namespace

std::vector<Figure> FigureMaker::rate_distortion() const {
  std::vector<Figure> figures;
  Cases lossy = ok_cases();
  std::erase_if(lossy, [](const CaseRecord* r) { return !std::isfinite(r->distortion.snr_db); });
  for (const Facet& facet :
       facets("rate_distortion", lossy, {"op", "batch", "activations", "weights", "cache", "device", "threads"})) {
    std::vector<std::pair<Point, const CaseRecord*>> points;
    std::set<std::string> distances;
    double bits_min = INFINITY, bits_max = 0, snr_min = INFINITY, snr_max = -INFINITY;
    for (const CaseRecord* record : smallest_of_each(facet.cases)) {
      const Point point{number(*record, "bits_per_element"), record->distortion.snr_db};
      if (!std::isfinite(point.x)) continue;
      points.emplace_back(point, record);
      distances.insert(fmt::format("{:.6f}", point.y));
      bits_min = std::min(bits_min, point.x), bits_max = std::max(bits_max, point.x);
      snr_min = std::min(snr_min, point.y), snr_max = std::max(snr_max, point.y);
    }
    if (distances.size() < 2) continue;
    std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first.x, -a.first.y) < std::pair(b.first.x, -b.first.y);
    });
    XyPlot plot;
    plot.x = {"stored bits per element, everything counted", false, false, 0, 1, {}};
    plot.y = {"signal to noise, dB", false, false, 0, 1, {}};
    choose_ticks(plot.x, bits_min, bits_max);
    choose_ticks(plot.y, snr_min, snr_max);
    Series front{"front", "nothing with fewer bits is as near", kInk, false, Series::Style::staircase, {}};
    plot.legend_notes.push_back("On the front:");
    std::map<std::string, Series> by_codec;
    double best = -INFINITY;
    for (auto& [point, record] : points) {
      if (point.y > best) {
        best = point.y;
        point.letter = std::string(1, static_cast<char>('a' + front.points.size() % 26));
        front.points.push_back({point.x, point.y});
        plot.legend_notes.push_back(fmt::format("{}  {}", point.letter, quantiser_and_codec(*record)));
      }
      Series& series = by_codec[record->codec.id];
      series.label = record->codec.id;
      series.color = color(*record);
      series.style = Series::Style::points;
      series.points.push_back(point);
    }
    plot.series = {std::move(front), gaussian_bound(plot.x, plot.y.max)};
    for (auto& [codec, series] : by_codec) {
      series.detail = series.points.size() > 1 ? fmt::format("{} quantisers", series.points.size()) : "";
      plot.series.push_back(std::move(series));
    }
    figures.push_back({facet.id, "Signal to noise against stored bits", facet.subtitle,
                       "Each point is one quantiser and codec with its smallest settings, scales included. Better is "
                       "up and left. Left of the dashed "
                       "line no code of independent Gaussian weights can be; other weights can.",
                       std::move(plot), facet.cases});
  }
  return figures;
}

}  // namespace ecmv::reports

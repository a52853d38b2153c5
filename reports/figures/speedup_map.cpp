// Maps of speed-up, a figure for each codec: over size and σ, and over shape and tokens.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "reports/fields.h"
#include "reports/figures/figures.h"

namespace ecmv::reports {

std::vector<Figure> FigureMaker::speedup_map() const {
  std::vector<Figure> figures;
  Cases cases = ok_cases();
  std::erase_if(cases, [&](const CaseRecord* r) { return contexts_.is_baseline(*r) || !is_square(*r); });
  for (const Facet& facet :
       facets("map", cases,
              {"codec", "op", "batch", "activations", "data_source", "backend", "device", "threads", "cache"})) {
    const Cases chosen = best_at_each(facet.cases, "speedup_vs_raw", [](const CaseRecord& r) {
      return fmt::format("{} {}", r.data.sigma, dimension_of(r));
    });
    if (chosen.empty()) continue;
    const Names names = names_of(chosen, "in each cell");
    std::set<double> sigmas, sizes;
    for (const CaseRecord* record : chosen) {
      if (std::isfinite(record->data.sigma)) sigmas.insert(record->data.sigma), sizes.insert(dimension_of(*record));
    }
    if (sigmas.size() < 2 || sizes.size() < 2) continue;
    HeatMap map{"rows and columns of a matrix", "σ of the elements", {}, {}, {}, 1, "speed-up over raw"};
    for (double size : sizes) map.x_names.push_back(fmt::format("{:.6g}", size));
    for (double sigma : sigmas) map.y_names.push_back(fmt::format("{:.4g}", sigma));
    map.values.assign(sigmas.size(), std::vector<double>(sizes.size(), kUnknown));
    for (const CaseRecord* record : chosen) {
      if (!std::isfinite(record->data.sigma)) continue;
      const auto y = static_cast<std::size_t>(std::distance(sigmas.begin(), sigmas.find(record->data.sigma)));
      const auto x = static_cast<std::size_t>(std::distance(sizes.begin(), sizes.find(dimension_of(*record))));
      map.values[y][x] = number(*record, "speedup_vs_raw");
      map.marks[{y, x}] = mark_of(*record, "speedup_vs_raw");
    }
    figures.push_back({facet.id, "Speed-up over raw: size and σ",
                       fmt::format("{} · {} · {} · {}", names.label, names.detail, facet.cases.front()->time.cache,
                                   device_label(*facet.cases.front())),
                       "The thick line parts what is faster than uncompressed from what is slower.", std::move(map),
                       facet.cases});
  }
  return figures;
}

std::vector<Figure> FigureMaker::tokens_map() const {
  std::vector<Figure> figures;
  Cases cases = ok_cases();
  std::erase_if(cases, [&](const CaseRecord* r) { return contexts_.is_baseline(*r) || !has_tokens(*r); });
  const auto shape_of = [](const CaseRecord& r) { return fmt::format("{} × {}", r.data.rows, r.data.cols); };
  for (const Facet& facet :
       facets("tokens_map", cases,
              {"codec", "settings", "op", "activations", "data_source", "type", "backend", "device", "threads"})) {
    const Cases chosen = best_at_each(facet.cases, "speedup_vs_raw", [&](const CaseRecord& r) {
      return fmt::format("{} {}", r.kernel.batch, shape_of(r));
    });
    std::map<std::pair<std::int64_t, std::string>, std::size_t> shapes;  // the largest matrices last
    std::map<std::int64_t, std::size_t> batches;
    for (const CaseRecord* r : chosen)
      shapes[{r->data.rows * r->data.cols, shape_of(*r)}] = 0, batches[r->kernel.batch] = 0;
    if (shapes.size() < 3 || batches.size() < 2) continue;
    HeatMap map{"tokens", "rows × columns", {}, {}, {}, 1, "speed-up over raw"};
    for (auto& [batch, place] : batches) place = map.x_names.size(), map.x_names.push_back(fmt::format("{}", batch));
    for (auto& [shape, place] : shapes) place = map.y_names.size(), map.y_names.push_back(shape.second);
    map.values.assign(shapes.size(), std::vector<double>(batches.size(), kUnknown));
    for (const CaseRecord* r : chosen) {
      const std::size_t y = shapes.at({r->data.rows * r->data.cols, shape_of(*r)}), x = batches.at(r->kernel.batch);
      map.values[y][x] = number(*r, "speedup_vs_raw");
      map.marks[{y, x}] = mark_of(*r, "speedup_vs_raw");
    }
    const Names names = names_of(chosen, "in each cell");
    figures.push_back({facet.id, "Speed-up over raw: shape and tokens",
                       fmt::format("{} · {} · {}", names.label, names.detail, device_label(*facet.cases.front())),
                       "The thick line parts what is faster than uncompressed from what is slower.", std::move(map),
                       facet.cases});
  }
  return figures;
}

}  // namespace ecmv::reports

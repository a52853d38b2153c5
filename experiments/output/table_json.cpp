// See table_json.h.
#include "experiments/output/table_json.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace ecmv::experiments {

nlohmann::ordered_json table_json(const reports::Table& table) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (size_t i = 0; i < row.size(); ++i) {
      auto& field = object[table.columns[i].id];
      if (const auto* integer = std::get_if<int64_t>(&row[i].value))
        field = *integer;
      else if (const auto* number = std::get_if<double>(&row[i].value))
        field = std::isfinite(*number) ? nlohmann::ordered_json(*number) : nlohmann::ordered_json(nullptr);
      else if (const auto* text = std::get_if<std::string>(&row[i].value))
        field = *text;
      else
        field = nullptr;
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ecmv::experiments

// A table as JSON: a list of objects, one a row, with the values and not the rounded texts.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "reports/tables/table.h"

namespace ecmv::experiments {

nlohmann::ordered_json table_json(const reports::Table& table);

// Replaces bytes that are not UTF-8 instead of failing.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace ecmv::experiments

// A table as JSON: a list of objects, one a row, the values and not the rounded texts.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "reports/tables/table.h"

namespace ecmv::experiments {

nlohmann::ordered_json table_json(const reports::Table& table);

// As it is written: names that are not UTF-8 must not fail it.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace ecmv::experiments

// A table as JSON: a list of objects, one a row, the values and not the rounded texts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "reports/table.h"

namespace ecmv::experiments {

nlohmann::ordered_json table_json(const reports::Table& table);

}  // namespace ecmv::experiments

// The record of a run: which machine and which build made the records of its cases.
#pragma once

#include <string>
#include <vector>

#include "experiments/config/case.h"
#include "reports/record.h"

namespace ecmv::experiments {

// Machine, build and configuration, with a new run id.
reports::RunRecord make_run_record(const Experiment& experiment, const std::vector<std::string>& arguments);

}  // namespace ecmv::experiments

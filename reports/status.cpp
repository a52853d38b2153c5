// How a case may end, in words.
#include <fmt/ranges.h>

#include <array>

#include "reports/record.h"

namespace ecmv::reports {
namespace {

constexpr std::array kStatuses = {Status::ok,    Status::incorrect, Status::refused,      Status::unavailable,
                                  Status::error, Status::timed_out, Status::out_of_memory};
constexpr std::array<std::string_view, 7> kStatusNames = {"ok",    "incorrect", "refused",      "unavailable",
                                                          "error", "timed_out", "out_of_memory"};

}  // namespace

std::span<const Status> all_statuses() { return kStatuses; }

std::string_view to_string(Status status) { return kStatusNames.at(static_cast<std::size_t>(status)); }

Status parse_status(std::string_view text) {
  for (Status status : kStatuses)
    if (to_string(status) == text) return status;
  throw ReportError(fmt::format("\"{}\" is not a status; the words are {}", text, fmt::join(kStatusNames, ", ")));
}

}  // namespace ecmv::reports

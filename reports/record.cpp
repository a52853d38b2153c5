// Converts records to one line of JSON and back. The reader ignores unknown fields, so files of older and newer builds
// merge.
#include "reports/record.h"

#include <fmt/format.h>

#include "reports/plausible.h"
#include "reports/record_fields.h"
#include "reports/record_json.h"

namespace ecmv::reports {
namespace {

CaseRecord case_from(const Json& json) {
  CaseRecord record;
  FieldReader reader(json);
  if (json.value("status", Json()).is_null()) parse_status("");  // throws
  visit_case(reader, record);
  if (record.ranks.count > 1 && record.ranks.split.empty()) record.ranks.split = "rows";  // an older record
  expect_plausible(record);
  return record;
}

RunRecord run_from(const Json& json) {
  RunRecord record;
  FieldReader reader(json);
  visit_run(reader, record);
  return record;
}

BandwidthRecord bandwidth_from(const Json& json) {
  BandwidthRecord record;
  FieldReader reader(json);
  visit_bandwidth(reader, record);
  return record;
}

Json head(const char* kind) { return Json{{"schema", kRecordSchema}, {"kind", kind}}; }

}  // namespace

std::string to_string(const Value& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

std::string to_json_line(const CaseRecord& record) {
  Json json = head("case");
  FieldWriter writer(json);
  visit_case(writer, record);
  return dump(json);
}

std::string to_json_line(const RunRecord& record) {
  Json json = head("run");
  FieldWriter writer(json);
  visit_run(writer, record);
  return dump(json);
}

std::string to_json_line(const BandwidthRecord& record) {
  Json json = head("bandwidth");
  FieldWriter writer(json);
  visit_bandwidth(writer, record);
  return dump(json);
}

AnyRecord parse_record(std::string_view line) {
  expect_shallow(line);
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) return Incomplete{};
  if (!json.is_object()) throw ReportError("a record must be a JSON object");
  int schema = 0;
  std::string kind;
  FieldReader reader(json);
  reader.field("schema", schema);
  reader.field("kind", kind);
  if (schema > kRecordSchema)
    throw NewerSchema(fmt::format("schema {} is newer than this build's {}", schema, kRecordSchema));
  if (kind == "case") return case_from(json);
  if (kind == "run") return run_from(json);
  if (kind == "bandwidth") return bandwidth_from(json);
  if (kind.empty()) throw ReportError("the record has no \"kind\"");
  return UnknownKind{kind};
}

}  // namespace ecmv::reports

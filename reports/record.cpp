// Records <-> one line of JSON. The writer knows every field; the reader takes what it knows and leaves the rest, so files
// of older and newer builds merge. Doubles that are not finite become null and come back as NaN.
#include "reports/record.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "reports/fields.h"
#include "reports/plausible.h"
#include "reports/record_json.h"

namespace ecmv::reports {
namespace {

CaseRecord::Blocks blocks_from(const Json& json) {
  if (!json.is_object()) throw ReportError("an entry of \"blocks\" is not an object");
  CaseRecord::Blocks blocks;
  take(json, "accounting", blocks.accounting);
  take(json, "block_bytes", blocks.block_bytes);
  take(json, "blocks", blocks.blocks);
  take(json, "bits", blocks.bits);
  take(json, "side_bits", blocks.side_bits);
  take(json, "link_bytes", blocks.link_bytes);
  take(json, "raw_link_bytes", blocks.raw_link_bytes);
  return blocks;
}

CaseRecord::Step::Part step_part_from(const Json& json) {
  if (!json.is_object()) throw ReportError("an entry of \"parts\" is not an object");
  CaseRecord::Step::Part part;
  take(json, "kind", part.kind);
  take(json, "codec", part.codec);
  take(json, "kernel", part.kernel);
  take(json, "layers", part.layers);
  take(json, "rows", part.rows);
  take(json, "cols", part.cols);
  take(json, "stored_bytes", part.stored_bytes);
  take(json, "layer_s", part.layer_s);
  return part;
}

Json to_json(const CaseRecord::Step& step) {
  Json parts = Json::array();
  for (const CaseRecord::Step::Part& part : step.parts)
    parts.push_back({{"kind", part.kind},
                     {"codec", part.codec},
                     {"kernel", part.kernel},
                     {"layers", part.layers},
                     {"rows", part.rows},
                     {"cols", part.cols},
                     {"stored_bytes", part.stored_bytes},
                     {"layer_s", number(part.layer_s)}});
  return {{"blocks", step.blocks}, {"encoded_blocks", step.encoded_blocks}, {"parts", parts}};
}

CaseRecord case_from(const Json& json) {
  CaseRecord record;
  std::string status;
  take(json, "status", status);
  record.status = parse_status(status);
  take(json, "reason", record.reason);
  take(json, "case", record.case_key);
  take(json, "run", record.run);
  take(json, "experiment", record.experiment);

  const Json& data = part(json, "data");
  take(data, "source", record.data.source);
  take(data, "rows", record.data.rows);
  take(data, "cols", record.data.cols);
  if (const auto list = data.find("shapes"); list != data.end()) {
    if (!list->is_array()) throw ReportError("the field \"shapes\" is not a list");
    for (const Json& entry : *list) {
      CaseRecord::Data::Shape& shape = record.data.shapes.emplace_back();
      take(entry, "rows", shape.rows);
      take(entry, "cols", shape.cols);
      take(entry, "layers", shape.layers);
    }
  }
  take(data, "type", record.data.type);
  take(data, "sigma", record.data.sigma);
  take(data, "layers", record.data.layers);
  take(data, "seed", record.data.seed);
  take(data, "hash", record.data.hash);
  take(data, "parameters", record.data.parameters);

  const Json& codec = part(json, "codec");
  take(codec, "id", record.codec.id);
  take(codec, "format_version", record.codec.format_version);
  take(codec, "settings", record.codec.settings);
  const Json& library = part(codec, "library");
  take(library, "path", record.codec.library_path);
  take(library, "hash", record.codec.library_hash);
  if (const auto names = codec.find("non_default"); names != codec.end() && !names->is_null())
    take(codec, "non_default", record.codec.non_default.emplace());

  const Json& size = part(json, "size");
  take(size, "stored_bytes", record.size.stored_bytes);
  const Json& by_role = part(size, "by_role");
  take(by_role, "payload", record.size.payload_bytes);
  take(by_role, "table", record.size.table_bytes);
  take(by_role, "index", record.size.index_bytes);
  take(by_role, "scale", record.size.scale_bytes);
  take(size, "padding_bits", record.size.padding_bits);
  take(size, "bits_per_element", record.size.bits_per_element);
  take(size, "entropy_bits_per_element", record.size.entropy_bits_per_element);
  take(size, "ideal_bits_per_element", record.size.ideal_bits_per_element);
  take(part(json, "distortion"), "snr_db", record.distortion.snr_db);
  take(part(json, "distortion"), "largest_error", record.distortion.largest_error);

  if (const auto list = json.find("blocks"); list != json.end()) {
    if (!list->is_array()) throw ReportError("the field \"blocks\" is not a list");
    for (const Json& entry : *list) record.blocks.push_back(blocks_from(entry));
  }

  const Json& step = part(json, "step");
  take(step, "blocks", record.step.blocks);
  take(step, "encoded_blocks", record.step.encoded_blocks);
  if (const auto list = step.find("parts"); list != step.end()) {
    if (!list->is_array()) throw ReportError("the field \"parts\" is not a list");
    for (const Json& entry : *list) record.step.parts.push_back(step_part_from(entry));
  }

  const Json& kernel = part(json, "kernel");
  take(kernel, "backend", record.kernel.backend);
  take(kernel, "op", record.kernel.op);
  take(kernel, "variant", record.kernel.variant);
  take(kernel, "tuning", record.kernel.tuning);
  take(kernel, "simd_target", record.kernel.simd_target);
  take(kernel, "threads", record.kernel.threads);
  take(kernel, "device", record.kernel.device);
  take(kernel, "unfused", record.kernel.unfused);
  take(kernel, "batch", record.kernel.batch);
  take(kernel, "activations", record.kernel.activations);
  take(kernel, "launch", record.kernel.launch);
  take(kernel, "compute_units", record.kernel.compute_units);
  take(kernel, "highest_clock_hz", record.kernel.highest_clock_hz);

  const Json& time = part(json, "time");
  take(time, "samples_s", record.time.samples_s);
  take(time, "median_s", record.time.median_s);
  take(time, "p10_s", record.time.p10_s);
  take(time, "p90_s", record.time.p90_s);
  take(time, "elements", record.time.elements);
  take(time, "cache", record.time.cache);
  take(time, "device_clock", record.time.device_clock);
  take(time, "iterations_per_sample", record.time.iterations_per_sample);
  take(time, "clock_before_hz", record.time.clock_before_hz);
  take(time, "clock_after_hz", record.time.clock_after_hz);
  take(time, "memory_clock_hz", record.time.memory_clock_hz);
  take(time, "power_w", record.time.power_w);
  take(time, "temperature_c", record.time.temperature_c);
  take(time, "throttle_reasons", record.time.throttle_reasons);
  take(time, "disturbed_samples", record.time.disturbed_samples);
  take(time, "unsteady_samples", record.time.unsteady_samples);
  const Json& ranks = part(json, "ranks");
  take(ranks, "count", record.ranks.count);
  take(ranks, "hosts", record.ranks.hosts);
  take(ranks, "engine", record.ranks.engine);
  take(ranks, "library", record.ranks.library);
  take(ranks, "connected_by", record.ranks.connected_by);
  take(ranks, "devices", record.ranks.devices);
  take(ranks, "links", record.ranks.links);
  take(ranks, "bound", record.ranks.bound);
  take(ranks, "split", record.ranks.split);
  if (record.ranks.count > 1 && record.ranks.split.empty()) record.ranks.split = "rows";  // an older record
  take(ranks, "gathered_bytes_per_layer", record.ranks.gathered_bytes_per_layer);
  take(ranks, "reduced_bytes_per_layer", record.ranks.reduced_bytes_per_layer);
  take(ranks, "exchanges", record.ranks.exchanges);
  take(ranks, "exchange_samples_s", record.ranks.exchange_samples_s);
  take(ranks, "product_samples_s", record.ranks.product_samples_s);
  const Json& host = part(json, "host");
  take(host, "other_cores", record.host.other_cores);
  take(host, "stolen_share", record.host.stolen_share);
  take(host, "waiting_share", record.host.waiting_share);
  take(host, "involuntary_switches", record.host.involuntary_switches);
  take(host, "clock_share", record.host.clock_share);
  take(host, "throughput_share", record.host.throughput_share);
  take(host, "dependent_ops_per_s", record.host.dependent_ops_per_s);
  take(host, "clock_hz", record.host.clock_hz);
  if (!host.value("throttle_events", Json()).is_null())
    take(host, "throttle_events", record.host.throttle_events.emplace());

  const Json& check = part(json, "check");
  take(check, "decode", record.check.decode);
  take(check, "outputs", record.check.outputs);
  take(check, "guards", record.check.guards);
  expect_plausible(record);
  return record;
}

GpuRecord gpu_from(const Json& json) {
  GpuRecord gpu;
  take(json, "id", gpu.id);
  take(json, "name", gpu.name);
  take(json, "architecture", gpu.architecture);
  take(json, "driver", gpu.driver);
  take(json, "compute_units", gpu.compute_units);
  take(json, "wave_size", gpu.wave_size);
  take(json, "memory_bytes", gpu.memory_bytes);
  take(json, "l2_bytes", gpu.l2_bytes);
  take(json, "shared_bytes", gpu.shared_bytes);
  take(json, "highest_clock_hz", gpu.highest_clock_hz);
  take(json, "memory_clock_hz", gpu.memory_clock_hz);
  return gpu;
}

Json to_json(const GpuRecord& gpu) {
  return {{"id", gpu.id},
          {"name", gpu.name},
          {"architecture", gpu.architecture},
          {"driver", gpu.driver},
          {"compute_units", gpu.compute_units},
          {"wave_size", gpu.wave_size},
          {"memory_bytes", gpu.memory_bytes},
          {"l2_bytes", gpu.l2_bytes},
          {"shared_bytes", gpu.shared_bytes},
          {"highest_clock_hz", number(gpu.highest_clock_hz)},
          {"memory_clock_hz", number(gpu.memory_clock_hz)}};
}

RunRecord run_from(const Json& json) {
  RunRecord record;
  take(json, "run", record.run);
  take(json, "experiment", record.experiment);
  take(json, "question", record.question);
  take(json, "date", record.date);
  take(json, "seed", record.seed);
  take(json, "arguments", record.arguments);
  take(json, "shard", record.shard);
  const Json& build = part(json, "build");
  take(build, "git_revision", record.git_revision);
  take(build, "git_dirty", record.git_dirty);
  take(build, "compiler", record.compiler);
  take(build, "compiler_flags", record.compiler_flags);
  take(build, "build_type", record.build_type);
  take(build, "libraries", record.libraries);
  const Json& machine = part(json, "machine");
  take(machine, "cpu_model", record.cpu_model);
  take(machine, "os", record.os);
  take(machine, "governor", record.governor);
  take(machine, "host", record.host);
  take(machine, "allowed_cores", record.allowed_cores);
  take(machine, "cpu_quota_cores", record.cpu_quota_cores);
  take(machine, "environment", record.environment);
  take(machine, "cores", record.cores);
  take(machine, "threads", record.threads);
  take(machine, "l1d_bytes", record.l1d_bytes);
  take(machine, "l2_bytes", record.l2_bytes);
  take(machine, "llc_bytes", record.llc_bytes);
  take(machine, "memory_bytes", record.memory_bytes);
  take(machine, "simd_targets", record.simd_targets);
  if (const auto gpus = machine.find("gpus"); gpus != machine.end()) {
    if (!gpus->is_array()) throw ReportError("the field \"gpus\" is not a list");
    for (const Json& gpu : *gpus) {
      if (!gpu.is_object()) throw ReportError("\"gpus\" holds something that is not an object");
      record.gpus.push_back(gpu_from(gpu));
    }
  }
  const Json& config = part(json, "config");
  take(config, "name", record.config_name);
  take(config, "hash", record.config_hash);
  take(config, "text", record.config_text);
  return record;
}

BandwidthRecord bandwidth_from(const Json& json) {
  BandwidthRecord record;
  take(json, "run", record.run);
  take(json, "backend", record.backend);
  take(json, "device", record.device);
  take(json, "threads", record.threads);
  take(json, "bytes", record.bytes);
  take(json, "samples_s", record.samples_s);
  take(json, "read_bytes_per_s", record.read_bytes_per_s);
  take(json, "cache", record.cache);
  return record;
}

Json head(const char* kind) { return Json{{"schema", kRecordSchema}, {"kind", kind}}; }

}  // namespace

std::string to_string(const Value& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

std::string to_json_line(const CaseRecord& r) {
  Json json = head("case");
  json["status"] = to_string(r.status);
  json["reason"] = r.reason;
  json["case"] = r.case_key;
  json["run"] = r.run;
  json["experiment"] = r.experiment;
  json["data"] = {
      {"source", r.data.source}, {"rows", r.data.rows},           {"cols", r.data.cols},
      {"type", r.data.type},     {"sigma", number(r.data.sigma)}, {"layers", r.data.layers},
      {"seed", r.data.seed},     {"hash", r.data.hash},           {"parameters", to_json(r.data.parameters)}};
  for (const auto& [rows, cols, layers] : r.data.shapes)
    json["data"]["shapes"].push_back({{"rows", rows}, {"cols", cols}, {"layers", layers}});
  json["codec"] = {
      {"id", r.codec.id}, {"format_version", r.codec.format_version}, {"settings", to_json(r.codec.settings)}};
  if (!r.codec.library_path.empty())
    json["codec"]["library"] = {{"path", r.codec.library_path}, {"hash", r.codec.library_hash}};
  if (r.codec.non_default) json["codec"]["non_default"] = *r.codec.non_default;
  json["size"] = {{"stored_bytes", r.size.stored_bytes},
                  {"by_role",
                   {{"payload", r.size.payload_bytes},
                    {"table", r.size.table_bytes},
                    {"index", r.size.index_bytes},
                    {"scale", r.size.scale_bytes}}},
                  {"padding_bits", r.size.padding_bits},
                  {"bits_per_element", number(r.size.bits_per_element)},
                  {"entropy_bits_per_element", number(r.size.entropy_bits_per_element)}};
  if (std::isfinite(r.size.ideal_bits_per_element))
    json["size"]["ideal_bits_per_element"] = number(r.size.ideal_bits_per_element);
  if (has_distortion(r))
    json["distortion"] = {{"snr_db", number(r.distortion.snr_db)},
                          {"largest_error", number(r.distortion.largest_error)}};
  for (const CaseRecord::Blocks& b : r.blocks)
    json["blocks"].push_back({{"accounting", b.accounting},
                              {"block_bytes", b.block_bytes},
                              {"blocks", b.blocks},
                              {"bits", b.bits},
                              {"side_bits", b.side_bits},
                              {"link_bytes", b.link_bytes},
                              {"raw_link_bytes", b.raw_link_bytes}});
  json["kernel"] = {{"backend", r.kernel.backend},         {"op", r.kernel.op},
                    {"variant", r.kernel.variant},         {"tuning", r.kernel.tuning},
                    {"simd_target", r.kernel.simd_target}, {"threads", r.kernel.threads},
                    {"device", r.kernel.device},           {"unfused", r.kernel.unfused}};
  if (has_tokens(r)) {
    json["kernel"]["batch"] = r.kernel.batch;
    json["kernel"]["activations"] = r.kernel.activations;
  }
  if (r.kernel.op == "step") json["step"] = to_json(r.step);
  if (r.kernel.compute_units > 0) {
    json["kernel"]["launch"] = r.kernel.launch;
    json["kernel"]["compute_units"] = r.kernel.compute_units;
    json["kernel"]["highest_clock_hz"] = number(r.kernel.highest_clock_hz);
  }
  json["time"] = {{"samples_s", numbers(r.time.samples_s)},
                  {"median_s", number(r.time.median_s)},
                  {"p10_s", number(r.time.p10_s)},
                  {"p90_s", number(r.time.p90_s)},
                  {"elements", r.time.elements},
                  {"cache", r.time.cache},
                  {"device_clock", r.time.device_clock},
                  {"iterations_per_sample", r.time.iterations_per_sample}};
  if (std::isfinite(r.time.clock_after_hz)) {
    json["time"]["clock_before_hz"] = number(r.time.clock_before_hz);
    json["time"]["clock_after_hz"] = number(r.time.clock_after_hz);
    json["time"]["memory_clock_hz"] = number(r.time.memory_clock_hz);
    json["time"]["power_w"] = number(r.time.power_w);
    json["time"]["temperature_c"] = number(r.time.temperature_c);
    json["time"]["throttle_reasons"] = r.time.throttle_reasons;
  }
  if (std::isfinite(r.host.other_cores)) {
    json["time"]["disturbed_samples"] = r.time.disturbed_samples;
    json["host"] = {{"other_cores", number(r.host.other_cores)},
                    {"stolen_share", number(r.host.stolen_share)},
                    {"waiting_share", number(r.host.waiting_share)},
                    {"involuntary_switches", r.host.involuntary_switches}};
  }
  if (std::isfinite(r.host.clock_share)) {
    json["time"]["unsteady_samples"] = r.time.unsteady_samples;
    json["host"]["clock_share"] = number(r.host.clock_share);
    json["host"]["throughput_share"] = number(r.host.throughput_share);
    json["host"]["dependent_ops_per_s"] = number(r.host.dependent_ops_per_s);
    json["host"]["clock_hz"] = number(r.host.clock_hz);
    json["host"]["throttle_events"] = r.host.throttle_events ? Json(*r.host.throttle_events) : Json(nullptr);
  }
  if (const auto& ranks = r.ranks; ranks.count > 1)
    json["ranks"] = {{"count", ranks.count},
                     {"hosts", ranks.hosts},
                     {"engine", ranks.engine},
                     {"library", ranks.library},
                     {"connected_by", ranks.connected_by},
                     {"devices", ranks.devices},
                     {"links", ranks.links},
                     {"bound", ranks.bound},
                     {"split", ranks.split},
                     {"gathered_bytes_per_layer", number(ranks.gathered_bytes_per_layer)},
                     {"reduced_bytes_per_layer", number(ranks.reduced_bytes_per_layer)},
                     {"exchanges", ranks.exchanges},
                     {"exchange_samples_s", numbers(ranks.exchange_samples_s)},
                     {"product_samples_s", numbers(ranks.product_samples_s)}};
  json["check"] = {{"decode", r.check.decode}, {"outputs", r.check.outputs}, {"guards", r.check.guards}};
  return dump(json);
}

std::string to_json_line(const RunRecord& r) {
  Json json = head("run");
  json["run"] = r.run;
  json["experiment"] = r.experiment;
  json["question"] = r.question;
  json["date"] = r.date;
  json["seed"] = r.seed;
  json["arguments"] = r.arguments;
  if (!r.shard.empty()) json["shard"] = r.shard;
  json["build"] = {{"git_revision", r.git_revision},     {"git_dirty", r.git_dirty},   {"compiler", r.compiler},
                   {"compiler_flags", r.compiler_flags}, {"build_type", r.build_type}, {"libraries", r.libraries}};
  Json gpus = Json::array();
  for (const GpuRecord& gpu : r.gpus) gpus.push_back(to_json(gpu));
  json["machine"] = {{"cpu_model", r.cpu_model},
                     {"os", r.os},
                     {"governor", r.governor},
                     {"cores", r.cores},
                     {"threads", r.threads},
                     {"l1d_bytes", r.l1d_bytes},
                     {"l2_bytes", r.l2_bytes},
                     {"llc_bytes", r.llc_bytes},
                     {"memory_bytes", r.memory_bytes},
                     {"simd_targets", r.simd_targets},
                     {"gpus", gpus}};
  if (!r.host.empty()) {
    json["machine"]["host"] = r.host;
    json["machine"]["allowed_cores"] = r.allowed_cores;
    json["machine"]["cpu_quota_cores"] = number(r.cpu_quota_cores);
    json["machine"]["environment"] = r.environment;
  }
  json["config"] = {{"name", r.config_name}, {"hash", r.config_hash}, {"text", r.config_text}};
  return dump(json);
}

std::string to_json_line(const BandwidthRecord& r) {
  Json json = head("bandwidth");
  json["run"] = r.run;
  json["backend"] = r.backend;
  json["device"] = r.device;
  json["threads"] = r.threads;
  json["bytes"] = r.bytes;
  json["samples_s"] = numbers(r.samples_s);
  json["read_bytes_per_s"] = number(r.read_bytes_per_s);
  json["cache"] = r.cache;
  return dump(json);
}

AnyRecord parse_record(std::string_view line) {
  expect_shallow(line);
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) return Incomplete{};
  if (!json.is_object()) throw ReportError("a record must be a JSON object");
  int schema = 0;
  std::string kind;
  take(json, "schema", schema);
  take(json, "kind", kind);
  if (schema > kRecordSchema) {
    throw NewerSchema(fmt::format("schema {} is newer than this build's {}", schema, kRecordSchema));
  }
  if (kind == "case") return case_from(json);
  if (kind == "run") return run_from(json);
  if (kind == "bandwidth") return bandwidth_from(json);
  if (kind.empty()) throw ReportError("the record has no \"kind\"");
  return UnknownKind{kind};
}

}  // namespace ecmv::reports

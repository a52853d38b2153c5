// Every field of a record, once, in the order in which it is written. Reader, writer and the test of the documentation
// all walk over these functions: to add a field, declare it in record.h, name it here, and say in README.md what it
// means.
//
// A visitor has
//   field(name, value)            a text, number, truth, list of them, or values by name
//   field(name, value, older)     the same; older records call it `older`
//   count(name, value, bits)      a whole number from 0 to below 2^bits
//   object(name, fields)          fields() visits the fields of the object
//   list(name, entries, fields)   fields(entry) visits one entry
//   has(condition)                whether to visit the next fields: the condition for the writer, always for the reader
#pragma once

#include <cmath>

#include "reports/fields.h"
#include "reports/record.h"

namespace ecmv::reports {

template <class Visitor, class Data>
void visit_data(Visitor& v, Data& data) {
  v.field("source", data.source);
  v.count("rows", data.rows, 40);
  v.count("cols", data.cols, 40);
  v.field("type", data.type);
  v.field("sigma", data.sigma);
  v.count("layers", data.layers, 31);
  v.field("seed", data.seed);
  v.field("hash", data.hash);
  v.field("parameters", data.parameters);
  if (v.has(!data.shapes.empty()))
    v.list("shapes", data.shapes, [&](auto& shape) {
      v.field("rows", shape.rows);
      v.field("cols", shape.cols);
      v.field("layers", shape.layers);
    });
}

template <class Visitor, class Codec>
void visit_codec(Visitor& v, Codec& codec) {
  v.field("id", codec.id);
  v.field("format_version", codec.format_version);
  v.field("settings", codec.settings);
  if (v.has(!codec.library_path.empty()))
    v.object("library", [&] {
      v.field("path", codec.library_path);
      v.field("hash", codec.library_hash);
    });
  if (v.has(codec.non_default.has_value())) v.field("non_default", codec.non_default);
}

template <class Visitor, class Size>
void visit_size(Visitor& v, Size& size) {
  v.count("stored_bytes", size.stored_bytes, 56);
  v.object("by_role", [&] {
    v.count("payload", size.payload_bytes, 56);
    v.count("table", size.table_bytes, 56);
    v.count("index", size.index_bytes, 56);
    v.count("scale", size.scale_bytes, 56);
  });
  v.count("padding_bits", size.padding_bits, 56);
  v.field("bits_per_element", size.bits_per_element);
  v.field("entropy_bits_per_element", size.entropy_bits_per_element);
  if (v.has(std::isfinite(size.ideal_bits_per_element))) v.field("ideal_bits_per_element", size.ideal_bits_per_element);
}

template <class Visitor, class Blocks>
void visit_blocks(Visitor& v, Blocks& blocks) {
  v.field("accounting", blocks.accounting);
  v.count("block_bytes", blocks.block_bytes, 56);
  v.count("blocks", blocks.blocks, 56);
  v.count("bits", blocks.bits, 56);
  v.count("side_bits", blocks.side_bits, 56);
  v.count("link_bytes", blocks.link_bytes, 56);
  v.count("raw_link_bytes", blocks.raw_link_bytes, 56);
}

template <class Visitor, class Kernel>
void visit_kernel(Visitor& v, Kernel& kernel, bool has_tokens) {
  v.field("backend", kernel.backend);
  v.field("op", kernel.op);
  v.field("variant", kernel.variant);
  v.field("policy", kernel.policy, "tuning");
  v.field("simd_target", kernel.simd_target);
  v.count("threads", kernel.threads, 31);
  v.field("device", kernel.device);
  v.field("unfused", kernel.unfused);
  if (v.has(has_tokens)) {
    v.count("batch", kernel.batch, 31);
    v.field("activations", kernel.activations);
  }
  if (v.has(kernel.compute_units > 0)) {
    v.field("launch", kernel.launch);
    v.field("compute_units", kernel.compute_units);
    v.field("highest_clock_hz", kernel.highest_clock_hz);
  }
}

template <class Visitor, class Step>
void visit_step(Visitor& v, Step& step) {
  v.count("blocks", step.blocks, 31);
  v.count("encoded_blocks", step.encoded_blocks, 31);
  v.list("parts", step.parts, [&](auto& part) {
    v.field("kind", part.kind);
    v.field("codec", part.codec);
    v.field("kernel", part.kernel);
    v.count("layers", part.layers, 56);
    v.count("rows", part.rows, 56);
    v.count("cols", part.cols, 56);
    v.count("stored_bytes", part.stored_bytes, 56);
    v.field("layer_s", part.layer_s);
  });
}

// A run that watched its host has numbers of disturbed samples; one that also watched its cores has numbers of unsteady
// samples.
template <class Visitor, class Time>
void visit_time(Visitor& v, Time& time, bool watched_host, bool watched_cores) {
  v.field("samples_s", time.samples_s);
  v.field("median_s", time.median_s);
  v.field("p10_s", time.p10_s);
  v.field("p90_s", time.p90_s);
  v.count("elements", time.elements, 56);
  v.field("cache", time.cache);
  v.field("device_clock", time.device_clock);
  v.count("iterations_per_sample", time.iterations_per_sample, 56);
  if (v.has(std::isfinite(time.clock_after_hz))) {
    v.field("clock_before_hz", time.clock_before_hz);
    v.field("clock_after_hz", time.clock_after_hz);
    v.field("memory_clock_hz", time.memory_clock_hz);
    v.field("power_w", time.power_w);
    v.field("temperature_c", time.temperature_c);
    v.field("throttle_reasons", time.throttle_reasons);
  }
  if (v.has(watched_host)) v.field("disturbed_samples", time.disturbed_samples);
  if (v.has(watched_cores)) v.field("unsteady_samples", time.unsteady_samples);
}

template <class Visitor, class Host>
void visit_host(Visitor& v, Host& host) {
  if (v.has(std::isfinite(host.other_cores))) {
    v.field("other_cores", host.other_cores);
    v.field("stolen_share", host.stolen_share);
    v.field("waiting_share", host.waiting_share);
    v.field("involuntary_switches", host.involuntary_switches);
  }
  if (v.has(std::isfinite(host.clock_share))) {
    v.field("clock_share", host.clock_share);
    v.field("throughput_share", host.throughput_share);
    v.field("dependent_ops_per_s", host.dependent_ops_per_s);
    v.field("clock_hz", host.clock_hz);
    v.field("throttle_events", host.throttle_events);
  }
}

template <class Visitor, class Ranks>
void visit_ranks(Visitor& v, Ranks& ranks) {
  v.field("count", ranks.count);
  v.field("hosts", ranks.hosts);
  v.field("engine", ranks.engine);
  v.field("library", ranks.library);
  v.field("connected_by", ranks.connected_by);
  v.field("devices", ranks.devices);
  v.field("links", ranks.links);
  v.field("bound", ranks.bound);
  v.field("split", ranks.split);
  v.field("gathered_bytes_per_layer", ranks.gathered_bytes_per_layer);
  v.field("reduced_bytes_per_layer", ranks.reduced_bytes_per_layer);
  v.field("exchanges", ranks.exchanges);
  v.field("exchange_samples_s", ranks.exchange_samples_s);
  v.field("product_samples_s", ranks.product_samples_s);
}

// `Record` is CaseRecord, const where the visitor only looks.
template <class Visitor, class Record>
void visit_case(Visitor& v, Record& r) {
  v.field("status", r.status);
  v.field("reason", r.reason);
  v.field("case", r.case_key);
  v.field("run", r.run);
  v.field("experiment", r.experiment);
  v.object("data", [&] { visit_data(v, r.data); });
  v.object("codec", [&] { visit_codec(v, r.codec); });
  v.object("size", [&] { visit_size(v, r.size); });
  if (v.has(has_distortion(r)))
    v.object("distortion", [&] {
      v.field("snr_db", r.distortion.snr_db);
      v.field("largest_error", r.distortion.largest_error);
    });
  if (v.has(!r.blocks.empty())) v.list("blocks", r.blocks, [&](auto& blocks) { visit_blocks(v, blocks); });
  v.object("kernel", [&] { visit_kernel(v, r.kernel, has_tokens(r)); });
  if (v.has(r.kernel.op == "step")) v.object("step", [&] { visit_step(v, r.step); });
  const bool watched_host = std::isfinite(r.host.other_cores), watched_cores = std::isfinite(r.host.clock_share);
  v.object("time", [&] { visit_time(v, r.time, watched_host, watched_cores); });
  if (v.has(watched_host || watched_cores)) v.object("host", [&] { visit_host(v, r.host); });
  if (v.has(r.ranks.count > 1)) v.object("ranks", [&] { visit_ranks(v, r.ranks); });
  v.object("check", [&] {
    v.field("decode", r.check.decode);
    v.field("outputs", r.check.outputs);
    v.field("guards", r.check.guards);
  });
}

template <class Visitor, class Gpu>
void visit_gpu(Visitor& v, Gpu& gpu) {
  v.field("id", gpu.id);
  v.field("name", gpu.name);
  v.field("architecture", gpu.architecture);
  v.field("driver", gpu.driver);
  v.field("compute_units", gpu.compute_units);
  v.field("wave_size", gpu.wave_size);
  v.field("memory_bytes", gpu.memory_bytes);
  v.field("l2_bytes", gpu.l2_bytes);
  v.field("shared_bytes", gpu.shared_bytes);
  v.field("highest_clock_hz", gpu.highest_clock_hz);
  v.field("memory_clock_hz", gpu.memory_clock_hz);
}

template <class Visitor, class Record>
void visit_machine(Visitor& v, Record& r) {
  v.field("cpu_model", r.cpu_model);
  v.field("os", r.os);
  v.field("governor", r.governor);
  v.field("cores", r.cores);
  v.field("threads", r.threads);
  v.field("l1d_bytes", r.l1d_bytes);
  v.field("l2_bytes", r.l2_bytes);
  v.field("llc_bytes", r.llc_bytes);
  v.field("memory_bytes", r.memory_bytes);
  v.field("simd_targets", r.simd_targets);
  v.list("gpus", r.gpus, [&](auto& gpu) { visit_gpu(v, gpu); });
  if (v.has(!r.host.empty())) {
    v.field("host", r.host);
    v.field("allowed_cores", r.allowed_cores);
    v.field("cpu_quota_cores", r.cpu_quota_cores);
    v.field("environment", r.environment);
  }
}

// `Record` is RunRecord, const where the visitor only looks.
template <class Visitor, class Record>
void visit_run(Visitor& v, Record& r) {
  v.field("run", r.run);
  v.field("experiment", r.experiment);
  v.field("question", r.question);
  v.field("date", r.date);
  v.field("seed", r.seed);
  v.field("arguments", r.arguments);
  if (v.has(!r.shard.empty())) v.field("shard", r.shard);
  v.object("build", [&] {
    v.field("git_revision", r.git_revision);
    v.field("git_dirty", r.git_dirty);
    v.field("compiler", r.compiler);
    v.field("compiler_flags", r.compiler_flags);
    v.field("build_type", r.build_type);
    v.field("libraries", r.libraries);
  });
  v.object("machine", [&] { visit_machine(v, r); });
  v.object("config", [&] {
    v.field("name", r.config_name);
    v.field("hash", r.config_hash);
    v.field("text", r.config_text);
  });
}

// `Record` is BandwidthRecord, const where the visitor only looks.
template <class Visitor, class Record>
void visit_bandwidth(Visitor& v, Record& r) {
  v.field("run", r.run);
  v.field("backend", r.backend);
  v.field("device", r.device);
  v.field("threads", r.threads);
  v.field("bytes", r.bytes);
  v.field("samples_s", r.samples_s);
  v.field("read_bytes_per_s", r.read_bytes_per_s);
  v.field("cache", r.cache);
}

}  // namespace ecmv::reports

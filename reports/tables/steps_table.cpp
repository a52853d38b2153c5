// Decoding steps by kind of layer: each kind's bytes and time, and its codec and kernel. And the room that the weights
// leave in a device's memory.
#include <fmt/format.h>

#include <set>

#include "reports/fields.h"
#include "reports/metrics.h"
#include "reports/tables/tables.h"

namespace ecmv::reports {

Table steps_table(const RecordSet& records) {
  constexpr auto kRight = Column::Align::right;
  Table table{
      "steps",
      "Decoding steps by kind of layer",
      "Bytes of all layers of a kind, with scales. Layer times come from a pass of such layers alone, with their "
      "fastest kernel; steps are timed as a whole.",
      {{"kind", "kind", ""},
       {"codec", "codec", ""},
       {"layers", "layers", "", kRight},
       {"shape", "shape", ""},
       {"stored_bytes", "stored", "MB", kRight},
       {"bits_per_element", "stored", "bit/el.", kRight},
       {"layer_us", "a layer alone", "µs", kRight},
       {"kernel", "kernel", ""}},
      {}};
  for (const CaseRecord* r : sorted_cases(records)) {
    if (r->status != Status::ok || r->step.parts.empty()) continue;
    table.groups.push_back(
        {table.rows.size(), fmt::format("{}, {} · {} · {} · {}", field_text(*r, "data_source"), tokens_text(*r),
                                        blocks_text(*r), codec_label(*r), device_label(*r))});
    for (const CaseRecord::Step::Part& part : r->step.parts) {
      const double elements = static_cast<double>(part.layers) * static_cast<double>(part.rows * part.cols);
      const double bytes = static_cast<double>(part.stored_bytes);
      table.rows.push_back(
          {text_cell(part.kind), text_cell(part.codec), count_cell(part.layers),
           text_cell(fmt::format("{} × {}", part.rows, part.cols)), number_cell(bytes, fixed_text(1e-6 * bytes, 2)),
           number_cell(8 * bytes / elements, fixed_text(8 * bytes / elements, 3)),
           number_cell(1e6 * part.layer_s, fixed_text(1e6 * part.layer_s, 2)), text_cell(part.kernel)});
      mark_cell(table.rows.back()[6], disturbance_of(*r));
    }
  }
  return table;
}

Table step_memory_table(const RecordSet& records) {
  constexpr auto kRight = Column::Align::right;
  Table table{"steps_memory",
              "Decoding steps in a device's memory",
              "Stored weights of the device that has most of them. The rest of its memory is for what a model needs "
              "besides: caches of earlier tokens, activations, the runtime's own.",
              {{"codec", "codec", ""},
               {"device", "device", ""},
               {"kernel", "kernel", ""},
               {"tokens_per_s", "tokens/s", "", kRight},
               {"weight_bytes", "weights of a device", "GB", kRight},
               {"device_bytes", "its memory", "GB", kRight},
               {"left_bytes", "left", "GB", kRight}},
              {}};
  std::string last;
  for (const CaseRecord* r : sorted_cases(records)) {
    if (r->status != Status::ok || r->kernel.op != "step" || r->memory.device_bytes == 0) continue;
    const std::string heading =
        fmt::format("{}, {} · {}", field_text(*r, "data_source"), tokens_text(*r), blocks_text(*r));
    if (heading != last) table.groups.push_back({table.rows.size(), heading});
    last = heading;
    const auto gigabytes = [](std::int64_t bytes) {
      return number_cell(static_cast<double>(bytes), fixed_text(1e-9 * static_cast<double>(bytes), 2));
    };
    const double tokens_per_s = find_metric("tokens_per_s").value(*r, {});
    table.rows.push_back({text_cell(codec_label(*r)), text_cell(device_label(*r)), text_cell(kernel_label(*r)),
                          number_cell(tokens_per_s, fixed_text(tokens_per_s, 1)), gigabytes(r->memory.weight_bytes),
                          gigabytes(r->memory.device_bytes),
                          gigabytes(r->memory.device_bytes - r->memory.weight_bytes)});
    table.rows.back().back().note =
        fmt::format("{} GB were free beside it and layers of other cases", gigabytes(r->memory.free_bytes).text);
    mark_cell(table.rows.back()[3], disturbance_of(*r));
  }
  return table;
}

}  // namespace ecmv::reports

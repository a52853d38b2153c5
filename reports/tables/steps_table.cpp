// Decoding steps by kind of layer: each kind's bytes and time, and its codec and kernel.
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

}  // namespace ecmv::reports

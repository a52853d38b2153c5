"""What is printed: a row for each way to run the model."""

import math

from ...intervals import ratio_interval


def rows_name(record):
    return f"{record['kernel']['policy']}, {record['kernel']['variant']}"


def row_of(record):
    time, name = record["time"], rows_name(record)
    if record["status"] != "ok":
        return [name, record["status"], record["reason"]]
    seconds, batch = time["median_s"], record["kernel"]["batch"]
    marked = len(time["disturbed_samples"])
    peak = record.get("memory", {}).get("peak_bytes", 0)
    return [name, f"{batch / seconds:.1f}", f"{1e3 * seconds:.3f}",
            f"{1e3 * time['p10_s']:.3f} to {1e3 * time['p90_s']:.3f}", f"{record['size']['stored_bytes'] / 1e9:.3f}",
            f"{peak / 1e9:.3f}" if peak else "", f"{marked} of {len(time['samples_s'])} disturbed" if marked else "",
            record["check"]["outputs"]]


def against(base, other):
    """"1.21 (1.19 to 1.23) times": tokens a second of `other` over those of `base`, with the interval of 95 %."""
    low, middle, high = ratio_interval(*([seconds / record["kernel"]["batch"]
                                          for seconds in record["time"]["samples_s"]] for record in (base, other)))
    return f"{middle:.3f} ({low:.3f} to {high:.3f})" if math.isfinite(high) else f"{middle:.3f} (too few samples)"


def table(records):
    """The records of one op and batch as text."""
    head = ["", "tokens/s", "ms", "ms, 10 to 90 %", "weights GB", "peak GB", "", ""]
    rows = [row_of(record) for record in records]
    widths = [max(len(row[i]) for row in [head, *(row for row in rows if len(row) > 3)]) for i in range(7)]
    lines = []
    for row in [head, *rows]:
        if len(row) == 3:
            lines.append(f"{row[0]}: {row[1]}: {row[2]}")
        else:
            lines.append("  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                                   for i, (text, width) in enumerate(zip(row, widths))) + "  " + row[7])
    timed = [record for record in records if record["status"] == "ok"]
    plain = [record for record in timed if record["kernel"]["policy"] == "uncompressed"]
    if plain:
        base = min(plain, key=lambda record: record["time"]["median_s"])
        for record in timed:
            if record not in plain:
                lines.append(f"{rows_name(record)}: {against(base, record)} of the speed of {rows_name(base)} "
                             "(interval of 95 %)")
    return "\n".join(line.rstrip() for line in lines)

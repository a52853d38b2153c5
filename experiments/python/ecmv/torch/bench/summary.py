"""What is printed: a row for each way to run the model, and the largest batch within some memory."""

import math
import statistics

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
    """"1.21 (1.19 to 1.23) times": the speed of `other` over that of `base`, with the interval of 95 %."""
    low, middle, high = ratio_interval(base["time"]["samples_s"], other["time"]["samples_s"])
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


class Capacity:
    """The largest batch within some memory, of one way to run the model."""

    def __init__(self, name, weight_bytes):
        self.name, self.weight_bytes = name, weight_bytes
        self.steps = {}  # sequences -> (seconds of a step, bytes of a cache for one token of one sequence, other bytes)

    def add(self, sequences, samples, cache_bytes_of_token, other_bytes):
        self.steps[sequences] = statistics.median(samples), cache_bytes_of_token, other_bytes

    def sentence(self, gibibytes, context):
        """Weights, a token's cache and what else is needed were measured; the rest is computed from them."""
        most = max(self.steps)
        _, of_token, other = self.steps[most]
        free = gibibytes * 2 ** 30 - self.weight_bytes - other
        batch = int(free // (of_token * context)) if free > 0 else 0
        text = f"{self.name}: {gibibytes:g} GiB hold "
        if batch < 1:
            return text + f"no sequence of {context} tokens (weights {self.weight_bytes / 2 ** 30:.2f} GiB)"
        seconds, how = self.seconds_of(batch)
        return (text + f"{batch} sequence{'s' * (batch > 1)} of {context} tokens (computed: weights "
                f"{self.weight_bytes / 2 ** 30:.2f} GiB, {of_token * context / 2 ** 20:.1f} MiB a sequence, "
                f"{other / 2 ** 30:.2f} GiB besides, all measured)"
                + (f"; {batch / seconds:.0f} tokens/s ({how})" if seconds else ""))

    def seconds_of(self, batch):
        """(seconds of a step, whether they are measured) on the line through the nearest measured batches."""
        if batch in self.steps:
            return self.steps[batch][0], "measured"
        known = sorted(self.steps)
        if len(known) < 2:
            return None, ""
        upper = next((i for i, one in enumerate(known) if one > batch), len(known) - 1)
        a, b = known[max(upper, 1) - 1], known[max(upper, 1)]
        ta, tb = self.steps[a][0], self.steps[b][0]
        seconds = ta + (tb - ta) * (batch - a) / (b - a)
        return (seconds if seconds > 0 else None), f"computed from batches of {a} and {b} with the prompt's context"

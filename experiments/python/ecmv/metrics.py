"""What can be computed from a case: the table of reports/metrics.cpp, with the same names, formulas and conditions.

A record is the JSON object of its line; numbers that are not known are NaN. Each metric is a function of the record and
of its context: the uncompressed case of the same run that it is compared with, and the measured read bandwidth.
"""

import collections
import math
import re
import statistics

NAN = math.nan

Metric = collections.namedtuple("Metric", "name unit better formula value")
Context = collections.namedtuple("Context", "baseline bandwidth", defaults=(None, None))


def part(record, name):
    """An object within a record, empty where it is not there."""
    return record.get(name) or {}


def number(record, group, name, default=NAN):
    value = part(record, group).get(name)
    return default if value is None else value


def over(amount, by):
    """A quotient as of floating-point numbers in C: dividing by 0 raises nothing."""
    if by == 0:
        return NAN if amount == 0 or math.isnan(amount) else math.copysign(math.inf, amount)
    return amount / by


def is_timed(r):
    return r["status"] == "ok" and number(r, "time", "median_s") > 0


def op_of(r):
    return part(r, "kernel").get("op") or ""


def has_tokens(r):
    return op_of(r) in ("matmul", "step", "generate", "prompt")


def is_product(r):
    return op_of(r) == "matvec" or has_tokens(r)


def batch_of(r):
    return number(r, "kernel", "batch", 1)


def per_second(r, amount, seconds):
    return amount / seconds if is_timed(r) and seconds > 0 else NAN


def timed_elements(r):
    return number(r, "time", "elements", 0)


def elements_of(r):
    """Elements of all layers: those that were timed, else what the shapes say."""
    if timed_elements(r) > 0:
        return timed_elements(r)
    data = part(r, "data")
    shapes = data.get("shapes") or [{"rows": data.get("rows", 0), "cols": data.get("cols", 0),
                                     "layers": data.get("layers", 1)}]
    return sum(shape["rows"] * shape["cols"] * shape["layers"] for shape in shapes)


def elements_per_s(r, c=Context()):
    return per_second(r, timed_elements(r), number(r, "time", "median_s"))


def stored_bytes(r):
    return number(r, "size", "stored_bytes", 0)


def bits(r, amount):
    elements = elements_of(r)
    return 8.0 * amount / elements if stored_bytes(r) > 0 and elements > 0 else NAN


def role_bits(role):
    return lambda r, c: bits(r, part(part(r, "size"), "by_role").get(role, 0))


def bits_per_element(r, c=Context()):
    return bits(r, stored_bytes(r))


def stored_bytes_per_s(r, c=Context()):
    return per_second(r, stored_bytes(r), number(r, "time", "median_s"))


def type_bits(name):
    """8 of "i8" and "f8_e5m2", 16 of "bf16"; of several types what they have in common."""
    def one(text):
        found = re.search(r"[0-9]+", text)
        return (int(found[0]) if found else 0) or 8
    found = {one(text) for text in name.split(", ")}
    return found.pop() if len(found) == 1 else NAN


def type_bits_of(r):
    return type_bits(part(r, "data").get("type") or "")


def is_exact(r):
    return part(r, "check").get("decode", "") in ("", "exact")


def read_bytes_per_s(c):
    return NAN if c.bandwidth is None else c.bandwidth["read_bytes_per_s"]


def predicted_s(r, c):
    return over(stored_bytes(r), read_bytes_per_s(c)) if stored_bytes(r) > 0 else NAN


def clock_hz(r):
    for clock in (number(r, "time", "clock_after_hz"), number(r, "time", "clock_before_hz"),
                  number(r, "kernel", "highest_clock_hz")):
        if clock > 0:
            return clock
    return NAN


def excess_over_entropy_percent(r, c):
    entropy = number(r, "size", "entropy_bits_per_element")
    return 100.0 * (bits_per_element(r) / entropy - 1.0) if entropy > 0 and is_exact(r) else NAN


def roof_speedup(r, c):
    return over(type_bits_of(r), bits_per_element(r))


def break_even(r, c):
    return elements_per_s(r) if bits_per_element(r) < 8.0 and type_bits_of(r) == 8 else NAN


def elements_per_clock_and_unit(r, c):
    units = number(r, "kernel", "compute_units", 0)
    return over(elements_per_s(r), clock_hz(r) * units) if units > 0 else NAN


def exchange_share(r, c):
    samples = part(r, "ranks").get("exchange_samples_s")
    return statistics.median(samples) / number(r, "time", "median_s") if samples and is_timed(r) else NAN


def product_alone_s(r, c):
    samples = part(r, "ranks").get("product_samples_s")
    return statistics.median(samples) if samples and is_timed(r) else NAN


def speedup_vs_raw(r, c):
    return NAN if c.baseline is None else over(elements_per_s(r), elements_per_s(c.baseline))


def of_product(value):
    return lambda r, c: value(r) if is_product(r) else NAN


def of_samples(value, least=1):
    def of(r, c):
        samples = number(r, "time", "samples_s", [])
        return value(sorted(samples)) if is_timed(r) and len(samples) >= least else NAN
    return of


def p99(samples):
    position = 0.99 * (len(samples) - 1)
    low = int(position)
    return samples[low] + (position - low) * (samples[min(low + 1, len(samples) - 1)] - samples[low])


# Multiply-accumulates of bf16 of a multiprocessor's matrix units in a clock.
MACS_A_CLOCK = {"sm_80": 1024, "sm_90": 2048}


def compute_fraction(r, c=None):
    kernel = part(r, "kernel")
    units = number(r, "kernel", "compute_units", 0)
    if not has_tokens(r) or kernel.get("activations") != "bf16" or units <= 0:
        return NAN
    peak = MACS_A_CLOCK.get(kernel.get("simd_target"), NAN) * units * number(r, "kernel", "highest_clock_hz")
    return over(elements_per_s(r) * batch_of(r), peak)


METRICS = {
    "elements_per_s": Metric("elements/s", "1/s", "higher", "elements / median pass time", elements_per_s),
    "elements_per_s_p10": Metric("elements/s, slow end", "1/s", "higher", "elements / 90th percentile of the pass time",
                                 lambda r, c: per_second(r, timed_elements(r), number(r, "time", "p90_s"))),
    "elements_per_s_p90": Metric("elements/s, fast end", "1/s", "higher", "elements / 10th percentile of the pass time",
                                 lambda r, c: per_second(r, timed_elements(r), number(r, "time", "p10_s"))),
    "macs_per_s": Metric("MAC/s", "1/s", "higher", "elements * batch / median pass time",
                         of_product(lambda r: elements_per_s(r) * batch_of(r))),
    "compute_fraction": Metric(
        "of the matrix units", "1", "higher",
        "MAC/s / (MACs of bf16 a clock and multiprocessor * multiprocessors * highest clock)", compute_fraction),
    "tokens_per_s": Metric("tokens/s", "1/s", "higher", "batch / median pass time",
                           of_product(lambda r: per_second(r, batch_of(r), number(r, "time", "median_s")))),
    "us_per_pass": Metric("µs a pass", "µs", "lower", "1e6 * median pass time",
                          lambda r, c: 1e6 * number(r, "time", "median_s") if is_timed(r) else NAN),
    "weight_bytes_per_token": Metric("weight bytes/token", "B", "lower", "stored bytes / batch",
                                     of_product(lambda r: stored_bytes(r) / batch_of(r)
                                                if stored_bytes(r) > 0 else NAN)),
    "ns_per_element": Metric("ns/element", "ns", "lower", "1e9 * median pass time / elements",
                             lambda r, c: over(1e9, elements_per_s(r))),
    "stored_bytes_per_s": Metric("stored bytes/s", "B/s", "higher", "stored bytes / median pass time",
                                 stored_bytes_per_s),
    "bits_per_element": Metric("stored bits/element", "bit", "lower", "8 * stored bytes / elements", bits_per_element),
    "payload_bits_per_element": Metric("payload bits/element", "bit", "lower", "8 * payload bytes / elements",
                                       role_bits("payload")),
    "table_bits_per_element": Metric("table bits/element", "bit", "lower", "8 * table bytes / elements",
                                     role_bits("table")),
    "index_bits_per_element": Metric("index bits/element", "bit", "lower", "8 * index bytes / elements",
                                     role_bits("index")),
    "scale_bits_per_element": Metric("scale bits/element", "bit", "lower", "8 * scale bytes / elements",
                                     role_bits("scale")),
    "padding_bits_per_element": Metric("included padding", "bit", "lower", "padding bits / elements",
                                       lambda r, c: bits(r, number(r, "size", "padding_bits", 0) / 8)),
    "entropy_bits_per_element": Metric("entropy", "bit", "–", "-sum p log2 p of the elements' histogram",
                                       lambda r, c: number(r, "size", "entropy_bits_per_element")),
    "excess_over_entropy_percent": Metric("excess over entropy", "%", "lower",
                                          "100 * (stored bits per element / entropy - 1)", excess_over_entropy_percent),
    "ideal_bits_per_element": Metric("ideal code", "bit", "–",
                                     "sum of the codec's own symbols' -p log2 p and raw bits / elements",
                                     lambda r, c: number(r, "size", "ideal_bits_per_element")),
    "excess_over_ideal_bits": Metric("above the ideal code", "bit", "lower",
                                     "stored bits per element - ideal bits per element",
                                     lambda r, c: bits_per_element(r) - number(r, "size", "ideal_bits_per_element")),
    "compression_ratio": Metric("ratio", "1", "higher", "bits of the element type / stored bits per element",
                                roof_speedup),
    "snr_db": Metric("signal to noise", "dB", "higher", "10 log10(sum of squared weights / sum of squared errors)",
                     lambda r, c: number(r, "distortion", "snr_db")),
    "largest_error": Metric("largest error", "1", "lower", "max |number - weight|",
                            lambda r, c: number(r, "distortion", "largest_error")),
    "speedup_vs_raw": Metric("speed-up over raw", "1", "higher", "elements/s / elements/s of the baseline",
                             speedup_vs_raw),
    "roof_speedup": Metric("roof of the speed-up", "1", "higher", "bits of the element type / stored bits per element",
                           roof_speedup),
    "bandwidth_fraction": Metric("of read bandwidth", "1", "higher", "stored bytes/s / measured read bandwidth",
                                 lambda r, c: over(stored_bytes_per_s(r), read_bytes_per_s(c))),
    "roof_elements_per_s": Metric("memory roof", "1/s", "higher",
                                  "8 * measured read bandwidth / stored bits per element",
                                  lambda r, c: over(8.0 * read_bytes_per_s(c), bits_per_element(r))),
    "predicted_s": Metric("predicted pass time", "s", "lower", "stored bytes / measured read bandwidth", predicted_s),
    "measured_over_predicted": Metric("measured / predicted", "1", "lower",
                                      "median pass time * measured read bandwidth / stored bytes",
                                      lambda r, c: over(number(r, "time", "median_s"), predicted_s(r, c))
                                      if is_timed(r) else NAN),
    "break_even_bandwidth_bytes_per_s": Metric("break-even bandwidth", "B/s", "higher",
                                               "elements/s * 1 byte, of one-byte elements stored in less than 8 bits",
                                               break_even),
    "elements_per_clock_and_unit": Metric("elements a clock and compute unit", "1", "higher",
                                          "elements/s / (clock * compute units)", elements_per_clock_and_unit),
    "exchange_share": Metric("exchange share", "1", "lower", "median exchange alone / median pass time",
                             exchange_share),
    "min_s": Metric("fastest pass", "s", "lower", "least pass time", of_samples(min)),
    "p99_s": Metric("99th percentile", "s", "lower", "99th percentile of the pass time",
                    of_samples(p99)),
    "variation_percent": Metric("coefficient of variation", "%", "lower",
                                "100 * standard deviation / mean of the pass times",
                                of_samples(lambda s: 100 * statistics.stdev(s) / statistics.fmean(s), least=2)),
    "joules_per_pass": Metric("energy of a pass", "J", "lower", "energy of the samples / their passes",
                              lambda r, c: number(r, "time", "energy_j") if is_timed(r) else NAN),
    "joules_per_element": Metric("energy of an element", "J", "lower", "energy of a pass / elements",
                                 lambda r, c: over(number(r, "time", "energy_j"), number(r, "time", "elements", 0))
                                 if is_timed(r) else NAN),
    "product_alone_s": Metric("product alone", "s", "lower", "median product alone", product_alone_s),
}

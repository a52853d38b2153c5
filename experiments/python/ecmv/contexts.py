"""What a case is compared with: class Contexts of reports/metrics.cpp."""

from .metrics import Context, elements_per_s, is_timed, number, op_of, part, stored_bytes

# The same as in the command: each takes other elements.
DEFAULT_BASELINE = "raw_int8,raw_bf16,raw_f8"


class Contexts:
    """Of the cases of some records. `baseline_codecs`: ids of the uncompressed codecs, with commas between."""

    def __init__(self, cases, bandwidths, baseline_codecs=DEFAULT_BASELINE):
        self._best, self._bandwidths = {}, {}
        for record in bandwidths:
            if not (record.get("read_bytes_per_s") or 0) > 0:
                continue
            key = (record["run"], record["device"], record["threads"], record.get("cache", "streamed"))
            best = self._bandwidths.get(key)
            if best is None or record["read_bytes_per_s"] > best["read_bytes_per_s"]:
                self._bandwidths[key] = record
        wanted = set(baseline_codecs.split(",")) - {""}
        for record in cases:
            if part(record, "codec").get("id") in wanted and _is_usable(record):
                key = _baseline_key(record)
                best = self._best.get(key)
                if best is None or _is_better(record, best):
                    self._best[key] = record

    def of(self, record):
        kernel = part(record, "kernel")
        key = (record.get("run"), kernel.get("device"), kernel.get("threads", 0), part(record, "time").get("cache", ""))
        return Context(self._best.get(_baseline_key(record)), self._bandwidths.get(key))


def _is_usable(record):
    return is_timed(record) or (record["status"] == "ok" and op_of(record) == "size")


# Sizes have no time, so the smaller one counts.
def _is_better(a, b):
    return stored_bytes(a) < stored_bytes(b) if op_of(a) == "size" else elements_per_s(a) > elements_per_s(b)


# The fastest with the same run, data, backend, device, op, batch, activations, threads and cache class.
def _baseline_key(record):
    kernel, data = part(record, "kernel"), part(record, "data")
    return (record.get("run"), part(record, "time").get("cache", ""),
            *(kernel.get(name) for name in ("backend", "device", "op")), number(record, "kernel", "batch", 1),
            kernel.get("activations", "f32"),
            kernel.get("threads"),
            *(data.get(name) for name in ("source", "rows", "cols", "type", "sigma", "layers", "seed", "hash")),
            tuple(sorted((name, str(value)) for name, value in part(record, "data").get("parameters", {}).items())))

"""Records (JSON Lines, reports/README.md) as data frames, with the column names of `ecmv report`'s results.csv."""

import gzip
import json
import math
import warnings

from .contexts import DEFAULT_BASELINE, Contexts
from .errors import Failed, Unavailable
from .intervals import ratio_interval
from .metrics import METRICS, has_tokens, number, op_of, part

try:
    import pandas
except ImportError:
    raise Unavailable("Records become data frames of pandas, which is not installed: pip install 'ecmv[records]'."
                      ) from None

_SCHEMA = 1


def read_records(*files, baseline=DEFAULT_BASELINE, every=False):
    """A row a case of these record files, with every metric.

    Settings of codecs are columns setting.NAME, further parameters of the data data.NAME; nothing known is NaN or None.
    `samples_s` holds the samples themselves. `baseline` names the uncompressed codecs that speed-ups are over.
    A case that a later record of the same machine shows as ok is left out unless `every`.
    """
    cases, runs, bandwidths = _read(files)
    if not every:
        cases = _without_superseded(cases, runs)
    contexts = Contexts(cases, bandwidths, baseline)
    frame = pandas.DataFrame([_row(record, contexts.of(record)) for record in cases])
    settings = sorted(name for name in frame if name.startswith("setting."))
    parameters = sorted(name for name in frame if name.startswith("data."))
    fields = [name for name in frame if name not in METRICS and not name.startswith(("setting.", "data.", "speedup_"))]
    return frame[fields + settings + parameters + list(METRICS) + ["speedup_vs_raw_low", "speedup_vs_raw_high"]]


def read_runs(*files):
    """A row a run: machine, build and configuration; objects within it are columns like machine.cpu_model."""
    return pandas.json_normalize(_read(files)[1])


def read_bandwidths(*files):
    """A row a measured read bandwidth."""
    return pandas.json_normalize(_read(files)[2])


def _read(files):
    kinds = {"case": [], "run": [], "bandwidth": []}
    for file in files:
        good = 0
        opened = gzip.open if str(file).endswith(".gz") else open
        with opened(file, "rt", encoding="utf-8", errors="replace") as lines:
            for line_number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    record = json.loads(line)
                    kind = record["kind"]
                except (ValueError, RecursionError, TypeError, KeyError):
                    warnings.warn(f"{file}:{line_number}: this line is no record and is left out", stacklevel=3)
                    continue
                if record.get("schema", _SCHEMA) > _SCHEMA:
                    raise Failed(f"{file}:{line_number}: the record is of a newer ecmv (schema {record['schema']}).")
                good += 1
                if kind in kinds:
                    kinds[kind].append(record)
        if good == 0:
            raise Failed(f"{file}: there is no record in this file.")
    return kinds["case"], kinds["run"], kinds["bandwidth"]


def _without_superseded(cases, runs):
    machines = {}
    for run in runs:
        machine = part(run, "machine")
        machines[run["run"]] = tuple(machine.get(name) for name in ("cpu_model", "cores", "memory_bytes"))
    kept, ok_later = [], set()
    for record in reversed(cases):
        key = (record.get("case"), machines.get(record.get("run"), record.get("run")))
        if record["status"] == "ok":
            ok_later.add(key)
        elif key[0] and key in ok_later:
            continue
        kept.append(record)
    return kept[::-1]


def _positive(value):
    return value if value > 0 else math.nan


def _is_disturbed(record):
    """reports/status.cpp: whether times are to be believed with care."""
    time = part(record, "time")
    samples = time.get("samples_s") or []
    marked = set(time.get("disturbed_samples") or []) | set(time.get("unsteady_samples") or [])
    on_cpu = number(record, "kernel", "compute_units", 0) == 0
    busy = on_cpu and samples and number(record, "host", "other_cores") > 0.25
    return bool(10 * len(marked) > len(samples) or busy)


def _disturbance(record):
    """reports/status.cpp: none, slight, or ruined: a fifth of scatter, of waiting or of the clock."""
    if not _is_disturbed(record):
        return "none"
    median, p10, p90 = (number(record, "time", name) for name in ("median_s", "p10_s", "p90_s"))
    waiting, clock, throughput = (number(record, "host", name)
                                  for name in ("waiting_share", "clock_share", "throughput_share"))
    ruined = p90 - p10 > 0.2 * median or waiting > 0.2 or clock < 0.8 or throughput < 0.8
    return "ruined" if ruined else "slight"


def _row(record, context):
    data, codec, kernel, time = (part(record, name) for name in ("data", "codec", "kernel", "time"))
    samples = time.get("samples_s") or []
    row = {
        "case": record.get("case"), "status": record["status"], "reason": record.get("reason", ""),
        "run": record.get("run"), "experiment": record.get("experiment"), "source": data.get("source"),
        "type": data.get("type"), "sigma": number(record, "data", "sigma"), "rows": data.get("rows"),
        "cols": data.get("cols"), "layers": data.get("layers"), "seed": data.get("seed"), "codec": codec.get("id"),
        "codec_library": part(codec, "library").get("path", ""), "op": op_of(record),
        "batch": number(record, "kernel", "batch", 1) if has_tokens(record) else math.nan,
        "activations": kernel.get("activations", "f32") if has_tokens(record) else "",
        "backend": kernel.get("backend"), "device": kernel.get("device"),
        "threads": _positive(number(record, "kernel", "threads", 0)), "variant": kernel.get("variant"),
        "policy": kernel.get("policy", kernel.get("tuning")), "chosen": kernel.get("chosen", ""),
        "simd_target": kernel.get("simd_target"),
        "launch": kernel.get("launch", ""),
        "unfused": bool(kernel.get("unfused", False)), "cache": time.get("cache"), "disturbed": _is_disturbed(record),
        "disturbance": _disturbance(record),
        **{name: _positive(number(record, "entrants", name, 0)) for name in ("kernels", "known_kernels", "settings")},
        "stored_bytes": _positive(number(record, "size", "stored_bytes", 0)),
        "elements": _positive(number(record, "time", "elements", 0)), "samples": _positive(len(samples)),
        "median_s": number(record, "time", "median_s"), "p10_s": number(record, "time", "p10_s"),
        "p90_s": number(record, "time", "p90_s"), "samples_s": samples,
    }
    row.update({f"setting.{name}": value for name, value in part(codec, "settings").items()})
    row.update({f"data.{name}": value for name, value in part(data, "parameters").items() if name != "sigma"})
    for name, metric in METRICS.items():
        value = metric.value(record, context)
        row[name] = value if math.isfinite(value) else math.nan
    row["speedup_vs_raw_low"], row["speedup_vs_raw_high"] = _speedup_interval(record, context.baseline)
    return row


def _speedup_interval(record, baseline):
    nothing = math.nan, math.nan
    if baseline is None or baseline is record or record["status"] != "ok" or op_of(record) == "size":
        return nothing
    times = part(baseline, "time"), part(record, "time")
    if any(times[0].get(name) != times[1].get(name) for name in ("elements", "cache")):
        return nothing
    samples = [time.get("samples_s") or [] for time in times]
    if not all(samples):
        return nothing
    low, _, high = ratio_interval(*samples)
    return (low if low > 0 else math.nan), (high if math.isfinite(high) else math.nan)

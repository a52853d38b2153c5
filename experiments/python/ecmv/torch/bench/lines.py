"""Records as reports/README.md describes them: a run, and a case for each way to run a model."""

import ctypes
import datetime
import hashlib
import json
import pathlib
import secrets
import statistics

import torch
import transformers

from ... import library, version
from ...errors import InvalidArgument
from . import machine
from .models import linears_of

EXPERIMENT = "ecmv.torch.bench"


class Lines:
    """A file of records, of one run."""

    def __init__(self, path, device, arguments, seed):
        self._file = None
        try:
            if path:
                pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._file = open(path, "a", encoding="utf-8")
        except OSError as error:
            raise InvalidArgument(f"The file {path} cannot be written: {error.strerror}.") from None
        self.device, now = device, datetime.datetime.now(datetime.timezone.utc)
        self.run = now.strftime("%Y%m%dT%H%M%SZ-") + secrets.token_hex(4)
        text = " ".join(arguments)
        self._write({"schema": 1, "kind": "run", "run": self.run, "experiment": EXPERIMENT,
                     "question": "How fast does a model run in a program with coded weights, and in how much memory?",
                     "date": now.strftime("%Y-%m-%dT%H:%M:%SZ"), "seed": seed, "arguments": arguments,
                     "build": {**_build(), "libraries": {"ecmv": version(), "torch": torch.__version__,
                                                         "transformers": transformers.__version__}},
                     "machine": machine.description(device),
                     "config": {"name": EXPERIMENT, "hash": _hash(text), "text": text}})

    def _write(self, record):
        if self._file is not None:
            self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
            self._file.flush()

    def write(self, case):
        self._write({"schema": 1, "kind": "case", "run": self.run, "experiment": EXPERIMENT, **case})


def _build():
    """Of the library, whose kernels run."""
    build = library.filled(library.BuildStruct)
    library.call("ecmv_describe_build", ctypes.byref(build))
    return {"git_revision": build.git_revision.decode(), "git_dirty": bool(build.git_dirty),
            "compiler": build.compiler.decode(), "compiler_flags": build.compiler_flags.decode(),
            "build_type": build.build_type.decode()}


def _hash(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def data_of(source, reference, sequences, prompt):
    """The object `data`. `reference`: the uncompressed model, for its matrices; None where it was never there."""
    shapes = {}
    for module in ([] if reference is None else linears_of(reference).values()):
        shape = tuple(module.weight.shape)
        shapes[shape] = shapes.get(shape, 0) + 1
    shapes = [{"rows": rows, "cols": cols, "layers": layers} for (rows, cols), layers in shapes.items()]
    first = shapes[0] if shapes else {"rows": 0, "cols": 0}
    data = {"source": "model", "rows": first["rows"], "cols": first["cols"], "type": "bf16", "sigma": None,
            "layers": sum(shape["layers"] for shape in shapes), "seed": source.seed, "hash": "",
            "parameters": {"model": source.name, "sequences": sequences, "prompt": prompt}}
    return {**data, "shapes": shapes} if len(shapes) > 1 else data


def case(data, op, mode, store_name, codec, settings, device):
    """What a record has even where nothing was measured."""
    on_gpu = device.type == "cuda"
    sequences, prompt = data["parameters"]["sequences"], data["parameters"]["prompt"]
    kernel = {"backend": "cuda" if on_gpu else "cpu", "op": op, "variant": mode, "policy": store_name,
              "simd_target": machine.gpu(device)["architecture"] if on_gpu else "",
              "threads": 1 if on_gpu else torch.get_num_threads(),
              "device": torch.cuda.get_device_name(device) if on_gpu else machine.cpu_model(), "unfused": False,
              "batch": sequences * (prompt if op == "prompt" else 1), "activations": "bf16"}
    if on_gpu:
        facts = machine.gpu(device)
        kernel.update(launch="plain" if mode == "eager" else "graph", compute_units=facts["compute_units"],
                      highest_clock_hz=facts["highest_clock_hz"])
    identity = json.dumps([data, codec, settings, kernel], sort_keys=True)
    return {"status": "ok", "reason": "", "case": _hash(identity), "data": data,
            "codec": {"id": codec, "format_version": 0, "settings": settings}, "kernel": kernel,
            "size": {"stored_bytes": 0, "by_role": {"payload": 0, "table": 0, "index": 0, "scale": 0},
                     "padding_bits": 0, "bits_per_element": None, "entropy_bits_per_element": None},
            "time": {"samples_s": [], "median_s": None, "p10_s": None, "p90_s": None, "elements": 0, "cache": "",
                     "device_clock": "", "iterations_per_sample": 1},
            "check": {"decode": "", "outputs": "", "guards": ""}}


def missing(data, op, mode, store_name, device, status, reason):
    codec = "raw_bf16" if store_name == "uncompressed" else store_name
    return {**case(data, op, mode, store_name, codec, {}, device), "status": status, "reason": reason}


def measured(data, op, session, elements, samples, disturbed, steps, host, check, memory, device, modes):
    """A whole record of samples in seconds. `modes`: ways to run a model that were asked for."""
    store = session.store
    record = case(data, op, session.mode, store.name, store.codec, store.settings, device)
    record["codec"]["format_version"] = getattr(store, "format_version", 0)
    stored, roles = store.bytes, store.roles
    record["size"].update(stored_bytes=stored, bits_per_element=8 * stored / elements,
                          by_role={role: roles.get(role, 0) for role in ("payload", "table", "index", "scale")})
    streamed = stored >= 4 * machine.last_level_cache_bytes(device)
    p10, p90 = percentile(samples, 0.1), percentile(samples, 0.9)
    record["time"].update(samples_s=samples, median_s=statistics.median(samples), p10_s=p10, p90_s=p90,
                          elements=elements, cache="streamed" if streamed else "resident", device_clock="host",
                          iterations_per_sample=steps, disturbed_samples=disturbed)
    # What else the uncompressed model could have run as. Prompts are read in the same way in every mode.
    known = 1 if op == "prompt" else 3 if device.type == "cuda" else 2
    record["entrants"] = {"kernels": min(known, len(set(modes))), "known_kernels": known, "settings": 1}
    if host is not None:
        record["host"] = host
    if memory is not None:
        record["memory"] = memory
    record["check"].update(check)
    if "exceed" in check["outputs"]:
        record.update(status="incorrect", reason=check["outputs"])
    return record


def percentile(samples, share):
    ordered, place = sorted(samples), share * (len(samples) - 1)
    low = int(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])

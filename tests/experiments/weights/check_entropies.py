"""Holds `ecmv inspect --json` to entropies that NumPy computes from the bytes of the same files:

    python3 tests/experiments/weights/check_entropies.py ECMV PATH...

Safetensors (files and folders with model.safetensors), GGUF and ONNX are read here by a few lines of their own. Every
tensor of at least one element is compared: entropy of elements of one and two bytes, entropy of exponents of floats,
both matrix by matrix. Prints how many were compared, and fails beyond 1e-6 bits.
"""
import json
import os
import struct
import subprocess
import sys

import numpy as np

BOUND = 1e-6
EXPONENTS = {  # shift and bits of the field
    "BF16": (7, 8), "F16": (10, 5), "F32": (23, 8), "F64": (52, 11)}
WIDTH = {"I8": 1, "U8": 1, "BOOL": 1, "BF16": 2, "F16": 2, "I16": 2, "U16": 2,
         "F32": 4, "I32": 4, "U32": 4, "F64": 8, "I64": 8, "U64": 8}


def patterns(raw, dtype, shape):
    return np.frombuffer(raw, f"<u{WIDTH[dtype]}").reshape(shape)


def safetensors(data):
    length = struct.unpack("<Q", data[:8])[0]
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            raw = data[8 + length + begin:8 + length + end]
            yield name, entry["dtype"], entry["shape"], patterns(raw, entry["dtype"], entry["shape"])


def gguf(data):
    at = 4

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value[0]

    def text():
        nonlocal at
        length = take("Q")
        at += length
        return data[at - length:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = take("I"), take("Q")
            return [value(inner) for _ in range(count)]
        return take({0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}[kind])

    take("I")
    tensors, pairs = take("Q"), take("Q")
    alignment = 32
    for _ in range(pairs):
        key = text()
        found = value(take("I"))
        alignment = found if key == "general.alignment" else alignment
    infos = []
    for _ in range(tensors):
        name = text()
        dims = [take("Q") for _ in range(take("I"))]
        infos.append((name, dims[::-1], take("I"), take("Q")))
    start = (at + alignment - 1) // alignment * alignment
    for name, shape, kind, offset in infos:
        count = int(np.prod(shape))
        if kind in (0, 1, 30):
            dtype = {0: "F32", 1: "F16", 30: "BF16"}[kind]
            raw = data[start + offset:start + offset + count * WIDTH[dtype]]
            yield name, dtype, shape, patterns(raw, dtype, shape)
            continue
        dtype, size, head = {2: ("Q4_0", 18, 2), 3: ("Q4_1", 20, 4), 8: ("Q8_0", 34, 2)}[kind]
        blocks = np.frombuffer(data, np.uint8, count // 32 * size, start + offset).reshape(-1, size)[:, head:]
        if kind != 8:
            blocks = np.concatenate([blocks & 15, blocks >> 4], axis=1)
        yield name, dtype, shape, blocks.reshape(shape)


def onnx(data):
    def varint(at):
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    def fields(at, end):
        while at < end:
            tag, at = varint(at)
            if tag & 7 == 0:
                value, at = varint(at)
                yield tag >> 3, value
            else:
                length, at = {1: (8, at), 5: (4, at)}.get(tag & 7) or varint(at)
                yield tag >> 3, (at, at + length)
                at += length

    for number, graph in fields(0, len(data)):
        for kind, span in fields(*graph) if number == 7 else ():
            if kind != 5:
                continue
            shape, found = [], {}
            for field, value in fields(*span):
                shape += [value] if field == 1 else []
                found[field] = value
            dtype = {1: "F32", 2: "U8", 3: "I8", 6: "I32", 7: "I64", 10: "F16", 16: "BF16"}[found[2]]
            if 9 in found:  # the few in other fields are scalars
                yield data[slice(*found[8])].decode(), dtype, shape, patterns(data[slice(*found[9])], dtype, shape)


def entropy(matrix):
    counts = np.unique(matrix, return_counts=True)[1]
    share = counts / counts.sum()
    return float(-(share * np.log2(share)).sum())


def mean_entropy(values):
    """Each matrix by itself; three dimensions are a stack of them, but for kernels of convolutions."""
    is_stack = values.ndim == 3 and values.shape[1] > 1 and values.shape[2] >= 8
    return float(np.mean([entropy(m) for m in values])) if is_stack else entropy(values)


def check(ecmv, path):
    printed = json.loads(subprocess.run([ecmv, "inspect", path, "--json"], check=True, capture_output=True).stdout)
    rows = {row["tensor"]: row for row in printed[path]["tensors"]}
    file = os.path.join(path, "model.safetensors") if os.path.isdir(path) else path
    with open(file, "rb") as opened:
        data = opened.read()
    reader = gguf if data[:4] == b"GGUF" else safetensors if data[8:9] == b"{" else onnx
    compared, sums = 0, {}
    for name, dtype, shape, values in reader(data):
        row = rows[name]
        assert row["type"] == dtype and row["shape"] == shape, (name, row["type"], row["shape"], dtype, shape)
        if values.size == 0:
            continue
        expected = {}
        if values.dtype.itemsize <= 2:
            expected["entropy_bits"] = mean_entropy(values)
        if dtype in EXPONENTS:
            shift, bits = EXPONENTS[dtype]
            expected["exponent_entropy_bits"] = mean_entropy(values >> shift & (1 << bits) - 1)
        for figure, bits in expected.items():
            assert abs(row[figure] - bits) <= BOUND, f"{path}: {name}: {figure} is {bits}, not {row[figure]}"
            group = sums.setdefault((row["kind"], dtype, figure), [0.0, 0])
            group[0] += bits * values.size
            group[1] += values.size
            compared += 1
    for kind in printed[path]["kinds"]:
        for figure in ("entropy_bits", "exponent_entropy_bits"):
            total, elements = sums.get((kind["kind"], kind["type"], figure), (0, 0))
            if elements == kind["elements"] and kind[figure] is not None:
                assert abs(kind[figure] - total / elements) <= BOUND, (path, kind["kind"], figure)
                compared += 1
    assert compared > 0, path
    return compared


if __name__ == "__main__":
    for argument in sys.argv[2:]:
        print(f"{argument}: {check(sys.argv[1], argument)} entropies equal")

"""What the decoders beside this file share: sections out of files, whole matrices out of blocks.

Pure Python without packages. Streams are in safetensors files (u64 length of a header, the header in JSON, bytes):
golden ones of one matrix, or those of `ecmv export`; the metadata "settings" has "name=value,...".
"""

import json
import os
import struct
import sys


def read_tensors(path):
    """The bytes of every tensor by its name, and the metadata."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    body = data[8 + length :]
    return {name: body[slice(*tensor["data_offsets"])] for name, tensor in header.items()}, metadata


def pairs_of(text):
    """The text "name=value,..." as a dictionary of texts."""
    return dict(pair.split("=", 1) for pair in text.split(",") if pair)


def sections_of(tensors, prefix):
    """Tensors PREFIX<index>.<name> in the order of their indices."""
    named = {name[len(prefix) :]: data for name, data in tensors.items() if name.startswith(prefix)}
    return [named[name] for name in sorted(named, key=lambda name: int(name.split(".")[0]))]


def blocks_of(rows, cols, block_elements, offsets, payload, padding):
    """(elements, bytes) of every block; all that is not used must be what the format says."""
    rows_per_block = max(1, min(block_elements // cols, rows))
    count = -(-rows // rows_per_block)
    begins = struct.unpack("<%dQ" % (count + 1), offsets)
    assert begins[0] == 0 and begins[-1] == len(payload) - padding
    assert not any(payload[begins[-1] :])
    for b in range(count):
        yield min(rows_per_block, rows - b * rows_per_block) * cols, payload[begins[b] : begins[b + 1]]


def decode_matrix(decode, sections, settings, rows, cols, takes_empty=False):
    if rows * cols == 0 and not takes_empty:
        assert not any(sections)
        return b""
    return decode(sections, settings, rows, cols)


def check_exported(decode, path, takes_empty):
    """Whether every layer of an exported stream is that of the matrices beside it."""
    tensors, metadata = read_tensors(path)
    matrices, _ = read_tensors(os.path.join(os.path.dirname(path), metadata["matrices"]))
    equal = True
    for layer in range(sum(name.startswith("layer") for name in matrices)):
        name = "layer%d" % layer
        what = pairs_of(metadata[name])
        sections = sections_of(tensors, name + ".")
        decoded = decode_matrix(
            decode, sections, pairs_of(metadata["settings"]), int(what["rows"]), int(what["cols"]), takes_empty
        )
        print("%s: %s" % (name, "equal" if decoded == matrices[name] else "DIFFERENT"))
        equal = equal and decoded == matrices[name]
    return equal


def main(decode, takes_empty=False):
    """STREAM of `ecmv export`: compares every layer. Golden STREAM ROWS COLS OUT, repeated: decodes to OUT."""
    arguments = sys.argv[1:]
    if len(arguments) == 1:
        sys.exit(0 if check_exported(decode, arguments[0], takes_empty) else 1)
    assert arguments and len(arguments) % 4 == 0, main.__doc__
    for path, rows, cols, out in zip(*[iter(arguments)] * 4):
        tensors, metadata = read_tensors(path)
        sections = sections_of(tensors, "")
        decoded = decode_matrix(
            decode, sections, pairs_of(metadata["settings"]), int(rows), int(cols), takes_empty
        )
        with open(out, "wb") as file:
            file.write(decoded)

"""Reads matrices of a file straight to where they stay, for products that compare their bytes with a hash.

The library's ecmv_load_trusted() keeps a matrix in memory of its own, of which the tensor would be a copy. (1.8 GB in
13 matrices of Llama 3 8B, in the page cache, two cores of a Xeon: loading and binding took 1.4 to 1.7 s so, now 0.6.)
"""

import os
import threading

import torch

from ..errors import Malformed
from . import coded as coded_tensors

_CHUNK_BYTES = 16 << 20  # of pinned memory, two a thread
_own = threading.local()


def read(descriptor, description, hash_, places, device):
    """The coded tensor, on a device, of the matrix that `description` of a file is about.

    `hash_`: of ecmv_describe. `places`: of each section its first byte in the open file, and the number of its bytes.
    The bytes are compared with nothing.
    """
    sections = [{**section, "offset": 0, "bytes": count}
                for section, (_, count) in zip(description["sections"], places)]
    facts = {name: description[name] for name in ("codec", "settings", "type", "rows", "cols", "format_version")}
    header, end = coded_tensors.lay_out({**facts, "hash": hash_}, sections)
    coded = torch.empty(end, dtype=torch.uint8, device=device)
    coded[:len(header)] = torch.frombuffer(bytearray(header), dtype=torch.uint8)
    filled = len(header)
    for section, (begin, count) in zip(sections, places):
        coded[filled:section["offset"]] = 0
        filled = section["offset"] + count
        _fill(coded[section["offset"]:filled], descriptor, begin)
    return coded


def _fill(bytes_, descriptor, begin):
    if bytes_.device.type == "cpu":
        return _read(bytes_, descriptor, begin)
    for number, part in enumerate(bytes_.split(_CHUNK_BYTES)):
        chunk, is_free = _chunks(bytes_.device)[number % 2]
        is_free.synchronize()
        _read(chunk[:len(part)], descriptor, begin + number * _CHUNK_BYTES)
        part.copy_(chunk[:len(part)], non_blocking=True)
        is_free.record(torch.cuda.current_stream(bytes_.device))


def _chunks(device):
    """Two of the thread, each with an event that is over when the chunk may be filled again."""
    if getattr(_own, "device", None) != device:
        with torch.cuda.device(device):
            _own.chunks = [(torch.empty(_CHUNK_BYTES, dtype=torch.uint8, pin_memory=True), torch.cuda.Event())
                           for _ in range(2)]
        _own.device = device
    return _own.chunks


def _read(bytes_, descriptor, begin):
    view, done = memoryview(bytes_.numpy()), 0
    while done < len(view):
        count = os.preadv(descriptor, [view[done:]], begin + done)
        if count <= 0:
            raise Malformed("The file ends before the bytes of a matrix.")
        done += count

"""Coded matrices as tensors: one tensor of bytes holds the sections of a matrix and what describes them.

    8 bytes      ecmvcod1
    8 bytes      n, little-endian
    n bytes      JSON: codec, settings, type, rows, cols, format_version, hash (of ecmv_describe), and of each section
                 name, role, alignment, padding, offset and bytes
    sections     each at its offset, a multiple of 256 and of its alignment
"""

import ctypes
import json

import torch

from .. import library
from ..errors import InvalidArgument, Malformed

MAGIC = b"ecmvcod1"
TYPES = {torch.bfloat16: "bf16", torch.float32: "f32", torch.float16: "f16", torch.float64: "f64", torch.int8: "i8"}
DTYPES = {name: dtype for dtype, name in TYPES.items()}
_ALIGNMENT, _HEADER_BYTES = 256, 2048  # of seven sections: 900 bytes


class Matrix:
    """An ecmv_compressed_matrix, in the host's memory."""

    def __init__(self, handle):
        self.handle = handle
        self._free = library.functions().ecmv_free_matrix

    def __del__(self):
        self._free(self.handle)

    def sections(self):
        for number in range(library.functions().ecmv_section_count(self.handle)):
            section = library.filled(library.SectionStruct)
            library.call("ecmv_section_of", self.handle, number, ctypes.byref(section))
            yield section

    def description(self):
        described = library.filled(library.DescriptionStruct)
        library.call("ecmv_describe", self.handle, ctypes.byref(described))
        return {"codec": described.codec.decode(), "settings": described.settings.decode(),
                "type": described.element_type.decode(), "rows": described.rows, "cols": described.cols,
                "format_version": described.format_version, "hash": described.hash}

    def hash(self):
        """Of all that makes the matrix."""
        return self.description()["hash"]

    def decode(self):
        """The elements, [rows, cols], on the CPU."""
        described = self.description()
        out = torch.empty(described["rows"], described["cols"], dtype=DTYPES[described["type"]], device="cpu")
        library.call("ecmv_decode", self.handle, out.data_ptr(), out.nbytes)
        return out


def encode(weight, codec, settings=None):
    """Codes a matrix, [rows, cols]; it is decoded again and compared. One thread; Python's lock is released."""
    if weight.dtype not in TYPES:
        raise InvalidArgument(f"There are no coded matrices of {weight.dtype}.")
    elements = on_host(weight)
    return Matrix(library.make("ecmv_encode", codec.encode(), settings_text(settings).encode(),
                               TYPES[weight.dtype].encode(), *elements.shape, elements.data_ptr() or None))


def on_host(tensor):
    """Its numbers, in the order of rows, whatever stream of a GPU writes them."""
    tensor = tensor.detach().contiguous()
    if not tensor.is_cuda:
        return tensor.to("cpu")
    torch.cuda.synchronize(tensor.device)
    try:  # pinned memory, which PyTorch keeps for the next one, is copied to several times as fast
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True).copy_(tensor)
    except RuntimeError:
        return tensor.to("cpu")


def settings_text(settings):
    """Settings as the library takes them, of a dict or of such a text."""
    if settings is None or isinstance(settings, str):
        return settings or ""
    return ",".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}"
                    for name, value in settings.items())


def pack(matrix):
    """A tensor of a matrix."""
    sections, placed = list(matrix.sections()), []
    for section in sections:
        placed.append({"name": section.name.decode(), "role": section.role.decode(), "alignment": section.alignment,
                       "padding": section.padding, "offset": 0, "bytes": section.bytes})
    header, end = lay_out(matrix.description(), placed)
    coded = torch.empty(end, dtype=torch.uint8, device="cpu")
    ctypes.memmove(coded.data_ptr(), header, len(header))
    filled = len(header)
    for section, at in zip(sections, placed):
        coded[filled:at["offset"]] = 0
        ctypes.memmove(coded.data_ptr() + at["offset"], section.place, section.bytes)
        filled = at["offset"] + at["bytes"]
    coded[filled:] = 0
    return coded


def lay_out(description, sections):
    """(header, bytes of all) of a tensor of these sections, whose offsets are set."""
    room = 0
    while True:
        end = room
        for section in sections:
            alignment = max(_ALIGNMENT, section["alignment"])
            section["offset"] = (end + alignment - 1) // alignment * alignment
            end = section["offset"] + section["bytes"]
        text = json.dumps({**description, "sections": sections}, separators=(",", ":")).encode()
        header = MAGIC + len(text).to_bytes(8, "little") + text
        if len(header) <= room:
            return header, max(end, len(header))
        room = len(header) + 64  # offsets have more digits then


def is_coded(tensor):
    """Whether it is a tensor of a coded matrix, by its first bytes."""
    return _begins_as_coded(tensor) and tensor[:8].cpu().numpy().tobytes() == MAGIC


def _begins_as_coded(tensor):
    return (tensor.dtype == torch.uint8 and tensor.dim() == 1 and tensor.numel() >= 16 and
            tensor.device.type != "meta")


def describe(coded):
    """What the tensor says of its matrix. One copy from a GPU where the header is not long."""
    begin = coded[:_HEADER_BYTES].cpu().numpy().tobytes() if _begins_as_coded(coded) else b""
    if begin[:8] != MAGIC:
        raise Malformed("The tensor is not one of a coded matrix.")
    end = 16 + int.from_bytes(begin[8:16], "little")
    try:
        if end > coded.numel():
            raise ValueError
        described = json.loads(begin[16:end] if end <= len(begin) else coded[16:end].cpu().numpy().tobytes())
        if not all(0 <= section["offset"] <= coded.numel() - section["bytes"] and section["bytes"] >= 0
                   for section in described["sections"]):
            raise ValueError
        return described if isinstance(described["rows"] + described["cols"], int) else None
    except (ValueError, KeyError, TypeError):
        raise Malformed("The header of the coded matrix is damaged.") from None


def parts(described, begin, known_hash=None):
    """(ecmv_description, array of ecmv_stored_section) of a tensor that describe() has read, whose first byte is at the
    address `begin`."""
    sections = (library.SectionStruct * len(described["sections"]))()
    try:
        for section, at in zip(sections, described["sections"]):
            section.struct_bytes = ctypes.sizeof(section)
            section.name, section.role = at["name"].encode(), at["role"].encode()
            section.place, section.bytes = begin + at["offset"], at["bytes"]
            section.padding, section.alignment = at["padding"], at["alignment"]
        return library.filled(
            library.DescriptionStruct, codec=described["codec"].encode(), settings=described["settings"].encode(),
            element_type=described["type"].encode(), rows=described["rows"], cols=described["cols"],
            format_version=described["format_version"], hash=known_hash or 0), sections
    except (KeyError, TypeError, AttributeError, ctypes.ArgumentError):
        raise Malformed("The header of the coded matrix is damaged.") from None


def unpack(coded, known_hash=None):
    """A matrix of its tensor. The codec's reference decoder takes it first, since kernels check nothing.

    With a hash that this process, or somebody whom it trusts like its own code, has made of the matrix, the bytes are
    compared with that alone, which takes much less time.
    """
    bytes_ = on_host(coded)
    whole, sections = parts(describe(bytes_), bytes_.data_ptr(), known_hash)
    return Matrix(library.make("ecmv_from_sections", ctypes.byref(whole), sections, len(sections)))

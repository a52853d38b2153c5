"""Compressed matrices: encoded from NumPy arrays, decoded to them, multiplied with them."""

import collections
import functools
import threading
import weakref

import numpy as np

from . import library
from .errors import InvalidArgument

# Maps names of types in NumPy and ml_dtypes to the library's.
_TYPES = {
    "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32", "int64": "i64",
    "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16", "float8_e5m2": "f8_e5m2",
    "float8_e4m3fn": "f8_e4m3",
}
_BYTES = {"f8_e5m2": 1, "f8_e4m3": 1, "bf16": 2, "f16": 2}
_MOST_TOKENS = 64

Sizes = collections.namedtuple("Sizes", "payload table index scale padding stored bits_per_element")
Sizes.__doc__ = """Stored bytes: payload + table + index + scale = stored, every byte a product may read; padding is
how many of them carry nothing. bits_per_element is 8 * stored / elements."""


def version():
    """The version of the library that was found: "0.1.0"."""
    return library.functions().ecmv_version().decode()


def codecs():
    """The codecs of the library: id -> one sentence. `ecmv list codecs NAME` shows their settings."""
    loaded, found = library.functions(), {}
    while (identity := loaded.ecmv_codec_id(len(found))) is not None:
        found[identity.decode()] = loaded.ecmv_codec_summary(len(found)).decode()
    return found


def load_codec_library(file):
    """Adds the codecs of a shared object (codecs/ABI.md)."""
    library.call("ecmv_load_codec_library", str(file).encode())


def encode(array, codec, type=None, **settings):
    """Encodes a matrix, [rows, cols], with a codec and its settings: encode(w, "rans", lanes=32).

    `type` names the type of the elements where NumPy has none: "bf16" of uint16, "f8_e4m3" and "f8_e5m2" of uint8.
    The matrix is decoded again and compared before it is given out.
    """
    array = np.asarray(array)
    if array.ndim != 2:
        raise InvalidArgument(f"A matrix has 2 dimensions, not {array.ndim}.")
    element_type = type or _TYPES.get(array.dtype.name)
    if element_type is None:
        raise InvalidArgument(f"There are no matrices of the type {array.dtype}; there are: {', '.join(_TYPES)}.")
    if _BYTES.get(element_type, array.dtype.itemsize) != array.dtype.itemsize:
        raise InvalidArgument(f"Elements of the type {element_type} do not have the {array.dtype.itemsize} bytes of "
                              f"{array.dtype}.")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    elements = np.require(array, requirements=["C", "ALIGNED"])
    handle = library.make("ecmv_encode", codec.encode(), _settings_text(settings).encode(), element_type.encode(),
                          *elements.shape, elements.ctypes.data if elements.size else None)
    return CompressedMatrix(handle, codec, element_type, elements.dtype, elements.shape)


def _settings_text(settings):
    def text(value):
        return str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)
    return ",".join(f"{name}={text(value)}" for name, value in settings.items())


class CompressedMatrix:
    """A matrix as a codec stores it, in the host's memory; encode() makes one. It never changes."""

    def __init__(self, handle, codec, element_type, dtype, shape):
        self._handle, self._passes, self._lock = handle, {}, threading.Lock()
        self.codec, self.type, self.dtype, self.shape = codec, element_type, dtype, tuple(shape)
        weakref.finalize(self, library.functions().ecmv_free_matrix, handle)

    def __repr__(self):
        return (f"<ecmv.CompressedMatrix of {self.shape[0]} x {self.shape[1]} {self.type} by {self.codec}, "
                f"{self.sizes.bits_per_element:.3f} bits an element>")

    @property
    def sizes(self):
        """Its Sizes."""
        filled = library.filled(library.SizesStruct)
        library.call("ecmv_sizes_of", self._handle, library.ctypes.byref(filled))
        return Sizes(*(getattr(filled, name) for name in Sizes._fields))

    def decode(self, backend=None, threads=0, device=-1):
        """The elements. Without a backend by the codec's reference decoder: plain loops on one thread."""
        out = np.empty(self.shape, self.dtype)
        place = out.ctypes.data if out.size else None
        if backend is None:
            library.call("ecmv_decode", self._handle, place, out.nbytes)
        else:
            library.call("ecmv_run_decode", self._pass("decode", 1, backend, threads, device).handle, place, out.nbytes)
        return out

    def multiply(self, x, backend="best", threads=0, device=-1):
        """The product with x: [cols], or [cols, tokens] as in NumPy.

        An int8 matrix and int8 x: int32, exact. Otherwise elements are taken as numbers, x is float32 (float16 and
        bfloat16 become that without loss), and so is the result; sums are float32 sums.
        `backend`, `threads` (0: all) and `device` are as in ecmv.h; results of GPUs come back to the host.
        The kernel is prepared by the first call and kept with the matrix; calls from several threads take turns.
        """
        x = np.asarray(x)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise InvalidArgument(f"The matrix has {self.shape[1]} columns, which do not fit x of the shape {x.shape}.")
        tokens = np.ascontiguousarray((x[:, None] if x.ndim == 1 else x).T)  # [tokens, cols]
        if x.dtype == np.int8:
            results = self._multiply_int8(tokens, backend, threads, device)
        elif x.dtype.name in ("float32", "float16", "bfloat16"):
            results = self._multiply_float(tokens.astype(np.float32), backend, threads, device)
        else:
            raise InvalidArgument(f"Products take x of int8 or float32, not {x.dtype}: convert it, so that what is "
                                  "lost is seen.")
        return results[0] if x.ndim == 1 else np.ascontiguousarray(results.T)

    __matmul__ = multiply

    def kernel(self, op="matvec", tokens=1, backend="best", threads=0, device=-1):
        """Which kernel "decode", "matvec" (int8) or "matmul" of so many tokens runs: "simd/matvec/rows/default"."""
        return library.functions().ecmv_pass_kernel(self._pass(op, tokens, backend, threads, device).handle).decode()

    def _multiply_int8(self, tokens, backend, threads, device):
        results = np.empty((len(tokens), self.shape[0]), np.int32)
        run = self._pass("matvec", 1, backend, threads, device).handle
        for x, y in zip(tokens, results):
            library.call("ecmv_run_matvec", run, x.ctypes.data, y.ctypes.data)
        return results

    def _multiply_float(self, tokens, backend, threads, device):
        results = np.empty((len(tokens), self.shape[0]), np.float32)
        for begin in range(0, len(tokens), _MOST_TOKENS):
            x, y = tokens[begin:begin + _MOST_TOKENS], results[begin:begin + _MOST_TOKENS]
            run = self._pass("matmul", len(x), backend, threads, device).handle
            library.call("ecmv_run_matmul", run, x.ctypes.data, y.ctypes.data)
        return results

    def _pass(self, op, batch, backend, threads, device):
        key = (op, batch, backend, threads, device)
        with self._lock:
            if key not in self._passes:
                self._passes[key] = _Pass(self._handle, *key)
            return self._passes[key]


class _Pass:
    """An ecmv_pass. It keeps what it needs of its matrix and its context."""

    def __init__(self, matrix, op, batch, backend, threads, device):
        context = _context(backend, threads, device)
        more = [batch] if op == "matmul" else []
        if op not in ("decode", "matvec", "matmul"):
            raise InvalidArgument(f"There is no op '{op}'; there are: decode, matvec, matmul.")
        self.handle = library.make(f"ecmv_prepare_{op}", context, matrix, *more)
        weakref.finalize(self, library.functions().ecmv_free_pass, self.handle)


@functools.lru_cache(maxsize=None)
def _context(backend, threads, device):
    return library.make("ecmv_open", backend.encode(), threads, device)

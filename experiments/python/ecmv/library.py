"""The functions of ecmv.h, by ctypes: nothing is compiled. Calls release Python's lock while they run."""

import ctypes
import functools

from . import errors, places

# By ecmv_status.
_ERRORS = {
    1: errors.InvalidArgument,
    2: errors.Refused,
    3: errors.Unavailable,
    4: errors.OutOfMemory,
    5: errors.Incorrect,
}

_handle, _text, _status = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_made = ctypes.POINTER(_handle)
_int64, _array, _bytes = ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t


class SizesStruct(ctypes.Structure):
    """ecmv_sizes."""
    _fields_ = [("struct_bytes", _bytes), ("payload", _int64), ("table", _int64), ("index", _int64), ("scale", _int64),
                ("padding", _int64), ("stored", _int64), ("bits_per_element", ctypes.c_double)]


_FUNCTIONS = {
    "ecmv_last_error": (_text, []),
    "ecmv_version": (_text, []),
    "ecmv_codec_id": (_text, [_bytes]),
    "ecmv_codec_summary": (_text, [_bytes]),
    "ecmv_load_codec_library": (_status, [_text]),
    "ecmv_encode": (_status, [_text, _text, _text, _int64, _int64, _array, _made]),
    "ecmv_free_matrix": (None, [_handle]),
    "ecmv_sizes_of": (_status, [_handle, ctypes.POINTER(SizesStruct)]),
    "ecmv_decode": (_status, [_handle, _array, _bytes]),
    "ecmv_open": (_status, [_text, ctypes.c_int, ctypes.c_int, _made]),
    "ecmv_close": (None, [_handle]),
    "ecmv_prepare_matvec": (_status, [_handle, _handle, _made]),
    "ecmv_run_matvec": (_status, [_handle, _array, _array]),
    "ecmv_prepare_matmul": (_status, [_handle, _handle, ctypes.c_int, _made]),
    "ecmv_run_matmul": (_status, [_handle, _array, _array]),
    "ecmv_prepare_decode": (_status, [_handle, _handle, _made]),
    "ecmv_run_decode": (_status, [_handle, _array, _bytes]),
    "ecmv_pass_kernel": (_text, [_handle]),
    "ecmv_free_pass": (None, [_handle]),
}


@functools.lru_cache(maxsize=None)
def functions():
    """The library, loaded once, with the types of its functions."""
    file = places.library()
    try:
        loaded = ctypes.CDLL(file)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise errors.Unavailable(f"The library {file} cannot be used: {error}.") from None
    return loaded


def call(name, *arguments):
    """Calls a function that returns a status; failures are raised with the library's sentence."""
    loaded = functions()
    status = getattr(loaded, name)(*arguments)
    if status != 0:
        sentence = loaded.ecmv_last_error().decode("utf-8", "replace")
        raise _ERRORS.get(status, errors.Failed)(sentence)


def make(name, *arguments):
    """Calls a function whose last argument receives a handle, and gives the handle."""
    handle = _handle()
    call(name, *arguments, ctypes.byref(handle))
    return handle

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
    7: errors.Malformed,
}

_handle, _text, _status = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_made = ctypes.POINTER(_handle)
_int64, _array, _bytes = ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t


class SizesStruct(ctypes.Structure):
    """ecmv_sizes."""
    _fields_ = [("struct_bytes", _bytes), ("payload", _int64), ("table", _int64), ("index", _int64), ("scale", _int64),
                ("padding", _int64), ("stored", _int64), ("bits_per_element", ctypes.c_double)]


class BuildStruct(ctypes.Structure):
    """ecmv_build."""
    _fields_ = [("struct_bytes", _bytes), ("git_revision", _text), ("git_dirty", ctypes.c_int), ("compiler", _text),
                ("compiler_flags", _text), ("build_type", _text)]


class SectionStruct(ctypes.Structure):
    """ecmv_stored_section."""
    _fields_ = [("struct_bytes", _bytes), ("name", _text), ("role", _text), ("place", _array), ("bytes", _bytes),
                ("padding", _bytes), ("alignment", _bytes)]


class DescriptionStruct(ctypes.Structure):
    """ecmv_description."""
    _fields_ = [("struct_bytes", _bytes), ("codec", _text), ("settings", _text), ("element_type", _text),
                ("rows", _int64), ("cols", _int64), ("format_version", ctypes.c_uint32), ("hash", ctypes.c_uint64)]


class SpanStruct(ctypes.Structure):
    """ecmv_span."""
    _fields_ = [("place", _array), ("bytes", _bytes)]


class ProductOptionsStruct(ctypes.Structure):
    """ecmv_product_options."""
    _fields_ = [("struct_bytes", _bytes), ("max_tokens", _int64), ("x_type", _text), ("y_type", _text),
                ("bias", _array), ("sections", ctypes.POINTER(SpanStruct)), ("section_count", _bytes),
                ("workspace", _handle), ("measure", ctypes.c_int32)]


class TorchBindingStruct(ctypes.Structure):
    """ecmv_torch_binding."""
    _fields_ = [("struct_bytes", _bytes), ("product", _handle), ("bias", _array), ("rows", _int64), ("cols", _int64),
                ("device", ctypes.c_int32), ("bf16", ctypes.c_int32)]


TorchBinder = ctypes.CFUNCTYPE(None, _array, _array, _array, _bytes)  # ecmv_torch_binder


def filled(struct, **fields):
    """A struct of these fields that knows its own size."""
    return struct(struct_bytes=ctypes.sizeof(struct), **fields)


_FUNCTIONS = {
    "ecmv_last_error": (_text, []),
    "ecmv_version": (_text, []),
    "ecmv_describe_build": (_status, [ctypes.POINTER(BuildStruct)]),
    "ecmv_codec_id": (_text, [_bytes]),
    "ecmv_codec_summary": (_text, [_bytes]),
    "ecmv_load_codec_library": (_status, [_text]),
    "ecmv_encode": (_status, [_text, _text, _text, _int64, _int64, _array, _made]),
    "ecmv_free_matrix": (None, [_handle]),
    "ecmv_sizes_of": (_status, [_handle, ctypes.POINTER(SizesStruct)]),
    "ecmv_decode": (_status, [_handle, _array, _bytes]),
    "ecmv_section_count": (_bytes, [_handle]),
    "ecmv_section_of": (_status, [_handle, _bytes, ctypes.POINTER(SectionStruct)]),
    "ecmv_describe": (_status, [_handle, ctypes.POINTER(DescriptionStruct)]),
    "ecmv_from_sections": (_status, [ctypes.POINTER(DescriptionStruct), ctypes.POINTER(SectionStruct), _bytes, _made]),
    "ecmv_describe_in_file": (_status, [_handle, _text, _array, _bytes]),
    "ecmv_open_file": (_status, [_text, _made]),
    "ecmv_file_name": (_text, [_handle, _bytes]),
    "ecmv_load": (_status, [_handle, _text, _made]),
    "ecmv_load_trusted": (_status, [_handle, _text, _made]),
    "ecmv_close_file": (None, [_handle]),
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
    "ecmv_make_workspace": (_status, [_handle, _made]),
    "ecmv_bind_product": (_status, [_handle, _handle, ctypes.POINTER(ProductOptionsStruct), _made]),
    "ecmv_bind_known_product": (_status, [_handle, ctypes.POINTER(DescriptionStruct), ctypes.POINTER(SectionStruct),
                                          _bytes, ctypes.POINTER(ProductOptionsStruct), _made]),
    "ecmv_compare_with_hash": (_status, [_handle, _handle, ctypes.POINTER(DescriptionStruct),
                                         ctypes.POINTER(SectionStruct), _bytes]),
    "ecmv_enqueue_product": (_status, [_handle, _array, _array, _int64, _int64, _array, _int64]),
    "ecmv_product_scratch_bytes": (_bytes, [_handle]),
    "ecmv_product_kernel": (_text, [_handle, _int64]),
    "ecmv_free_product": (None, [_handle]),
    "ecmv_torch_register": (_status, [_text, _text, TorchBinder]),
    "ecmv_torch_bind": (_status, [_array, ctypes.POINTER(TorchBindingStruct)]),
    "ecmv_torch_unbind": (None, [_array, _array, _handle]),
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

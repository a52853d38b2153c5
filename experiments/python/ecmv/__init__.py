"""Records, compressed matrices and products of ecmv, for NumPy and pandas.

    read_records, read_runs, read_bandwidths, METRICS    what runs have measured, as data frames
    encode, CompressedMatrix, codecs, version            the library: NumPy arrays in, NumPy arrays out
    advise                                               what the command says of a model's weights
    ecmv.torch                                           PyTorch modules that multiply coded weights; import it by name
    Error and its subclasses                             each with the library's or the command's own sentence
"""

import importlib

# NumPy and pandas are imported when something that needs them is used, so that ecmv.torch does without.
_PLACES = {
    ".command": ["advise"],
    ".errors": ["Error", "Failed", "Incorrect", "InvalidArgument", "Malformed", "OutOfMemory", "Refused",
                "Unavailable"],
    ".matrices": ["CompressedMatrix", "Sizes", "codecs", "encode", "load_codec_library", "version"],
    ".metrics": ["METRICS", "Metric"],
    ".records": ["read_bandwidths", "read_records", "read_runs"],
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}

__all__ = sorted(_PLACE_OF)


def __getattr__(name):
    if name not in _PLACE_OF:
        raise AttributeError(f"The package ecmv has no {name}.")
    value = globals()[name] = getattr(importlib.import_module(_PLACE_OF[name], __name__), name)
    return value


def __dir__():
    return __all__

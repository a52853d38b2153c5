"""Records, compressed matrices and products of ecmv, for NumPy and pandas.

    read_records, read_runs, read_bandwidths, METRICS    what runs have measured, as data frames
    encode, CompressedMatrix, codecs, version            the library: NumPy arrays in, NumPy arrays out
    advise                                               what the command says of a model's weights
    Error and its subclasses                             each with the library's or the command's own sentence
"""

import importlib

# Where names come from. They are imported when they are first asked for: pandas takes a third of a second, only records
# need it, and whoever has none may use the rest.
_HOMES = {
    "command": ["advise"],
    "errors": ["Error", "Failed", "Incorrect", "InvalidArgument", "OutOfMemory", "Refused", "Unavailable"],
    "matrices": ["CompressedMatrix", "Sizes", "codecs", "encode", "load_codec_library", "version"],
    "metrics": ["METRICS", "Metric"],
    "records": ["read_bandwidths", "read_records", "read_runs"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name):
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})

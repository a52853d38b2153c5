"""Records, compressed matrices and products of ecmv, for NumPy and pandas.

    read_records, read_runs, read_bandwidths, METRICS    what runs have measured, as data frames
    encode, CompressedMatrix, codecs, version            the library: NumPy arrays in, NumPy arrays out
    advise                                               what the command says of a model's weights
    Error and its subclasses                             each with the library's or the command's own sentence
"""

from .command import advise
from .errors import Error, Failed, Incorrect, InvalidArgument, OutOfMemory, Refused, Unavailable
from .matrices import CompressedMatrix, Sizes, codecs, encode, load_codec_library, version
from .metrics import METRICS, Metric
from .records import read_bandwidths, read_records, read_runs

__all__ = [
    "METRICS", "CompressedMatrix", "Error", "Failed", "Incorrect", "InvalidArgument", "Metric", "OutOfMemory",
    "Refused", "Sizes", "Unavailable", "advise", "codecs", "encode", "load_codec_library", "read_bandwidths",
    "read_records", "read_runs", "version",
]

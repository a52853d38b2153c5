"""Where the installed library and the installed command are."""

import ctypes.util
import os
import pathlib
import shutil
import sys

from .errors import Unavailable


def command():
    """The program ecmv: ECMV_COMMAND, else the one on the PATH, else the one installed with the library."""
    named = os.environ.get("ECMV_COMMAND")
    if named:
        return named
    found = shutil.which("ecmv")
    if found:
        return found
    for library in _libraries():
        for prefix in library.parents:
            program = prefix / "bin" / "ecmv"
            if program.is_file():
                return str(program)
    raise Unavailable("The command ecmv was not found: install it (make install PREFIX=DIR), put DIR/bin on the PATH, "
                      "or name it in ECMV_COMMAND.")


def library():
    """libecmv.so: ECMV_LIBRARY, else beside the command on the PATH, in this Python's prefix, or by the loader."""
    named = os.environ.get("ECMV_LIBRARY")
    if named:
        return named
    for found in _libraries():
        return str(found)
    known = ctypes.util.find_library("ecmv")
    if known:
        return known
    raise Unavailable("The library libecmv.so was not found: install it (make install PREFIX=DIR) and put DIR/bin on "
                      "the PATH, or name the file in ECMV_LIBRARY.")


def _libraries():
    prefixes = [pathlib.Path(sys.prefix)]
    program = shutil.which("ecmv")
    if program:
        prefixes.insert(0, pathlib.Path(program).resolve().parent.parent)
    for prefix in prefixes:
        for pattern in ("lib*/libecmv.so.0", "lib/*/libecmv.so.0"):
            yield from sorted(prefix.glob(pattern))

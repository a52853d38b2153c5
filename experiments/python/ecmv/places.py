"""Where the installed library and the installed command are."""

import ctypes.util
import os
import pathlib
import shutil
import sys

from .errors import Unavailable

# What a wheel brings with the package (make_wheel.py), as `make install` would install it.
INSTALLED = pathlib.Path(__file__).resolve().parent / "installed"


def command():
    """The program ecmv: ECMV_COMMAND, else the package's own, else the PATH's, else the one beside the library."""
    named = os.environ.get("ECMV_COMMAND")
    if named:
        return named
    if (INSTALLED / "bin" / "ecmv").is_file():
        return str(INSTALLED / "bin" / "ecmv")
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
    """libecmv.so: ECMV_LIBRARY, else the package's own, beside the PATH's command, in this Python's prefix, or by the
    loader."""
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
    prefixes = [INSTALLED]
    program = shutil.which("ecmv")
    if program:
        prefixes.append(pathlib.Path(program).resolve().parent.parent)
    prefixes.append(pathlib.Path(sys.prefix))
    for prefix in prefixes:
        for pattern in ("lib*/libecmv.so.0", "lib/*/libecmv.so.0"):
            yield from sorted(prefix.glob(pattern))

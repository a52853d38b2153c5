"""The command ecmv: what it says, for programs, and the command itself where a wheel brought it."""

import json
import os
import pathlib
import subprocess
import sys

from . import places
from .errors import Failed, InvalidArgument, Unavailable


def main():
    """Becomes the command that is in the package."""
    program = places.INSTALLED / "bin" / "ecmv"
    # The loader finds cuBLAS and NCCL also where pip put them. What the user named comes first.
    folders = [os.environ.get("LD_LIBRARY_PATH", ""),
               *map(str, sorted(pathlib.Path(__file__).resolve().parents[1].glob("nvidia/*/lib")))]
    if len(folders) > 1:
        os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    try:
        os.execv(program, ["ecmv", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"ecmv: The program {program} cannot be started: {error.strerror}.")


def advise(path, *arguments):
    """The bytes that each format would store for the weights in `path`, the fastest codec at that size, and its speed.

    It is the output of `ecmv advise PATH --json`, parsed; `arguments` are further words of that command line.
    """
    return _run("advise", str(path), *map(str, arguments), "--json")


def _run(verb, *arguments):
    program = places.command()
    try:
        ended = subprocess.run([program, verb, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise Unavailable(f"The command {program} cannot be started: {error.strerror}.") from None
    said = ended.stderr.strip()
    if ended.returncode == 2 and f"There is no verb '{verb}'" in said:
        raise Unavailable(f"The command {program} has no verb '{verb}': it is older than this package.")
    if ended.returncode == 2:
        raise InvalidArgument(said)
    if ended.returncode != 0:
        raise Failed(said or f"{program} {verb} ended with {ended.returncode}.")
    try:
        return json.loads(ended.stdout)
    except json.JSONDecodeError:
        raise Failed(f"{program} {verb} did not answer in JSON: {ended.stdout[:200]!r}") from None

"""What the command ecmv says, for programs."""

import json
import subprocess

from . import places
from .errors import Failed, InvalidArgument, Unavailable


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

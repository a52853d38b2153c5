"""What can go wrong, by the statuses of ecmv.h. Each error is also the built-in one that a Python program expects."""


class Error(Exception):
    """Of everything that this package raises about matrices, records and the command."""


class InvalidArgument(Error, ValueError):
    """A name or a setting that there is not, a size or a type that does not fit."""


class Refused(Error, ValueError):
    """The codec does not store such a matrix, or there is no such product of it."""


class Unavailable(Error, RuntimeError):
    """A library, a command, a backend or a device that is not to be had here."""


class OutOfMemory(Error, MemoryError):
    pass


class Incorrect(Error, RuntimeError):
    """What was encoded does not decode to what it was made from: a defect of the codec."""


class Malformed(Error, ValueError):
    """Sections or a file that are truncated, changed, or none that the codec stores."""


class Failed(Error, RuntimeError):
    """Anything else: a device that was lost, a file that is no record, a defect."""

"""PyTorch modules whose weights stay entropy coded in memory; ../README.md has a section about them.

    convert_all_linear(model)    codes the weights of all linear modules of a model, in place
    EcmvLinear                   the module that is there then
    prepare(model)               binds coded modules now, before a stream is captured
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("ecmv.torch needs PyTorch, and this Python has none.") from error

from .convert import Converted, Report, Skipped, convert_all_linear
from .linear import EcmvLinear, default_codec
from .products import prepare

__all__ = ["Converted", "EcmvLinear", "Report", "Skipped", "convert_all_linear", "default_codec", "prepare"]

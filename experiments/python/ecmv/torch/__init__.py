"""PyTorch modules whose weights stay entropy coded in memory; ../README.md has a section about them.

    convert_all_linear(model)    codes the weights of all linear modules of a model, in place
    EcmvLinear, EcmvEmbedding    the modules that are there then
    save(model, path)            writes its coded weights and its other tensors to one safetensors file
    load(model, path)            fills a model from such a file
    prepare(model)               binds coded modules now, before a stream is captured
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("ecmv.torch needs PyTorch, and this Python has none.") from error

from .convert import Converted, Report, convert_all_linear
from .embedding import EcmvEmbedding
from .experts import EcmvExperts
from .files import load, save
from .linear import EcmvLinear
from .plan import Skipped
from .products import prepare

__all__ = ["Converted", "EcmvEmbedding", "EcmvExperts", "EcmvLinear", "Report", "Skipped", "convert_all_linear",
           "load", "prepare", "save"]

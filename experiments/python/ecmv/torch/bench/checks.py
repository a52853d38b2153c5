"""Whether results are what they must be: products against their bound, logits against products in float32."""

import contextlib
import math

import torch

from ..embedding import EcmvEmbedding
from ..join import KINDS
from .models import linears_of

# Roundings to bfloat16, and of a sum in float32 in any order.
_OF_BF16, _OF_SUM = 2.0 ** -8, 2.0 ** -24
_ROWS = 1024  # at once, in float64: 70 B uncompressed weights leave 0.8 GB of 150


@torch.inference_mode()
def share_of_bound(module, weight, tokens, seed):
    """The largest error of a module's results, over the bound of sums in float32 that are rounded to bfloat16."""
    random = torch.Generator(weight.device).manual_seed(seed)
    x = torch.randn(tokens, weight.shape[1], generator=random, device=weight.device).bfloat16()
    y, worst = module(x).double(), 0.0
    for first in range(0, len(weight), _ROWS):
        part = weight[first:first + _ROWS].double()
        exact, magnitudes = x.double() @ part.T, x.double().abs() @ part.abs().T
        if module.bias is not None:
            exact += module.bias[first:first + _ROWS].double()
        bound = 1.01 * _OF_BF16 * exact.abs() + (weight.shape[1] + 2) * _OF_SUM * magnitudes + 2.0 ** -133
        worst = max(worst, ((y[:, first:first + _ROWS] - exact).abs() / bound).max().item())
    return worst


def finds_rows(module, weight, seed, count=1024):
    """Whether a coded embedding gives the bits of `count` rows that the seed draws."""
    ids = torch.randint(len(weight), (count,), generator=torch.Generator().manual_seed(seed)).to(weight.device)
    return torch.equal(module(ids).view(torch.int16), weight[ids].view(torch.int16))


def check_products(store, reference, tokens):
    """The largest share of the bound, over one module of each shape; None where modules of the store cannot run alone.
    Infinity where an embedding has other rows.

    `reference`: the uncompressed model, or None; then coded modules are decoded.
    """
    if store.name == "DFloat11":
        return None
    plain = None if reference is None else linears_of(reference)
    worst, seen = None, set()
    for number, (name, module) in enumerate(store.model.named_modules()):
        if isinstance(module, EcmvEmbedding):
            weight = module.decode() if reference is None else reference.get_submodule(name).weight
            worst = max(worst or 0.0, 0.0 if finds_rows(module, weight, number) else math.inf)
            continue
        shape = getattr(module, "out_features", 0), getattr(module, "in_features", 0)
        if shape in seen or (plain is None and not hasattr(module, "decode")):
            continue
        weight = module.decode() if plain is None else _weight_of(name, plain)
        if weight is not None:
            seen.add(shape)
            worst = max(worst or 0.0, share_of_bound(module, weight, tokens, number))
    return worst


def _weight_of(name, plain):
    """The uncompressed weights of a module, joined where it is; None if it is none of these linear modules."""
    if name in plain:
        return plain[name].weight
    parent, _, kind = name.rpartition(".")
    parts = [plain.get(f"{parent}.{part}") for part in KINDS.get(kind, [None])]
    return None if None in parts else torch.cat([part.weight for part in parts])


@contextlib.contextmanager
def products_in_float32(model):
    """Uncompressed linear modules multiply in float32 meanwhile, which is nearer to the exact products."""
    def product(module):
        def forward(x):
            bias = None if module.bias is None else module.bias.float()
            return torch.nn.functional.linear(x.float(), module.weight.float(), bias).to(x.dtype)
        return forward

    modules = list(linears_of(model).values())
    for module in modules:
        module.forward = product(module)
    try:
        yield
    finally:
        for module in modules:
            del module.forward


def farthest(logits, reference):
    """The largest norm of a difference, over that of the reference: after the prompt, after one token more."""
    return max(((one - other).norm() / other.norm()).item() for one, other in zip(logits, reference))


def allowed_distance(of_uncompressed):
    """Sums in another order may lie as far away as those of the uncompressed model, twice over."""
    return 2 * of_uncompressed + 2.0 ** -8

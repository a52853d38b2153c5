"""The module that stands where a torch.nn.Linear was."""

import math

import torch

from . import coded as coded_tensors
from . import products
from .module import CodedModule
from .operator import LinearWithGradient, linear


class EcmvLinear(CodedModule):
    """x W^T + b with coded weights W, [out_features, in_features].

    Tokens have the dtype that the weights had; under autocast they are brought to it.
    """

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=torch.bfloat16):
        """One without weights, to be filled from a state_dict; from_linear() makes others."""
        super().__init__(dtype, device)
        self.in_features, self.out_features = in_features, out_features
        self.bias = torch.nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype),
                                       requires_grad=False) if bias else None
        products.add_owner(self)

    def shape(self):
        return self.out_features, self.in_features

    @classmethod
    def like(cls, module, out_features=None):
        """One without weights for a torch.nn.Linear, with its bias; of another size without."""
        made = cls(module.in_features, out_features or module.out_features, bias=False, device="meta",
                   dtype=module.weight.dtype)
        if module.bias is not None and out_features is None:
            made.bias = torch.nn.Parameter(module.bias.detach(), requires_grad=False)
        made.target_device = None if module.weight.is_meta else module.weight.device
        return made.train(module.training)

    @classmethod
    def from_linear(cls, module, codec=None, settings=None):
        """Codes the weights of a torch.nn.Linear, which stays as it is; on its device."""
        made = cls.like(module)
        made.fill(module.weight, codec, settings)
        return made

    def encode(self, weight, codec, settings):
        return encode_as_default(weight, codec, settings)

    def taken(self, is_known):
        self.product = None
        if is_known and (self.bias is None or self.bias.device == self.coded.device):  # else at the first call
            self.product = products.bind(self.coded, self.bias, self.known_hash)

    def forward(self, x):
        if x.dtype != self.dtype and torch.is_autocast_enabled(x.device.type):
            x = x.to(self.dtype)
        if torch.is_grad_enabled() and x.requires_grad:
            return LinearWithGradient.apply(x, self.coded, self.bias, self.out_features)
        return linear(x, self.coded, self.bias, self.out_features)

    def kernel(self, tokens=1):
        """The kernel that multiplies so many tokens at once: "cuda/matmul/one_token/default"."""
        products.prepare(self)
        return self.product.kernel(tokens)

    def extra_repr(self):
        text = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        return ", ".join(filter(None, (text, super().extra_repr())))

    # --- copies and moves --------------------------------------------------------------------------------------

    def __getstate__(self):
        return {**self.__dict__, "product": None, "known_hash": None}

    def __setstate__(self, state):
        super().__setstate__(state)
        products.add_owner(self)

    def _apply(self, fn, recurse=True):
        before = products.place_of(self.coded, self.bias)
        super()._apply(fn, recurse)
        if products.place_of(self.coded, self.bias) != before:
            self.product = None
        return self


def encode_as_default(weight, codec=None, settings=None):
    """The tensor of the coded matrix, on the host."""
    if codec is None:  # settings are of the codec for large matrices, whatever the size
        codec, chosen = default_codec(weight.shape if settings is None else None)
        settings = chosen if settings is None else settings
    elif settings is None and codec == _ENTROPY_CODE[0]:  # its own defaults are for vectors of int8
        settings = _ENTROPY_CODE[1]
    return coded_tensors.pack(coded_tensors.encode(weight, codec, settings))


_ENTROPY_CODE = "quad_huffman", "layout=fragments,symbol_cols=0,optimise=speed"
_TWELVE_BITS = "packed_exponents", ""
# Elements up to which a GPU multiplies by twelve bits faster than by the entropy code's eleven. (H200, us with 1, 16
# and 64 tokens: 4096 x 1024 4.4, 4.9, 6.1 and 6.7, 7.0, 10.0; 4096 x 4096 8.8, 10.9, 12.4 and 11.9, 12.9, 18.3; at
# 28672 x 4096 the entropy code is 6 and 4 % faster, and with 64 tokens 21 % slower: 2026-12-01-h200/shapes. Llama 3 8B,
# compiled, was at 1.21x of uncompressed with this choice, 2026-11-29-h200/torch, and at 1.16x without it on other
# devices.)
_MOST_IN_TWELVE_BITS = 1 << 24


def default_codec(shape=None):
    """The codec, with its settings, for bf16 weights of a shape [rows, cols]; without one, of large matrices. GPUs take
    an entropy code unless the matrix is small; CPUs never do."""
    if torch.cuda.is_available() and (shape is None or math.prod(shape) > _MOST_IN_TWELVE_BITS):
        return _ENTROPY_CODE
    return _TWELVE_BITS

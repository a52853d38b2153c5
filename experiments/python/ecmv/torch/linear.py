"""The module that stands where a torch.nn.Linear was."""

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


# The fastest code for whole models of bf16. (H200, Llama 3 8B compiled, not published, against uncompressed weights:
# one sequence 1.30x, 16 sequences 1.14x, a prompt of 512 tokens 1.05x. With the entropy code for matrices of more than
# 16.8 million elements, which takes 8 % fewer bytes: 1.23x, 1.12x and 0.98x, in the same call. On CPUs:
# codecs/packed_exponents/README.md.)
_DEFAULT_CODEC = "packed_exponents"


def encode_as_default(weight, codec=None, settings=None):
    """The tensor of the coded matrix, on the host."""
    codec = codec or _DEFAULT_CODEC
    if settings is None and codec == "quad_huffman":  # its own defaults are for vectors of int8
        settings = "layout=fragments,symbol_cols=0,optimise=speed"
    return coded_tensors.pack(coded_tensors.encode(weight, codec, settings))

"""The module that stands where a torch.nn.Linear was."""

import torch

from ..errors import InvalidArgument, Refused
from . import coded as coded_tensors
from . import products
from .operator import LinearWithGradient, linear


class EcmvLinear(torch.nn.Module):
    """x W^T + b with coded weights W.

    `coded` is a buffer of bytes, so it is in the state_dict, moves with the module and counts as memory. Its bytes must
    not be changed in place. Tokens have the dtype that the weights had; under autocast they are brought to it.
    """

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=torch.bfloat16):
        """One without weights, to be filled from a state_dict; from_linear() makes others."""
        super().__init__()
        self.in_features, self.out_features, self.dtype = in_features, out_features, dtype
        self.register_buffer("coded", torch.empty(0, dtype=torch.uint8, device=device))
        self.bias = torch.nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype),
                                       requires_grad=False) if bias else None
        self.target_device = None  # of a module that waits for its weights
        self.known_hash = None  # of coded bytes that were checked already, or are trusted
        self._set_up()

    def _set_up(self):
        self.product = None
        products.add_owner(self)

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

    @torch.no_grad()
    def fill(self, weight, codec=None, settings=None, device=None):
        """Codes these weights, [out_features, in_features], on their device or another.

        Raises Refused where they stay uncoded, since they would not be smaller, or since nothing multiplies them.
        """
        coded = encode_as_default(weight, codec, settings)
        if coded.nbytes >= weight.nbytes:
            raise Refused("Coded it would take as many bytes or more.")
        self.take(coded.to(weight.device if device is None else device), is_known=True)

    def take(self, coded, is_known=False):
        """Takes the tensor of a matrix, on the device where it shall be. `is_known`: it is as this process made it, or
        is trusted."""
        shape = coded_tensors.describe(coded)
        if (shape["rows"], shape["cols"], coded_tensors.DTYPES.get(shape["type"])) != self._kind():
            raise InvalidArgument(f"The matrix has {shape['rows']} rows and {shape['cols']} columns of "
                                  f"{shape['type']}, and the module is one of {self._kind()}.")
        self.coded, self.product, self.known_hash = coded, None, shape["hash"] if is_known else None
        if is_known and (self.bias is None or self.bias.device == coded.device):  # else at the first call
            self.product = products.bind(coded, self.bias, self.known_hash)

    def _kind(self):
        return self.out_features, self.in_features, self.dtype

    def forward(self, x):
        if x.dtype != self.dtype and torch.is_autocast_enabled(x.device.type):
            x = x.to(self.dtype)
        if torch.is_grad_enabled() and x.requires_grad:
            return LinearWithGradient.apply(x, self.coded, self.bias, self.out_features)
        return linear(x, self.coded, self.bias, self.out_features)

    def decode(self):
        """The weights, [out_features, in_features], decoded by plain loops on the host."""
        return coded_tensors.unpack(self.coded, self.known_hash).decode().to(self.coded.device)

    def kernel(self, tokens=1):
        """The kernel that multiplies so many tokens at once: "cuda/matmul/one_token/default"."""
        products.prepare(self)
        return self.product.kernel(tokens)

    def extra_repr(self):
        text = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        if coded_tensors.is_coded(self.coded):
            bits = 8 * self.coded.numel() / (self.in_features * self.out_features)
            text += f", codec={coded_tensors.describe(self.coded)['codec']}, bits_per_weight={bits:.2f}"
        return text

    # --- copies, moves and files -------------------------------------------------------------------------------

    def __getstate__(self):
        return {**self.__dict__, "product": None, "known_hash": None}

    def __setstate__(self, state):
        super().__setstate__(state)
        self._set_up()

    def _apply(self, fn, recurse=True):
        before = products.place_of(self.coded, self.bias)
        super()._apply(fn, recurse)
        if products.place_of(self.coded, self.bias) != before:
            self.product = None
        return self

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        # Coded bytes have another length in every model, and kernels rely on them: they are replaced, not overwritten.
        name = prefix + "coded"
        if name in state_dict:
            coded, device = state_dict[name], self.coded.device
            try:
                self.take(coded.detach().to(coded.device if device.type == "meta" else device, copy=True))
            except ValueError as error:
                error_msgs.append(f"{name}: {error}")
            state_dict = {key: value for key, value in state_dict.items() if key != name}
            missing = []
            super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected_keys,
                                          error_msgs)
            missing_keys.extend(key for key in missing if key != name)
        else:
            super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                                          error_msgs)


def encode_as_default(weight, codec=None, settings=None):
    """The tensor of the coded matrix, on the host."""
    if codec is None:
        codec, chosen = default_codec()
        settings = chosen if settings is None else settings
    return coded_tensors.pack(coded_tensors.encode(weight, codec, settings))


_GPU_CODEC = "quad_huffman", "layout=fragments,symbol_cols=0,optimise=speed"
_CPU_CODEC = "packed_exponents", ""


def default_codec():
    """The codec for bf16 weights, with its settings: one where there is a GPU, another on CPUs."""
    return _GPU_CODEC if torch.cuda.is_available() else _CPU_CODEC

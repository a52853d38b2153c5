"""What modules with a coded matrix have in common."""

import torch

from ..errors import InvalidArgument, Malformed, Refused
from . import coded as coded_tensors
from . import products


class CodedModule(torch.nn.Module):
    """A matrix, [rows, cols], in place of a parameter.

    `coded` is a buffer of bytes, so it is in the state_dict, moves with the module and counts as memory. Its bytes must
    not be changed in place. Subclasses encode(), and set up in taken() what they need of coded bytes.
    """

    def __init__(self, dtype, device):
        """One without weights, to be filled from a state_dict."""
        super().__init__()
        self.dtype = dtype
        self.register_buffer("coded", torch.empty(0, dtype=torch.uint8, device=device))
        self.target_device = None  # of a module that waits for its weights
        self.known_hash = None  # of coded bytes that were checked already, or are trusted
        self.product = None  # of the bytes and a bias, where there is one
        self.when_coded = None  # is called with the module when somebody else has set `coded`

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "coded" and self.__dict__.get("when_coded") is not None:
            self.when_coded(self)

    def shape(self):
        """(rows, cols)."""
        raise NotImplementedError

    def encode(self, weight, codec, settings):
        """The tensor of the coded matrix, on the host."""
        raise NotImplementedError

    def taken(self, is_known):
        """New coded bytes are there. `is_known`: as this process made them, or trusted."""
        raise NotImplementedError

    @torch.no_grad()
    def fill(self, weight, codec=None, settings=None, device=None):
        """Codes these weights, [rows, cols], on their device or another.

        Raises Refused where they stay uncoded, since they would not be smaller, or since nothing takes them.
        """
        coded = self.encode(weight, codec, settings)
        if coded.nbytes >= weight.nbytes:
            raise Refused("Coded it would take as many bytes or more.")
        self.take(coded.to(weight.device if device is None else device), is_known=True)

    def take(self, coded, is_known=False):
        """Takes the tensor of a matrix, on the device where it shall be. `is_known`: it is as this process made it, or
        is trusted."""
        described = coded_tensors.describe(coded)
        if (described["rows"], described["cols"]) != self.shape() or \
                coded_tensors.DTYPES.get(described["type"]) != self.dtype:
            raise InvalidArgument(f"The matrix has {described['rows']} rows and {described['cols']} columns of "
                                  f"{described['type']}, and the module is one of {(*self.shape(), self.dtype)}.")
        self.coded, self.known_hash = coded, described["hash"] if is_known else None
        self.taken(is_known)

    def check(self, trusted=False):
        """Reads coded bytes that somebody else has set, and compares them with the hash that they state. Unless they
        are `trusted`, the codec's reference decoder takes them first, since kernels check nothing."""
        described = coded_tensors.describe(self.coded)
        stated = described.get("hash")
        if trusted and stated is not None and products.is_aligned(self.coded, described):
            products.compare(self.coded, stated)
            self.known_hash = stated
            return
        self.known_hash = coded_tensors.unpack(self.coded, stated if trusted else None).hash()
        if stated not in (None, self.known_hash):
            self.known_hash = None
            raise Malformed("The coded matrix has other bytes than were written.")

    def decode(self):
        """The weights, [rows, cols], decoded by plain loops on the host."""
        return coded_tensors.unpack(self.coded, self.known_hash).decode().to(self.coded.device)

    def extra_repr(self):
        if not coded_tensors.is_coded(self.coded):
            return ""
        rows, cols = self.shape()
        bits = 8 * self.coded.numel() / (rows * cols)
        return f"codec={coded_tensors.describe(self.coded)['codec']}, bits_per_weight={bits:.2f}"

    def _apply(self, fn, recurse=True):
        before, tied = self.coded.data_ptr(), products.tied(self)
        super()._apply(fn, recurse)
        if self.coded.data_ptr() != before:
            for module in tied:  # else each would have bytes of its own
                module.coded, module.product = self.coded, None
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

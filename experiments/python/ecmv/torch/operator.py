"""The operator ecmv::linear(Tensor x, Tensor coded, Tensor? bias, int rows) -> Tensor.

Its kernels for CPUs and GPUs are in libecmv, so that a call runs no Python. Here are its schema, what torch.compile and
torch.export know of it, and what is called where it finds no product.
"""

import ctypes
import os

import torch

from .. import library
from ..errors import Unavailable
from . import coded as coded_tensors
from . import products

_definitions = torch.library.Library("ecmv", "DEF")
_definitions.define("linear(Tensor x, Tensor coded, Tensor? bias, int rows) -> Tensor")
_definitions.define("input_gradient(Tensor gradient, Tensor coded, int cols) -> Tensor")


@torch.library.register_fake("ecmv::linear")
def _fake(x, coded, bias, rows):
    return x.new_empty((*x.shape[:-1], rows))


@torch.library.impl(_definitions, "input_gradient", "CompositeExplicitAutograd")
def _input_gradient(gradient, coded, cols):
    """Slow: the host decodes the matrix by the reference decoder."""
    return gradient @ coded_tensors.unpack(coded).decode().to(coded.device)


@torch.library.register_fake("ecmv::input_gradient")
def _fake_gradient(gradient, coded, cols):
    return gradient.new_empty((*gradient.shape[:-1], cols))


@library.TorchBinder
def _bind_missing(coded, _bias, sentence, sentence_bytes):
    try:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise Unavailable("coded weights are bound to no product yet, and the stream is under capture: call "
                              "ecmv.torch.prepare(model) first.")
        errors = products.bind_waiting()
        if coded in errors:
            raise errors[coded]
    except BaseException as error:  # nothing can be raised through the library
        said = str(error).encode()[:sentence_bytes - 1] + b"\0"
        ctypes.memmove(sentence, said, len(said))


def _register():
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    gpu = [file for name in ("cuda", "hip") if os.path.exists(file := os.path.join(folder, f"libtorch_{name}.so"))]
    try:
        library.call("ecmv_torch_register", os.path.join(folder, "libtorch_cpu.so").encode(),
                     gpu[0].encode() if gpu else None, _bind_missing)
    except Unavailable as error:
        raise Unavailable(f"The operator of PyTorch {torch.__version__} cannot be made: {error} It was written for "
                          "PyTorch 2.11.") from None


_register()
linear = torch.ops.ecmv.linear.default
input_gradient = torch.ops.ecmv.input_gradient.default


class LinearWithGradient(torch.autograd.Function):
    """linear() where x wants its gradient; the coded weights and the bias have none."""

    @staticmethod
    def forward(context, x, coded, bias, rows):
        context.save_for_backward(coded)
        context.cols = x.shape[-1]
        return linear(x, coded, bias, rows)

    @staticmethod
    def backward(context, gradient):
        coded, = context.saved_tensors
        return input_gradient(gradient, coded, context.cols), None, None, None

"""Ways to hold a model's weights: uncompressed, coded by ecmv, and public rivals where they are installed."""

import collections
import importlib.util
import time

import torch

from ... import library
from ...errors import Error, InvalidArgument
from .. import coded as coded_tensors
from .. import convert_all_linear, prepare, products
from . import machine


class Missing(Exception):
    """Why a store cannot be used here, as a sentence."""


class Store:
    """A model with its weights. `codec` is its name in records, `settings` a dict."""

    def __init__(self, name, codec, settings, source, device, convert):
        self.name, self.codec, self.settings = name, codec, settings
        started, before = time.monotonic(), machine.allocated(device)
        self.model = source.build(device, convert)
        self.build_s = time.monotonic() - started
        self.build_bytes = machine.most_allocated(device) - before  # the most at once; 0: unknown

    def tensors(self):
        """Everything that a checkpoint would hold, each memory once."""
        places = {}
        for module in self.model.modules():
            kept = (tensor for name, tensor in module._buffers.items()
                    if tensor is not None and name not in module._non_persistent_buffers_set)
            for tensor in (*module.parameters(recurse=False), *kept):
                places[tensor.data_ptr(), tensor.device] = tensor
        return places.values()

    @property
    def bytes(self):
        return sum(tensor.nbytes for tensor in self.tensors())

    @property
    def roles(self):
        """Bytes of coded sections by role; what is not coded counts as payload, and so does what lies between."""
        roles = collections.Counter()
        for tensor in self.tensors():
            if coded_tensors.is_coded(tensor):
                for section in coded_tensors.describe(tensor)["sections"]:
                    roles[section["role"]] += section["bytes"]
        roles["payload"] += self.bytes - sum(roles.values())
        return dict(roles)


def uncompressed(source, device, options):
    return Store("uncompressed", "raw_bf16", {}, source, device, lambda module: None)


def coded(source, device, options):
    def convert(module):
        convert_all_linear(module, codec=options.codec, settings=options.settings, progress=False)

    store = Store("coded", None, None, source, device, convert)
    prepare(store.model)
    described = described_by_most(store.tensors())
    store.codec, store.format_version = described["codec"], described["format_version"]
    store.settings = dict(pair.split("=") for pair in described["settings"].split(",") if pair)
    return store


def described_by_most(tensors):
    """What one says of the codec that has most of the bytes. Embeddings have another than matrices."""
    bytes_, described = collections.Counter(), {}
    for tensor in filter(coded_tensors.is_coded, tensors):
        one = coded_tensors.describe(tensor)
        bytes_[one["codec"]] += tensor.nbytes
        described.setdefault(one["codec"], one)
    if not bytes_:
        raise Missing("No module of the model could be coded.")
    return described[bytes_.most_common(1)[0][0]]


def bf16_huffman_infer(source, device, options):
    if importlib.util.find_spec("bf16_huffman_infer") is None:
        raise Missing("The package bf16_huffman_infer is not installed.")
    if device.type != "cuda":
        raise Missing("bf16_huffman_infer runs on NVIDIA's GPUs alone.")
    import bf16_huffman_infer as rival

    def convert(module):
        rival.convert_all_linear(module, min_out_features=0, progress=False)
        module.to(device)

    return Store("bf16_huffman_infer", "bf16_huffman_infer", {"algo": "huffman"}, source, device, convert)


def dfloat11(source, device, options):
    if importlib.util.find_spec("dfloat11") is None:
        raise Missing("The package dfloat11 is not installed.")
    if options.dfloat11 is None:
        raise Missing("DFloat11 runs models that were coded by it before: name the folder of this one by --dfloat11.")
    from dfloat11 import DFloat11Model

    class Coded:
        def build(self, device, convert):
            return DFloat11Model.from_pretrained(options.dfloat11, device=str(device)).eval()

    return Store("DFloat11", "dfloat11", {}, Coded(), device, None)


STORES = {"uncompressed": uncompressed, "coded": coded, "bf16_huffman_infer": bf16_huffman_infer, "dfloat11": dfloat11}


def make(name, source, device, options):
    """(store, status, reason): status as in records."""
    try:
        return STORES[name](source, device, options), "ok", ""
    except Missing as missing:
        return None, "unavailable", str(missing)
    except torch.OutOfMemoryError as error:
        return None, "out_of_memory", "The model does not fit into the device: " + str(error).split("\n", maxsplit=1)[0]
    except InvalidArgument:  # a codec that there is not, or a value that a setting does not take
        raise
    except Error as error:
        return None, "error", str(error)
    except Exception as error:  # another program's: its failure must not end the run
        if name in ("uncompressed", "coded"):
            raise
        return None, "error", f"{type(error).__name__}: {error}"


def workspace_bytes(device):
    """What coded products on a device share while they run."""
    return library.functions().ecmv_workspace_bytes(products.context(device.type, device.index)[1])

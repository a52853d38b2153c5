"""Models with coded weights in one safetensors file: matrices as ecmv_save() writes them, the other tensors beside."""

import concurrent.futures
import ctypes
import json
import math
import os
import re

import torch

from .. import library
from ..errors import InvalidArgument, Malformed
from . import coded as coded_tensors
from . import direct, join, products
from .experts import EcmvExperts, is_experts
from .linear import EcmvLinear
from .module import CodedModule
from .plan import like, replace

_NAMES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.float64: "F64",
          torch.int8: "I8", torch.uint8: "U8", torch.int16: "I16", torch.int32: "I32", torch.int64: "I64",
          torch.bool: "BOOL", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2"}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_DESCRIPTION_BYTES = 8192
_SUFFIX = ".coded"


def save(model, path):
    """Writes a model's state_dict to a file: coded matrices as their sections, other tensors as they are.

    The file is replaced once all is written. ecmv_open_file() reads its matrices, and any reader of safetensors the
    rest. Tensors that share their memory are written once.
    """
    own, same = _without_copies(model.state_dict())
    matrices = {name[:-len(_SUFFIX)]: own.pop(name) for name in list(own)
                if name.endswith(_SUFFIX) and coded_tensors.is_coded(own[name])}
    with concurrent.futures.ThreadPoolExecutor(products.workers()) as pool:
        descriptions = list(pool.map(_description, matrices, matrices.values()))
    hashes = {name: str(coded_tensors.describe(coded)["hash"]) for name, coded in matrices.items()}
    pieces = []  # (name, dtype, shape, what gives the bytes, their number)
    for name, coded in matrices.items():
        for section in coded_tensors.describe(coded)["sections"]:
            part = coded[section["offset"]:section["offset"] + section["bytes"]]
            pieces.append((f"{name}.{section['name']}", "U8", [section["bytes"]], part))
    for name, tensor in own.items():
        if tensor.dtype not in _NAMES:
            raise InvalidArgument(f"The tensor {name} has the dtype {tensor.dtype}, which the file cannot have.")
        pieces.append((name, _NAMES[tensor.dtype], list(tensor.shape), tensor))
    _write(os.fspath(path), pieces, {"format": "pt", "ecmv.version": "1",
                                     "ecmv.matrices": "[" + ",".join(descriptions) + "]",
                                     "ecmv.torch.same": json.dumps(same), "ecmv.torch.hashes": json.dumps(hashes)})


def _without_copies(state):
    """The tensors by name, and of those that are another one's the name of that."""
    own, same, first = {}, {}, {}
    for name, tensor in state.items():
        key = (tensor.data_ptr(), tensor.device, tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() > 0 and key in first:
            same[name] = first[key]
        else:
            own[name], first[key] = tensor, name
    return own, same


def _description(name, coded):
    matrix, room = coded_tensors.unpack(coded), _DESCRIPTION_BYTES + 2 * len(name.encode())
    text = ctypes.create_string_buffer(room)
    library.call("ecmv_describe_in_file", matrix.handle, name.encode(), text, room)
    return text.value.decode()


def _write(path, pieces, metadata):
    header, end = {"__metadata__": metadata}, 0
    for name, dtype, shape, tensor in pieces:
        if name in header:
            raise InvalidArgument(f"Two tensors would have the name {name} in the file.")
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    try:
        with open(path + ".part", "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for _, _, _, tensor in pieces:
                on_host = tensor.detach().to("cpu").contiguous()
                if on_host.nbytes:
                    file.write((ctypes.c_char * on_host.nbytes).from_address(on_host.data_ptr()))
        os.replace(path + ".part", path)
    except BaseException:
        if os.path.exists(path + ".part"):
            os.remove(path + ".part")
        raise


def load(model, path, *, device=None, trusted=False):
    """Fills a model from a file of save(); its modules become coded ones where the file has such.

    Tensors go to the devices where the model has its own; from the device "meta" to `device` (None: the CPU). All cores
    read. What the file lacks, or has in addition, is an error. `trusted`: the file is from somebody whom the program
    trusts like its own code, so damage is looked for by a hash alone, in much less time.
    """
    saved = set(model.state_dict())
    for name, tensor in model.named_buffers():
        if tensor.is_meta and name not in saved:
            raise InvalidArgument(f"The model's {name} is on the device 'meta', and no state_dict has it: make the "
                                  "model on another device.")
    with open(path, "rb") as file:
        header, begin = _read_header(file, path)
        metadata = header.pop("__metadata__", {})
        try:
            described = json.loads(metadata["ecmv.matrices"])
            sections = {f"{one['name']}.{section['name']}" for one in described for section in one["sections"]}
            names, same = [one["name"] for one in described], json.loads(metadata.get("ecmv.torch.same", "{}"))
            hashes = json.loads(metadata.get("ecmv.torch.hashes", "{}")) if trusted else {}
            hashes = {name: int(hash_) for name, hash_ in hashes.items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Malformed(f"The file {path} was not written by ecmv.torch.save().") from None
        state = {name: _read_tensor(file, begin, name, entry) for name, entry in header.items() if name not in sections}
    shared = {name[:-len(_SUFFIX)]: other[:-len(_SUFFIX)] for name, other in same.items() if other not in state}
    modules = {name: _coded_module(model, name) for name in (*names, *shared)}
    state.update((name, state[other]) for name, other in same.items() if other in state)
    _load_others(model, state, path, device, {name + _SUFFIX for name in modules})
    places = {name: (begin + entry["data_offsets"][0], entry["data_offsets"][1] - entry["data_offsets"][0])
              for name, entry in header.items() if name in sections}
    _load_matrices(path, described, places, hashes, modules, device, trusted)
    for name, other in shared.items():
        modules[name].take(modules[other].coded, is_known=True)
    return model


def _read_header(file, path):
    length = int.from_bytes(file.read(8), "little")
    try:
        if length > os.path.getsize(path):
            raise ValueError
        return json.loads(file.read(length)), 8 + length
    except ValueError:
        raise Malformed(f"The file {path} is no safetensors file.") from None


def _read_tensor(file, begin, name, entry):
    try:
        first, last = entry["data_offsets"]
        file.seek(begin + first)
        made = torch.empty(last - first, dtype=torch.uint8, device="cpu")
        if made.numel() and file.readinto((ctypes.c_char * made.nbytes).from_address(made.data_ptr())) != made.nbytes:
            raise ValueError
        return made.view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise Malformed(f"The tensor {name} of the file is truncated, or of an unknown kind.") from None


def _coded_module(model, name):
    """The coded module of that name, which is put there where others are."""
    parent_name, _, last = name.rpartition(".")
    expert = re.fullmatch(r"(.*)\.coded_(?:gate_up|down)\.\d+", name)
    try:
        place = model.get_submodule(expert[1] if expert else parent_name)
        if expert and is_experts(place):
            replace(model, place, EcmvExperts(place))
        elif not expert and type(place._modules.get(last)) in (torch.nn.Linear, torch.nn.Embedding):
            replace(model, place._modules[last], like(place._modules[last]))
        elif not expert and last not in place._modules:
            for kind, parts in join.kinds_of(place):
                if kind == last:
                    join.put(place, kind, join.make(parts))
        found = model.get_submodule(name)
    except AttributeError:
        raise InvalidArgument(f"The file has a matrix {name}, for which the model has no place.") from None
    if not isinstance(found, CodedModule):
        raise InvalidArgument(f"The file has a coded matrix {name}, and the model has a {type(found).__name__} there.")
    return found


def _load_others(model, state, path, device, coded_names):
    own = model.state_dict()
    fitted, moved = {}, {}  # names that share a tensor of the file share one on the device
    for name, tensor in state.items():
        if name in own:
            onto = own[name].device if own[name].device.type != "meta" else device or "cpu"
            key = (id(tensor), str(onto), own[name].dtype)
            if key not in moved:
                moved[key] = tensor.to(onto, own[name].dtype)
            tensor = moved[key]
        fitted[name] = tensor
    left = model.load_state_dict(fitted, strict=False, assign=True)
    missing = sorted(set(left.missing_keys) - coded_names)
    if missing or left.unexpected_keys:
        raise InvalidArgument(f"The model and the file {path} do not fit: the file lacks {missing}, and has "
                              f"{sorted(left.unexpected_keys)} in addition.")


def _load_matrices(path, described, places, hashes, modules, device, trusted):
    """`places`: of sections, by their names. `hashes`: with which products compare matrices where they lie."""
    function = "ecmv_load_trusted" if trusted else "ecmv_load"
    file, opened = library.make("ecmv_open_file", os.fspath(path).encode()), os.open(path, os.O_RDONLY)
    try:
        def load_one(one):
            name = one["name"]
            module = modules[name]
            own = None if module.coded.is_meta else module.coded.device
            onto = torch.device(module.target_device or own or device or "cpu")
            if name in hashes:
                of_sections = [places[f"{name}.{section['name']}"] for section in one["sections"]]
                coded = direct.read(opened, one, hashes[name], of_sections, onto)
                if not isinstance(module, EcmvLinear):  # no product compares them
                    products.compare(coded, hashes[name])
            else:
                coded = coded_tensors.pack(coded_tensors.Matrix(library.make(function, file, name.encode()))).to(onto)
            module.take(coded, is_known=True)

        with concurrent.futures.ThreadPoolExecutor(products.workers()) as pool:
            for _ in pool.map(load_one, sorted(described, key=lambda one: -math.prod(modules[one["name"]].shape()))):
                pass
    finally:
        os.close(opened)
        library.functions().ecmv_close_file(file)

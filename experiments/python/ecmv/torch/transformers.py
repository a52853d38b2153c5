"""transformers: from_pretrained() that codes as it loads, save_pretrained(), and from_pretrained() of coded files.

    from ecmv.torch.transformers import EcmvConfig          registers the method "ecmv"
    AutoModelForCausalLM.from_pretrained(path, dtype="bfloat16", quantization_config=EcmvConfig())
"""

import concurrent.futures
import re
import threading

import torch
import transformers

try:
    from transformers.core_model_loading import ConversionOps
    from transformers.quantizers import HfQuantizer, auto, register_quantization_config, register_quantizer
    from transformers.utils.quantization_config import QuantizationConfigMixin
except ImportError as error:
    raise ImportError(f"ecmv.torch.transformers needs transformers 5, not {transformers.__version__}.") from error

from ..errors import InvalidArgument, Refused
from . import coded as coded_tensors
from . import join, products
from .coded import on_host, settings_text
from .convert import Converted, Report, progress_bar
from .embedding import EcmvEmbedding
from .experts import EcmvExperts
from .linear import EcmvLinear
from .module import CodedModule
from .plan import Skipped, like, reasons, replace, users_of_parameters


@register_quantization_config("ecmv")
class EcmvConfig(QuantizationConfigMixin):
    """How weights are coded: as for convert_all_linear(). Files that are coded already need none.

    `trusted`: coded files are from somebody whom the program trusts like its own code, as for load().
    """

    def __init__(self, codec=None, settings=None, skip=(), join=True, embeddings=True, progress=True, trusted=False,
                 dtype=None, **_):
        self.quant_method = "ecmv"
        self.codec, self.settings, self.skip = codec, settings_text(settings) or None, list(skip)
        self.join, self.embeddings, self.progress, self.trusted = join, embeddings, progress, trusted
        self.dtype = dtype  # "torch.bfloat16", once weights are coded

    def get_loading_attributes(self):
        return {"progress": self.progress, "trusted": self.trusted}

    def to_dict(self):
        return {name: value for name, value in super().to_dict().items() if name not in ("progress", "trusted")}


# Those whose get_loading_attributes() counts beside the configuration of a coded checkpoint.
auto.LOADING_ATTRIBUTES_CONFIG_TYPES = (*auto.LOADING_ATTRIBUTES_CONFIG_TYPES, EcmvConfig)


_SHARE = 0.7  # of the bytes of bf16 weights that coded ones take, or less


class _Code(ConversionOps):
    """Takes the weights of a linear module or of experts, which then are coded while others load."""

    def __init__(self, quantizer):
        self.quantizer = quantizer

    def convert(self, input_dict, full_layer_name=None, model=None, missing_keys=None, **_):
        (name, weight), = input_dict.items()
        coded = self.quantizer.code(model, full_layer_name or name, weight[0] if isinstance(weight, list) else weight)
        if missing_keys is not None:
            missing_keys.difference_update(coded)
        return {}


@register_quantizer("ecmv")
class EcmvHfQuantizer(HfQuantizer):
    """Leaves linear modules as they are until their weights come; then coded ones stand there."""

    def __init__(self, quantization_config, **kwargs):
        super().__init__(quantization_config, **kwargs)
        self.report = Report([], [])
        self._work = []  # of the futures: each gives what the report shall have
        self._binder = None

    def validate_environment(self, *args, device_map=None, **kwargs):
        places = set(device_map.values()) if isinstance(device_map, dict) else set()
        if "disk" in places or ("cpu" in places and len(places) > 1):
            raise InvalidArgument("Coded weights stay where they are: none can be offloaded to a disk or to the CPU.")

    def update_dtype(self, dtype):
        coded = self.quantization_config.dtype
        if self.pre_quantized and coded is not None and str(dtype) != coded:
            raise InvalidArgument(f"The weights are coded as {coded}: load with dtype={coded}, not {dtype}.")
        if not self.pre_quantized and dtype not in (torch.bfloat16, torch.float32):
            raise InvalidArgument(f"Coded weights are bfloat16 or float32, not {dtype}: load with "
                                  "dtype=torch.bfloat16, which rounds weights of float16.")
        return dtype

    # --- which modules -----------------------------------------------------------------------------------------

    def _process_model_before_weight_loading(self, model, checkpoint_files=None, **kwargs):
        config, tied = self.quantization_config, dict(getattr(model, "all_tied_weights_keys", {}))
        why_not = reasons(model, config.codec, config.skip, _users(model, tied), config.embeddings, expected=True)
        names = {module: name for name, module in model.named_modules()}
        self._targets = {}  # parameters -> what they become
        for name, module in list(model.named_modules()):
            for kind, parts in join.kinds_of(module) if config.join else ():
                own = [names[part] + ".weight" for part in parts]
                if not any(map(why_not.get, parts)) and not {*tied, *tied.values()}.intersection(own):
                    self._targets.update(dict.fromkeys(own, _Target(f"{name}.{kind}", module, kind)))
                    why_not = {one: reason for one, reason in why_not.items() if one not in parts}
        for module, reason in why_not.items():
            if reason:
                self.report.skipped.append(Skipped(names[module], reason))
                continue
            target = _Target(names[module], module, None)
            own = ["weight"] if target.is_whole() else ["gate_up_proj", "down_proj"]
            self._targets.update((f"{names[module]}.{parameter}", target) for parameter in own)
        self._tie(model, tied)
        if self.pre_quantized:  # coded modules without weights, for those of the files
            for target in set(self._targets.values()):
                target.put(model)
            self._bind_while_loading(model)

    def _bind_while_loading(self, model):
        """A module's bias comes before its coded bytes, since transformers loads in the order of names."""
        tied = [other.made for target in self._tied for other in target.tied]  # which get their bytes later
        modules = [module for module in model.modules() if isinstance(module, CodedModule) and module not in tied]
        shapes = {module.shape() for module in modules if isinstance(module, EcmvLinear)}
        self._binder = products.Binder(shapes, self.quantization_config.trusted)
        for module in modules:
            module.when_coded = self._binder.add if isinstance(module, EcmvLinear) else self._binder.add_table

    def _tie(self, model, tied):
        """Modules that share a weight become one target, and transformers, which knows parameters alone, ties them no
        more."""
        self._tied = []
        for name, source in tied.items():
            target, other = self._targets.get(name), self._targets.get(source)
            if target is None or other is None or target is other:
                continue
            if isinstance(target.module, torch.nn.Embedding):
                target, other = other, target
            other.tied.append(target)
            self._targets[name] = self._targets[source] = other
            self._tied.append(other)
            del model.all_tied_weights_keys[name]
            model._keys_to_ignore_on_load_missing = [*(model._keys_to_ignore_on_load_missing or ()),
                                                     re.escape(target.name) + r"\.coded$"]

    def param_needs_quantization(self, model, param_name, **kwargs):
        return not self.pre_quantized and param_name in self._targets

    def param_element_size(self, model, param_name, param):
        """What transformers makes room for, and shares between devices."""
        return param.element_size() * (_SHARE if self.param_needs_quantization(model, param_name) else 1)

    def get_quantize_ops(self):
        return _Code(self)

    # --- coding while others load ------------------------------------------------------------------------------

    def code(self, model, name, weight):
        """Puts a coded module where the weight's is, and fills it in a thread. Waits where all threads are busy. Gives
        the names of all parameters that need no other weight then."""
        if not self._work:
            self._pool = concurrent.futures.ThreadPoolExecutor(products.workers())
            self._free = threading.Semaphore(products.workers())
        target, device = self._targets[name], weight.device
        if target.kind is not None:
            parts = [f"{target.name.rpartition('.')[0]}.{part}.weight" for part in join.KINDS[target.kind]]
            target.weights[name] = on_host(weight)
            if len(target.weights) == len(parts):
                weights = [target.weights.pop(part) for part in parts]
                self._submit(target, target.name, weights, target.put(model), device)
        elif not target.is_whole():
            made, parameter = target.made or target.put(model), name.rpartition(".")[2]
            for number, part in enumerate(made.coded_gate_up if parameter == "gate_up_proj" else made.coded_down):
                self._submit(target, f"{target.name}.{parameter}[{number}]", [on_host(weight[number])], part, device)
        elif target.made is None:
            self._submit(target, target.name, [on_host(weight)], target.put(model), device)
        else:
            self._work.append(self._pool.submit(target.expect_same, name, on_host(weight)))
        return {name, *(other for other, of in self._targets.items() if of is target and target.tied)}

    def _submit(self, target, name, weights, made, device):
        config = self.quantization_config
        self._free.acquire()

        def work(weights):
            try:
                weight = weights[0] if len(weights) == 1 else torch.cat(weights)
                made.fill(weight, config.codec, config.settings, device)
                for other in target.tied:
                    other.made.take(made.coded, is_known=True)
                return Converted(name, *weight.shape, weight.nbytes, made.coded.nbytes)
            except Refused as refusal:
                if not target.is_whole():
                    raise Refused(f"{name}: {refusal} Name it in skip.") from None
                return target, Skipped(name, str(refusal)), weights[0].to(device)
            finally:
                self._free.release()

        target.filled = self._pool.submit(work, weights)
        self._work.append(target.filled)

    def _process_model_after_weight_loading(self, model, **kwargs):
        work, self._work = self._work, []
        with progress_bar(len(work), self.quantization_config.progress) as step:
            for future in work:
                done = future.result()
                if isinstance(done, Converted):
                    self.report.converted.append(done)
                elif done is not None:
                    target, skipped, weight = done
                    target.put_back(model, weight)
                    self.report.skipped.append(skipped)
                step()
        if work:
            self._pool.shutdown()
        self.quantization_config.skip = _skipped_names(model, self.quantization_config.skip, self.report)
        self.quantization_config.dtype = str(model.dtype)
        if self._binder is not None:
            self._binder.finish()  # what went wrong does so again below, after what is lacking
            for module in model.modules():
                if isinstance(module, CodedModule):
                    module.when_coded = None
        tied = [other.made for target in self._tied for other in target.tied if other.made is not None]
        for name, module in model.named_modules():
            if isinstance(module, CodedModule) and module not in tied:
                self._expect_filled(name, module)
                if module.known_hash is None:
                    module.check(self.quantization_config.trusted)
                if isinstance(module, EcmvEmbedding):
                    module.find_rows()
        for target in self._tied if self.pre_quantized else ():
            for other in target.tied:
                other.made.take(target.made.coded, is_known=True)
        products.prepare(model)
        model.ecmv_report = self.report
        return model

    @staticmethod
    def _expect_filled(name, module):
        if module.coded.is_meta or module.coded.numel() == 0:
            raise InvalidArgument(f"The files have no coded weights of {name}, which config.json says are coded.")
        kind = coded_tensors.DTYPES[coded_tensors.describe(module.coded)["type"]]
        if kind != module.dtype:
            raise InvalidArgument(f"The coded weights of {name} are {kind}, and the model's are {module.dtype}.")

    # --- what transformers asks --------------------------------------------------------------------------------

    def is_serializable(self):
        return True

    def get_state_dict_and_metadata(self, model):
        """Coded bytes of modules that are tied are written once, as those of the embedding."""
        state = model.state_dict()
        embedded = {module.coded.data_ptr(): name for name, module in model.named_modules()
                    if isinstance(module, EcmvEmbedding)}
        for name, module in model.named_modules():
            if isinstance(module, EcmvLinear) and module.coded.data_ptr() in embedded:
                del state[name + ".coded"]
        return state, {}

    @property
    def is_trainable(self):
        return False

    @property
    def is_compileable(self):
        return True

    def _dequantize(self, model, dtype=None):
        for module in list(model.modules()):
            if isinstance(module, EcmvExperts):
                raise InvalidArgument("Coded experts are not decoded back: load the uncoded model instead.")
        decoded = {}  # by the places of coded bytes
        for module in list(model.modules()):
            if isinstance(module, CodedModule):
                place = module.coded.data_ptr()
                if place not in decoded:
                    decoded[place] = torch.nn.Parameter(module.decode().to(dtype), requires_grad=False)
                if isinstance(module, EcmvLinear):
                    made = torch.nn.Linear(module.in_features, module.out_features, device="meta")
                    made.bias = module.bias
                else:
                    made = torch.nn.Embedding(module.num_embeddings, module.embedding_dim, device="meta")
                made.weight = decoded[place]
                replace(model, module, made)
        return model


class _Target:
    """What becomes coded: a linear module or an embedding, with others that are tied to it; linear modules that are
    joined (`kind` of their `module`); or experts."""

    def __init__(self, name, module, kind):
        self.name, self.module, self.kind = name, module, kind
        self.weights, self.tied, self.made, self.filled = {}, [], None, None

    def is_whole(self):
        """Whether it is one matrix of one module."""
        return self.kind is None and isinstance(self.module, (torch.nn.Linear, torch.nn.Embedding))

    def put(self, model):
        """Puts the coded module there, without weights, and those that are tied to it."""
        for other in self.tied:
            other.put(model)
        if self.kind is not None:
            self.made = join.make([self.module._modules[part] for part in join.KINDS[self.kind]])
            join.put(self.module, self.kind, self.made)
        else:
            self.made = like(self.module) if self.is_whole() else EcmvExperts(self.module)
            replace(model, self.module, self.made)
        for parameter in self.made.parameters():
            parameter._is_hf_initialized = True
        return self.made

    def put_back(self, model, weight):
        parameter = torch.nn.Parameter(weight, requires_grad=False)
        for target in (self, *self.tied):
            target.module.weight = parameter
            if isinstance(target.module, torch.nn.Linear):
                target.module.bias = target.made.bias
            replace(model, target.made, target.module)

    def expect_same(self, name, weight):
        """A weight that came after that of another module to which the configuration ties it."""
        done = self.filled.result()
        if not torch.equal(self.made.decode().cpu() if isinstance(done, Converted) else done[2].cpu(), weight):
            raise InvalidArgument(f"The configuration ties {name} to {self.name}, and the files have other numbers for "
                                  "it: set tie_word_embeddings to False.")


def _users(model, tied):
    """Those of parameters; of two that are to be tied, those of both."""
    users, parameters = users_of_parameters(model), dict(model.named_parameters(remove_duplicate=False))
    for name, source in tied.items():
        if name in parameters and source in parameters and parameters[name] is not parameters[source]:
            both = users[id(parameters[name])] + users[id(parameters[source])]
            users[id(parameters[name])] = users[id(parameters[source])] = both
    return users


def _skipped_names(model, skip, report):
    """What a coded model's configuration is to skip: also what was not coded for other reasons."""
    prefix = model.base_model_prefix + "."
    return sorted({*skip, *(one.name.removeprefix(prefix) for one in report.skipped)})


def adopt(model, codec, settings, skip, joined, embeddings, report):
    """Makes save_pretrained() of a model that convert_all_linear() has converted write what from_pretrained() reads."""
    if not isinstance(model, transformers.PreTrainedModel):
        return
    config = EcmvConfig(codec, settings, _skipped_names(model, skip, report), joined, embeddings,
                        dtype=str(model.dtype))
    model.hf_quantizer = EcmvHfQuantizer(config, pre_quantized=True)
    model.config.quantization_config, model.is_quantized, model.quantization_method = config, True, "ecmv"
    parameters = dict(model.named_parameters(remove_duplicate=False))
    model.all_tied_weights_keys = {name: source for name, source in model.all_tied_weights_keys.items()
                                   if name in parameters}

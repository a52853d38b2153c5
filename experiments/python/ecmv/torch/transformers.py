"""transformers: from_pretrained() that codes as it loads, save_pretrained(), and from_pretrained() of coded files.

    from ecmv.torch.transformers import EcmvConfig          registers the method "ecmv"
    AutoModelForCausalLM.from_pretrained(path, dtype="bfloat16", quantization_config=EcmvConfig())
"""

import concurrent.futures
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
from .experts import EcmvExperts
from .linear import EcmvLinear
from .plan import Skipped, reasons, replace, users_of_parameters


@register_quantization_config("ecmv")
class EcmvConfig(QuantizationConfigMixin):
    """How weights are coded: as for convert_all_linear(). Files that are coded already need none.

    `trusted`: coded files are from somebody whom the program trusts like its own code, as for load().
    """

    def __init__(self, codec=None, settings=None, skip=(), join=True, progress=True, trusted=False, dtype=None,
                 **_):
        self.quant_method = "ecmv"
        self.codec, self.settings, self.skip, self.join = codec, settings_text(settings) or None, list(skip), join
        self.progress, self.trusted = progress, trusted
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
        self.quantizer.code(model, full_layer_name or name, weight[0] if isinstance(weight, list) else weight)
        if missing_keys is not None:
            missing_keys.discard(full_layer_name or name)
        return {}


@register_quantizer("ecmv")
class EcmvHfQuantizer(HfQuantizer):
    """Leaves linear modules as they are until their weights come; then coded ones stand there."""

    def __init__(self, quantization_config, **kwargs):
        super().__init__(quantization_config, **kwargs)
        self.report = Report([], [])
        self._work = []  # of the futures: each gives what the report shall have

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
        config, tied = self.quantization_config, _tied_names(model)
        why_not = reasons(model, config.codec, config.skip, users_of_parameters(model), expected=True)
        names = {module: name for name, module in model.named_modules()}
        for module in why_not:
            if names[module] + ".weight" in tied:
                why_not[module] = "its weight is also that of another module, which needs it uncoded"
        self._targets = {}  # parameters -> what they become
        for name, module in list(model.named_modules()):
            for kind, parts in join.kinds_of(module) if config.join else ():
                if not any(why_not[part] for part in parts):
                    target = _Target(f"{name}.{kind}", module, kind)
                    self._targets.update((names[part] + ".weight", target) for part in parts)
                    why_not = {one: reason for one, reason in why_not.items() if one not in parts}
        for module, reason in why_not.items():
            if reason:
                self.report.skipped.append(Skipped(names[module], reason))
            else:
                own = ["weight"] if isinstance(module, torch.nn.Linear) else ["gate_up_proj", "down_proj"]
                target = _Target(names[module], module, None)
                self._targets.update((f"{names[module]}.{parameter}", target) for parameter in own)
        if self.pre_quantized:  # coded modules without weights, for those of the files
            for target in set(self._targets.values()):
                target.put(model)

    def param_needs_quantization(self, model, param_name, **kwargs):
        return not self.pre_quantized and param_name in self._targets

    def param_element_size(self, model, param_name, param):
        """What transformers makes room for, and shares between devices."""
        return param.element_size() * (_SHARE if self.param_needs_quantization(model, param_name) else 1)

    def get_quantize_ops(self):
        return _Code(self)

    # --- coding while others load ------------------------------------------------------------------------------

    def code(self, model, name, weight):
        """Puts a coded module where the weight's is, and fills it in a thread. Waits where all threads are busy."""
        if not self._work:
            self._pool = concurrent.futures.ThreadPoolExecutor(products.workers())
            self._free = threading.Semaphore(products.workers())
        target, device = self._targets[name], weight.device
        target.weights[name.rpartition(".")[2] if target.kind is None else name] = on_host(weight)
        if target.kind is not None:
            if len(target.weights) == len(join.KINDS[target.kind]):
                parts = [target.weights.pop(f"{target.name.rpartition('.')[0]}.{part}.weight")
                         for part in join.KINDS[target.kind]]
                self._submit(target, target.name, parts, target.put(model), device)
        elif "weight" in target.weights:
            self._submit(target, target.name, [target.weights.pop("weight")], target.put(model), device)
        else:
            made = target.made or target.put(model)
            (parameter, weight), = target.weights.items()
            target.weights.clear()
            for number, part in enumerate(made.coded_gate_up if parameter == "gate_up_proj" else made.coded_down):
                self._submit(target, f"{target.name}.{parameter}[{number}]", [weight[number]], part, device)

    def _submit(self, target, name, weights, made, device):
        config = self.quantization_config
        self._free.acquire()

        def work(weights):
            try:
                weight = weights[0] if len(weights) == 1 else torch.cat(weights)
                made.fill(weight, config.codec, config.settings, device)
                return Converted(name, *weight.shape, weight.nbytes, made.coded.nbytes)
            except Refused as refusal:
                if not target.is_linear():
                    raise Refused(f"{name}: {refusal} Name it in skip.") from None
                return target, Skipped(name, str(refusal)), weights[0].to(device)
            finally:
                self._free.release()

        self._work.append(self._pool.submit(work, weights))

    def _process_model_after_weight_loading(self, model, **kwargs):
        work, self._work = self._work, []
        with progress_bar(len(work), self.quantization_config.progress) as step:
            for future in work:
                done = future.result()
                if isinstance(done, Converted):
                    self.report.converted.append(done)
                else:
                    target, skipped, weight = done
                    target.put_back(model, weight)
                    self.report.skipped.append(skipped)
                step()
        if work:
            self._pool.shutdown()
        self.quantization_config.skip = _skipped_names(model, self.quantization_config.skip, self.report)
        self.quantization_config.dtype = str(model.dtype)
        for name, module in model.named_modules():
            if isinstance(module, EcmvLinear):
                self._expect_filled(name, module)
                if self.quantization_config.trusted and module.known_hash is None:
                    module.known_hash = coded_tensors.describe(module.coded).get("hash")
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
        for module in list(model.modules()):
            if isinstance(module, EcmvLinear):
                made = torch.nn.Linear(module.in_features, module.out_features, device="meta")
                made.weight = torch.nn.Parameter(module.decode().to(dtype), requires_grad=False)
                made.bias = module.bias
                replace(model, module, made)
        return model


class _Target:
    """A linear module, linear modules that are joined (`kind` of their `module`), or experts, which become coded."""

    def __init__(self, name, module, kind):
        self.name, self.module, self.kind, self.weights, self.made = name, module, kind, {}, None

    def is_linear(self):
        return self.kind is None and isinstance(self.module, torch.nn.Linear)

    def put(self, model):
        """Puts the coded module there, without weights."""
        if self.kind is not None:
            self.made = join.make([self.module._modules[part] for part in join.KINDS[self.kind]])
            join.put(self.module, self.kind, self.made)
        else:
            self.made = EcmvLinear.like(self.module) if self.is_linear() else EcmvExperts(self.module)
            replace(model, self.module, self.made)
        for parameter in self.made.parameters():
            parameter._is_hf_initialized = True
        return self.made

    def put_back(self, model, weight):
        self.module.weight = torch.nn.Parameter(weight, requires_grad=False)
        self.module.bias = self.made.bias
        replace(model, self.made, self.module)


def _tied_names(model):
    tied = getattr(model, "all_tied_weights_keys", {})
    return set(tied) | set(tied.values())


def _skipped_names(model, skip, report):
    """What a coded model's configuration is to skip: also what was not coded for other reasons."""
    prefix = model.base_model_prefix + "."
    return sorted({*skip, *(one.name.removeprefix(prefix) for one in report.skipped)})


def adopt(model, codec, settings, skip, joined, report):
    """Makes save_pretrained() of a model that convert_all_linear() has converted write what from_pretrained() reads."""
    if not isinstance(model, transformers.PreTrainedModel):
        return
    config = EcmvConfig(codec, settings, _skipped_names(model, skip, report), joined,
                        dtype=str(model.dtype))
    model.hf_quantizer = EcmvHfQuantizer(config, pre_quantized=True)
    model.config.quantization_config, model.is_quantized, model.quantization_method = config, True, "ecmv"

"""Converts the linear modules of a model, in place."""

import concurrent.futures
import dataclasses
import fnmatch
import sys

import torch

from ..errors import Refused
from . import products
from .linear import EcmvLinear, encode_as_default


@dataclasses.dataclass(frozen=True)
class Converted:
    name: str
    rows: int
    cols: int
    bytes: int  # of the weights
    coded_bytes: int


@dataclasses.dataclass(frozen=True)
class Skipped:
    name: str
    reason: str


class Report:
    """What convert_all_linear() did: `converted` and `skipped`; as text a summary."""

    def __init__(self):
        self.converted, self.skipped = [], []

    def __str__(self):
        before, after = (sum(getattr(one, name) for one in self.converted) for name in ("bytes", "coded_bytes"))
        lines = [f"{len(self.converted)} matrices are coded now: {after / 1e6:.1f} MB instead of {before / 1e6:.1f} MB"
                 + (f" ({after / before:.3f})." if before else ".")]
        by_reason = {}
        for one in self.skipped:
            by_reason.setdefault(one.reason, []).append(one.name)
        for reason, names in by_reason.items():
            more = f" and {len(names) - 3} more" if len(names) > 4 else ""
            lines.append(f"not coded: {', '.join(names if not more else names[:3])}{more}: {reason}")
        return "\n".join(lines)

    __repr__ = __str__


def convert_all_linear(model, *, codec=None, settings=None, skip=(), progress=True):
    """Replaces every torch.nn.Linear in `model` by an EcmvLinear with the same weights, coded without loss.

    `codec` and `settings` are as in `ecmv list codecs`; without them those that are fastest where there is a GPU, or on
    this CPU. `skip`: names of modules, as in named_modules(), with * for anything; a last part, "lm_head", will do.
    All cores code; each holds the memory of one matrix more. Returns a Report, and prints it with `progress`.
    """
    if isinstance(skip, str):
        skip = (skip,)
    report = Report()
    tasks = _plan(model, codec, skip, report)
    with concurrent.futures.ThreadPoolExecutor(products.workers()) as pool:
        futures = {pool.submit(_convert, task, codec, settings): task for task in tasks}
        try:
            for future in _with_progress(concurrent.futures.as_completed(futures), len(futures), progress):
                task, done = futures.pop(future), future.result()
                (report.converted if isinstance(done, Converted) else report.skipped).append(done)
                del task, future
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    order = {name: number for number, (name, _) in enumerate(model.named_modules())}
    for found in (report.converted, report.skipped):
        found.sort(key=lambda one: order.get(one.name, len(order)))
    if progress:
        print(report, file=sys.stderr)
    return report


class _Task:
    """Modules with one weight, and the places where they are."""

    def __init__(self, weight):
        self.weight, self.modules = weight, {}  # name -> (module, [(parent, name in it)])


def _plan(model, codec, skip, report):
    parents = {}
    for parent in model.modules():
        for name, child in parent.named_children():
            parents.setdefault(id(child), []).append((parent, name))
    linear_weights = {id(module.weight) for module in model.modules() if type(module) is torch.nn.Linear}
    other_uses = {}
    for name, module in model.named_modules():
        if type(module) is not torch.nn.Linear:
            for parameter in module.parameters(recurse=False):
                if id(parameter) in linear_weights:
                    other_uses.setdefault(id(parameter), f"{name} ({type(module).__name__})")
    tasks = {}
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear):
            for parameter_name, parameter in module.named_parameters(recurse=False):
                if parameter.dim() >= 3 and parameter.is_floating_point():
                    report.skipped.append(Skipped(f"{name}.{parameter_name}".lstrip("."), (
                        f"it is a parameter of {parameter.dim()} dimensions of the class {type(module).__name__}, "
                        "whose own code multiplies it")))
            continue
        reason = _why_not(name, module, codec, skip) or ("" if id(module) in parents else "it is the model itself")
        if not reason and id(module.weight) in other_uses:
            reason = f"its weight is also that of {other_uses[id(module.weight)]}, which needs it uncoded"
        if reason:
            report.skipped.append(Skipped(name, reason))
        else:
            task = tasks.setdefault(id(module.weight), _Task(module.weight))
            task.modules[name] = module, parents[id(module)]
    # The largest first, so that no core is left with it alone at the end.
    return sorted(tasks.values(), key=lambda task: -task.weight.numel())


def _why_not(name, module, codec, skip):
    if any(fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, "*." + pattern) for pattern in skip):
        return "it was to be skipped"
    if type(module) is not torch.nn.Linear:
        return f"its class is {type(module).__name__}, which may use the weight in another way"
    if module.weight.device.type not in ("cpu", "cuda"):
        return f"its weight is on the device '{module.weight.device.type}'"
    if (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or hasattr(module, "_hf_hook")):
        return "it has hooks, which would be lost"
    if module.weight.dtype == torch.float32 and codec is None:
        return "its weights are float32: convert the model to bfloat16 first, or name a codec that takes them"
    if module.weight.dtype not in (torch.bfloat16, torch.float32):
        return f"its weights are {str(module.weight.dtype)[6:]}, and products take tokens of bfloat16 and float32 only"
    if module.bias is not None and module.bias.dtype != module.weight.dtype:
        return "its bias has another dtype than its weights"
    return ""


@torch.no_grad()
def _convert(task, codec, settings):
    """Codes the weight, and puts coded modules where the others were."""
    name, weight = next(iter(task.modules)), task.weight
    try:
        matrix, coded = encode_as_default(weight, codec, settings)
        if coded.nbytes >= weight.nbytes:
            return Skipped(name, "coded it would take as many bytes or more")
        coded = coded.to(weight.device)
        made = {name: EcmvLinear.of(coded, module.bias) for name, (module, _) in task.modules.items()}
        for module in made.values():
            module.product = products.bind(module.coded, module.bias, matrix)
    except Refused as refusal:
        return Skipped(name, str(refusal))
    rows, cols = weight.shape
    for name, (module, places) in task.modules.items():
        made[name].train(module.training)
        for parent, attribute in places:
            setattr(parent, attribute, made[name])
    done = Converted(" = ".join(task.modules), rows, cols, weight.nbytes, coded.nbytes)
    task.weight, task.modules = None, {}  # the last to hold the uncoded weights
    return done


def _with_progress(items, count, shown):
    if not shown:
        return items
    try:
        from tqdm.auto import tqdm
        return tqdm(items, total=count, desc="coding", unit="matrix")
    except ImportError:
        return _plain_progress(items, count)


def _plain_progress(items, count):
    for number, item in enumerate(items, 1):
        print(f"\rcoding: {number} of {count} matrices", end="" if number < count else "\n", file=sys.stderr, flush=True)
        yield item

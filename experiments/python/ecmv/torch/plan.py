"""What of a model is coded, and why the rest is not."""

import dataclasses
import fnmatch

import torch

from . import experts
from .linear import EcmvLinear


@dataclasses.dataclass(frozen=True)
class Skipped:
    name: str
    reason: str


class Task:
    """A matrix to code, and the coded modules that it fills."""

    def __init__(self, name, weight, group):
        self.name, self.weight, self.group, self.modules = name, weight, group, []


class Group:
    """What is put into the model together: a linear module at all its places, or all matrices of a module of experts."""

    def __init__(self, name, numel):
        self.name, self.numel, self.tasks, self.reason = name, numel, [], ""
        self.swaps, self.done = [], []  # (module, the coded one); what became of the tasks

    def add(self, name, weight, made):
        task = Task(name, weight, self)
        task.modules.append(made)
        self.tasks.append(task)
        return task


def plan(model, codec, skip):
    """The groups to convert, the largest first, so that no core is left with it alone at the end; what is skipped."""
    groups, by_weight, skipped = [], {}, []
    others = _other_uses(model)
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            reason = why_not_linear(name, module, codec, skip)
            if not reason and id(module.weight) in others:
                reason = f"its weight is also that of {others[id(module.weight)]}, which needs it uncoded"
        elif any(parameter.dim() >= 3 for parameter in module.parameters(recurse=False)):
            reason = why_not_experts(name, module, codec, skip)
        else:
            continue
        device = next(module.parameters()).device.type
        if not reason and device not in ("cpu", "cuda"):
            reason = f"its weights are on the device '{device}'"
        if reason or module is model:
            skipped.append(Skipped(name, reason or "it is the model itself"))
        elif isinstance(module, torch.nn.Linear):
            _plan_linear(name, module, groups, by_weight)
        else:
            groups.append(_experts_group(name, module))
    return sorted(groups, key=lambda group: -group.numel), skipped


def _other_uses(model):
    """Modules that are not linear, by the parameters that they have."""
    return {id(parameter): f"{name} ({type(module).__name__})" for name, module in model.named_modules()
            if not isinstance(module, torch.nn.Linear) for parameter in module.parameters(recurse=False)}


def _plan_linear(name, module, groups, by_weight):
    made = EcmvLinear.like(module)
    task = by_weight.get(id(module.weight))
    if task is None:
        groups.append(Group(name, module.weight.numel()))
        by_weight[id(module.weight)] = groups[-1].add(name, module.weight, made)
        groups[-1].swaps.append((module, made))
    else:
        task.name += " = " + name
        task.modules.append(made)
        task.group.swaps.append((module, made))


def _experts_group(name, module):
    made = experts.EcmvExperts(module)
    group = Group(name, module.gate_up_proj.numel() + module.down_proj.numel())
    group.swaps.append((module, made))
    for attribute, parts in (("gate_up_proj", made.coded_gate_up), ("down_proj", made.coded_down)):
        for number, part in enumerate(parts):
            group.add(f"{name}.{attribute}[{number}]", getattr(module, attribute)[number].detach(), part)
    return group


def why_not_linear(name, module, codec, skip):
    """Why this module stays as it is, "" if it does not."""
    if type(module) is not torch.nn.Linear:
        return f"its class is {type(module).__name__}, which may use the weight in another way"
    if module.bias is not None and module.bias.dtype != module.weight.dtype:
        return "its bias has another dtype than its weights"
    return _why_not(name, module, module.weight, codec, skip)


def why_not_experts(name, module, codec, skip):
    return experts.why_not(module) or _why_not(name, module, module.gate_up_proj, codec, skip)


def _why_not(name, module, weight, codec, skip):
    if any(fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, "*." + pattern) for pattern in skip):
        return "it was to be skipped"
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or hasattr(module, "_hf_hook"):
        return "it has hooks, which would be lost"
    if weight.dtype == torch.float32 and codec is None:
        return "its weights are float32: convert the model to bfloat16 first, or name a codec that takes them"
    if weight.dtype not in (torch.bfloat16, torch.float32):
        return f"its weights are {str(weight.dtype)[6:]}, and products take tokens of bfloat16 and float32 only"
    return ""


def replace(model, module, made):
    """Puts a module where another was, at all its places."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is module:
                parent._modules[name] = made

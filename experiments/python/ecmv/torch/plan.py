"""What of a model is coded, and why the rest is not."""

import dataclasses
import fnmatch
import functools

import torch

from . import experts, join
from .embedding import EcmvEmbedding
from .linear import EcmvLinear


@dataclasses.dataclass(frozen=True)
class Skipped:
    name: str
    reason: str


class Task:
    """A matrix to code, of the rows of one or several, and the coded modules that it fills."""

    def __init__(self, name, weights, group, made):
        self.name, self.weights, self.group, self.modules = name, weights, group, [made]

    def add(self, made):
        """Another module of the same matrix. An embedding is the first one: it chooses how the matrix is coded."""
        self.modules.insert(0 if isinstance(made, EcmvEmbedding) else len(self.modules), made)


class Group:
    """What is put into the model together: the modules of one weight, linear modules that are joined, or all matrices
    of a module of experts."""

    def __init__(self, name):
        self.name, self.tasks, self.reason = name, [], ""
        # Functions that put coded modules there, and know no other group, whose weights they would hold; what became of
        # the tasks.
        self.puts, self.done = [], []

    def add(self, name, weights, made):
        self.tasks.append(Task(name, weights, self, made))
        return self.tasks[-1]

    def elements(self):
        return sum(weight.numel() for task in self.tasks for weight in task.weights)


class Plan:
    """`groups` to convert, the largest first, so that no core is left with it alone at the end; and `skipped`."""

    def __init__(self, model, codec, skip, joined, embeddings):
        self.model, self.groups, self.skipped = model, [], []
        self._by_weight, users = {}, users_of_parameters(model)
        why_not = reasons(model, codec, skip, users, embeddings)
        for name, module in list(model.named_modules()):
            for kind, parts in join.kinds_of(module) if joined else ():
                if not any(why_not[part] or len(users[id(part.weight)]) > 1 for part in parts):
                    self._plan_joined(name, module, kind, parts)
                    why_not = {one: reason for one, reason in why_not.items() if one not in parts}
        for name, module in model.named_modules():
            reason = why_not.get(module)
            if reason is None:
                continue
            if reason or module is model:
                self.skipped.append(Skipped(name, reason or "only modules within a model are replaced"))
            elif isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
                self._plan_weight(name, module)
            else:
                self._plan_experts(name, module)
        self.groups.sort(key=lambda group: -group.elements())

    def _group(self, name):
        self.groups.append(Group(name))
        return self.groups[-1]

    def _plan_weight(self, name, module):
        made, task = like(module), self._by_weight.get(id(module.weight))
        if task is None:
            task = self._by_weight[id(module.weight)] = self._group(name).add(name, [module.weight], made)
        else:
            task.name += " = " + name
            task.add(made)
        task.group.puts.append(functools.partial(replace, self.model, module, made))

    def _plan_joined(self, name, module, kind, parts):
        made, group = join.make(parts), self._group(f"{name}.{kind}".lstrip("."))
        group.add(group.name, [part.weight for part in parts], made)
        group.puts.append(functools.partial(join.put, module, kind, made))

    def _plan_experts(self, name, module):
        made, group = experts.EcmvExperts(module), self._group(name)
        for attribute, parts in (("gate_up_proj", made.coded_gate_up), ("down_proj", made.coded_down)):
            for number, part in enumerate(parts):
                group.add(f"{name}.{attribute}[{number}]", [getattr(module, attribute)[number].detach()], part)
        group.puts.append(functools.partial(replace, self.model, module, made))


def users_of_parameters(model):
    """The modules that have a parameter, with their names, by its id()."""
    users = {}
    for name, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            users.setdefault(id(parameter), []).append((name, module))
    return users


def like(module):
    """The coded module, without weights, for a torch.nn.Linear or torch.nn.Embedding."""
    return (EcmvEmbedding if isinstance(module, torch.nn.Embedding) else EcmvLinear).like(module)


def reasons(model, codec, skip, users, embeddings, expected=False):
    """Why modules stay as they are, of all that could be coded; "" where one does not. `expected`: weights are to come.
    """
    found = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            found[module] = _why_not_linear(name, module, codec, skip)
        elif isinstance(module, torch.nn.Embedding):
            if embeddings:
                found[module] = _why_not_embedding(name, module, skip)
        elif any(parameter.dim() >= 3 for parameter in module.parameters(recurse=False)):
            found[module] = experts.why_not(module) or _why_not(name, module, module.gate_up_proj, codec, skip)
        if found.get(module) == "" and not expected:
            device = next(module.parameters()).device.type
            if device not in ("cpu", "cuda"):
                found[module] = f"its weights are on the device '{device}'"
    for sharing in users.values():
        _tell_who_needs_it_uncoded(sharing, found)
    return found


def _tell_who_needs_it_uncoded(sharing, found):
    """Of modules that share a weight: linear ones alone are coded each as it may be; beside others all or none are."""
    uncoded = [(name, module) for name, module in sharing
               if found.get(module, "no") and type(module) is not torch.nn.Linear]
    if any(isinstance(module, torch.nn.Embedding) and found.get(module) == "" for _, module in sharing):
        uncoded += [(name, module) for name, module in sharing if found.get(module) and (name, module) not in uncoded]
    for _, module in sharing:
        others = [(name, other) for name, other in uncoded if other is not module]
        if found.get(module) == "" and others:
            name, other = others[0]
            found[module] = f"its weight is also that of {name} ({type(other).__name__}), which needs it uncoded"


def _why_not_linear(name, module, codec, skip):
    if type(module) is not torch.nn.Linear:
        return f"its class is {type(module).__name__}, which may use the weight in another way"
    if module.bias is not None and module.bias.dtype != module.weight.dtype:
        return "its bias has another dtype than its weights"
    return _why_not(name, module, module.weight, codec, skip)


def _why_not_embedding(name, module, skip):
    if type(module) is not torch.nn.Embedding:
        return f"its class is {type(module).__name__}, which may use the weight in another way"
    if module.max_norm is not None:
        return "it changes its weights when it looks them up (max_norm)"
    if module.weight.dtype != torch.bfloat16:
        return f"its weights are {str(module.weight.dtype)[6:]}, and coded embeddings are bfloat16"
    return _why_not(name, module, module.weight, None, skip)


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

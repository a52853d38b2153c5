"""Joins linear modules that multiply the same tokens: q, k and v of an attention, gate and up of an MLP.

One product of a taller matrix is faster than several. The class must call each part once, with the same tokens, on
lines that follow each other, as those of Llama, Qwen3, Mistral and most others do; a subclass with a changed forward
takes its place.
"""

import functools
import inspect
import re
import textwrap

import torch

from .linear import EcmvLinear

KINDS = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


def kinds_of(module):
    """What can be joined in a module, as names of KINDS, with the parts."""
    for kind, parts in KINDS.items():
        found = [module._modules.get(part) for part in parts]
        if not all(type(part) is torch.nn.Linear for part in found) or kind in module._modules:
            continue
        same = {(part.in_features, part.bias is None, part.weight.dtype, part.weight.device) for part in found}
        distinct = {id(part.weight) for part in found}
        if len(same) == 1 and len(distinct) == len(found) and joined_class(type(module), kind):
            yield kind, found


def make(parts):
    """A coded module without weights for linear modules that are joined, with their biases."""
    made = EcmvLinear.like(parts[0], sum(part.out_features for part in parts))
    if parts[0].bias is not None:
        bias = torch.cat([part.bias.detach() for part in parts])
        made.bias = torch.nn.Parameter(bias, requires_grad=False)
    return made


def put(module, kind, made):
    """Puts such a module where the parts were."""
    rows = [module._modules.pop(part).out_features for part in KINDS[kind]]
    module._modules[kind] = made
    setattr(module, kind + "_rows", rows)
    module.__class__ = joined_class(type(module), kind)


@functools.lru_cache(maxsize=None)
def joined_class(original, kind):
    """The subclass whose forward multiplies by the joined matrix; None where forward is no such function."""
    source = getattr(original.forward, "joined_source", None)
    try:
        source = textwrap.dedent(inspect.getsource(original.forward)) if source is None else source
    except (OSError, TypeError):
        return None
    changed = _changed(source, kind)
    if changed is None or not source.startswith("def forward(") or original.forward.__closure__:
        return None
    made = {}
    exec(compile(changed, f"<forward of {original.__name__} with {kind}>", "exec"), original.forward.__globals__, made)
    made["forward"].joined_source = changed
    return type("Joined" + original.__name__, (original,), {
        "forward": made["forward"], "__module__": __name__,
        "__reduce_ex__": lambda self, _: (_new_joined, (original, kind), self.__getstate__())})


def _new_joined(original, kind):
    """For copies and pickles, which find no such class by its name."""
    changed = joined_class(original, kind)
    return changed.__new__(changed)


def _changed(source, kind):
    lines, places, arguments = source.split("\n"), [], set()
    for number, part in enumerate(KINDS[kind]):
        pattern = re.compile(rf"self\.{part}\b(\((\w+)\))?")
        calls = [(at, call) for at, line in enumerate(lines) for call in pattern.finditer(line)]
        if len(calls) != 1 or not calls[0][1][1]:
            return None
        at, call = calls[0]
        lines[at] = lines[at].replace(call[0], f"{kind}_{number}")
        places.append(at)
        arguments.add(call[2])
    if len(arguments) != 1 or max(places) - min(places) >= len(places):
        return None
    first = min(places)
    indent = re.match(r" *", lines[first])[0]
    names = ", ".join(f"{kind}_{number}" for number in range(len(places)))
    lines.insert(first, f"{indent}{names} = self.{kind}({arguments.pop()}).split(self.{kind}_rows, -1)")
    return "\n".join(lines)

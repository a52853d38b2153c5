"""Mixtures of experts as transformers 5 has them: parameters of three dimensions, a matrix for each expert."""

import torch

from .linear import EcmvLinear


def why_not(module):
    """"" if the class multiplies by its experts as EcmvExperts does; else what a user reads."""
    three = [parameter for parameter in module.parameters(recurse=False) if parameter.dim() >= 3]
    if not three:
        return ""
    # What transformers' decorator use_experts_implementation says of a class, so that its own kernels can serve it.
    layout = [getattr(module, name, None) for name in ("is_transposed", "has_bias", "has_gate", "is_concatenated")]
    if layout != [False, False, True, True] or not hasattr(type(module), "_apply_gate"):
        return (f"it has parameters of {three[0].dim()} dimensions, and the class {type(module).__name__} multiplies "
                "by them in a way of its own")
    names = {name for name, _ in module.named_parameters(recurse=False)}
    if names != {"gate_up_proj", "down_proj"}:
        return f"the class {type(module).__name__} has other parameters than gate_up_proj and down_proj"
    return ""


def is_experts(module):
    return any(parameter.dim() >= 3 for parameter in module.parameters(recurse=False)) and not why_not(module)


class EcmvExperts(torch.nn.Module):
    """Experts with coded matrices. Which experts have tokens is asked of the device in every call."""

    def __init__(self, experts):
        """One without weights for a module that is_experts()."""
        super().__init__()
        for name, value in vars(experts).items():
            if name not in vars(self):
                setattr(self, name, value)
        self._modules.update(experts._modules)
        self.experts_class = type(experts)
        for name, parameter in (("coded_gate_up", experts.gate_up_proj), ("coded_down", experts.down_proj)):
            count, rows, cols = parameter.shape
            modules = torch.nn.ModuleList(
                EcmvLinear(cols, rows, bias=False, device="meta", dtype=parameter.dtype) for _ in range(count))
            for module in modules:
                module.target_device = None if parameter.is_meta else parameter.device
            setattr(self, name, modules)
        self.train(experts.training)

    def forward(self, hidden_states, top_k_index, top_k_weights):
        results = torch.zeros_like(hidden_states)
        for number in torch.unique(top_k_index).tolist():
            if number >= len(self.coded_down):  # an expert of another device
                continue
            token, place = torch.where(top_k_index == number)
            inside = self.experts_class._apply_gate(self, self.coded_gate_up[number](hidden_states[token]))
            products = self.coded_down[number](inside) * top_k_weights[token, place, None]
            results.index_add_(0, token, products.to(results.dtype))
        return results

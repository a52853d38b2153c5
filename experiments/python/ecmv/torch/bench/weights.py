"""Weights with the statistics of a large language model's: the recipe of datasets/sources/llm_like.cpp.

Drawn by PyTorch, they are other numbers than that source's, and exponents that are missing stay missing.
"""

import math
import statistics

import torch

GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
ROW_SPREAD, MAXIMUM_SPREAD = 0.1685, 0.6
LOG2_MAXIMUM, LOG2_LEAST_OUTLIER = math.log2(27.2), math.log2(6)
EXPONENTS = 31


def sigma_of(layer, start):
    """From 0.01 to 0.04, spread evenly over the matrices of a model."""
    return 0.01 * 2 ** (2 * math.modf(start + layer * GOLDEN_RATIO)[0])


def log2_of_largest(layer):
    """The ratio of a matrix's largest weight to its sigma; matrices come in pairs."""
    half = 0.5 * math.modf(0.5 + layer // 2 * GOLDEN_RATIO)[0]
    z = statistics.NormalDist().inv_cdf(half if layer % 2 == 0 else 1 - half)
    return min(max(LOG2_MAXIMUM + MAXIMUM_SPREAD * z, 3.3), 6.5)


@torch.no_grad()
def llm_like(rows, cols, layer, seed, device):
    """The matrix number `layer` of a model, [rows, cols] of bfloat16."""
    random = torch.Generator(device).manual_seed(seed * 1_000_003 + layer)
    start = torch.rand(1, generator=torch.Generator().manual_seed(seed)).item()
    sigma = sigma_of(layer, start)
    scales = sigma * torch.exp(ROW_SPREAD * torch.randn(rows, 1, generator=random, device=device))
    weights = torch.empty(rows, cols, dtype=torch.bfloat16, device=device)
    for first in range(0, rows, 4096):  # float32 for a part at a time
        part = weights[first:first + 4096]
        part.copy_(torch.randn(part.shape, generator=random, device=device).mul_(scales[first:first + 4096]))
    count = rows * cols
    outliers = min(count, max(8, int(2e-6 * count)))
    shares = torch.rand(outliers, generator=random, device=device)
    shares[-1] = 1  # the largest
    largest = log2_of_largest(layer)
    magnitudes = sigma * torch.exp2(LOG2_LEAST_OUTLIER + shares * (largest - LOG2_LEAST_OUTLIER))
    signs = 1 - 2 * torch.randint(2, (outliers,), generator=random, device=device)
    places = torch.randint(count, (outliers,), generator=random, device=device)
    weights.view(-1)[places] = (signs * magnitudes).bfloat16()
    return raise_exponents(weights, math.floor(math.log2(sigma * 2 ** largest)) - (EXPONENTS - 1))


def raise_exponents(weights, least):
    """Gives weights below 2^least that exponent, in place."""
    bits = weights.view(torch.int16)
    bottom = (least + 127) << 7
    for part in bits.split(4096):
        small = (part & 0x7F80) < bottom
        part.copy_(torch.where(small, (part & ~0x7F80) | bottom, part))
    return weights

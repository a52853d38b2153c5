"""The interval of a ratio of two times, as `ecmv compare` has it (reports/compare.cpp)."""

import functools
import math
import statistics

import numpy as np


def ratio_interval(base, other, confidence=0.95):
    """(low, middle, high) of base time / other time: above 1 the other is faster.

    The rank test of Mann and Whitney, inverted: of all ratios of two samples as many are cut at each end as the test
    allows. With too few samples low is 0 and high infinite.
    """
    ratios = np.sort(np.divide.outer(np.asarray(base, float), np.asarray(other, float)), axis=None)
    middle = math.sqrt(ratios[(len(ratios) - 1) // 2] * ratios[len(ratios) // 2])
    cut = _cut_pairs(len(base), len(other), confidence)
    if cut == 0:
        return 0.0, middle, math.inf
    return ratios[cut - 1], middle, ratios[len(ratios) - cut]


@functools.lru_cache(maxsize=None)
def _cut_pairs(n, m, confidence):
    """The largest k with P(U <= k - 1) <= (1 - confidence) / 2 for the rank statistic U of n and m samples."""
    tail = (1 - confidence) / 2
    if n > 40 or m > 40:
        deviation = math.sqrt(n * m * (n + m + 1) / 12)
        return int(max(0, math.floor(n * m / 2 + statistics.NormalDist().inv_cdf(tail) * deviation)))
    # ways[u]: the number of orders whose statistic is u; the Gaussian binomial coefficient, a factor at a time.
    ways = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for u in range(n * m, m + i - 1, -1):
            ways[u] -= ways[u - (m + i)]
        for u in range(i, n * m + 1):
            ways[u] += ways[u - i]
    total, below = sum(ways), 0
    for cut, count in enumerate(ways):
        below += count
        if below / total > tail:
            return cut
    return len(ways)

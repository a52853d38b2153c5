"""The largest batch that fits some memory: found by running it, since what a step needs besides is not known before."""

import torch

from .sessions import Session

_MOST_TRIES = 12


def largest(limit, needs, first=8):
    """(batch, its needs()) for the largest batch whose needs(batch) are at most `limit`; (0, None): there is none.

    needs(batch) runs it and gives its bytes, or None if the device's memory does not last. The next batch to try lies
    on the line through the two nearest ones, and at most midway to one for which it did not.
    """
    tried, batch = {}, first
    while batch not in tried and len(tried) < _MOST_TRIES:
        tried[batch] = needs(batch)
        fits = sorted(one for one, used in tried.items() if used is not None and used <= limit)
        least_beyond = min((one for one in tried if one not in fits), default=None)
        if not fits:
            if least_beyond == 1:
                break
            batch = max(1, least_beyond // 2)
            continue
        known = sorted((one for one, used in tried.items() if used is not None), key=lambda one: abs(one - fits[-1]))
        batch = _on_line(limit, *((one, tried[one]) for one in known[:2]))
        batch = max(batch, fits[-1] + 1)
        if least_beyond is not None:
            last = (fits[-1] + least_beyond) // 2 if tried[least_beyond] is None else least_beyond - 1
            batch = min(batch, max(last, fits[-1]))
    return max(((one, used) for one, used in tried.items() if used is not None and used <= limit), default=(0, None))


def _on_line(limit, near, far=(0, 0)):
    """The batch that takes `limit` bytes."""
    (batch, used), (other, of_other) = near, far
    each = (used - of_other) / (batch - other)
    return batch + int((limit - used) / each) if each > 0 else 2 * batch


class FullSession(Session):
    """Steps at the end of caches with room for `context` tokens, of a prompt that was not read: its keys are zeros."""

    def __init__(self, store, mode, batch, context, steps, device):
        super().__init__(store, mode, torch.zeros(batch, 1, dtype=torch.long, device=device), context - 1)
        self.begin = context - steps

    def rewind(self):
        self._set_length(self.begin)
        self.token.copy_(self.first_token)

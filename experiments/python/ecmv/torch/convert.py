"""Converts the linear modules and embeddings of a model, in place."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import re
import sys

import torch

from ..errors import Refused
from . import products
from .plan import Plan, Skipped


@dataclasses.dataclass(frozen=True)
class Converted:
    name: str
    rows: int
    cols: int
    bytes: int  # of the weights
    coded_bytes: int


class Report:
    """What convert_all_linear() did: lists of Converted and of Skipped; as text a summary."""

    def __init__(self, converted, skipped):
        self.converted, self.skipped = converted, skipped

    def __str__(self):
        before, after = (sum(getattr(one, name) for one in self.converted) for name in ("bytes", "coded_bytes"))
        lines = [f"{len(self.converted)} matrices are coded: {after / 1e6:.1f} MB instead of {before / 1e6:.1f} MB"
                 + (f" ({after / before:.3f})." if before else ".")]
        by_reason = {}
        for one in self.skipped:
            by_reason.setdefault(one.reason, []).append(one.name or "the model")
        for reason, names in by_reason.items():
            more = f" and {len(names) - 3} more" if len(names) > 4 else ""
            lines.append(f"not coded: {', '.join(names[:3] if more else names)}{more}: {reason}")
        return "\n".join(lines)

    __repr__ = __str__


def convert_all_linear(model, *, codec=None, settings=None, skip=(), join=True, embeddings=True, progress=True):
    """Replaces every torch.nn.Linear in `model` by an EcmvLinear with the same weights, coded without loss.

    `codec` and `settings` are as in `ecmv list codecs`; without a codec packed_exponents, and without settings the
    codec's defaults, of quad_huffman those that are fastest with tokens. `skip`: names of modules, as in
    named_modules(), with * for anything; a last part, "lm_head", will do.
    `join`: q, k and v, and gate and up, become one matrix in classes where that is known to be the same. `embeddings`:
    each torch.nn.Embedding of bf16 becomes an EcmvEmbedding, and a head that is tied to it multiplies by the same coded
    bytes. All cores code; each holds the memory of one matrix more. Returns a Report, and prints it with `progress`.
    """
    skip = (skip,) if isinstance(skip, str) else tuple(skip)
    plan = Plan(model, codec, skip, join, embeddings)
    tasks = collections.deque(task for group in plan.groups for task in group.tasks)
    converted, skipped = [], plan.skipped
    del plan  # so that nothing holds weights of a group that is done
    with concurrent.futures.ThreadPoolExecutor(products.workers()) as pool, progress_bar(len(tasks), progress) as step:
        running = set()
        while tasks or running:
            while tasks and len(running) < products.workers():
                running.add(pool.submit(_convert, tasks.popleft(), codec, settings))
            ended, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ended:
                group = future.result()
                step()
                if len(group.done) == len(group.tasks):
                    _put(group, converted, skipped)
            del ended, future, group
    report = Report(*(sorted(found, key=lambda one: _natural(one.name)) for found in (converted, skipped)))
    if converted and "transformers" in sys.modules:
        _tell_transformers(model, codec, settings, skip, join, embeddings, report)
    if progress:
        print(report, file=sys.stderr)
    return report


def _tell_transformers(model, *options):
    """Lets save_pretrained() of its models write what from_pretrained() reads."""
    try:
        from .transformers import adopt
    except ImportError:  # an older one
        return
    adopt(model, *options)


@torch.no_grad()
def _convert(task, codec, settings):
    """Codes a matrix, unless its group has failed already. Gives the group."""
    group, first, done = task.group, task.modules[0], None
    try:
        if not group.reason:
            first.fill(task.weights[0] if len(task.weights) == 1 else torch.cat(task.weights), codec, settings)
            for module in task.modules[1:]:
                module.take(first.coded, is_known=True)
            done = Converted(task.name, *first.shape(), sum(weight.nbytes for weight in task.weights),
                             first.coded.nbytes)
    except Refused as refusal:
        group.reason = str(refusal)
    group.done.append(done)
    return group


def _put(group, converted, skipped):
    """Puts the coded modules of a group into the model, and forgets the others at once, without a garbage collector."""
    if group.reason:
        skipped.append(Skipped(group.name, group.reason))
    else:
        converted.extend(group.done)
        for put in group.puts:
            put()
    group.tasks.clear()
    group.puts.clear()


def _natural(name):
    """Numbers in names are ordered as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


@contextlib.contextmanager
def progress_bar(count, shown):
    """Gives a function to be called after each of `count` steps."""
    if not shown or count == 0:
        yield lambda: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield _PlainBar(count).step
        return
    with tqdm(total=count, desc="coding", unit="matrix") as bar:
        yield bar.update


class _PlainBar:
    def __init__(self, count):
        self.done, self.count = 0, count

    def step(self):
        self.done += 1
        print(f"\rcoding: {self.done} of {self.count} matrices", end="\n" if self.done == self.count else "",
              file=sys.stderr, flush=True)

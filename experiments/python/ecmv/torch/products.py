"""Products that the operator ecmv::linear finds by the places of coded tensors.

A product is bound to one place of the coded bytes. A tensor that is moved, copied or loaded has another, so the
operator asks for its product at the first call, and all modules that have none are bound together, on all cores.
"""

import concurrent.futures
import ctypes
import functools
import math
import os
import threading
import weakref

import torch

from .. import library
from ..errors import InvalidArgument, Refused, Unavailable
from . import coded as coded_tensors

MOST_TOKENS = 1 << 31  # many are multiplied in parts
measure = False  # whether products time the kernels that take their matrix, and take the fastest

_binding = threading.RLock()  # one thread binds what waits
_lock = threading.Lock()  # of what follows
_shared = weakref.WeakValueDictionary()  # products by the places of coded bytes and bias
_making = {}  # what threads wait for that want a product which another one makes, by places
_owners = weakref.WeakSet()  # modules with coded and bias, and with product, which is None or may be one of before
_tables = weakref.WeakSet()  # modules that look up rows


def workers():
    """Threads for work on many matrices: as many as the process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.lru_cache(maxsize=None)
def context(device_type, index):
    """An ecmv_context and a workspace that all its products share, since layers run one after the other."""
    if device_type == "cpu":
        opened = library.make("ecmv_open", b"best", 0, -1)
    elif device_type == "cuda":
        opened = library.make("ecmv_open", b"hip" if torch.version.hip else b"cuda", 0, index)
    else:
        raise Unavailable(f"There are no products on the device '{device_type}'; there are some on cpu and cuda.")
    return opened, library.make("ecmv_make_workspace", opened)


def _context_of(device):
    return context(device.type, 0 if device.index is None else device.index)


class Product:
    """A product of a coded tensor. It keeps the bytes that it is bound to, so nothing else comes to lie there.

    The library reads them once, where they are, and compares them with the known hash of their matrix.
    """

    def __init__(self, coded, bias, known_hash):
        described = coded_tensors.describe(coded)
        numbers = described["type"]
        if numbers not in ("bf16", "f32"):
            raise Refused(f"Elements are bf16 or f32, not {numbers}: PyTorch's tokens have their type, and products "
                          "take no others.")
        if bias is not None and bias.dtype != coded_tensors.DTYPES[numbers]:
            raise InvalidArgument(f"The bias is {bias.dtype}, and the coded weights are {numbers}.")
        self.coded, self.bias = coded.detach(), None if bias is None else bias.detach()
        self.place = place_of(coded, bias)
        opened, workspace = _context_of(coded.device)
        options = library.filled(library.ProductOptionsStruct, max_tokens=MOST_TOKENS, x_type=numbers.encode(),
                                 y_type=numbers.encode(), bias=self.place[1], workspace=workspace, measure=measure)
        if is_aligned(coded, described):
            whole, sections = coded_tensors.parts(described, self.place[0], known_hash)
            self.handle = library.make("ecmv_bind_known_product", opened, ctypes.byref(whole), sections, len(sections),
                                       ctypes.byref(options))
        else:  # the library makes its own copy, at better addresses
            matrix = coded_tensors.unpack(coded, known_hash)
            self.handle = library.make("ecmv_bind_product", opened, matrix.handle, ctypes.byref(options))
        # Nothing is freed when the process ends: the device may be gone by then.
        weakref.finalize(self, _free, self.place, self.handle.value).atexit = False
        binding = library.filled(library.TorchBindingStruct, product=self.handle, bias=self.place[1],
                                 rows=described["rows"], cols=described["cols"], bf16=numbers == "bf16",
                                 device=-1 if coded.is_cpu else coded.device.index)
        library.call("ecmv_torch_bind", self.place[0], ctypes.byref(binding))

    def kernel(self, tokens=1):
        return library.functions().ecmv_product_kernel(self.handle, tokens).decode()


def compare(coded, known_hash):
    """Reads a coded tensor where it is, aligned as new ones are. Malformed: its matrix has another hash."""
    described = coded_tensors.describe(coded)
    whole, sections = coded_tensors.parts(described, coded.data_ptr(), known_hash)
    library.call("ecmv_compare_with_hash", *_context_of(coded.device), ctypes.byref(whole), sections, len(sections))


def _free(place, handle):
    library.functions().ecmv_torch_unbind(*place, handle)
    library.functions().ecmv_free_product(handle)


def place_of(coded, bias):
    return coded.data_ptr(), None if bias is None else bias.data_ptr()


def is_aligned(coded, described=None):
    """As products need it, and as new tensors are; also its sections, if it is described."""
    least = 64 if coded.is_cpu else 256
    return coded.data_ptr() % least == 0 and all(
        (coded.data_ptr() + section["offset"]) % max(section["alignment"], least) == 0
        for section in (described["sections"] if described else ()))


def bind(coded, bias, known_hash):
    """The product of these tensors, which is made where there is none. Several threads make one of a place: of two,
    that which is dropped would take the other's binding with it."""
    place = place_of(coded, bias)
    while True:
        with _lock:
            found = _shared.get(place)
            if found is not None:
                return found
            if place not in _making:
                made = _making[place] = threading.Event()
                break
            other = _making[place]
        other.wait()
    try:
        product = Product(coded, bias, known_hash)
        with _lock:
            _shared[place] = product
        return product
    finally:
        with _lock:
            del _making[place]
        made.set()


# --- who needs a product -----------------------------------------------------------------------------------


def add_owner(module):
    """A module with `coded`, `bias` and `product`, which is None as long as it is bound to none."""
    _owners.add(module)


def add_table(module):
    """A module with `coded` that looks up rows, and others may multiply by the same bytes."""
    _tables.add(module)


def tied(module):
    """The other modules with its coded bytes, if one of all looks up rows."""
    place = module.coded.data_ptr()
    if place == 0 or not any(table.coded.data_ptr() == place for table in list(_tables)):
        return []
    return [other for other in (*list(_tables), *list(_owners))
            if other is not module and other.coded.data_ptr() == place]


def _waits(module):
    place = place_of(module.coded, module.bias)
    return module.coded.device.type != "meta" and (module.product is None or module.product.place != place)


def prepare(model=None):
    """Binds all coded modules of a model, or of the process, that are bound to no product yet, the largest first.

    The first call of one of them does the same. Call it before a stream is captured, or to choose when it takes time.
    Bytes that are not aligned as new tensors are, are copied to such.
    """
    owners = None if model is None else [module for module in model.modules() if module in _owners]
    errors = bind_waiting(owners, may_move=True)
    if errors:
        raise next(iter(errors.values()))


def bind_waiting(owners=None, may_move=False):
    """The errors of those that have no product then, by the places of their coded bytes."""
    with _binding:
        waiting = sorted(filter(_waits, list(_owners) if owners is None else owners), key=_size, reverse=True)
        for module in waiting:
            module.product = None  # what it was bound to before is freed first
        if not waiting:
            return {}
        binder = Binder({module.shape() for module in waiting}, may_move=may_move)
        for module in waiting:
            binder.add(module)
        return binder.finish()


def _size(module):
    return module.in_features * module.out_features


class Binder:
    """Binds modules on all cores, as they come. One of each of `shapes` is bound first, the largest of them before the
    others, since the workspace grows by it, and products that were bound before would keep theirs.

    `trusted`: the hashes that tensors state are taken for known ones. `may_move`: bytes that are not aligned as new
    tensors are, such as those of a mapped file, are copied to such; else the library has a copy of its own beside them.
    """

    def __init__(self, shapes, trusted=False, may_move=True):
        self._pool = concurrent.futures.ThreadPoolExecutor(workers())
        self._trusted, self._may_move = trusted, may_move
        self._lock = threading.Lock()
        self._shapes = sorted(shapes, key=math.prod)  # of which none is being bound, the largest last
        self._firsts = {}  # by shape: modules, with futures of their checks
        self._last_first = None  # future of the first that is bound after those before
        self._held = []  # modules with futures of their checks, that wait for all firsts
        self._tasks, self._errors = [], {}

    def add(self, module):
        """A module whose coded bytes are there."""
        with self._lock:
            checked = self._submit(self._check, module)
            if self._held is None:
                self._submit(self._bind, module, checked)
            elif module.shape() in self._firsts:
                self._held.append((module, checked))
            else:
                self._firsts[module.shape()] = module, checked
                self._bind_firsts(self._firsts)

    def add_table(self, module):
        """A module that has no product: its bytes are checked."""
        with self._lock:
            self._submit(self._check_table, module)

    def finish(self):
        """Waits for all, and gives the errors of those that have no product, by the places of their coded bytes."""
        with self._lock:
            self._bind_firsts(self._shapes)  # no modules of other shapes come
        while self._tasks:
            with self._lock:
                tasks, self._tasks = self._tasks, []
            concurrent.futures.wait(tasks)
        self._pool.shutdown()
        return self._errors

    def _bind_firsts(self, shapes):
        """Submits those of the largest shapes for as long as they are among these."""
        while self._shapes and self._shapes[-1] in shapes:
            first = self._firsts.get(self._shapes.pop())
            if first is not None:
                self._last_first = self._submit(self._bind, *first, self._last_first)
            if not self._shapes:
                self._submit(self._bind_held)

    def _submit(self, work, *arguments):
        self._tasks.append(self._pool.submit(work, *arguments))
        return self._tasks[-1]

    # --- in threads of the pool, which begin tasks in order: nobody waits for one that has not begun ------------

    def _attempt(self, module, work):
        try:
            if module.coded.data_ptr() not in self._errors:
                work()
        except Exception as error:  # of this one; the others are bound all the same
            self._errors[module.coded.data_ptr()] = error

    def _check(self, module):
        def take_stated():  # binding compares the bytes with it
            module.known_hash = coded_tensors.describe(module.coded).get("hash")
        self._attempt(module, lambda: self._move(module))
        if module.known_hash is None and self._trusted:
            self._attempt(module, take_stated)
        if module.known_hash is None:
            self._attempt(module, lambda: module.check(self._trusted))

    def _check_table(self, module):
        self._attempt(module, lambda: self._move(module))
        self._attempt(module, lambda: module.check(self._trusted))

    def _move(self, module):
        if self._may_move and not is_aligned(module.coded):
            module.when_coded = None
            module.coded = module.coded.clone()

    def _bind(self, module, checked, before=None):
        def make():
            module.product = bind(module.coded, module.bias, module.known_hash)
        checked.result()
        if before is not None:
            before.result()
        self._attempt(module, make)

    def _bind_held(self):
        if self._last_first is not None:
            self._last_first.result()
        with self._lock:
            for held in self._held:
                self._submit(self._bind, *held)
            self._held = None

"""python -m ecmv.torch.bench MODEL: tokens a second and memory of a model with coded and with uncompressed weights."""

import argparse
import contextlib
import gc
import random
import statistics
import sys

import torch
import transformers

from ...errors import Error
from .. import products
from . import checks, largest, lines, machine, stores, summary
from .models import SHAPES, Source
from .sessions import Session


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m ecmv.torch.bench", description=__doc__,
        epilog="Every way to run the model is measured in one run, in turns; results are checked before they count.")
    parser.add_argument("model", metavar="MODEL", help="the folder of a checkpoint of transformers, a config.json, or "
                        "a shape with random weights: " + ", ".join(SHAPES))
    parser.add_argument("--batch", type=_counts, default=[1], metavar="N,...", help="sequences at once (1)")
    parser.add_argument("--prompt", type=_counts, default=[512], metavar="N,...", help="tokens of a prompt (512)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--stores", default=",".join(stores.STORES), help="how weights are held (%(default)s)")
    parser.add_argument("--modes", help="how the program runs: eager, graph (a CUDA graph of it), compiled; without it "
                        "eager,compiled")
    parser.add_argument("--codec", help="of the coded weights (packed_exponents)")
    parser.add_argument("--settings", help="of the codec: name=value,name=value")
    parser.add_argument("--measure", action="store_true", help="time all kernels that take a matrix, for the fastest")
    parser.add_argument("--layers", type=int, metavar="N", help="only the first N blocks of the model")
    parser.add_argument("--samples", type=int, default=11, help="of each case (11)")
    parser.add_argument("--steps", type=int, help="tokens of a sample (16; on a CPU 2)")
    parser.add_argument("--memory", type=_sizes, default=[], metavar="GIB,...",
                        help="find the largest batch within it, on a GPU")
    parser.add_argument("--context", type=int, default=4096, help="tokens of a sequence for --memory (4096)")
    parser.add_argument("--dfloat11", metavar="FOLDER", help="the model as DFloat11 has coded it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", metavar="FILE", help="add the records to this file, for `ecmv report`")
    options = parser.parse_args(arguments)
    try:
        options.device = torch.device(options.device)
    except RuntimeError:
        parser.error(f"--device {options.device}: PyTorch knows no such device.")
    if options.device.type == "cuda" and (options.device.index or 0) >= torch.cuda.device_count():
        parser.error(f"--device {options.device}: PyTorch sees {torch.cuda.device_count()} GPUs here.")
    if options.device.type == "cuda" and options.device.index is None:
        options.device = torch.device("cuda", 0)
    options.steps = options.steps or (16 if options.device.type == "cuda" else 2)
    options.stores = options.stores.split(",")
    options.modes = options.modes.split(",") if options.modes else ["eager", "compiled"]
    for names, known in ((options.stores, stores.STORES), (options.modes, ("eager", "graph", "compiled"))):
        if unknown := [name for name in names if name not in known]:
            parser.error(f"There is no '{unknown[0]}'; there are {', '.join(known)}.")
    if options.memory and options.device.type != "cuda":
        parser.error("--memory is for GPUs: on a CPU PyTorch does not tell what memory it takes.")
    if options.memory and options.context <= options.steps:
        parser.error(f"--context is to be more than the {options.steps} steps of a sample, not {options.context}.")
    if min(options.samples, options.steps) < 1:
        parser.error("There is at least one sample of one step.")
    return options


def _counts(text):
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"counts are 1 or more, as in 1,16, not '{text}'")
    return numbers


def _sizes(text):
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"sizes are numbers of GiB, as in 24,80, not '{text}'") from None


class Bench:
    def __init__(self, options, arguments):
        self.options, self.device = options, options.device
        self.source = Source(options.model, options.layers, options.seed)
        self.lines = lines.Lines(options.output, self.device, arguments, options.seed)
        self.random = random.Random(options.seed)
        self.stores, self.missing, self.fastest = [], [], {}
        self.failed = False

    def run(self):
        for name in self.options.stores:
            store, status, reason = stores.make(name, self.source, self.device, self.options)
            if store is None:
                self.missing.append((name, status, reason))
                print(f"{name}: {status}: {reason}", flush=True)
                self._free()
            else:
                self.stores.append(store)
                most = f" and {store.build_bytes / 1e9:.3f} GB at most" if store.build_bytes else ""
                print(f"{store.name}: {store.bytes / 1e9:.3f} GB of weights, made in {store.build_s:.1f} s{most}",
                      flush=True)
        plain = next((store for store in self.stores if store.name == "uncompressed"), None)
        self.reference = None if plain is None else plain.model
        self.elements, self.plain = self._elements(), plain
        for prompt in self.options.prompt:
            for batch in self.options.batch:
                self.measure(batch, prompt)
        for gibibytes in self.options.memory:
            self.measure_largest(gibibytes)
        return 1 if self.failed or not self.stores else 0

    def _elements(self):
        """Weights of the model, by its uncompressed form; without one, by its shapes."""
        if self.reference is not None:
            return sum(parameter.numel() for parameter in self.reference.parameters())
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(self.source.config, dtype=torch.bfloat16)
        return sum(parameter.numel() for parameter in model.parameters())

    def _free(self):
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    # --- one batch -----------------------------------------------------------------------------------------------

    def measure(self, batch, prompt):
        data = lines.data_of(self.source, self.reference, batch, prompt)
        generator = torch.Generator().manual_seed(self.options.seed)
        vocabulary = self.source.config.get_text_config().vocab_size
        ids = torch.randint(vocabulary, (batch, prompt), generator=generator).to(self.device)
        records = {"generate": [], "prompt": []}

        def leave_out(name, mode, status, reason):
            record = lines.missing(data, "generate", mode, name, self.device, status, reason)
            self.lines.write(record)
            return record

        for name, status, reason in self.missing:
            for mode in self.options.modes:
                leave_out(name, mode, status, reason)
        sessions = []
        for store in self.stores:
            for mode in self.options.modes:
                session, status, reason = self._start(store, mode, ids)
                if session is None:
                    self.failed |= store.name in ("uncompressed", "coded") and status == "error"
                    records["generate"].append(leave_out(store.name, mode, status, reason))
                else:
                    sessions.append(session)
        check = self._checks(sessions, batch, ids) if sessions else {}
        for op in ("generate", "prompt"):
            runners = sessions if op == "generate" else self._one_a_store(sessions)
            records[op] += self._in_turns(op, runners, data, check)
            print(f"\n{op}: {self.source.name}, {batch} sequence{'s' * (batch > 1)}, prompt of {prompt} tokens")
            print(summary.table(records[op]), flush=True)
        self.failed |= any(record["status"] == "incorrect" for found in records.values() for record in found)
        for session in sorted(sessions, key=lambda one: -statistics.median(one.samples["generate"])):
            self.fastest[session.store.name] = session.mode
        sessions.clear()
        torch.compiler.reset()
        self._free()

    @staticmethod
    def _one_a_store(sessions):
        """Prompts are read in the same way in every mode."""
        return list({session.store.name: session for session in reversed(sessions)}.values())[::-1]

    def _room(self, prompt):
        return prompt + self.options.steps + 8

    def _start(self, store, mode, ids):
        if mode == "graph" and self.device.type != "cuda":
            return None, "refused", "There are no CUDA graphs on a CPU."
        session = Session(store, mode, ids, self._room(0))
        status, reason = self._begin(session)
        return (session if status == "ok" else None), status, reason

    def _begin(self, session):
        """(status, reason); the bytes that it needs besides weights and cache are session.other_bytes then."""
        try:
            self._free()
            before = machine.allocated(self.device)
            session.start()
            others = machine.most_allocated(self.device) - before - session.cache_bytes
            session.other_bytes = max(0, others) + self._workspace(session.store)
            session.samples = {}
            return "ok", ""
        except torch.OutOfMemoryError as error:
            return "out_of_memory", "It does not fit into the device: " + str(error).split("\n", maxsplit=1)[0]
        except Exception as error:  # of compilers, captures and other programs' kernels
            print(f"{session.store.name}, {session.mode}: {error}", file=sys.stderr)
            return "error", f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"

    def _workspace(self, store):
        return stores.workspace_bytes(self.device) if store.name == "coded" and self.device.type == "cuda" else 0

    # --- the largest batch ---------------------------------------------------------------------------------------

    def measure_largest(self, gibibytes):
        """Each store alone, in the mode that was its fastest, since two such batches may not fit the device."""
        records, context, steps = [], self.options.context, self.options.steps
        for store in self.stores:
            mode = self.fastest.get(store.name, self.options.modes[0])
            session, status, reason = self._largest(store, mode, gibibytes * 2 ** 30)
            batch = 1 if session is None else len(session.prompt_ids)
            data = lines.data_of(self.source, self.reference, batch, context - steps)
            data["parameters"]["memory_GiB"] = gibibytes
            if session is None:
                self.failed |= status == "error"
                records.append(lines.missing(data, "generate", mode, store.name, self.device, status, reason))
                self.lines.write(records[-1])
                continue
            print(f"{store.name}, {mode}: {gibibytes:g} GiB hold {batch} sequence{'s' * (batch > 1)} of {context} "
                  f"tokens, which take {self._peak_bytes(session) / 2 ** 30:.2f} GiB", flush=True)
            of_products = checks.check_products(store, self.reference, batch)
            check = {"decode": "exact" if store.name in ("uncompressed", "coded") else "not checked", "guards": "none",
                     "outputs": self._words_of_products(of_products) or "not checked"}
            records += self._in_turns("generate", [session], data, {(store.name, mode): check})
            del session
            torch.compiler.reset()
            self._free()
        print(f"\ngenerate: {self.source.name}, the largest batch in {gibibytes:g} GiB, at the end of {context} tokens")
        print(summary.table(records), flush=True)
        self.failed |= any(record["status"] == "incorrect" for record in records)

    def _largest(self, store, mode, limit):
        """(session, status, reason): begun with the largest batch that stays within `limit` bytes; None: there is none.

        Batches are tried in a mode that compiles nothing, and the last one in its own, which may need a little more.
        """
        quick = "graph" if "graph" in self.options.modes else "eager"
        failure = []

        def begin(batch, in_mode):
            session = largest.FullSession(store, in_mode, batch, self.options.context, self.options.steps, self.device)
            status, reason = self._begin(session)
            if status == "error":
                failure[:] = [(status, reason)]
            return session if status == "ok" else None

        def needs(batch):
            session = begin(batch, quick)
            return None if session is None else self._peak_bytes(session)

        batch, _ = largest.largest(limit, needs)
        while batch > 0 and not failure:
            session = begin(batch, mode)
            if session is not None and self._peak_bytes(session) <= limit:
                return session, "ok", ""
            session, batch = None, batch - 1
        return None, *(failure[0] if failure else ("out_of_memory", f"{limit / 2 ** 30:g} GiB hold no sequence of "
                                                   f"{self.options.context} tokens."))

    # --- checks --------------------------------------------------------------------------------------------------

    @staticmethod
    def _words_of_products(share):
        if share is None:
            return ""
        return (f"products take {share:.2f} of their bound" if share <= 1 else
                f"products exceed their bound {share:.3g} times")

    def _checks(self, sessions, batch, ids):
        """(store, mode) -> the object `check` of its records."""
        found, reference, token = {}, None, None
        if self.plain is not None:
            session = Session(self.plain, "eager", ids, self._room(0))
            with contextlib.suppress(torch.OutOfMemoryError), checks.products_in_float32(self.plain.model):
                reference, token = session.logits_of(), session.first_token.clone()
            plain = [one for one in sessions if one.store is self.plain] or [session]
            allowed = 0.0 if reference is None else checks.allowed_distance(
                max(checks.farthest(one.logits_of(token), reference) for one in plain))
        for session in sessions:
            of_products = self._words_of_products(checks.check_products(session.store, self.reference, batch))
            words = [of_products] if of_products else []
            if reference is not None:
                far = checks.farthest(session.logits_of(token), reference)
                verdict = "within" if far <= allowed else "exceed"
                words.append(f"logits {verdict} {allowed:.2g} of their norm from products in float32: {far:.2g}")
            decode = {"uncompressed": "exact", "coded": "exact"}.get(session.store.name, "not checked")
            found[session.store.name, session.mode] = {"decode": decode, "outputs": "; ".join(words) or "not checked",
                                                       "guards": "none"}
        return found

    # --- samples -------------------------------------------------------------------------------------------------

    def _in_turns(self, op, sessions, data, check):
        """Samples of all sessions, in an order that changes."""
        for session in sessions:
            session.samples[op], session.disturbed = [], []
        whole = machine.Watch(self.device).start()
        for number in range(self.options.samples):
            for session in self.random.sample(sessions, len(sessions)):
                watch = machine.Watch(self.device).start()
                session.samples[op].append(session.step_seconds(self.options.steps) if op == "generate"
                                           else session.prompt_seconds())
                if watch.was_disturbed():
                    session.disturbed.append(number)
        host, records = whole.host(), []
        for session in sessions:
            record = lines.measured(
                data, op, session, self.elements, session.samples[op], session.disturbed,
                self.options.steps if op == "generate" else 1, host, check[session.store.name, session.mode],
                self._memory(session), self.device, self.options.modes)
            records.append(record)
            self.lines.write(record)
        return records

    def _memory(self, session):
        if self.device.type != "cuda":
            return None
        free, total = torch.cuda.mem_get_info(self.device)
        return {"weight_bytes": session.store.bytes, "device_bytes": total, "free_bytes": free,
                "peak_bytes": self._peak_bytes(session)}

    @staticmethod
    def _peak_bytes(session):
        return session.store.bytes + session.cache_bytes + session.other_bytes


def main(arguments):
    options = parse(arguments)
    products.measure = options.measure
    try:
        return Bench(options, arguments).run()
    except Error as error:
        print(f"ecmv.torch.bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

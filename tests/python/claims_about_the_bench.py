"""Claims about `python -m ecmv.torch.bench`, on the CPU."""

import contextlib
import io
import json
import math
import os
import pathlib
import re
import tempfile
import types
import unittest
import unittest.mock

import torch

import ecmv
from claims_about_records import results_csv
from ecmv.torch import coded as coded_tensors
from ecmv.torch.bench import checks, stores
from ecmv.torch.bench.__main__ import Bench as Runner
from ecmv.torch.bench.__main__ import main, parse
from ecmv.torch.bench.largest import largest
from ecmv.torch.bench.models import SHAPES, Source
from ecmv.torch.bench.summary import against
from ecmv.torch.bench.weights import llm_like

SOURCE = pathlib.Path(os.environ["ECMV_TEST_SOURCE"])
CONFIG = {"model_type": "llama", "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 640,
          "tie_word_embeddings": False, "max_position_embeddings": 512}


class Bench(unittest.TestCase):
    def run_bench(self, *arguments):
        """(exit status, what was printed)"""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                status = main(list(map(str, arguments)))
            except SystemExit as end:
                status = end.code
        return status, printed.getvalue()

    def test_a_model_is_measured_uncompressed_and_coded_and_the_command_reads_the_records(self):
        with tempfile.TemporaryDirectory() as folder:
            config, records = pathlib.Path(folder, "tiny.json"), pathlib.Path(folder, "out", "records.jsonl")
            config.write_text(json.dumps(CONFIG))
            status, printed = self.run_bench(
                config, "--device", "cpu", "--modes", "eager", "--batch", "1,3", "--prompt", 8, "--samples", 6,
                "--steps", 2, "-o", records)
            self.assertEqual(status, 0, printed)
            cases = ecmv.read_records(records)
            table = results_csv(records)
            lines = [json.loads(line) for line in records.read_text().splitlines()]
        build = lines[0]["build"]
        for line in lines[1:]:  # no one may call eager programs the fastest uncompressed ones
            if line["status"] == "ok":
                self.assertEqual((line["entrants"]["kernels"], line["entrants"]["known_kernels"]),
                                 (1, 2 if line["kernel"]["op"] == "generate" else 1))
        self.assertTrue(build["compiler"] and build["build_type"], build)
        self.assertIn("of the speed of uncompressed, eager", printed)
        ok = cases[cases.status == "ok"]
        self.assertEqual(len(ok), 2 * 2 * 2, printed)  # batches, ops, ways to hold the weights
        self.assertEqual(set(ok.op), {"generate", "prompt"})
        rivals = cases[cases.status == "unavailable"]
        self.assertTrue(all(reason.endswith((".", "by --dfloat11.")) for reason in rivals.reason))
        for row in ok.to_dict("records"):
            self.assertAlmostEqual(row["tokens_per_s"] * row["median_s"], row["batch"], delta=1e-6 * row["batch"])
            self.assertEqual(row["batch"], row["data.sequences"] * (8 if row["op"] == "prompt" else 1))
            self.assertEqual(row["samples"], 6)
        plain, coded = ok[ok.codec == "raw_bf16"], ok[ok.codec != "raw_bf16"]
        self.assertLess(coded.stored_bytes.max(), 0.9 * plain.stored_bytes.min())
        self.assertEqual(set(plain.bits_per_element), {16.0})
        self.assertTrue((coded.speedup_vs_raw > 0).all())
        of_command = {row["case"]: row for row in table.to_dict("records")}
        for row in ok.to_dict("records"):
            self.assertAlmostEqual(float(of_command[row["case"]]["tokens_per_s"]), row["tokens_per_s"],
                                   delta=1e-6 * row["tokens_per_s"])

    def test_a_wrong_product_is_incorrect_and_ends_the_run_with_a_status(self):
        weight = torch.randn(64, 96).bfloat16()
        module = torch.nn.Linear(96, 64, bias=False, dtype=torch.bfloat16)
        module.weight = torch.nn.Parameter(weight.clone(), requires_grad=False)
        self.assertLessEqual(checks.share_of_bound(module, weight, 3, 1), 1)
        module.weight[5, 7] += 0.25
        self.assertGreater(checks.share_of_bound(module, weight, 3, 1), 1)

    def test_modules_of_every_shape_are_checked_joined_ones_among_them(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "tiny.json")
            config.write_text(json.dumps(CONFIG))
            source = Source(str(config))
        options = types.SimpleNamespace(codec=None, settings=None)
        plain, coded = (make(source, torch.device("cpu"), options) for make in (stores.uncompressed, stores.coded))
        checked = []
        with unittest.mock.patch.object(checks, "share_of_bound", lambda module, weight, *_: checked.append(
                (type(module).__name__, tuple(weight.shape), bool((module.decode() == weight).all()))) or 0.5):
            self.assertEqual(checks.check_products(coded, plain.model, 2), 0.5)
            self.assertEqual(sorted(checked), [("EcmvLinear", shape, True) for shape in
                                               ((128, 128), (128, 384), (256, 128), (640, 128), (768, 128))])
            self.assertEqual(checks.check_products(coded, None, 2), 0.5)
            self.assertEqual(len(checked), 10)
            plain.model.model.embed_tokens.weight.data.view(torch.int16)[:, 3] ^= 1
            self.assertEqual(checks.check_products(coded, plain.model, 2), math.inf)

    def test_wrong_arguments_end_with_a_sentence_and_2_before_anything_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "tiny.json")
            config.write_text(json.dumps(CONFIG))
            for arguments, sentence in (
                    (("--device", "cpu", "--codec", "rns"), "There is no codec 'rns'"),
                    (("--device", "cpu", "--settings", "excess=many"), "excess"),
                    (("--device", "cdua"), "--device cdua: PyTorch knows no such device."),
                    (("--device", "cuda:99"), "--device cuda:99: PyTorch sees "),
                    (("--device", "cpu", "--batch", "x"), "counts are 1 or more, as in 1,16, not 'x'"),
                    (("--device", "cpu", "--memory", "x"), "sizes are numbers of GiB"),
                    (("--device", "cpu", "--memory", "1"), "--memory is for GPUs"),
                    (("--device", "cpu", "-o", config / "records.jsonl"), "records.jsonl cannot be written: ")):
                with self.subTest(arguments):
                    status, printed = self.run_bench(config, *arguments)
                    self.assertEqual(status, 2, printed)
                    self.assertIn(sentence, printed)
                    self.assertNotIn("tokens/s", printed)

    def test_a_model_that_is_not_there_is_a_sentence(self):
        for name in ("nowhere", os.devnull):
            status, printed = self.run_bench(name, "--device", "cpu")
            self.assertEqual(status, 2)
            self.assertIn(f"There is no model '{name}'", printed)
        status, printed = self.run_bench("llama_3_8b", "--device", "cpu", "--layers", 33)
        self.assertEqual(status, 2)
        self.assertIn("The model has 1 to 32 layers, not 33.", printed)
        status, printed = self.run_bench("llama_3_8b", "--device", "cpu", "--stores", "zip")
        self.assertEqual(status, 2)
        self.assertIn("There is no 'zip'; there are uncompressed, coded", printed)

    def test_shapes_are_those_of_the_data_source(self):
        text = (SOURCE / "datasets/layers/model_shape.cpp").read_text()
        found = {name: tuple(map(int, numbers.split(", ")))
                 for name, numbers in re.findall(r'{"(\w+)", {([\d, ]+)}}', text)}
        self.assertEqual(SHAPES, found)

    def test_weights_have_the_statistics_of_the_source_llm_like(self):
        for layer in range(4):
            weights = llm_like(512, 2048, layer, 1, torch.device("cpu"))
            self.assertTrue(torch.equal(weights, llm_like(512, 2048, layer, 1, torch.device("cpu"))))
            exponents = weights.view(torch.int16) >> 7 & 255
            _, counts = exponents.unique(return_counts=True)
            self.assertLessEqual(len(counts), 31)
            share = counts / counts.sum()
            self.assertAlmostEqual(-(share * share.log2()).sum().item(), 2.577, delta=0.04)
            self.assertTrue(0.0095 < weights.float().std() < 0.042)

    def test_the_codec_of_a_run_is_that_of_most_bytes(self):
        def coded(codec, rows):
            return coded_tensors.pack(coded_tensors.encode(torch.ones(rows, 256, dtype=torch.bfloat16), codec))

        table, matrices = coded("packed_exponents", 1000), [coded("raw_bf16", 400) for _ in range(3)]
        self.assertGreater(table.nbytes, matrices[0].nbytes)
        described = stores.described_by_most([torch.ones(3), table, *matrices])
        self.assertEqual((described["codec"], described["rows"]), ("raw_bf16", 400))
        with self.assertRaises(stores.Missing):
            stores.described_by_most([torch.ones(3)])

    def test_the_largest_batch_is_found_by_running_few(self):
        for limit, of_weights, each, memory in ((1000, 100, 7, 10 ** 9), (1000, 100, 7, 500), (50, 10, 30, 10 ** 9),
                                                (10 ** 6, 5, 1, 10 ** 9), (99, 100, 7, 10 ** 9), (30, 10, 30, 10 ** 9)):
            tried = []

            def needs(batch):
                tried.append(batch)
                used = of_weights + each * batch + batch // 10
                return used if used <= memory else None

            found, used = largest(limit, needs)
            self.assertLessEqual(len(tried), 12)
            self.assertEqual(len(tried), len(set(tried)))
            right = max((batch for batch in range(limit + 1) if batch == 0 or (needs(batch) or limit + 1) <= limit))
            self.assertEqual(found, right)
            self.assertEqual(used, needs(found) if found else None)

    def test_speeds_of_different_batches_are_compared_by_tokens(self):
        def record(batch, seconds):
            return {"kernel": {"batch": batch}, "time": {"samples_s": [seconds] * 6}}
        self.assertEqual(against(record(10, 1.0), record(15, 1.0)), "1.500 (1.500 to 1.500)")

    def test_the_largest_batch_is_measured_with_full_caches(self):
        with tempfile.TemporaryDirectory() as folder:
            config, records = pathlib.Path(folder, "tiny.json"), pathlib.Path(folder, "records.jsonl")
            config.write_text(json.dumps(CONFIG))
            arguments = [str(config), "--device", "cpu", "--modes", "eager", "--stores", "uncompressed,coded",
                         "--prompt", "8", "--samples", "3", "--context", "64", "-o", str(records)]
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                bench = Runner(parse(arguments), arguments)
                self.assertEqual(bench.run(), 0)
                cache = CONFIG["num_hidden_layers"] * 2 * CONFIG["num_key_value_heads"] * CONFIG["head_dim"] * 64 * 2
                bench.measure_largest((bench.stores[0].bytes + 20.5 * cache) / 2 ** 30)
                bench.measure_largest((bench.stores[1].bytes + 1.5 * cache) / 2 ** 30)  # less than uncompressed weights
                self.assertFalse(bench.failed)
                with unittest.mock.patch.object(bench, "_begin", lambda session: ("error", "It broke.")):
                    bench.measure_largest(1)
                self.assertTrue(bench.failed)
            cases = ecmv.read_records(records)
        self.assertEqual(cases[cases.status == "error"].reason.tolist(), 2 * ["It broke."])
        beyond = cases[cases.status == "out_of_memory"]
        self.assertEqual(beyond.policy.tolist(), ["uncompressed"])
        self.assertIn("GiB hold no sequence of 64 tokens.", beyond.reason.item())
        self.assertIn("uncompressed, eager: ", printed.getvalue())
        self.assertIn(" GiB hold 20 sequences of 64 tokens, which take ", printed.getvalue())
        found = cases[(cases["data.prompt"] == 62) & (cases["data.sequences"] > 1)].set_index("policy")
        more = (bench.stores[0].bytes - bench.stores[1].bytes) // cache
        self.assertEqual(found.loc["uncompressed", "data.sequences"], 20)
        self.assertIn(found.loc["coded", "data.sequences"], (20 + more, 21 + more))
        self.assertTrue((found.status == "ok").all())

"""Claims about coded embeddings. ECMV_TEST_DEVICE: cpu, or cuda on a machine with a GPU."""

import copy
import io
import json
import os
import pathlib
import tempfile
import unittest

import torch

import ecmv
import ecmv.torch
from ecmv.torch import coded as coded_tensors
from ecmv.torch import rows

DEVICE = torch.device(os.environ.get("ECMV_TEST_DEVICE", "cpu"))
SPECIAL = torch.tensor([0x7F80, -1, 0x7FC1, 1, -32768, 0x7FFF], dtype=torch.int16)  # infinity, NaNs, the least, -0


def table(count, width, seed=1):
    """Rows as of trained models, with numbers that no window of sixteen exponents has: in rows of the first, a middle
    and the last block, in columns beside each other and far apart, and a row of zeros."""
    values = torch.randn(count, width, generator=torch.Generator().manual_seed(seed)) * 0.02
    module = torch.nn.Embedding(count, width, dtype=torch.bfloat16)
    with torch.no_grad():
        module.weight.copy_(values)
        module.weight[0, ::3] = 1e-20
        module.weight[count - 1, -1] = -3e30
        module.weight[count // 2] = 0
        module.weight.view(torch.int16)[count // 3, :len(SPECIAL)] = SPECIAL
    return module.to(DEVICE)


def coded(plain):
    """Whatever its size: tables this small have many numbers outside."""
    made = ecmv.torch.EcmvEmbedding.like(plain)
    made.take(made.encode(plain.weight, None, None).to(DEVICE))
    return made


class Case(unittest.TestCase):
    def assertSame(self, one, other):
        self.assertEqual((one.dtype, one.shape), (other.dtype, other.shape))
        self.assertTrue(torch.equal(one.view(torch.int16), other.view(torch.int16)))


class Rows(Case):
    def test_every_row_has_its_bits_whatever_the_shape(self):
        # Blocks of 16 rows, groups of 128 columns, of which the last is short up to 64; odd numbers of columns.
        for shape in ((64, 256), (1, 128), (16, 128), (17, 200), (37, 130), (33, 64), (50, 191), (5, 321), (40, 192),
                      (3, 65), (8, 7), (100, 1), (1003, 512)):
            with self.subTest(shape):
                plain = table(*shape) if shape[1] > len(SPECIAL) else torch.nn.Embedding(
                    *shape, dtype=torch.bfloat16, device=DEVICE)
                module = coded(plain)
                generator = torch.Generator().manual_seed(2)
                some = torch.randint(0, shape[0], (3, 7), generator=generator).to(DEVICE)
                for ids in (torch.arange(shape[0], device=DEVICE), some, some.int(), some[0, 0], some[:0], some.T):
                    self.assertSame(module(ids), plain(ids))
                self.assertSame(module.decode(), plain.weight.detach())

    def test_tables_without_numbers_outside_the_window_have_no_records(self):
        plain = torch.nn.Embedding(48, 128, dtype=torch.bfloat16, device=DEVICE)
        with torch.no_grad():
            plain.weight.fill_(0.5)
        module = ecmv.torch.EcmvEmbedding.from_embedding(plain)
        self.assertEqual(module.layout.most_records, 0)
        ids = torch.arange(48, device=DEVICE)
        self.assertSame(module(ids), plain(ids))

    @unittest.skipIf(DEVICE.type != "cpu", "a GPU that is asked for a row that there is not serves nothing afterwards")
    def test_an_id_that_is_no_row_is_an_error(self):
        module = coded(table(37, 130))
        for wrong in (37, 40, 48, -1, 1 << 40):
            with self.assertRaises(IndexError):
                module(torch.tensor([1, wrong]))

    def test_rows_with_too_many_numbers_outside_are_refused(self):
        plain = torch.nn.Embedding(3, rows.MOST_RECORDS + 64, dtype=torch.bfloat16, device=DEVICE)
        with torch.no_grad():
            plain.weight[1] = 0
        with self.assertRaisesRegex(ecmv.Refused, f"A row has {rows.MOST_RECORDS + 64} elements outside"):
            ecmv.torch.EcmvEmbedding.from_embedding(plain)

    def test_coded_bytes_of_another_matrix_or_codec_and_damaged_ones_are_refused(self):
        plain = table(64, 256)
        module = ecmv.torch.EcmvEmbedding.from_embedding(plain)
        with self.assertRaisesRegex(ecmv.InvalidArgument, "32 rows and 256 columns"):
            module.take(coded(table(32, 256)).coded)
        other = coded_tensors.pack(coded_tensors.encode(plain.weight, "zstd"))
        with self.assertRaisesRegex(ecmv.Malformed, "this is one of zstd"):
            module.take(other.to(DEVICE))
        damaged = module.coded.clone()
        damaged[module.layout.fields] = 255
        with self.assertRaises(RuntimeError):
            module.load_state_dict({"coded": damaged})


class Models(Case):
    def setUp(self):
        self.plain = torch.nn.ModuleDict({"table": table(1003, 512), "head": torch.nn.Linear(
            512, 1003, bias=False, dtype=torch.bfloat16, device=DEVICE)})
        self.ids = torch.tensor([[0, 501, 1002], [7, 7, 334]], device=DEVICE)

    def test_a_head_that_is_tied_multiplies_by_the_bytes_of_the_table(self):
        for first, second in (("table", "head"), ("head", "table")):
            plain = torch.nn.ModuleDict({first: self.plain[first], second: self.plain[second]})
            with torch.no_grad():  # without infinities and NaNs, whose products say nothing
                plain["table"].weight.view(torch.int16)[1003 // 3, :len(SPECIAL)] = 0x3C00
                plain["table"].weight[-1, -1] = 1
            plain["head"].weight = plain["table"].weight
            model = copy.deepcopy(plain)
            report = ecmv.torch.convert_all_linear(model, progress=False)
            self.assertEqual([one.name for one in report.converted], [f"{first} = {second}"])
            self.assertIs(model["head"].coded, model["table"].coded)
            self.assertSame(model["table"](self.ids), plain["table"](self.ids))
            x = plain["table"](self.ids)
            torch.testing.assert_close(model["head"](x), plain["head"](x), atol=1e-4, rtol=2e-2)
            there = set()  # as to another device: what is there stays
            model._apply(lambda tensor: tensor if tensor.data_ptr() in there else self.copied(tensor, there))
            self.assertIs(model["head"].coded, model["table"].coded)
            self.assertEqual(model["head"](x).shape, (2, 3, 1003))

    @staticmethod
    def copied(tensor, there):
        copy = tensor.clone()
        there.add(copy.data_ptr())
        return copy

    def test_of_tied_modules_all_are_coded_or_none(self):
        self.plain["head"].weight = self.plain["table"].weight
        for skip, reason in (("head", "also that of head"), ("table", "also that of table")):
            report = ecmv.torch.convert_all_linear(copy.deepcopy(self.plain), skip=[skip], progress=False)
            self.assertEqual(report.converted, [])
            self.assertEqual(sorted(one.reason for one in report.skipped)[0], "it was to be skipped")
            self.assertIn(reason, str(report))

    def test_embeddings_are_left_if_that_is_wanted_or_if_they_do_more_than_look_up(self):
        report = ecmv.torch.convert_all_linear(copy.deepcopy(self.plain), embeddings=False, progress=False)
        self.assertEqual(([one.name for one in report.converted], report.skipped), (["head"], []))

        class Scaled(torch.nn.Embedding):
            pass
        for other, reason in ((Scaled(64, 256, dtype=torch.bfloat16, device=DEVICE), "class is Scaled"),
                              (torch.nn.Embedding(64, 256, device=DEVICE), "float32, and coded embeddings are bf"),
                              (torch.nn.Embedding(0, 256, dtype=torch.bfloat16, device=DEVICE), "no elements")):
            model = torch.nn.ModuleDict({"other": other})
            report = ecmv.torch.convert_all_linear(model, progress=False)
            self.assertIn(reason, report.skipped[0].reason)
            self.assertIs(model["other"], other)

    def test_a_file_has_the_same_rows_and_changed_bytes_are_found(self):
        ecmv.torch.convert_all_linear(self.plain, progress=False)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.safetensors"
            ecmv.torch.save(self.plain, path)

            def loaded(trusted):
                made = torch.nn.ModuleDict({"table": table(1003, 512, seed=5), "head": torch.nn.Linear(
                    512, 1003, bias=False, dtype=torch.bfloat16, device=DEVICE)})
                return ecmv.torch.load(made, path, trusted=trusted)

            bytes_ = bytearray(path.read_bytes())
            begin = 8 + int.from_bytes(bytes_[:8], "little")
            fields = json.loads(bytes_[8:begin])["table.fields"]["data_offsets"]
            for trusted in (True, False):
                self.assertSame(loaded(trusted)["table"](self.ids), self.plain["table"](self.ids))
            bytes_[begin + fields[0] + 1000] ^= 1
            path.write_bytes(bytes_)
            for trusted in (True, False):
                with self.subTest(trusted=trusted), self.assertRaises(ecmv.Malformed):
                    loaded(trusted)

    def test_copies_pickles_and_state_dicts_have_the_same_rows(self):
        plain = self.plain["table"]
        module = ecmv.torch.EcmvEmbedding.from_embedding(plain)
        file = io.BytesIO()
        torch.save(module, file)
        file.seek(0)
        fresh = ecmv.torch.EcmvEmbedding(1003, 512, device=DEVICE)
        fresh.load_state_dict(module.state_dict())
        set_by_others = ecmv.torch.EcmvEmbedding(1003, 512, device=DEVICE)
        set_by_others.coded = module.coded
        for other in (copy.deepcopy(module), torch.load(file, weights_only=False), fresh, set_by_others):
            self.assertSame(other(self.ids), plain(self.ids))
        self.assertEqual(list(module.state_dict()), ["coded"])
        self.assertRegex(repr(module), r"1003, 512, codec=packed_exponents, bits_per_weight=12\.\d\d")

    def test_compiled_and_exported_models_look_up_the_same_in_one_graph(self):
        plain = self.plain["table"]
        module = ecmv.torch.EcmvEmbedding.from_embedding(plain)
        compiled = torch.compile(module, fullgraph=True, backend="inductor" if DEVICE.type != "cpu" else "aot_eager")
        for ids in (self.ids, self.ids[:1], torch.arange(64, device=DEVICE)):
            self.assertSame(compiled(ids), plain(ids))
        exported = torch.export.export(module, (self.ids,)).module()
        self.assertSame(exported(self.ids), plain(self.ids))

    @unittest.skipIf(DEVICE.type == "cpu", "a claim about GPUs, and ECMV_TEST_DEVICE is cpu")
    def test_a_captured_graph_looks_up_what_its_ids_are_at_every_replay(self):
        plain = self.plain["table"]
        module, ids, graph = ecmv.torch.EcmvEmbedding.from_embedding(plain), self.ids.clone(), torch.cuda.CUDAGraph()
        module(ids)
        with torch.cuda.graph(graph):
            y = module(ids)
        for number in (3, 1002):
            ids.fill_(number)
            graph.replay()
            self.assertSame(y, plain(ids))

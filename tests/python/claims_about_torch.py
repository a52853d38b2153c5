"""Claims about PyTorch modules with coded weights. ECMV_TEST_DEVICE: cpu, or cuda on a machine with a GPU."""

import concurrent.futures
import contextlib
import copy
import gc
import io
import itertools
import json
import os
import pathlib
import tempfile
import unittest
import weakref
from unittest import mock

import torch

import ecmv
import ecmv.torch
from ecmv.torch import coded as coded_tensors
from ecmv.torch import products
from ecmv.torch.operator import linear

DEVICE = torch.device(os.environ.get("ECMV_TEST_DEVICE", "cpu"))
ON_GPU = DEVICE.type != "cpu"
needs_gpu = unittest.skipUnless(ON_GPU, "a claim about GPUs, and ECMV_TEST_DEVICE is cpu")


def weights(rows, cols, seed=1):
    """Like those of trained models: Gaussian, and a few columns that are larger."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, cols, generator=generator) * 0.02
    values[:, ::37] *= 5
    return values.to(torch.bfloat16)


def linear_module(cols, rows, bias=False, seed=1):
    module = torch.nn.Linear(cols, rows, bias=bias, dtype=torch.bfloat16)
    with torch.no_grad():
        module.weight.copy_(weights(rows, cols, seed))
    return module.to(DEVICE)


def tokens(*shape, seed=2):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, torch.bfloat16)


def mlp(seed=1):
    return torch.nn.Sequential(linear_module(512, 256, True, seed), torch.nn.ReLU(), linear_module(256, 512, seed=seed))


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = linear_module(256, 512, True), linear_module(256, 512, True, 3)
        self.down_proj = linear_module(512, 256)

    def forward(self, x):
        return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


def converted(module, **options):
    ecmv.torch.convert_all_linear(module, progress=False, **options)
    return module


class Case(unittest.TestCase):
    def assertNear(self, y, x, weight, bias=None):
        """The sums are float32 sums in some order, rounded to bf16 once."""
        x, w = x.double(), weight.double()
        exact, size = x @ w.T, x.abs() @ w.abs().T
        if bias is not None:
            exact, size = exact + bias.double(), size + bias.double().abs()
        bound = size * (x.shape[-1] + 2) * 2.0**-23 + exact.abs() * 2.0**-8
        self.assertEqual(y.shape, exact.shape)
        self.assertTrue(bool((((y.double() - exact).abs()) <= bound).all()))

    def assertSame(self, one, other):
        self.assertEqual((one.dtype, one.shape), (other.dtype, other.shape))
        self.assertTrue(torch.equal(one, other))


class Products(Case):
    def test_products_are_within_the_bound_of_float32_sums_for_many_shapes_and_numbers_of_tokens(self):
        shapes = (256, 512, False), (512, 256, True), (1000, 320, True), (64, 1024, False)
        for codec, (rows, cols, bias) in itertools.product((None, "quad_huffman") if ON_GPU else (None,), shapes):
            module = linear_module(cols, rows, bias)
            coded = ecmv.torch.EcmvLinear.from_linear(module, codec)
            self.assertSame(coded.decode(), module.weight)
            for shape in ((), (1,), (3,), (8,), (17,), (2, 33), (2, 3, 4), (65,), (200,)):
                with self.subTest(codec=codec, rows=rows, cols=cols, tokens=shape):
                    x = tokens(*shape, cols)
                    self.assertNear(coded(x), x, module.weight, module.bias)

    def test_tokens_may_be_views_of_other_tensors_and_may_be_none(self):
        module = linear_module(512, 256)
        coded = ecmv.torch.EcmvLinear.from_linear(module)
        wide = tokens(4, 5, 1024)
        for name, x in (("last tokens", wide[:, -1:, :512]), ("every second token", wide[0, ::2, :512]),
                        ("columns", wide[0, :, ::2]), ("transposed", tokens(512, 7).T),
                        ("permuted", tokens(5, 4, 512).transpose(0, 1)), ("expanded", tokens(1, 512).expand(6, 512))):
            with self.subTest(name):
                self.assertSame(coded(x), coded(x.contiguous()))
        self.assertEqual(coded(wide[:0, 0, :512]).shape, (0, 256))

    def test_float32_weights_are_coded_if_a_codec_for_them_is_named(self):
        if ON_GPU or "zstd" not in ecmv.codecs():
            self.skipTest("no codec here multiplies float32 weights")
        module = linear_module(512, 256, True).float()
        with torch.no_grad():
            module.weight.mul_(0.3).round_(decimals=2)  # so that coding pays
        coded, x = ecmv.torch.EcmvLinear.from_linear(module, "zstd"), torch.randn(3, 512)
        torch.testing.assert_close(coded(x), module(x), rtol=1e-5, atol=1e-5)
        self.assertEqual(coded(x).dtype, torch.float32)

    def test_x_has_its_gradient_and_the_coded_weights_have_none(self):
        plain = mlp()
        module = converted(copy.deepcopy(plain))
        x, same = tokens(3, 512).requires_grad_(), tokens(3, 512).requires_grad_()
        plain(same).sum().backward()
        module(x).sum().backward()
        torch.testing.assert_close(x.grad, same.grad, rtol=2e-2, atol=2e-2)
        self.assertFalse(any(parameter.requires_grad for parameter in module.parameters()))

    def test_under_autocast_tokens_are_brought_to_the_dtype_of_the_weights(self):
        module = converted(mlp())
        x = tokens(3, 512)
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
            self.assertSame(module(x.float()), module(x))

    def test_several_threads_may_use_one_model(self):
        module, x = converted(mlp()), [tokens(number + 1, 512, seed=number) for number in range(6)]
        expected = [module(one) for one in x]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            for _ in range(20):
                for y, right in zip(pool.map(module, x), expected):
                    self.assertSame(y, right)

    def test_what_does_not_fit_is_an_error_with_a_sentence(self):
        module = ecmv.torch.EcmvLinear.from_linear(linear_module(512, 256))
        loose = module.coded.clone()
        for sentence, what in (
                ("x is to have the dtype bfloat16", lambda: module(tokens(1, 512).float())),
                ("256 rows and 512 columns, which do not fit", lambda: module(tokens(1, 511))),
                ("is bound to no product", lambda: linear(tokens(1, 512), loose, None, 256)),
                ("256 rows and 512 columns", lambda: linear(tokens(1, 512), module.coded, None, 257))):
            with self.subTest(sentence), self.assertRaisesRegex(RuntimeError, sentence):
                what()


class Conversion(Case):
    def test_one_line_converts_a_model_and_reports_what_it_did(self):
        plain = mlp()
        module = copy.deepcopy(plain)
        report = ecmv.torch.convert_all_linear(module, progress=False)
        self.assertEqual([one.name for one in report.converted], ["0", "2"])
        self.assertEqual(report.skipped, [])
        self.assertEqual([one.bytes for one in report.converted], [2 * 256 * 512] * 2)
        coded = sum(one.coded_bytes for one in report.converted)
        self.assertLess(coded, 0.8 * 2 * 2 * 256 * 512)
        self.assertEqual(sum(b.nbytes for b in module.buffers()), coded)
        self.assertRegex(str(report), r"2 matrices are coded: .* MB instead of .* MB")
        x = tokens(4, 512)
        self.assertNear(module[0](x), x, plain[0].weight, plain[0].bias)

    def test_what_stays_as_it_is_is_listed_with_the_reason(self):
        class Subclass(torch.nn.Linear):
            pass
        tied = torch.nn.Embedding(256, 512, max_norm=1, dtype=torch.bfloat16, device=DEVICE)
        model = torch.nn.ModuleDict({
            "two_bytes": linear_module(512, 256).half(), "single": linear_module(512, 256).float(),
            "subclass": Subclass(512, 256, device=DEVICE, dtype=torch.bfloat16), "hooked": linear_module(512, 256),
            "embedding": tied, "head": linear_module(512, 256), "left_out": linear_module(512, 256),
            "tiny": linear_module(8, 4), "nested": torch.nn.ModuleDict({"left_out": linear_module(512, 256)}),
            "meta": torch.nn.Linear(512, 256, device="meta", dtype=torch.bfloat16), "coded": linear_module(512, 256)})
        model["hooked"].register_forward_hook(lambda *_: None)
        model["head"].weight = tied.weight
        report = ecmv.torch.convert_all_linear(model, skip=["left_out"], progress=False)
        self.assertEqual([one.name for one in report.converted], ["coded"])
        reasons = {one.name: one.reason for one in report.skipped}
        self.assertIn("max_norm", reasons.pop("embedding"))
        for name, reason in (("two_bytes", "are float16"), ("single", "are float32"), ("subclass", "class is Subclass"),
                             ("hooked", "hooks"), ("head", r"also that of embedding \(Embedding\)"),
                             ("left_out", "to be skipped"), ("nested.left_out", "to be skipped"),
                             ("tiny", "as many bytes"), ("meta", "device 'meta'")):
            self.assertRegex(reasons.pop(name), reason)
            self.assertIs(type(model.get_submodule(name)), Subclass if name == "subclass" else torch.nn.Linear)
        self.assertEqual(reasons, {})
        alone = ecmv.torch.convert_all_linear(linear_module(512, 256), progress=False)
        self.assertIn("not coded: the model: only modules within a model are replaced", str(alone))

    def test_weights_that_modules_share_are_coded_once(self):
        model = torch.nn.ModuleDict({"a": linear_module(512, 256), "b": linear_module(512, 256, True)})
        model["b"].weight = model["a"].weight
        model["c"] = model["a"]
        plain, x = copy.deepcopy(model), tokens(3, 512)
        report = ecmv.torch.convert_all_linear(model, progress=False)
        self.assertEqual([one.name for one in report.converted], ["a = b"])
        self.assertIs(model["c"], model["a"])
        self.assertIs(model["b"].coded, model["a"].coded)
        for name in "abc":
            self.assertNear(model[name](x), x, plain[name].weight, plain[name].bias)

    def test_a_wrong_codec_is_an_error_and_leaves_the_model_usable(self):
        module, x = mlp(), tokens(3, 512)
        y = module(x)
        with self.assertRaisesRegex(ecmv.InvalidArgument, "There is no codec 'rnas'"):
            converted(module, codec="rnas")
        self.assertSame(module(x), y)

    def test_weights_are_freed_while_others_are_still_coded(self):
        model = torch.nn.Sequential(*(linear_module(512, 256) for _ in range(8)))
        weights_, alive = [weakref.ref(module.weight) for module in model], []

        @contextlib.contextmanager
        def counting(_count, _shown):
            yield lambda: alive.append(sum(weight() is not None for weight in weights_))
        with mock.patch("ecmv.torch.products.workers", lambda: 1), \
                mock.patch("ecmv.torch.convert.progress_bar", counting):
            converted(model)
        self.assertEqual(len(alive), 8)
        self.assertTrue(all(now <= 8 - number for number, now in enumerate(alive)), alive)

    def test_the_default_device_of_tensors_does_not_matter(self):
        module, x = mlp(), tokens(3, 512)
        y = module(x)
        with torch.device("meta"):
            converted(module)
        torch.testing.assert_close(module(x), y, rtol=2e-2, atol=1e-3)

    def test_weights_take_twelve_bits_unless_a_codec_is_named(self):
        coded = ecmv.torch.linear.encode_as_default(weights(64, 512))
        self.assertEqual(coded_tensors.describe(coded)["codec"], "packed_exponents")
        with self.assertRaisesRegex(ecmv.InvalidArgument, "layout"):
            ecmv.torch.linear.encode_as_default(weights(64, 512), settings="layout=rows")

    def test_the_entropy_code_has_settings_for_tokens_unless_others_are_named(self):
        for given, layout in ((None, "fragments"), ("layout=rows", "rows")):
            coded = ecmv.torch.linear.encode_as_default(weights(64, 512), "quad_huffman", given)
            self.assertIn(f"layout={layout}", coded_tensors.describe(coded)["settings"])

    def test_settings_are_a_dict_or_a_text(self):
        if "huffman_exponents" not in ecmv.codecs() or ON_GPU:
            self.skipTest("it has no such codec, or none for GPUs")
        for settings in ({}, ""):
            report = ecmv.torch.convert_all_linear(mlp(), codec="huffman_exponents", settings=settings, progress=False)
            self.assertEqual(len(report.converted), 2)
        with self.assertRaisesRegex(ecmv.InvalidArgument, "lnaes"):
            converted(mlp(), codec="huffman_exponents", settings={"lnaes": 2})

    def test_parts_that_multiply_the_same_tokens_are_joined(self):
        for joined in (True, False):
            model, x = Gated(), tokens(3, 256)
            y = model(x)
            report = ecmv.torch.convert_all_linear(model, join=joined, progress=False)
            names = ["down_proj", "gate_up_proj"] if joined else ["down_proj", "gate_proj", "up_proj"]
            self.assertEqual([one.name for one in report.converted], names)
            torch.testing.assert_close(model(x), y, rtol=2e-2, atol=1e-3)
            for copied in (copy.deepcopy(model), pickled(model)):
                self.assertSame(copied(x), model(x))

    def test_parts_whose_class_does_something_else_are_not_joined(self):
        class Odd(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.gate_proj, self.up_proj = linear_module(256, 512), linear_module(256, 512)

            def forward(self, x):
                return self.gate_proj(x) * self.up_proj(x + 1)
        report = ecmv.torch.convert_all_linear(Odd(), progress=False)
        self.assertEqual([one.name for one in report.converted], ["gate_proj", "up_proj"])


def pickled(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


class Copies(Case):
    def test_copies_and_pickles_are_models_of_their_own(self):
        module, x = converted(mlp()), tokens(3, 512)
        y = module(x)
        copied, loaded = copy.deepcopy(module), pickled(module)
        del module
        gc.collect()
        self.assertSame(copied(x), y)
        self.assertSame(loaded(x), y)

    def test_a_state_dict_of_another_model_is_taken_with_its_own_sizes(self):
        one, other, x = converted(mlp(1)), converted(mlp(5)), tokens(3, 512)
        self.assertFalse(torch.equal(one(x), other(x)))
        state = {name: tensor.cpu() for name, tensor in other.state_dict().items()}
        one.load_state_dict(state)
        self.assertSame(one(x), other(x))
        self.assertEqual(one[0].coded.device.type, DEVICE.type)
        del state, other
        gc.collect()
        self.assertSame(one(x), one(x))

    def test_a_state_dict_that_does_not_fit_or_is_damaged_is_refused(self):
        module = converted(mlp())
        state = module.state_dict()
        for name, coded, sentence in (
                ("another shape", state["2.coded"], "256 columns of bf16, and the module is one of"),
                ("no coded matrix", torch.zeros(9, dtype=torch.uint8), "not one of a coded matrix")):
            with self.subTest(name), self.assertRaisesRegex(RuntimeError, sentence):
                copy.deepcopy(module).load_state_dict({**state, "0.coded": coded})
        with self.assertRaisesRegex(RuntimeError, 'Missing key.*"0.coded"'):
            module.load_state_dict({name: tensor for name, tensor in state.items() if name != "0.coded"})
        damaged = state["0.coded"].clone()
        damaged[coded_tensors.describe(damaged)["sections"][0]["offset"]:] = 255
        module.load_state_dict({**state, "0.coded": damaged})
        with self.assertRaisesRegex((RuntimeError, ValueError), "does not take these sections|damaged"):
            module(tokens(1, 512))
        copied = copy.deepcopy(module[2])  # the damaged one harms no other
        self.assertSame(copied(tokens(1, 256)), module[2](tokens(1, 256)))

    def test_a_model_that_is_moved_or_cast_says_what_it_cannot(self):
        module, x = converted(mlp()), tokens(3, 512)
        y = module(x)
        moved = module.to("cpu").to(DEVICE)
        self.assertSame(moved(x), y)
        with self.assertRaisesRegex(RuntimeError, "The bias is torch.float32, and the coded weights are bf16"):
            copy.deepcopy(module).float()(x.float())

    def test_bytes_that_moved_are_compared_with_the_hash_of_those_before(self):
        module, x = ecmv.torch.EcmvLinear.from_linear(linear_module(512, 256)), tokens(3, 512)
        y = module(x)
        module.coded = module.coded.clone()
        self.assertSame(module(x), y)
        changed = module.coded.clone()
        changed[-300] ^= 1
        module.coded = changed
        with self.assertRaisesRegex(RuntimeError, "not those that the description's hash is of"):
            module(x)

    def test_a_bias_that_is_replaced_counts_at_the_next_call(self):
        module, x = ecmv.torch.EcmvLinear.from_linear(linear_module(512, 256, True)), tokens(1, 512)
        before = module(x)
        module.bias.data = module.bias.data + 100
        self.assertTrue(bool((module(x) > before + 90).all()))

    def test_coded_bytes_that_are_not_aligned_are_used_all_the_same(self):
        module, x = ecmv.torch.EcmvLinear.from_linear(linear_module(512, 256)), tokens(1, 512)
        y = module(x)
        shifted = torch.empty(module.coded.numel() + 1, dtype=torch.uint8, device=DEVICE)[1:]
        shifted.copy_(module.coded)
        module.coded = shifted
        self.assertSame(module(x), y)
        module.coded = torch.cat([shifted[:1], shifted])[1:]
        ecmv.torch.prepare(module)
        self.assertEqual(module.coded.data_ptr() % 64, 0)
        self.assertSame(module(x), y)

    def test_what_nobody_holds_is_freed_and_nothing_stale_is_used(self):
        for seed in range(12):
            module = ecmv.torch.EcmvLinear.from_linear(linear_module(512, 256, seed=seed))
            product, coded = weakref.ref(module.product), weakref.ref(module.coded)
            x = tokens(2, 512)
            self.assertNear(module(x), x, weights(256, 512, seed).to(DEVICE))
            del module
            gc.collect()
            self.assertIsNone(product())
            self.assertIsNone(coded())


class Compiled(Case):
    def test_compiled_and_exported_models_have_one_operator_and_give_the_same(self):
        module, x = converted(mlp()), tokens(3, 512)
        y = module(x).detach()
        # On CPUs inductor compiles C++ for whatever lies between, which takes its time.
        for backend, one in (("aot_eager", module), ("inductor", module if ON_GPU else module[0])):
            torch._dynamo.reset()
            compiled, right = torch.compile(one, fullgraph=True, backend=backend), one(x).detach()
            with torch.no_grad():
                self.assertSame(compiled(x), right)
                self.assertSame(compiled.to("cpu").to(DEVICE)(x), right)
        exported = torch.export.export(module, (x,))
        calls = [node for node in exported.graph.nodes if node.target is linear]
        self.assertEqual(len(calls), 2)
        self.assertSame(exported.module()(x), y)

    def test_layers_that_are_compiled_by_themselves_share_graphs_if_shapes_of_parameters_are_not_forced(self):
        graphs = []

        def backend(graph, _):
            graphs.append(graph)
            return graph
        layers = torch.nn.Sequential(*(Gated() for _ in range(10)))
        for number, layer in enumerate(layers):
            with torch.no_grad():
                layer.down_proj.weight[:10 * number] *= 0.01  # so that the coded bytes have another length
        converted(layers)
        self.assertGreater(len({layer.down_proj.coded.numel() for layer in layers}), 8)
        x = tokens(3, 256)
        with torch.no_grad(), torch._dynamo.config.patch(force_parameter_static_shapes=False):
            y = layers(x)
            for layer in layers:
                layer.compile(fullgraph=True, backend=backend)
            self.assertSame(layers(x), y)
        self.assertLess(len(graphs), 5)

    def test_a_compiled_model_may_be_one_that_was_never_called(self):
        plain = mlp()
        module, x = converted(copy.deepcopy(plain)).to("cpu").to(DEVICE), tokens(3, 512)
        with torch.no_grad():
            self.assertSame(torch.compile(module, fullgraph=True, backend="aot_eager")(x), module(x))

    def test_shapes_and_errors_are_known_without_running(self):
        module = converted(mlp())
        with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
            self.assertEqual(module(torch.empty(2, 7, 512, dtype=torch.bfloat16, device=DEVICE)).shape, (2, 7, 512))
        meta = copy.deepcopy(module).to("meta")
        self.assertEqual(meta(torch.empty(3, 512, dtype=torch.bfloat16, device="meta")).shape, (3, 512))

    @needs_gpu
    def test_a_captured_graph_multiplies_what_its_inputs_hold_at_every_replay(self):
        module, x = converted(mlp()), tokens(3, 512)
        with torch.no_grad():
            module(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = module(x)
            for seed in range(5):
                x.copy_(tokens(3, 512, seed=seed))
                graph.replay()
                self.assertSame(y, module(x))

    @needs_gpu
    def test_a_capture_that_comes_before_the_products_are_bound_is_refused(self):
        module, x = converted(mlp()).to("cpu").to(DEVICE), tokens(3, 512)
        with self.assertRaisesRegex(RuntimeError, r"ecmv.torch.prepare\(model\)"), torch.no_grad():
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                module(x)
        ecmv.torch.prepare(module)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            y = module(x)
        graph.replay()
        self.assertSame(y, module(x))

    @needs_gpu
    def test_streams_get_their_own_results(self):
        module = converted(mlp())
        x = [tokens(number + 1, 512, seed=number) for number in range(8)]
        right = [module(one) for one in x]
        streams = [torch.cuda.Stream() for _ in x]
        torch.cuda.synchronize()
        for _ in range(20):
            got = []
            for one, stream in zip(x, streams):
                with torch.cuda.stream(stream):
                    got.append(module(one))
            torch.cuda.synchronize()
            for y, expected in zip(got, right):
                self.assertSame(y, expected)

    @needs_gpu
    def test_graphs_of_inductor_replay(self):
        module, x = converted(mlp()), tokens(1, 512)
        compiled = torch.compile(module, fullgraph=True, mode="reduce-overhead")
        with torch.no_grad():
            for seed in range(5):
                x.copy_(tokens(1, 512, seed=seed))
                self.assertSame(compiled(x).clone(), module(x))


class Files(Case):
    def make(self, device):
        with torch.device(device):
            model = torch.nn.ModuleDict({
                "embedding": torch.nn.Embedding(64, 256), "a": torch.nn.Linear(256, 512),
                "b": torch.nn.Linear(512, 256, bias=False), "head": torch.nn.Linear(256, 64, bias=False)})
        model["head"].weight = model["embedding"].weight
        model["same"] = torch.nn.Linear(512, 256, bias=False, device=device)
        model["same"].weight = model["b"].weight
        return model.to(torch.bfloat16)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "model.safetensors")
        self.model = converted(self.make(DEVICE))
        ecmv.torch.save(self.model, self.path)
        self.x, self.ids = tokens(3, 256), torch.tensor([[5, 63], [0, 5]], device=DEVICE)

    def test_a_saved_model_is_loaded_into_one_without_weights_or_with_others(self):
        y = self.model["a"](self.x)
        for device in (DEVICE, "meta"):
            loaded = ecmv.torch.load(self.make(device), self.path, device=DEVICE)
            self.assertSame(loaded["a"](self.x), y)
            for name in ("b", "same"):
                self.assertSame(loaded[name](y), self.model[name](y))
            self.assertIs(loaded["same"].coded, loaded["b"].coded)
            self.assertSame(loaded["head"](self.x), self.model["head"](self.x))
            self.assertSame(loaded["embedding"](self.ids), self.model["embedding"](self.ids))
            self.assertIs(loaded["head"].coded, loaded["embedding"].coded)
        self.assertSame(ecmv.torch.load(loaded, self.path)["a"](self.x), y)
        self.assertSame(ecmv.torch.load(self.make(DEVICE), self.path, trusted=True)["a"](self.x), y)

    def test_each_matrix_is_compared_with_a_hash_if_the_file_is_trusted(self):
        bytes_ = self.path.read_bytes()
        begin = 8 + int.from_bytes(bytes_[:8], "little")
        header = json.loads(bytes_[8:begin])
        changed = self.path.with_name("changed")
        for name in ("a.", "b.", "embedding."):
            section = max((entry for key, entry in header.items() if key.startswith(name) and entry["dtype"] == "U8"),
                          key=lambda entry: entry["data_offsets"][1] - entry["data_offsets"][0])
            damaged = bytearray(bytes_)
            damaged[begin + sum(section["data_offsets"]) // 2] ^= 1
            changed.write_bytes(damaged)
            with self.subTest(name), self.assertRaises(ecmv.Malformed):
                ecmv.torch.load(self.make(DEVICE), changed, trusted=True)
        del header["__metadata__"]["ecmv.torch.hashes"]  # as files were before
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        changed.write_bytes(len(text).to_bytes(8, "little") + text + bytes_[begin:])
        for trusted in (True, False):
            loaded = ecmv.torch.load(self.make(DEVICE), changed, trusted=trusted)
            self.assertSame(loaded["a"](self.x), self.model["a"](self.x))

    def test_the_library_reads_the_matrices_of_the_file(self):
        file = ecmv.library.make("ecmv_open_file", str(self.path).encode())
        matrix = coded_tensors.Matrix(ecmv.library.make("ecmv_load", file, b"a"))
        self.assertEqual(ecmv.library.functions().ecmv_file_name(file, 3), None)
        ecmv.library.functions().ecmv_close_file(file)
        self.assertSame(matrix.decode(), self.model["a"].decode().cpu())

    def test_changed_bytes_and_models_that_do_not_fit_are_errors(self):
        bytes_ = bytearray(self.path.read_bytes())
        bytes_[-200000 if len(bytes_) > 250000 else len(bytes_) // 2] ^= 1
        changed = self.path.with_name("changed")
        changed.write_bytes(bytes_)
        with self.assertRaisesRegex(ecmv.Malformed, "has other bytes than were written"):
            ecmv.torch.load(self.make(DEVICE), changed)
        with self.assertRaisesRegex(ecmv.Malformed, "other bytes|are not those"):
            ecmv.torch.load(self.make(DEVICE), changed, trusted=True)
        changed.write_bytes(bytes_[:100])
        with self.assertRaisesRegex(ecmv.Malformed, "no safetensors file"):
            ecmv.torch.load(self.make(DEVICE), changed)
        lacking = self.make(DEVICE)
        lacking["more"] = torch.nn.Linear(4, 4)
        with self.assertRaisesRegex(ecmv.InvalidArgument, "the file lacks .*more.weight"):
            ecmv.torch.load(lacking, self.path)
        lacking = self.make(DEVICE)
        del lacking["a"]
        with self.assertRaisesRegex(ecmv.InvalidArgument, "a matrix a, for which the model has no place"):
            ecmv.torch.load(lacking, self.path)
        other = self.make(DEVICE)
        other["a"] = linear_module(128, 512, True)
        with self.assertRaisesRegex(ecmv.InvalidArgument, "512 rows and 256 columns"):
            ecmv.torch.load(other, self.path)
        computed = self.make("meta")
        computed.register_buffer("computed", torch.zeros(3, device="meta"), persistent=False)
        with self.assertRaisesRegex(ecmv.InvalidArgument, "computed is on the device 'meta'"):
            ecmv.torch.load(computed, self.path)
        self.assertFalse(self.path.with_name(self.path.name + ".part").exists())

    def test_a_new_file_takes_the_place_of_the_old_one_or_leaves_it(self):
        before = self.path.read_bytes()
        self.model["odd"] = torch.nn.Module()
        self.model["odd"].register_buffer("complex", torch.zeros(2, dtype=torch.complex64))
        with self.assertRaisesRegex(ecmv.InvalidArgument, "odd.complex has the dtype torch.complex64"):
            ecmv.torch.save(self.model, self.path)
        self.assertEqual(self.path.read_bytes(), before)


class Binding(Case):
    def test_one_of_each_shape_is_bound_first_the_largest_before_the_others(self):
        sizes = (1, 2, 1, 3, 2, 1, 4, 3)
        modules = [ecmv.torch.EcmvLinear.from_linear(linear_module(512, 256 * size, seed=number))
                   for number, size in enumerate(sizes)]
        for module in modules:
            module.product = None
        order, bind = [], products.bind

        def recorded(coded, *others):
            order.append(next(number for number, module in enumerate(modules) if module.coded is coded))
            return bind(coded, *others)

        for shapes in ({module.shape() for module in modules}, {module.shape() for module in modules} | {(1, 1)}):
            order.clear()
            for module in modules:
                module.product = None
            with mock.patch.object(products, "bind", recorded), mock.patch.object(products, "workers", lambda: 1):
                binder = products.Binder(shapes)
                for module in modules:
                    binder.add(module)
                self.assertEqual(binder.finish(), {})
            self.assertEqual(order, [6, 3, 1, 0, 2, 4, 5, 7])  # a shape that does not come is waited for no longer
            self.assertTrue(all(module.product is not None for module in modules))

    def test_threads_that_want_one_product_get_the_same(self):
        module = ecmv.torch.EcmvLinear.from_linear(linear_module(512, 256))
        module.product = None
        gc.collect()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda _: products.bind(module.coded, module.bias, module.known_hash), range(8)))
        self.assertEqual(len(set(map(id, made))), 1)
        module.product = made[0]
        self.assertEqual(module(tokens(2, 512)).shape, (2, 256))


class Describing(Case):
    def test_a_coded_tensor_describes_itself(self):
        module = ecmv.torch.EcmvLinear.from_linear(linear_module(512, 256))
        described = coded_tensors.describe(module.coded)
        self.assertEqual((described["rows"], described["cols"], described["type"]), (256, 512, "bf16"))
        self.assertEqual(sum(one["bytes"] for one in described["sections"]) > 0, True)
        self.assertTrue(all(one["offset"] % 256 == 0 for one in described["sections"]))
        self.assertRegex(repr(module), r"in_features=512, out_features=256, bias=False, codec=\w+, bits_per_weight=1")

    def test_each_number_of_tokens_has_a_kernel_with_a_name(self):
        module = ecmv.torch.EcmvLinear.from_linear(linear_module(512, 256))
        for count in (1, 8, 64, 1000):
            self.assertRegex(module.kernel(count), r"^\w+/\w+/")

"""Claims about models of transformers with coded weights. ECMV_TEST_DEVICE: cpu, or cuda on a machine with a GPU.

Models are small and random, and made here. ECMV_REAL_WEIGHTS names the folder of datasets/fetch_real_weights.sh.
"""

import copy
import json
import os
import pathlib
import tempfile
import unittest

import safetensors
import torch
import transformers

import ecmv
import ecmv.torch
from ecmv.torch.transformers import EcmvConfig

DEVICE = torch.device(os.environ.get("ECMV_TEST_DEVICE", "cpu"))
SHAPE = {"vocab_size": 512, "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2,
         "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 512}
CONFIGS = {
    "llama": transformers.LlamaConfig(**SHAPE, attention_bias=True),
    "qwen3": transformers.Qwen3Config(**SHAPE, head_dim=64, tie_word_embeddings=True),
    "mistral": transformers.MistralConfig(**SHAPE),
    "mixtral": transformers.MixtralConfig(**SHAPE, num_local_experts=4),
}
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def make(name):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(copy.deepcopy(CONFIGS[name]), dtype=torch.bfloat16).eval()
    model.config._experts_implementation = "eager"  # by torch.nn.functional.linear
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # biases are not zeros, then
                parameter.add_(torch.randn_like(parameter) * 0.01)
            else:
                parameter.mul_(2)  # so that the next token is not a matter of rounding alone
    return model.to(DEVICE)


def prompts(count=4, length=24, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, SHAPE["vocab_size"], (count, length), generator=generator).to(DEVICE)


@torch.no_grad()
def logits(model, ids):
    return model(ids).logits.double()


def generate(model, ids, count=8, **options):
    got = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count,
                         pad_token_id=0, **options)
    return got[:, ids.shape[1]:]


def other_linear(x, weight, bias=None, _plain=torch.nn.functional.linear):
    """Another uncoded kernel: float32 sums, rounded once."""
    return _plain(x.float(), weight.float(), None if bias is None else bias.float()).to(x.dtype)


class Uncoded:
    """Patches torch.nn.functional.linear for bf16 models."""

    def __enter__(self):
        self.plain = torch.nn.functional.linear
        torch.nn.functional.linear = other_linear

    def __exit__(self, *_):
        torch.nn.functional.linear = self.plain


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def load(self, folder, **options):
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, device_map=None if DEVICE.type == "cpu" else DEVICE.type, experts_implementation="eager",
            **options)

    def coded(self, model, **options):
        """Saved as it is, and coded while it is loaded."""
        model.save_pretrained(self.folder / "plain")
        return self.load(self.folder / "plain", quantization_config=EcmvConfig(progress=False, **options))


class Results(Case):
    def test_logits_are_as_near_to_exact_ones_as_those_of_two_uncoded_kernels_and_tokens_agree_as_often(self):
        for name in CONFIGS:
            with self.subTest(name):
                model = make(name)
                coded, ids = self.coded(model), prompts(16, 16)
                plain = logits(model, ids)
                with Uncoded():
                    other, tokens_of_other = logits(model, ids), generate(model, ids)
                tokens, tokens_of_coded = generate(model, ids), generate(coded, ids)
                got = logits(coded, ids)
                exact = logits(make(name).double(), ids)
                error = {"plain": plain - exact, "other": other - exact, "coded": got - exact}
                error = {kernel: error[kernel].square().mean().sqrt().item() for kernel in error}
                self.assertLessEqual(error["coded"], 1.25 * max(error["plain"], error["other"]), error)
                agree = [(one.argmax(-1) == plain.argmax(-1)).float().mean().item() for one in (other, got)]
                self.assertGreaterEqual(agree[1], agree[0] - 0.05, "the same next token: other, coded")
                agree = [(one == tokens).float().mean().item() for one in (tokens_of_other, tokens_of_coded)]
                self.assertGreaterEqual(agree[1], agree[0] - 0.2, "the same tokens generated: other, coded")

    def test_generation_with_a_compiled_static_cache_gives_the_same_tokens(self):
        model = make("llama")
        coded, ids = self.coded(model), prompts(2, 8)
        compiled = transformers.CompileConfig(fullgraph=True, backend="inductor" if DEVICE.type != "cpu" else "eager",
                                              mode=None)
        compiled._compile_all_devices = True
        got = generate(coded, ids, cache_implementation="static", compile_config=compiled)
        agree = (got == generate(coded, ids, cache_implementation="static", disable_compile=True)).float().mean().item()
        self.assertGreaterEqual(agree, 0.75)


class Files(Case):
    def test_coded_checkpoints_are_written_and_read(self):
        for name in CONFIGS:
            with self.subTest(name):
                coded, ids = self.coded(make(name)), prompts()
                coded.save_pretrained(self.folder / "coded")
                loaded = self.load(self.folder / "coded")
                self.assertTrue(torch.equal(logits(loaded, ids), logits(coded, ids)))
                self.assertEqual(loaded.dtype, torch.bfloat16)
                trusted = self.load(self.folder / "coded", quantization_config=EcmvConfig(trusted=True))
                self.assertTrue(torch.equal(logits(trusted, ids), logits(coded, ids)))
                sizes = [(self.folder / kind / "model.safetensors").stat().st_size for kind in ("coded", "plain")]
                self.assertLess(sizes[0], 0.85 * sizes[1])
                loaded.save_pretrained(self.folder / "again", max_shard_size="200KB")
                self.assertGreater(len(list((self.folder / "again").glob("*.safetensors"))), 1)
                self.assertTrue(torch.equal(logits(self.load(self.folder / "again"), ids), logits(coded, ids)))

    def test_a_model_that_one_line_has_converted_is_saved_for_from_pretrained(self):
        for name in CONFIGS:
            with self.subTest(name):
                model, ids = make(name), prompts()
                skip = ["layers.1.mlp*", "layers.0.self_attn.k_proj"]
                ecmv.torch.convert_all_linear(model, progress=False, skip=skip)
                y = logits(model, ids)
                model.save_pretrained(self.folder / "converted")
                loaded = self.load(self.folder / "converted")
                self.assertTrue(torch.equal(logits(loaded, ids), y))
                kinds = [[type(module) for module in one.modules()] for one in (loaded, model)]
                self.assertEqual(*kinds)
                ecmv.torch.save(model, self.folder / "one_file")
                again = ecmv.torch.load(make(name), self.folder / "one_file")
                self.assertTrue(torch.equal(logits(again, ids), y))

    def test_changed_bytes_of_a_trusted_checkpoint_are_found(self):
        self.coded(make("qwen3" if DEVICE.type == "cpu" else "llama")).save_pretrained(self.folder / "coded")
        file = self.folder / "coded" / "model.safetensors"
        bytes_ = file.read_bytes()
        with safetensors.safe_open(file, "pt") as tensors:
            names = [name for name in tensors.keys() if name.endswith(".coded")]
        begin = 8 + int.from_bytes(bytes_[:8], "little")
        header = json.loads(bytes_[8:begin])
        for name in (next(name for name in names if "embed" in name), next(name for name in names if "down" in name)):
            damaged = bytearray(bytes_)
            damaged[begin + header[name]["data_offsets"][1] - 40000] ^= 4
            file.write_bytes(damaged)
            for trusted in (True, False):
                with self.subTest(name, trusted=trusted), self.assertRaises(ecmv.Malformed):
                    self.load(self.folder / "coded", quantization_config=EcmvConfig(trusted=trusted))

    def test_a_coded_checkpoint_is_loaded_as_the_model_without_its_head(self):
        coded, ids = self.coded(make("llama")), prompts()
        coded.save_pretrained(self.folder / "coded")
        base = transformers.AutoModel.from_pretrained(self.folder / "coded").to(DEVICE)
        with torch.no_grad():
            self.assertTrue(torch.equal(base(ids).last_hidden_state, coded.model(ids).last_hidden_state))

    def test_a_model_is_decoded_back(self):
        model, ids = make("mistral"), prompts()
        coded = self.coded(model, join=False).dequantize()
        self.assertFalse(any(isinstance(module, ecmv.torch.EcmvLinear) for module in coded.modules()))
        for name, parameter in model.named_parameters():
            self.assertTrue(torch.equal(parameter, coded.get_parameter(name)))
        self.assertTrue(torch.equal(logits(coded, ids), logits(model, ids)))


class Coverage(Case):
    def test_every_matrix_is_coded_and_tied_ones_once(self):
        for name, matrices in {"llama": 2 * 4 + 2, "qwen3": 2 * 4 + 1, "mixtral": 2 * (2 + 8) + 2}.items():
            converted = make(name)
            report = ecmv.torch.convert_all_linear(converted, progress=False)
            coded = self.coded(make(name))
            for model, report in ((converted, report), (coded, coded.ecmv_report)):
                with self.subTest(name):
                    self.assertEqual((len(report.converted), report.skipped), (matrices, []))
                    head, table = model.lm_head.coded, model.model.embed_tokens.coded
                    self.assertEqual(head.data_ptr() == table.data_ptr(), name == "qwen3")

    def test_without_embeddings_a_tied_head_is_not_coded(self):
        for report in (self.coded(make("qwen3"), embeddings=False).ecmv_report,
                       ecmv.torch.convert_all_linear(make("qwen3"), embeddings=False, progress=False)):
            self.assertEqual(len(report.converted), 2 * 4)
            (skipped,) = report.skipped
            self.assertEqual(skipped.name, "lm_head")
            self.assertIn("needs it uncoded", skipped.reason)

    def test_a_weight_that_files_have_twice_is_coded_once_if_both_are_the_same(self):
        model = make("qwen3")
        model.config.tie_word_embeddings = False
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        for add in (0, 1):
            with torch.no_grad():
                model.lm_head.weight[3, 4] += add
            model.save_pretrained(self.folder / "twice")
            config = transformers.AutoConfig.from_pretrained(self.folder / "twice", tie_word_embeddings=True)
            options = {"config": config, "quantization_config": EcmvConfig(progress=False), "dtype": torch.bfloat16}
            if add:
                with self.assertRaisesRegex(ecmv.InvalidArgument, "other numbers"):
                    self.load(self.folder / "twice", **options)
            else:
                coded = self.load(self.folder / "twice", **options)
                self.assertEqual(coded.lm_head.coded.data_ptr(), coded.model.embed_tokens.coded.data_ptr())

    def test_parts_are_apart_if_that_is_wanted(self):
        report = self.coded(make("llama"), join=False).ecmv_report
        self.assertEqual(len(report.converted), 2 * 7 + 2)

    def test_experts_without_weights_wait_on_the_device_of_the_parameters(self):
        experts = make("mixtral").model.layers[0].mlp.experts
        waiting = ecmv.torch.EcmvExperts(experts)
        for module in (*waiting.coded_gate_up, *waiting.coded_down):
            self.assertTrue(module.coded.is_meta)
            self.assertEqual(module.target_device, experts.down_proj.device)

    def test_experts_of_another_layout_are_refused_aloud(self):
        config = transformers.GptOssConfig(**{**SHAPE, "num_hidden_layers": 1}, head_dim=64, num_local_experts=4)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval().to(DEVICE)
        ids = prompts()
        y = logits(model, ids)
        report = ecmv.torch.convert_all_linear(model, progress=False)
        self.assertEqual([one.name for one in report.skipped], ["model.layers.0.mlp.experts"])
        self.assertIn("the class GptOssExperts multiplies by them in a way of its own", report.skipped[0].reason)
        self.assertTrue(torch.allclose(logits(model, ids), y, atol=0.05))

    def test_a_dtype_that_products_do_not_take_is_refused_with_a_sentence(self):
        make("llama").save_pretrained(self.folder / "plain")
        with self.assertRaisesRegex(ecmv.InvalidArgument, "bfloat16 or float32, not torch.float16"):
            self.load(self.folder / "plain", dtype=torch.float16, quantization_config=EcmvConfig(progress=False))
        with self.assertRaisesRegex(ecmv.InvalidArgument, "none can be offloaded"):
            transformers.AutoModelForCausalLM.from_pretrained(
                self.folder / "plain", quantization_config=EcmvConfig(progress=False), device_map={"": "disk"})
        self.coded(make("llama")).save_pretrained(self.folder / "coded")
        with self.assertRaisesRegex(ecmv.InvalidArgument, "load with dtype=torch.bfloat16"):
            self.load(self.folder / "coded", dtype=torch.float32)


class RealModels(Case):
    def test_smollm2_writes_what_one_of_two_uncoded_kernels_writes(self):
        file = pathlib.Path(os.environ.get("ECMV_REAL_WEIGHTS", "/nonexistent"), "smollm2.gguf")
        if not file.exists():
            self.skipTest("ECMV_REAL_WEIGHTS names no folder with smollm2.gguf (datasets/fetch_real_weights.sh)")
        try:
            import gguf  # noqa: F401
        except ImportError:
            self.skipTest("transformers reads smollm2.gguf with the module gguf, which is not there")
        options = {"gguf_file": file.name}
        tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, **options)
        model = self.load(file.parent, dtype=torch.bfloat16, **options).eval()

        def text(prompt):
            ids = tokenizer(prompt, return_tensors="pt").input_ids.to(DEVICE)
            return tokenizer.batch_decode(generate(model, ids, 24))

        prompts = ("The capital of France is", "Once upon a time", "The theory of relativity says", "def f(n):")
        plain = [text(prompt) for prompt in prompts]
        with Uncoded():
            other = [text(prompt) for prompt in prompts]
        report = ecmv.torch.convert_all_linear(model, progress=False)
        self.assertEqual(len(report.converted), 30 * 4 + 1)
        for prompt, *of_uncoded in zip(prompts, plain, other):  # which differ where two tokens are nearly as likely
            self.assertIn(text(prompt), of_uncoded)
        self.assertIn("Paris", plain[0][0])

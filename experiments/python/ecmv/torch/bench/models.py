"""The model that is measured: a checkpoint's folder, a config.json, or the name of a shape."""

import contextlib
import json
import pathlib

import torch
import transformers

from ...errors import InvalidArgument
from .weights import llm_like

# As in datasets/layers/model_shape.cpp:
#                   hidden intermediate blocks heads kv_heads head_dim vocabulary
SHAPES = {
    "llama_2_7b": (4096, 11008, 32, 32, 32, 128, 32000),
    "llama_3_8b": (4096, 14336, 32, 32, 8, 128, 128256),
    "llama_3_70b": (8192, 28672, 80, 64, 8, 128, 128256),
    "llama_3_405b": (16384, 53248, 126, 128, 8, 128, 128256),
    "mistral_7b": (4096, 14336, 32, 32, 8, 128, 32768),
    "qwen3_0_6b": (1024, 3072, 28, 16, 8, 128, 151936),
    "qwen3_8b": (4096, 12288, 36, 32, 8, 128, 151936),
    "qwen3_32b": (5120, 25600, 64, 64, 8, 128, 151936),
    "smollm2_135m": (576, 1536, 30, 9, 3, 64, 49152),
}
_CLASSES = {"llama": "LlamaConfig", "smollm2": "LlamaConfig", "mistral": "MistralConfig", "qwen3": "Qwen3Config"}
_TIED = ("qwen3_0_6b", "smollm2_135m")
_TOGETHER = 8  # blocks that are there uncoded, so that all cores have matrices to code


class Source:
    """Makes the model, as often as wanted: always with the same weights."""

    def __init__(self, name, layers=None, seed=1):
        self.seed, self.checkpoint = seed, None
        path = pathlib.Path(name)
        if name in SHAPES and not path.exists():
            self.name, self.config = name, _named_config(name)
        elif path.is_dir() and (path / "config.json").is_file():
            self.name, self.config = path.resolve().name, transformers.AutoConfig.from_pretrained(path)
            if any(path.glob("*.safetensors")):
                self.checkpoint = path
        elif path.is_file() and path.suffix == ".json":
            self.name, self.config = path.stem, _config_of_file(path)
        else:
            raise InvalidArgument(f"There is no model '{name}': it is the folder of a checkpoint (config.json and "
                                  f"*.safetensors), a config.json, or one of {', '.join(SHAPES)}.")
        if layers is not None:
            if not 1 <= layers <= self.config.num_hidden_layers:
                raise InvalidArgument(f"The model has 1 to {self.config.num_hidden_layers} layers, not {layers}.")
            if self.checkpoint is None or layers < self.config.num_hidden_layers:
                self.name += f", {layers} of {self.config.num_hidden_layers} layers"
            self.config.num_hidden_layers = layers
            if getattr(self.config, "layer_types", None):
                self.config.layer_types = self.config.layer_types[:layers]

    @torch.no_grad()
    def build(self, device, convert):
        """The model. convert(module) is called for some blocks after the others, and then for the model, once their
        weights are there, and may replace linear modules."""
        if self.checkpoint is not None:
            model = transformers.AutoModelForCausalLM.from_pretrained(self.checkpoint, config=self.config,
                                                                      dtype=torch.bfloat16)
        else:
            torch.manual_seed(self.seed)  # for embeddings
            with torch.device(device), _linears_without_memory():
                model = transformers.AutoModelForCausalLM.from_config(self.config, dtype=torch.bfloat16)
        number, blocks = 0, list(blocks_of(model))
        for first in range(0, len(blocks) - _TOGETHER, _TOGETHER):
            some = torch.nn.ModuleList(blocks[first:first + _TOGETHER])
            number = _fill(some, number, self.seed, device)
            convert(some.to(device))
        _fill(model, number, self.seed, device)
        convert(model.to(device))
        return model.eval().requires_grad_(False)


def blocks_of(model):
    """The decoder's blocks: the longest list of modules."""
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    return max(lists, key=len, default=())


def linears_of(model):
    """name -> module, of the uncompressed model."""
    return {name: module for name, module in model.named_modules() if type(module) is torch.nn.Linear}


def _fill(piece, number, seed, device):
    """Gives memory and weights to linear modules that have none, and returns the next matrix's number."""
    for module in piece.modules():
        if type(module) is torch.nn.Linear and module.weight.is_meta:
            weight = llm_like(*module.weight.shape, number, seed, device)
            module.weight = torch.nn.Parameter(weight, requires_grad=False)
            if module.bias is not None:
                module.bias = torch.nn.Parameter(torch.zeros(len(weight), dtype=weight.dtype, device=device), False)
            number += 1
    return number


@contextlib.contextmanager
def _linears_without_memory():
    whole = torch.nn.Linear.__init__

    def init(self, *arguments, **named):
        whole(self, *arguments, **{**named, "device": "meta"})

    torch.nn.Linear.__init__ = init
    try:
        yield
    finally:
        torch.nn.Linear.__init__ = whole


def _named_config(name):
    hidden, intermediate, blocks, heads, kv_heads, head_dim, vocabulary = SHAPES[name]
    return getattr(transformers, _CLASSES[name.split("_")[0]])(
        hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=blocks, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, vocab_size=vocabulary, max_position_embeddings=131072,
        tie_word_embeddings=name in _TIED, pad_token_id=None, bos_token_id=None, eos_token_id=None)


def _config_of_file(path):
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    except (ValueError, KeyError, AttributeError) as error:
        raise InvalidArgument(f"{path} is not the config.json of a model that transformers knows: {error}.") from None

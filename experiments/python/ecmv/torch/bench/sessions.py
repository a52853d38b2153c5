"""A prompt and the steps of decoding after it, with a static cache: eager, as a CUDA graph, or compiled."""

import time

import torch
import transformers


class Session:
    """One way to run a store's model for some sequences. step() adds a token to each of them, the most likely one."""

    def __init__(self, store, mode, prompt_ids, room):
        self.store, self.mode, self.prompt_ids = store, mode, prompt_ids
        self.cache = transformers.StaticCache(config=store.model.config, max_cache_len=prompt_ids.shape[1] + room)
        self.token = torch.zeros(len(prompt_ids), 1, dtype=torch.long, device=prompt_ids.device)
        self._forward = store.model
        self._graph = None

    @torch.inference_mode()
    def start(self):
        """Everything that is done once: memory, compilation, capture."""
        self.read_prompt()
        if self.mode == "compiled":
            options = {"mode": "reduce-overhead"} if self.token.is_cuda else {}
            self._forward = torch.compile(self.store.model, fullgraph=True, dynamic=False, **options)
        if self.mode == "graph":
            self._capture()
        for _ in range(3):
            self.rewind()
            self.step()
        self.rewind()

    def read_prompt(self):
        """The last position's logits, [sequences, vocabulary]."""
        self._set_length(0)
        logits = self.store.model(self.prompt_ids, past_key_values=self.cache, use_cache=True,
                                  logits_to_keep=1).logits[:, -1]
        self.token.copy_(logits.argmax(-1, keepdim=True))
        self.first_token = self.token.clone()
        return logits

    def step(self):
        if self._graph is not None:
            self._graph.replay()
            return
        if self.mode == "compiled":
            torch.compiler.cudagraph_mark_step_begin()
        self._step()

    def _step(self):
        self.logits = self._forward(self.token, past_key_values=self.cache, use_cache=True).logits[:, -1]
        self.token.copy_(self.logits.argmax(-1, keepdim=True))

    def _capture(self):
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                self.rewind()
                self._step()
        torch.cuda.current_stream().wait_stream(aside)
        self.rewind()
        # A graph that is captured on a stream of its own, after this call, has its own workspace of cuBLAS. Else it
        # would use one that torch.compile frees, with "reduce-overhead", at its next capture.
        torch._C._cuda_clearCublasWorkspaces()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=torch.cuda.Stream()):
            self._step()

    def rewind(self):
        """Back to the end of the prompt."""
        self._set_length(self.prompt_ids.shape[1])
        self.token.copy_(self.first_token)

    def _set_length(self, tokens):
        for layer in self.cache.layers:
            if layer.is_initialized:
                layer.cumulative_length.fill_(tokens)

    @property
    def cache_bytes(self):
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self.cache.layers)

    # --- samples -----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def step_seconds(self, steps):
        """Seconds of a step, the mean of `steps`."""
        self.rewind()
        return _seconds(lambda: [self.step() for _ in range(steps)], self.token.is_cuda) / steps

    @torch.inference_mode()
    def prompt_seconds(self):
        return _seconds(self.read_prompt, self.token.is_cuda)

    @torch.inference_mode()
    def logits_of(self, token=None):
        """[2, sequences, vocabulary]: after the prompt, and after one token more (none: the most likely one)."""
        of_prompt = self.read_prompt().float()
        self.rewind()
        if token is not None:
            self.token.copy_(token)
        self.step()
        found = torch.stack([of_prompt, self.logits.float()])
        self.rewind()
        return found


def _seconds(work, on_gpu):
    if on_gpu:
        torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - started

"""The module that stands where a torch.nn.Embedding was."""

import torch

from ..errors import Refused
from . import coded as coded_tensors
from . import products, rows
from .module import CodedModule


class EcmvEmbedding(CodedModule):
    """Rows of a coded table, [num_embeddings, embedding_dim], in the twelve bits of packed_exponents, in which a row is
    found without those before it. A head that is tied to it multiplies by the same bytes."""

    def __init__(self, num_embeddings, embedding_dim, device=None, dtype=torch.bfloat16):
        """One without weights, to be filled from a state_dict; from_embedding() makes others."""
        super().__init__(dtype, device)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.layout = None  # of coded bytes that are there
        products.add_table(self)
        for name in rows.INDEX:
            self.register_buffer(name, None, persistent=False)

    def shape(self):
        return self.num_embeddings, self.embedding_dim

    @classmethod
    def like(cls, module):
        """One without weights for a torch.nn.Embedding."""
        made = cls(module.num_embeddings, module.embedding_dim, device="meta", dtype=module.weight.dtype)
        made.target_device = None if module.weight.is_meta else module.weight.device
        return made.train(module.training)

    @classmethod
    def from_embedding(cls, module):
        """Codes the weights of a torch.nn.Embedding, which stays as it is; on its device."""
        made = cls.like(module)
        made.fill(module.weight)
        return made

    def encode(self, weight, codec, settings):
        """Codec and settings are those of linear modules, and not asked."""
        if weight.numel() == 0:
            raise Refused("It has no elements.")
        coded = coded_tensors.pack(coded_tensors.encode(weight, rows.CODEC))
        most = rows.find(coded)[0].most_records
        if most > rows.MOST_RECORDS:
            raise Refused(f"A row has {most} elements outside the window of exponents, and {rows.MOST_RECORDS} are the "
                          "most of a table that is looked up.")
        return coded

    def taken(self, is_known):
        self.find_rows()

    def find_rows(self):
        """Makes what looking up needs, also after `coded` was set by something else than take()."""
        if self.known_hash is None:
            self.check()
        self.layout, index = rows.find(self.coded)
        for name, tensor in index.items():
            setattr(self, name, tensor)

    def forward(self, ids):
        if self.layout is None:
            self.find_rows()
        return rows.look_up(self.coded, self.layout, [getattr(self, name) for name in rows.INDEX], ids)

    def __setstate__(self, state):
        super().__setstate__(state)
        products.add_table(self)

    def extra_repr(self):
        return ", ".join(filter(None, (f"{self.num_embeddings}, {self.embedding_dim}", super().extra_repr())))

"""PyTorch by hand: torch.compile, scaled_dot_product_attention, fused projections, fused Adam.

The paper's Transformer, post-norm, no biases in attention, embeddings tied. On a GPU where there
is one.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from peers.pytorch import sinusoids
from peers.torch_training import smoothed_loss, updates
from work import PAD_ID, Batch, ModelSize

_MAX_LENGTH = 1024


def training_step(size: ModelSize, dtype: str) -> Callable[[Batch], float]:
    """See `peers`."""
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = _Transformer(size).to("cuda" if torch.cuda.is_available() else "cpu")

    def loss_of(source: Tensor, shifted: Tensor, target: Tensor) -> Tensor:
        return smoothed_loss(model(source, shifted), target)

    return updates(model, torch.compile(loss_of, dynamic=False), dtype)


def decoder(*_: Any) -> Any:
    """See `peers`."""
    raise NotImplementedError("written for training alone")


class _Attention(nn.Module):
    """Multi-head attention; q, k and v (or k and v, of the memory) in one product."""

    def __init__(self, size: ModelSize, of_memory: bool) -> None:
        super().__init__()
        d = size.d_model
        self.heads = size.num_heads
        self.query = nn.Linear(d, d, bias=False) if of_memory else None
        self.inputs = nn.Linear(d, (2 if of_memory else 3) * d, bias=False)
        self.output = nn.Linear(d, d, bias=False)

    def forward(self, x: Tensor, memory: Tensor | None, mask: Tensor | None) -> Tensor:
        """[batch, length, d_model]; causal where there is no mask."""
        if self.query is None or memory is None:
            parts = self.inputs(x).chunk(3, dim=-1)
        else:
            parts = (self.query(x), *self.inputs(memory).chunk(2, dim=-1))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        attended = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.output(attended.transpose(1, 2).flatten(2))


class _Layer(nn.Module):
    """An encoder layer, or with attention to the memory a decoder layer."""

    def __init__(self, size: ModelSize, is_decoder: bool) -> None:
        super().__init__()
        self.self_attention = _Attention(size, of_memory=False)
        self.memory_attention = _Attention(size, of_memory=True) if is_decoder else None
        self.feed_forward = nn.Sequential(
            nn.Linear(size.d_model, size.d_ff), nn.ReLU(), nn.Linear(size.d_ff, size.d_model)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(size.d_model, eps=1e-6) for _ in range(3))
        self.dropout = nn.Dropout(size.dropout)

    def forward(self, x: Tensor, memory: Tensor | None, mask: Tensor) -> Tensor:
        """[batch, length, d_model]; `mask` is of the source, True where it holds a token."""
        own_mask = None if self.memory_attention else mask
        x = self.norms[0](x + self.dropout(self.self_attention(x, None, own_mask)))
        if self.memory_attention:
            x = self.norms[1](x + self.dropout(self.memory_attention(x, memory, mask)))
        return self.norms[2](x + self.dropout(self.feed_forward(x)))


class _Transformer(nn.Module):
    """Encoder, decoder and one shared embedding."""

    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        self.scale = math.sqrt(size.d_model)
        self.embedding = nn.Embedding(size.vocab_size, size.d_model)
        nn.init.normal_(self.embedding.weight, std=size.d_model**-0.5)
        self.dropout = nn.Dropout(size.dropout)
        layers = range(size.num_layers)
        self.encoder = nn.ModuleList(_Layer(size, is_decoder=False) for _ in layers)
        self.decoder = nn.ModuleList(_Layer(size, is_decoder=True) for _ in layers)
        self.register_buffer("positions", sinusoids(_MAX_LENGTH, size.d_model))

    def embed(self, ids: Tensor) -> Tensor:
        """[batch, length] → [batch, length, d_model]."""
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Ids, target shifted right → logits."""
        mask = (source != PAD_ID)[:, None, None, :]
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, None, mask)
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, memory, mask)
        return linear(x, self.embedding.weight)

"""PyTorch: nn.Transformer, eager.

It drops out attention weights and the inner layer of the feed-forward network too, and has a final
norm after either stack; there are no flags against it. It has no decoding.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from peers.torch_training import smoothed_loss, updates
from work import PAD_ID, Batch, ModelSize

_MAX_LENGTH = 512


def training_step(size: ModelSize, dtype: str) -> Callable[[Batch], float]:
    """See `peers`."""
    torch.manual_seed(1)
    model = _Model(size)

    def loss_of(source: Tensor, shifted: Tensor, target: Tensor) -> Tensor:
        return smoothed_loss(model(source, shifted), target)

    return updates(model, loss_of, dtype)


def decoder(*_: Any) -> Any:
    """See `peers`."""
    raise NotImplementedError("nn.Transformer has no decoding")


class _Model(nn.Module):
    """nn.Transformer between a shared embedding and its transpose."""

    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        self.scale = math.sqrt(size.d_model)
        self.embedding = nn.Embedding(size.vocab_size, size.d_model)
        nn.init.normal_(self.embedding.weight, std=size.d_model**-0.5)
        self.dropout = nn.Dropout(size.dropout)
        self.transformer = nn.Transformer(
            size.d_model,
            size.num_heads,
            size.num_layers,
            size.num_layers,
            size.d_ff,
            size.dropout,
            batch_first=True,
        )
        self.register_buffer("positions", sinusoids(_MAX_LENGTH, size.d_model))

    def embed(self, ids: Tensor) -> Tensor:
        """[batch, length] → [batch, length, d_model]."""
        x = self.embedding(ids) * self.scale + self.positions[: ids.shape[1]]
        return self.dropout(x)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Ids, target shifted right → logits."""
        padding = source == PAD_ID
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        x = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return x @ self.embedding.weight.T


def sinusoids(length: int, d_model: int) -> Tensor:
    """The paper's positional encoding, [length, d_model]."""
    angles = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)

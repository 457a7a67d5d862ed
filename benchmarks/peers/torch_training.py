"""Trains the PyTorch peers: the loss, Adam, and autocast where bfloat16 is asked for."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from work import LABEL_SMOOTHING, LEARNING_RATE, PAD_ID, Batch


def smoothed_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Label-smoothed cross entropy, the mean over target tokens.

    Args:
        logits: [batch, target_length, vocab].
        target: [batch, target_length], PAD counts for nothing.
    """
    return cross_entropy(
        logits.flatten(0, 1),
        target.flatten(),
        ignore_index=PAD_ID,
        label_smoothing=LABEL_SMOOTHING,
    )


def updates(
    model: nn.Module, loss_of: Callable[[Tensor, Tensor, Tensor], Tensor], dtype: str
) -> Callable[[Batch], float]:
    """A function that does one update on a batch.

    Args:
        model: its parameters are updated.
        loss_of: (source, target shifted right, target) → loss.
        dtype: "float32" or "bfloat16".

    Raises:
        NotImplementedError: for any other dtype.
    """
    if dtype not in ("float32", "bfloat16"):
        raise NotImplementedError(f"no {dtype}")
    precision = torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16")
    optimizer = torch.optim.Adam(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    model.train()

    def train(batch: Batch) -> float:
        shifted = np.pad(batch.target[:, :-1], ((0, 0), (1, 0)))
        ids = [torch.from_numpy(x).long() for x in (batch.source, shifted, batch.target)]
        optimizer.zero_grad(set_to_none=True)
        with precision:
            loss = loss_of(*ids)
        loss.backward()
        optimizer.step()
        return loss.item()

    return train

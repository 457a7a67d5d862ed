"""Hugging Face transformers: MarianMTModel, eager.

Label smoothing is PyTorch's own (its Trainer's takes a second pass over the logits).
"""

import argparse
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel

from work import EOS_ID, LABEL_SMOOTHING, LEARNING_RATE, OUTPUT_TOKENS, PAD_ID, Batch, ModelSize


def training_step(size: ModelSize, dtype: str) -> Callable[[Batch], float]:
    """See `peers`."""
    model = _model(size)

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
            loss = _loss(model, *ids)
        loss.backward()
        optimizer.step()
        return loss.item()

    return train


def _loss(model: MarianMTModel, source: Tensor, shifted: Tensor, target: Tensor) -> Tensor:
    """Label-smoothed cross entropy, the mean over target tokens; [batch, length] ids."""
    mask = source != PAD_ID
    found = model(input_ids=source, attention_mask=mask, decoder_input_ids=shifted, use_cache=False)
    logits, labels = found.logits.flatten(0, 1), target.flatten()
    return cross_entropy(logits, labels, ignore_index=PAD_ID, label_smoothing=LABEL_SMOOTHING)


def decoder(
    arguments: argparse.Namespace, size: ModelSize, variant: str
) -> Callable[[Sequence[NDArray]], Iterator[Sequence[int]]]:
    """See `peers`."""
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    if variant or arguments.dtype not in dtypes:
        raise NotImplementedError(f"no {arguments.dtype} {variant}")
    model = _model(size).to(dtypes[arguments.dtype]).eval()

    def decode(sources: Sequence[NDArray]) -> Iterator[Sequence[int]]:
        for source in sources:
            ids = torch.from_numpy(source).long()
            found = model.generate(
                input_ids=ids,
                attention_mask=ids != PAD_ID,
                num_beams=arguments.beam,
                do_sample=False,
                length_penalty=0.6,
                min_new_tokens=OUTPUT_TOKENS,
                max_new_tokens=OUTPUT_TOKENS,
            )
            yield from found[:, 1:].tolist()

    return decode


def _model(size: ModelSize) -> MarianMTModel:
    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=size.vocab_size,
        decoder_vocab_size=size.vocab_size,
        max_position_embeddings=512,
        encoder_layers=size.num_layers,
        decoder_layers=size.num_layers,
        encoder_ffn_dim=size.d_ff,
        decoder_ffn_dim=size.d_ff,
        encoder_attention_heads=size.num_heads,
        decoder_attention_heads=size.num_heads,
        d_model=size.d_model,
        dropout=size.dropout,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD_ID,
        eos_token_id=EOS_ID,
        forced_eos_token_id=None,
        decoder_start_token_id=PAD_ID,
    )
    return MarianMTModel(config)

"""Hugging Face transformers: MarianMTModel, eager.

Label smoothing is PyTorch's own (its Trainer's takes a second pass over the logits).
"""

import argparse
from collections.abc import Callable, Iterator, Sequence

import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from peers.torch_training import smoothed_loss, updates
from work import EOS_ID, OUTPUT_TOKENS, PAD_ID, Batch, ModelSize


def training_step(size: ModelSize, dtype: str) -> Callable[[Batch], float]:
    """See `peers`."""
    model = _model(size)

    def loss_of(source: Tensor, shifted: Tensor, target: Tensor) -> Tensor:
        found = model(
            input_ids=source,
            attention_mask=source != PAD_ID,
            decoder_input_ids=shifted,
            use_cache=False,
        )
        return smoothed_loss(found.logits, target)

    return updates(model, loss_of, dtype)


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

"""Chooses settings by the number of training pairs and by the machine."""

import re
from pathlib import Path
from typing import Any

import gin

PROCESSOR = Path("/proc/cpuinfo")
"""On Linux, the file with the instruction sets of the processor."""


@gin.configurable(denylist=["pairs"])
def small_corpus(pairs: int) -> dict[str, Any]:
    """Chooses the settings for a corpus of 10,000 to 500,000 pairs, and the precision.

    The values are measured for 29,000 and 68,000 pairs (see EXPERIMENTS.md), and otherwise a rule
    of thumb. Below 50,000 pairs a model of this size learns its corpus by heart without much
    dropout. Above 200,000 it is too small, and a wider one needs a lower learning rate and larger
    batches. Small batches learn more from the same number of tokens in the first hour. An epoch of
    68,000 pairs has some 1,000 updates.

    Args:
        pairs: number of sentence pairs to train on, after cleaning.

    Returns:
        bindings of the vocabulary size, the model's sizes, dropout, the highest learning rate, the
        batch size, the number of updates, and the precision in which this machine is faster.
    """
    is_large = pairs > 200_000
    small_vocab_size = 4000 if pairs < 20_000 else 8000
    return {
        "SubwordTraining.vocab_size": 16_000 if is_large else small_vocab_size,
        "LayerConfig.d_model": 512 if is_large else 256,
        "LayerConfig.d_ff": 2048 if is_large else 1024,
        "LayerConfig.dropout": 0.3 if pairs < 50_000 else 0.1,
        "InverseSquareRoot.peak": 0.001 if is_large else 0.0015,
        "Batches.tokens_per_batch": 4096 if is_large else 2048,
        # 0.4 updates a pair, in thousands, from 8,000 to 80,000.
        "TrainingSchedule.steps": min(max(1000 * round(pairs / 2500), 8000), 80_000),
        "train.precision": machine_precision(),
    }


@gin.configurable
def machine_precision() -> str:
    """Returns the precision in which this machine trains faster, 'mixed_bfloat16' or 'float32'.

    bfloat16 is faster if the first GPU computes in it, or without a GPU the processor; others
    emulate it.
    """
    # Not above: mistakes in a gin file are reported before TensorFlow is imported.
    import tensorflow as tf

    if gpus := tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpus[0])
        # NVIDIA's GPUs have bfloat16 since compute capability 8.0 (Ampere).
        has_bfloat16 = bool(details.get("compute_capability", (0, 0)) >= (8, 0))
    else:
        flags = PROCESSOR.read_text() if PROCESSOR.exists() else ""
        has_bfloat16 = bool(re.search(r"\b(avx512_bf16|amx_bf16)\b", flags))
    return "mixed_bfloat16" if has_bfloat16 else "float32"

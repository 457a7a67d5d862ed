"""What makes the formulas fast: programs that give what a formula gives, in less time or memory.

Each file names the formula that it replaces, says why, and what it gained; its test holds both
against each other, value and gradient. The formula itself stands where a reader looks for it. It
runs instead of its kernel where the environment says T2T_REPRO_PLAIN=1: the same program, slower.

    kernel               replaces                          in
    adam                 Keras's Adam                      training/optimizer.py
    blocked_attention    attention under a mask of reach   layers/restricted_attention.py
    cache_in_place       a cache that is copied            layers/cache.py
    cross_entropy        the label-smoothed loss           training/loss.py
    dropout_bits         32 random bits for an element     layers/dropout.py
    layer_norm           automatic differentiation         layers/layer_norm.py
    look_up              a gradient made of slices         layers/embedding.py
    packing              vectors of padding                models/transformer.py
    top_k                tf.math.top_k                     decoding/beam_search.py
"""

import os
from typing import TypeVar

_Program = TypeVar("_Program")

PLAIN = os.environ.get("T2T_REPRO_PLAIN", "") not in ("", "0")
"""Whether this process computes by the plain formulas alone."""


def fast(kernel: _Program, formula: _Program) -> _Program:
    """Chooses what computes a formula.

    Args:
        kernel: the fast way.
        formula: the plain one, which gives the same.
    """
    return formula if PLAIN else kernel

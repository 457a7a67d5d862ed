"""Faster programs for formulas of the model; each gives what its formula gives.

Every file names the formula that it replaces, and why; tests compare values and gradients. The
formula itself stands where a reader looks for it. With T2T_REPRO_PLAIN=1 in the environment the
formulas run instead of the kernels: the same program, slower.

    kernel                replaces                          in                           gain
    adam                  Keras's Adam                      training/optimizer.py        1.05
    blocked_attention     attention under a window's mask   restricted_attention.py      n / r
    cross_entropy         the label-smoothed loss           loss.py                      1.26
    decoding: extensions  log_softmax, tf.math.top_k        decoding/beam_search.py      1.52
    decoding: rows        a copy of the cache               cache.py                     1.36
    dropout_bits          32 random bits per element        dropout.py                   1.06
    gradients: bias       tf.nn.bias_add                    dense.py                     ‡
    gradients: look_up    a gradient made of slices         embedding.py, also positions 1.01
    gradients: softmax    a softmax kept in float32         attention.py                 1.6 *
    gradients: layer_norm automatic differentiation         layer_norm.py                1.03
    gpu: relu             tf.nn.relu                        feed_forward.py              †
    packing               vectors of padding                training/gradients.py        1.09
    recurrence            one step after the other          ssru.py                      6.5 §

The gain is the speed of training or decoding with all kernels, divided by that without this one, on
two CPU cores, at its largest (benchmarks/kernels.py; EXPERIMENTS.md has some figures).
*: memory for the activations of long sentences. †: on a GPU only, see `gpu`.
‡: not faster, but the right gradient for bfloat16 on a CPU. §: of training with the SSRU, tiny.
"""

import os
from typing import TypeVar

_Program = TypeVar("_Program")

PLAIN = os.environ.get("T2T_REPRO_PLAIN", "") not in ("", "0")
"""True if this process uses the formulas instead of the kernels."""


def fast(kernel: _Program, formula: _Program) -> _Program:
    """Returns the kernel, or the formula if `PLAIN`.

    Both compute the same (dropout: with other draws). Blocked attention and packing check `PLAIN`
    where they are called.
    """
    return formula if PLAIN else kernel

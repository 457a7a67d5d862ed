"""What makes the formulas fast: programs that give what a formula gives, in less time or memory.

Each file names the formula that it replaces, and says why; a test holds both against each other,
value and gradient. (`philox` draws for dropout_bits.) The formula itself stands where a reader
looks for it. It runs instead of its kernel where the environment says T2T_REPRO_PLAIN=1: the same
program, slower.

    kernel               replaces                          in                               gain
    adam                 Keras's Adam                      training/optimizer.py            1.05
    best_extensions      log_softmax, tf.math.top_k        decoding/beam_search.py          1.52
    bias                 tf.nn.bias_add                    layers/dense.py                  ‡
    blocked_attention    attention under a mask of reach   layers/restricted_attention.py   n / r
    cache_in_place       a cache that is copied            layers/cache.py                  1.05
    cross_entropy        the label-smoothed loss           training/loss.py                 1.26
    dropout_bits         32 random bits for an element     layers/dropout.py                1.06
    global_norm          tf.linalg.global_norm             training/optimizer.py            †
    layer_norm           automatic differentiation         layers/layer_norm.py             1.03
    look_up              a gradient made of slices         layers/embedding.py              1.01
    packing              vectors of padding                training/slice_gradients.py      1.09
    recompute            the activations of a layer        layers/encoder.py, decoder.py    4.9 *
    relu                 tf.nn.relu                        layers/named.py                  †
    softmax              a softmax kept in float32         layers/attention.py              1.6 *

The gain is the speed of training or decoding with all kernels over that with all but this one, on
two CPU cores, where it was largest: benchmarks/kernels.py measures it, EXPERIMENTS.md has it all.
A dagger: on a GPU alone (see `gpu`), where it starts fewer programs, or keeps less.
A double dagger: no speed; with bfloat16 on a CPU, the right gradient.
With a star it is memory: what the activations of long sentences take without the kernel over what
they take with it. (`recompute` pays for that with time, and is an option.)
"""

import os
from typing import TypeVar

_Program = TypeVar("_Program")

PLAIN = os.environ.get("T2T_REPRO_PLAIN", "") not in ("", "0")
"""Whether this process computes by the plain formulas alone."""


def fast(kernel: _Program, formula: _Program) -> _Program:
    """Chooses what computes a formula.

    Blocked attention, packing and recomputation ask `PLAIN` where they are called.

    Args:
        kernel: the fast way.
        formula: the plain one, which computes the same (dropout: by other draws).
    """
    return formula if PLAIN else kernel

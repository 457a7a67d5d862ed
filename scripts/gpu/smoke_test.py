"""What TensorFlow sees, and whether products, Adam's kernel and a program of XLA run there.

    python scripts/gpu/smoke_test.py

Prints a JSON line for each, also for what fails; exits with 1 if any does.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial

# What TensorFlow has to say of libraries that it does not find is what a failure is about.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"

import tensorflow as tf

# Of the largest entry; TF32 keeps 10 bits of float32's 23, bfloat16 7.
TOLERANCES = {"float32": 2e-3, "bfloat16": 1e-2}


def main() -> None:
    """Tries everything, whatever fails."""
    gpus = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    say("GPUs", len(gpus), "devices", names=[one.get("device_name") for one in details])
    attempts: dict[str, Callable[[], float]] = {
        **{f"product in {dtype}": partial(product, dtype) for dtype in TOLERANCES},
        "Adam's kernel": adam,
        "a program of XLA": fused,
    }
    done = [attempt(name, function) for name, function in attempts.items()]
    sys.exit(0 if all(done) else 1)


def attempt(name: str, function: Callable[[], float]) -> bool:
    """Says what a function returns and how long it took, or why it failed."""
    began = time.monotonic()
    try:
        value = function()
    except Exception as error:  # whatever a first GPU has to say
        say(name, -1.0, "error", failed=f"{type(error).__name__}: {str(error)[:600]}")
        return False
    say(name, value, "error", seconds=round(time.monotonic() - began, 2))
    return True


def product(dtype: str) -> float:
    """Multiplies a matrix by itself; returns the greatest error, relative to the largest entry."""
    a = tf.cast(tf.random.stateless_normal([512, 512], [1, 2]), dtype)
    exact = tf.cast(a, tf.float64).numpy()
    expected = exact @ exact
    error = abs(tf.cast(a @ a, tf.float64).numpy() - expected).max() / abs(expected).max()
    if error > TOLERANCES[dtype]:
        raise ArithmeticError(f"the error is {error:.1e}, expected {TOLERANCES[dtype]} at most")
    return float(error)


def adam() -> float:
    """Updates ones once by gradients of one; returns the error of the new weight."""
    w, m, v = (tf.Variable(tf.ones([1000])) for _ in range(3))
    tf.raw_ops.ResourceApplyAdam(
        var=w.handle,
        m=m.handle,
        v=v.handle,
        beta1_power=0.9,
        beta2_power=0.98,
        lr=1e-3,
        beta1=0.9,
        beta2=0.98,
        epsilon=1e-9,
        grad=tf.ones([1000]),
    )
    expected = 1 - 1e-3 * (1 - 0.98) ** 0.5 / (1 - 0.9)
    return abs(float(w[0]) - expected)


def fused() -> float:
    """Compiles a product, a softmax and dropout's bits; returns how far the rows are from 1."""

    @tf.function(jit_compile=True)
    def rows(a: tf.Tensor) -> tf.Tensor:
        keep = tf.random.stateless_uniform([512, 512], [3, 4]) > 0.1
        a = tf.cast(a, tf.bfloat16)
        weights = tf.nn.softmax(tf.cast(a @ a, tf.float32))
        return tf.reduce_sum(weights, axis=-1) + 0.0 * tf.cast(keep, tf.float32)[:, 0]

    found = rows(tf.random.stateless_normal([512, 512], [5, 6]))
    return float(tf.reduce_max(abs(found - 1)))


def say(case: str, value: float, unit: str, **more: object) -> None:
    """Prints a row of the results."""
    row = {"benchmark": "smoke test", "case": case, "value": value, "unit": unit, **more}
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

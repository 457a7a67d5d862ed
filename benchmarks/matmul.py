"""The processor's measured matrix-product rate: what every share of it refers to.

    python benchmarks/matmul.py

2048³ (8192³ on a GPU), TensorFlow with oneDNN, float32 and bfloat16. (`training.py` and
`decoding.py` measure it themselves, in every round.)
"""

import time
from collections.abc import Callable

import tensorflow as tf

_PRODUCTS = 20


def matrix_products(dtype: str) -> Callable[[], float]:
    """A function that multiplies square matrices, and returns how many operations that took."""
    size = 8192 if tf.config.list_physical_devices("GPU") else 2048
    a, b = (tf.cast(tf.random.normal([size, size]), dtype) for _ in range(2))

    def multiply() -> float:
        for _ in range(_PRODUCTS):
            product = tf.matmul(a, b)
        product[0, 0].numpy()
        return _PRODUCTS * 2.0 * size**3

    return multiply


def main() -> None:
    """Prints GFLOP/s of either dtype, the best of a few rounds."""
    for dtype in ("float32", "bfloat16"):
        multiply = matrix_products(dtype)
        multiply()
        rates = []
        for _ in range(5):
            began = time.perf_counter()
            operations = multiply()
            rates.append(operations / (time.perf_counter() - began) / 1e9)
        print(
            f"{dtype}: {max(rates):.0f} GFLOP/s (of {len(rates)} rounds: {min(rates):.0f} at worst)"
        )


if __name__ == "__main__":
    main()

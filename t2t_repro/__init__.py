"""The Transformer of "Attention Is All You Need" (2017) in TensorFlow 2 and Keras 3."""

__version__ = "0.1.0"

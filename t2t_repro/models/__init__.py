"""The Transformer, and the loader for checkpoints of the original Tensor2Tensor."""

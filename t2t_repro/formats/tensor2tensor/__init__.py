"""Tensor2Tensor's checkpoints."""

"""Sentence pairs: from corpora to batches of token ids."""

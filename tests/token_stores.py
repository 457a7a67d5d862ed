"""Token stores of pairs that a test gives, without a corpus."""

import numpy as np

from t2t_repro.data.token_store import TokenStore, complete_token_store, token_block


def write_token_store(directory, pairs, *, vocab_size):
    """Writes (source ids, target ids), EOS included, as one block; returns the store."""
    source, target = (
        (np.concatenate(side).astype(np.int64), np.array([len(ids) for ids in side]))
        for side in zip(*pairs, strict=True)
    )
    directory.mkdir(parents=True)
    for name, part in token_block(source, target, vocab_size).items():
        (directory / name).write_bytes(part)
    complete_token_store(directory, vocab_size)
    return TokenStore(directory)

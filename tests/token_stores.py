"""Token stores of pairs that a test gives, without a corpus."""

import numpy as np

from t2t_repro.data.token_store import TokenStore, VocabSizes, complete_token_store, token_block


def random_pairs(count, vocab_size, lengths, seed=0):
    """Draws pairs of sentences; `lengths` are the least and one more than the most, without EOS."""
    rng = np.random.default_rng(seed)

    def sentence():
        return [*rng.integers(2, vocab_size, rng.integers(*lengths)).tolist(), 1]

    return [(sentence(), sentence()) for _ in range(count)]


def write_token_store(directory, pairs, *, vocab_size, source_vocab_size=None):
    """Writes (source ids, target ids), EOS included, as one block; returns the store."""
    source, target = (
        (np.concatenate(side).astype(np.int64), np.array([len(ids) for ids in side]))
        for side in zip(*pairs, strict=True)
    )
    directory.mkdir(parents=True)
    sizes = VocabSizes(source_vocab_size or vocab_size, vocab_size)
    for name, part in token_block(source, target, sizes).items():
        (directory / name).write_bytes(part)
    complete_token_store(directory, sizes)
    return TokenStore(directory)


def read_pair(store, index):
    """Reads one pair's source and target ids, EOS last; `index` as in a list."""
    source_length, target_length = store.source_lengths[index], store.target_lengths[index]
    indices = np.array([index % len(store)])
    source, target = store.padded_batch(indices, (source_length, target_length))
    return source[0].tolist(), target[0].tolist()

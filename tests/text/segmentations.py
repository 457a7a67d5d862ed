"""Segmentations for tests, in a module that other processes import quickly."""

import numpy as np


class Doubling:
    """Some sentences come out twice as long; the epoch and the sentence's number are in them."""

    def __call__(self, epoch, numbers, sentences):
        tokens, lengths = sentences
        parts = np.split(tokens, np.cumsum(lengths)[:-1])
        made = [
            np.concatenate([ids[:-1], [2 + (epoch + number) % 30], ids]) if number % 3 == 0 else ids
            for ids, number in zip(parts, numbers.tolist(), strict=True)
        ]
        return np.concatenate(made).astype(np.int32), np.array([len(ids) for ids in made], np.int32)

"""Sentences of similar length together."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def group_by_length(lengths: ArrayLike, tokens_per_batch: int) -> list[NDArray[np.int64]]:
    """Groups sentences of similar length, for passes over a corpus that need no static shapes.

    Args:
        lengths: [sentences] ids of every sentence; one without ids is in no group.
        tokens_per_batch: most padded ids of a group; a sentence beyond it is a group by itself.

    Returns:
        The sentence indices of every group, the shortest sentences first.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    groups: list[list[int]] = []
    for index in np.argsort(lengths, kind="stable"):
        if not lengths[index]:
            continue
        if not groups or (len(groups[-1]) + 1) * lengths[index] > tokens_per_batch:
            groups.append([])
        groups[-1].append(int(index))
    return [np.array(group) for group in groups]

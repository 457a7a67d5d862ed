"""Lexical shortlists: the ids that may translate the words of a source.

The product with the softmax's table takes most of a step of a small decoder. A shortlist limits it
to some hundred ids of 32,000 (Schwenk et al. 2007; marian-dev, src/data/shortlist.cpp). Unlike
Marian's, a sentence may have the ids of its own words alone, so a batch changes nothing.
"""

import numpy as np
import tensorflow as tf

from t2t_repro.decoding.shortlist_file import FILL_BELOW, MULTIPLE, ShortlistFile
from t2t_repro.vocabulary import PAD_ID, UNK_ID


class LexicalShortlist:
    """Finds the target ids that each sentence of a batch may have.

    Args:
        file: the target ids of each source id.
        vocab_size: the number of target ids.
        forbidden: ids that no sentence may have, besides PAD. UNK is allowed even if it is one: a
            search forbids it by its number.
    """

    def __init__(self, file: ShortlistFile, vocab_size: int, forbidden: tuple[int, ...]) -> None:
        self._lists = tf.RaggedTensor.from_row_splits(file.ids, file.splits)
        # Both [vocab], bool.
        self._forbidden = np.isin(np.arange(vocab_size), list({PAD_ID, *forbidden} - {UNK_ID}))
        self._always = np.isin(np.arange(vocab_size), file.always)

    def allowed(self, source: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
        """Finds the ids that the translations of sentences may have.

        The ids of each sentence are filled up as in Marian (see `shortlist_file.MULTIPLE`).

        Args:
            source: [batch, source_length] int32.
            others: [batch, length] int32 each. Their ids except PAD are allowed too, also forbidden
                ones, without being filled up.

        Returns:
            [batch, vocab] bool; PAD is not allowed.
        """
        lists = tf.gather(self._lists, source).merge_dims(1, 2)  # [batch, (target ids)]
        # [batch, 1], all False: by `|`, each sentence gets the ids that are always allowed.
        no_ids = tf.zeros([tf.shape(source)[0], 1], tf.bool)
        allowed = _with_ids(self._always | no_ids, lists) & ~self._forbidden
        unused = ~(allowed | self._forbidden)[:, :FILL_BELOW]
        # How many ids a sentence lacks to the next multiple, [batch, 1]: 3 for 13, as -13 % 8 is 3.
        missing = -tf.math.count_nonzero(allowed, axis=1, keepdims=True, dtype=tf.int32) % MULTIPLE
        # The lowest ones: the cumulative sum numbers the unused ids from 1.
        added = unused & (tf.cumsum(tf.cast(unused, tf.int32), axis=1) <= missing)
        allowed |= tf.pad(added, [[0, 0], [0, tf.shape(allowed)[1] - tf.shape(added)[1]]])
        for ids in others:
            allowed = _with_ids(allowed, tf.ragged.boolean_mask(ids, ids != PAD_ID))
        return allowed


def _with_ids(allowed: tf.Tensor, ids: tf.RaggedTensor) -> tf.Tensor:
    """Returns `allowed` [batch, vocab] with True at the ids of each row [batch, (length)]."""
    indices = tf.stack([tf.cast(ids.value_rowids(), tf.int32), ids.values], axis=1)
    return tf.tensor_scatter_nd_update(allowed, indices, tf.fill([tf.shape(indices)[0]], True))


def narrowed(allowed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the ids that any sentence of a batch may have.

    Args:
        allowed: [batch, vocab] bool, as `LexicalShortlist.allowed` finds it.

    Returns:
        these ids, [ids] int32, ascending, PAD, EOS and UNK first; and `allowed` of them,
        [batch, ids].
    """
    # A search uses PAD, EOS and UNK by their numbers.
    is_special = np.arange(allowed.shape[1]) <= UNK_ID
    ids = tf.cast(tf.where(tf.reduce_any(allowed, axis=0) | is_special)[:, 0], tf.int32)
    return ids, tf.gather(allowed, ids, axis=1)


def places_among(ids: tf.Tensor, wanted: tf.Tensor) -> tf.Tensor:
    """Returns the indices of wanted ids, of any shape, in sorted ids [ids], which contain them."""
    return tf.reshape(tf.searchsorted(ids, tf.reshape(wanted, [-1])), tf.shape(wanted))

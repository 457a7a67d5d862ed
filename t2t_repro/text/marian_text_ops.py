"""Marian's subwords inside a graph, with the very results of `data.marian_subwords`."""

import hashlib

import numpy as np
import tensorflow as tf
import tensorflow_text

from t2t_repro.text.in_graph import is_text, known_tokens, without_ends, word_numbers
from t2t_repro.text.marian import CLEANED_SPACES, LANGUAGE_CODE, MarianSubwords
from t2t_repro.text.moses_punctuation import punctuation_rules
from t2t_repro.text.word_marks import SPACE_MARK
from t2t_repro.vocabulary import UNK_ID

_CODE_ALONE = f"({LANGUAGE_CODE})?(?s:.*)"


class MarianTextOps(tf.Module):
    """Encodes and decodes batches of texts with a side of a Marian model, as part of the graph.

    Args:
        subwords: of the side.
    """

    def __init__(self, subwords: MarianSubwords) -> None:
        super().__init__()
        content = subwords.content
        self._size = subwords.size
        marked, self._marks_end = subwords.word_marks
        self._marked = np.array(marked)
        self._pieces = np.array([piece.encode() for piece in content.pieces], dtype=object)
        self._rules = punctuation_rules(content.punctuation) if content.punctuation else ()
        self._clean_spaces = content.clean_spaces
        # Of two models without names in one SavedModel, Python's loader takes one for both.
        name = f"subwords_{hashlib.sha256(content.model).hexdigest()}"
        # Attributes of a module, so that a SavedModel takes them along.
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(
            content.model, tf.string, name=name
        )
        keys = tf.constant([piece.encode() for piece in subwords.ids])
        values = tf.constant(list(subwords.ids.values()), tf.int64)
        self._vocab_lookup_table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, values), UNK_ID
        )

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """The ids of every text; see `TextOps.encode`."""
        texts = without_ends(texts)
        for pattern, replacement in self._rules:
            texts = tf.strings.regex_replace(texts, pattern, replacement)
        # Only the rules leave white space at an end.
        texts = without_ends(texts) if self._rules else texts
        codes = tf.strings.regex_replace(texts, _CODE_ALONE, r"\1", replace_global=False)
        rest = tf.strings.regex_replace(texts, LANGUAGE_CODE, "", replace_global=False)
        ids = _with_first(self._look_up(codes), codes != "", self._cut(rest))
        return ids, (texts == "") | (ids.row_lengths() == 0)

    def _cut(self, texts: tf.Tensor) -> tf.RaggedTensor:
        pieces = self._tokenizer.tokenize(texts)
        return pieces.with_flat_values(self._look_up(pieces.flat_values))

    def _look_up(self, pieces: tf.Tensor) -> tf.Tensor:
        return tf.cast(self._vocab_lookup_table.lookup(pieces), tf.int32)

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """The text of every sentence.

        Args:
            ids: [batch, length] int32; what follows the first EOS is not read. PAD, UNK and ids
                outside the vocabulary are skipped.

        Returns:
            [batch] strings, valid UTF-8.
        """
        is_known = is_text(ids) & (ids > UNK_ID) & (ids < self._size)
        kept = tf.ragged.boolean_mask(ids, is_known)
        pieces = kept.with_flat_values(tf.gather(tf.constant(self._pieces), kept.flat_values))
        texts = self._tokenizer.detokenize(pieces)
        texts = without_ends(tf.strings.regex_replace(texts, SPACE_MARK, " "))
        if self._clean_spaces:
            for spaced in CLEANED_SPACES:
                pattern = spaced.replace(".", r"\.").replace("?", r"\?")
                texts = tf.strings.regex_replace(texts, pattern, spaced.strip())
        return texts

    def tokens(self, ids: tf.Tensor) -> tf.RaggedTensor:
        """The ids [batch, length] of text, UNK for those outside the vocabulary."""
        return known_tokens(ids, self._size)

    def word_numbers(self, texts: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """Numbers the words of every text, see `MarianSubwords.word_numbers`."""
        return word_numbers(texts, ids, self.encode, (self._marked, self._marks_end))


def _with_first(first: tf.Tensor, has_first: tf.Tensor, others: tf.RaggedTensor) -> tf.RaggedTensor:
    """Puts an id before each of some rows.

    Args:
        first: [batch] int32.
        has_first: [batch] bool, where there is one.
        others: [batch, (length)] int32.

    Returns:
        [batch, (length)] int32.
    """
    added = tf.cast(has_first, tf.int64)
    splits = others.row_splits + tf.pad(tf.cumsum(added), [[1, 0]])
    starts = tf.boolean_mask(splits[:-1], has_first)
    # Those that are there move on by as many as were put before them.
    places = tf.range(splits[-1])
    before = tf.searchsorted(starts, places, side="right", out_type=tf.int64)
    values = tf.gather(tf.pad(others.flat_values, [[1, 0]]), places - before + 1)
    values = tf.tensor_scatter_nd_update(values, starts[:, None], tf.boolean_mask(first, has_first))
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)

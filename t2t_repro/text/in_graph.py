"""SentencePiece's subwords inside a graph, with the very results of `data.subwords`."""

import hashlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tensorflow_text
from numpy.typing import NDArray

from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.word_marks import SPACE_MARK
from t2t_repro.vocabulary import EOS_ID, NO_WORD, PAD_ID, UNK_ID

# What Python's str.strip takes away: tests hold this against it.
_SPACES = (
    r"[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)

_REPLACEMENT_CHARACTER = 0xFFFD


class TextOps(tf.Module):
    """Encodes and decodes batches of texts with a subword model that becomes part of the graph.

    Args:
        subwords: the vocabulary.
    """

    def __init__(self, subwords: SentencePieceModel) -> None:
        super().__init__()
        self._size = subwords.size
        marked, self._marks_end = subwords.word_marks
        # A module would track a list, and all that is in it.
        self._marked = np.array(marked)
        self._mark = subwords.pieces().index(SPACE_MARK)
        model = subwords.model_path.read_bytes()
        # Of two models without names in one SavedModel, Python's loader takes one for both.
        name = f"subwords_{hashlib.sha256(model).hexdigest()}"
        # An attribute of a module, so that a SavedModel takes it along.
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(model, tf.int32, name=name)

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """The ids of every text, white space at its ends left out, as `Translator` does.

        Args:
            texts: [batch] strings, whatever they hold; bytes that are no UTF-8 count as U+FFFD.

        Returns:
            ids [batch, (length)] int32, without EOS; and [batch] bool, which texts are blank.
        """
        texts = without_ends(texts)
        ids = self._tokenizer.tokenize(tf.strings.regex_replace(texts, SPACE_MARK, " "))
        if self._marks_end:
            ids = self._without_marks_alone(ids)
        return ids, (texts == "") | (ids.row_lengths() == 0)

    def _without_marks_alone(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Drops a mark of a word alone: all that is left of a text that normalisation empties."""
        lengths = ids.row_lengths()
        nothing = tf.repeat(lengths == 1, lengths) & (ids.flat_values == self._mark)
        return tf.ragged.boolean_mask(ids, ids.with_flat_values(~nothing))

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """The text of every sentence.

        Args:
            ids: [batch, length] int32; what follows the first EOS is not read, PAD is skipped, and
                an id outside the vocabulary counts as UNK.

        Returns:
            [batch] strings, valid UTF-8; UNK is written as " ⁇ ", stray bytes as U+FFFD.
        """
        texts = self._tokenizer.detokenize(self.tokens(ids))
        return tf.strings.regex_replace(texts, " $", "") if self._marks_end else texts

    def tokens(self, ids: tf.Tensor) -> tf.RaggedTensor:
        """The ids [batch, length] that `decode` reads, UNK for those outside the vocabulary.

        Returns:
            [batch, (length)] int32.
        """
        return known_tokens(ids, self._size)

    def word_numbers(self, texts: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """Numbers the words of every text, see `Subwords.word_numbers`.

        Args:
            texts: [batch] strings.
            ids: [batch, length] int32, as `encode` gives them, EOS and PAD after them.

        Returns:
            [batch, length] int32.
        """
        return word_numbers(texts, ids, self.encode, (self._marked, self._marks_end))


def without_ends(texts: tf.Tensor) -> tf.Tensor:
    """Texts [batch] without the white space at their ends, and in UTF-8, whatever they hold."""
    texts = tf.strings.unicode_transcode(
        texts, "UTF-8", "UTF-8", errors="replace", replacement_char=_REPLACEMENT_CHARACTER
    )
    return tf.strings.regex_replace(texts, f"^{_SPACES}|{_SPACES}$", "")


def known_tokens(ids: tf.Tensor, size: int) -> tf.RaggedTensor:
    """The ids [batch, length] of text: [batch, (length)]; UNK for those of no vocabulary."""
    known = tf.where((ids >= 0) & (ids < size), ids, UNK_ID)
    return tf.ragged.boolean_mask(known, is_text(ids))


def word_numbers(
    texts: tf.Tensor,
    ids: tf.Tensor,
    encode: Callable[[tf.Tensor], tuple[tf.RaggedTensor, tf.Tensor]],
    marks: tuple[NDArray[np.bool_], bool],
) -> tf.Tensor:
    """Numbers the words of texts; the model may see other words, see `WordMarks.numbers_in`.

    Args:
        texts: [batch] strings.
        ids: [batch, length] int32, of the texts, EOS and PAD last.
        encode: see `TextOps.encode`.
        marks: of every id, whether it bears the mark of a word; whether that is of its end.

    Returns:
        [batch, length] int32, from 0; `NO_WORD` from the first EOS on.
    """
    words = tf.strings.split(tf.strings.regex_replace(without_ends(texts), _SPACES, " "), " ")
    counts = _count_seen(encode(words.flat_values)[0], *marks)
    ends = tf.cumsum(words.with_flat_values(counts).to_tensor(), axis=1)
    seen = _number_seen(ids, *marks)
    last = tf.cast(words.row_lengths(), tf.int32) - 1
    numbers = tf.minimum(tf.searchsorted(ends, seen, side="right"), last[:, None])
    return tf.where(seen == NO_WORD, NO_WORD, numbers)


def _number_seen(ids: tf.Tensor, marked: NDArray[np.bool_], at_end: bool) -> tf.Tensor:
    """Numbers the words that the model sees in ids [batch, length], see `WordMarks.numbers`."""
    begins = tf.gather(marked, ids)
    if at_end:
        begins = tf.pad(begins[:, :-1], [[0, 0], [1, 0]], constant_values=True)
    numbers = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1, 0)
    return tf.where(is_text(ids), numbers, NO_WORD)


def _count_seen(ids: tf.RaggedTensor, marked: NDArray[np.bool_], at_end: bool) -> tf.Tensor:
    """Counts the words that the model sees in each row of ids [rows, (length)]: [rows] int32.

    Not by rows padded: one word may be as long as all others together.
    """
    before = tf.pad(tf.cumsum(tf.cast(tf.gather(marked, ids.flat_values), tf.int32)), [[1, 0]])
    starts, stops = ids.row_splits[:-1], ids.row_splits[1:]
    if at_end:
        counts = 1 + tf.gather(before, tf.maximum(stops - 1, 0)) - tf.gather(before, starts)
    else:
        counts = tf.maximum(tf.gather(before, stops) - tf.gather(before, starts), 1)
    return tf.where(stops > starts, counts, 0)


def is_text(ids: tf.Tensor) -> tf.Tensor:
    """Which ids [batch, length] stand before the first EOS and are not PAD: [batch, length]."""
    ends = tf.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1)
    return (ends == 0) & (ids != PAD_ID)

"""Subwords as TensorFlow operations, with the same results as `text.sentencepiece`, `text.marian`.

A SavedModel takes text in and gives text out with these.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text

from t2t_repro.text.word_marks import SPACE_MARK, WordMarks
from t2t_repro.vocabulary import EOS_ID, NO_WORD, PAD_ID, UNK_ID

# What Python's str.strip removes; a test compares both.
_SPACES = (
    r"[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)


class TextOps(tf.Module):
    """Encodes and decodes batches of texts within a graph; see `SentencePieceModel.in_graph`."""

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns the ids of every text, stripped as `Translator` strips it.

        Args:
            texts: [batch] strings of any content; bytes that are not UTF-8 count as U+FFFD.

        Returns:
            ids [batch, (length)] int32, without EOS; and [batch] bool, which texts are blank.
        """
        raise NotImplementedError

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the text of every sentence.

        Args:
            ids: [batch, length] int32; ids after the first EOS are ignored, PAD is skipped.

        Returns:
            [batch] strings, valid UTF-8.
        """
        raise NotImplementedError

    def tokens(self, ids: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of [batch, length] that stand for text: [batch, (length)] int32."""
        raise NotImplementedError

    def word_numbers(self, texts: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """Numbers the words of every text, as `SentencePieceModel.word_numbers` does.

        Args:
            texts: [batch] strings.
            ids: [batch, length] int32 of these texts, EOS and PAD last.

        Returns:
            [batch, length] int32, from 0; `NO_WORD` from the first EOS on.
        """
        raise NotImplementedError


class SentencePieceTextOps(TextOps):
    """Encodes and decodes with a SentencePiece model.

    Args:
        pieces: the name of every id.
        marks: the ids that carry the mark of a word boundary.
        model: the file of the SentencePiece model; empty where words are split at blanks.
        out_type: of the tokenizer's pieces: int32 for ids, or string.
    """

    def __init__(
        self, pieces: Sequence[str], marks: WordMarks, model: bytes, out_type: tf.DType = tf.int32
    ) -> None:
        super().__init__()
        # A tf.Module would track a list and all its elements.
        self._pieces = np.array([piece.encode() for piece in pieces], dtype=object)
        self._size = len(pieces)
        self._marked = np.array(marks.marked)
        self._marks_end = marks.at_end
        self._tokenizer = _tokenizer(model, out_type) if model else _Words()

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns the ids of every text; see `TextOps.encode`."""
        texts = stripped(texts)
        ids = self._tokenizer.tokenize(tf.strings.regex_replace(texts, SPACE_MARK, " "))
        if self._marks_end:
            ids = self._without_lone_marks(ids)
        return ids, (texts == "") | (ids.row_lengths() == 0)

    def _without_lone_marks(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Drops the mark that is left of a text if normalization removes all of it."""
        mark = self._pieces.tolist().index(SPACE_MARK.encode())
        lengths = ids.row_lengths()
        is_lone = tf.repeat(lengths == 1, lengths) & (ids.flat_values == mark)
        return tf.ragged.boolean_mask(ids, ids.with_flat_values(~is_lone))

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the text of every sentence; see `TextOps.decode`.

        Ids outside the vocabulary count as UNK, which becomes " ⁇ "; stray bytes become U+FFFD.
        """
        texts = self._tokenizer.detokenize(self.tokens(ids))
        return tf.strings.regex_replace(texts, " $", "") if self._marks_end else texts

    def tokens(self, ids: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of text, UNK for those outside the vocabulary."""
        known = tf.where((ids >= 0) & (ids < self._size), ids, UNK_ID)
        return tf.ragged.boolean_mask(known, is_text(ids))

    def word_numbers(self, texts: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """Numbers the words of every text; see `WordMarks.numbers_in`."""
        words = tf.strings.split(tf.strings.regex_replace(stripped(texts), _SPACES, " "), " ")
        counts = self._count_words(self.encode(words.flat_values)[0])
        ends = tf.cumsum(words.with_flat_values(counts).to_tensor(), axis=1)
        as_split = self._number_words(ids)
        last = tf.cast(words.row_lengths(), tf.int32) - 1
        numbers = tf.minimum(tf.searchsorted(ends, as_split, side="right"), last[:, None])
        return tf.where(as_split == NO_WORD, NO_WORD, numbers)

    def _number_words(self, ids: tf.Tensor) -> tf.Tensor:
        """Numbers the words of ids [batch, length] as the model splits them."""
        begins = tf.gather(self._marked, ids)
        if self._marks_end:
            begins = tf.pad(begins[:, :-1], [[0, 0], [1, 0]], constant_values=True)
        numbers = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1, 0)
        return tf.where(is_text(ids), numbers, NO_WORD)

    def _count_words(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Counts the words of each row of ids [rows, (length)] as the model splits them: [rows].

        Rows are not padded: one may be as long as all others together.
        """
        marked = tf.cast(tf.gather(self._marked, ids.flat_values), tf.int32)
        before = tf.pad(tf.cumsum(marked), [[1, 0]])
        starts, stops = ids.row_splits[:-1], ids.row_splits[1:]
        if self._marks_end:
            counts = 1 + tf.gather(before, tf.maximum(stops - 1, 0)) - tf.gather(before, starts)
        else:
            counts = tf.maximum(tf.gather(before, stops) - tf.gather(before, starts), 1)
        return tf.where(stops > starts, counts, 0)


class MarianTextOps(SentencePieceTextOps):
    """Encodes and decodes with one side of a Marian model.

    Args:
        pieces, marks, model: as in `SentencePieceTextOps`.
        code: RE2 for the language code at the beginning of a text; None for no codes.
        kind: of text, see `text.marian`.
        spaced: texts whose spaces decoding removes, one after the other.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        marks: WordMarks,
        model: bytes,
        code: str | None,
        kind: str,
        spaced: Sequence[str],
    ) -> None:
        super().__init__(pieces, marks, model, tf.string)
        self._code = code
        self._kind = kind
        # The first id that decoding writes.
        self._first = UNK_ID + (kind == "hugging_face")
        self._spaced = tuple(spaced)
        ids = tf.range(UNK_ID + 1, self._size, dtype=tf.int64)
        self._vocab_lookup_table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(self._pieces[UNK_ID + 1 :]), ids),
            UNK_ID,
        )

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns the ids of every text; see `TextOps.encode`."""
        texts = stripped(texts)
        if self._code is None:
            ids = self._ids_of(texts)
        else:
            code_alone = f"({self._code})?(?s:.*)"
            codes = tf.strings.regex_replace(texts, code_alone, r"\1", replace_global=False)
            rest = tf.strings.regex_replace(texts, self._code, "", replace_global=False)
            ids = _with_first(self._look_up(codes), codes != "", self._ids_of(rest))
        return ids, (texts == "") | (ids.row_lengths() == 0)

    def _ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        pieces = self._tokenizer.tokenize(texts)
        return pieces.with_flat_values(self._look_up(pieces.flat_values))

    def _look_up(self, pieces: tf.Tensor) -> tf.Tensor:
        return tf.cast(self._vocab_lookup_table.lookup(pieces), tf.int32)

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the text of every sentence; see `TextOps.decode`.

        PAD, ids outside the vocabulary, and Hugging Face's UNK are skipped.
        """
        is_known = is_text(ids) & (ids >= self._first) & (ids < self._size)
        kept = tf.ragged.boolean_mask(ids, is_known)
        pieces = kept.with_flat_values(tf.gather(tf.constant(self._pieces), kept.flat_values))
        texts = self._tokenizer.detokenize(pieces)
        if self._kind == "hugging_face":
            texts = stripped(tf.strings.regex_replace(texts, SPACE_MARK, " "))
        elif self._kind == "pieces":
            texts = tf.strings.regex_replace(texts, SPACE_MARK, " ")
            texts = tf.strings.regex_replace(texts, "^ +", "")
        for spaced in self._spaced:
            pattern = spaced.replace(".", r"\.").replace("?", r"\?")
            texts = tf.strings.regex_replace(texts, pattern, spaced.strip())
        return texts


class _Words:
    """Splits texts at blanks and joins words, called as a SentencepieceTokenizer is."""

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = tf.strings.split(texts, " ")
        return tf.ragged.boolean_mask(words, words != "")

    def detokenize(self, words: tf.RaggedTensor) -> tf.Tensor:
        return tf.strings.reduce_join(words, axis=1, separator=" ")


def _with_first(first: tf.Tensor, has_first: tf.Tensor, others: tf.RaggedTensor) -> tf.RaggedTensor:
    """Puts an id before some of the rows.

    Unlike `tf.concat`, this does not transpose integers, about which oneDNN logs warnings.

    Args:
        first: [batch] int32.
        has_first: [batch] bool, which rows get theirs.
        others: [batch, (length)] int32.
    """
    shifts = tf.cumsum(tf.cast(has_first, tf.int64))
    splits = others.row_splits + tf.pad(shifts, [[1, 0]])
    starts = tf.boolean_mask(splits[:-1], has_first)
    places = tf.range(splits[-1])
    before = tf.searchsorted(starts, places, side="right", out_type=tf.int64)
    values = tf.gather(tf.pad(others.flat_values, [[1, 0]]), places - before + 1)
    values = tf.tensor_scatter_nd_update(values, starts[:, None], tf.boolean_mask(first, has_first))
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def stripped(texts: tf.Tensor) -> tf.Tensor:
    """Removes white space at the ends of texts [batch], and makes them valid UTF-8."""
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    return tf.strings.regex_replace(texts, f"^{_SPACES}|{_SPACES}$", "")


def is_text(ids: tf.Tensor) -> tf.Tensor:
    """Returns which ids [batch, length] precede the first EOS and are not PAD: [batch, length]."""
    ends = tf.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1)
    return (ends == 0) & (ids != PAD_ID)


def _tokenizer(model: bytes, out_type: tf.DType) -> tensorflow_text.SentencepieceTokenizer:
    # Python's loader of a SavedModel takes two models without names for one.
    name = f"subwords_{hashlib.sha256(model).hexdigest()}"
    return tensorflow_text.SentencepieceTokenizer(model, out_type, name=name)

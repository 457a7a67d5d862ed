"""Tensor2Tensor's subwords inside a graph, with the very results of `data.t2t_subwords`."""

import functools
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text
from numpy.typing import NDArray

from t2t_repro.text.in_graph import is_text, without_ends
from t2t_repro.text.t2t import UNDEFINED, T2TSubwords

_UNKNOWN = -1
_SPACE, _BACKSLASH, _UNDERSCORE = map(ord, " \\_")
_ESCAPE = r"\\u|\\\\|\\[0-9]+;"
_SPELLED = r"\\[0-9]+;"
# Digits of the largest code point, 1114111.
_MOST_DIGITS = 7
_SURROGATES = (0xD800, 0xDFFF)


class T2TTextOps(tf.Module):
    """Encodes and decodes batches of texts with a vocabulary that becomes part of the graph.

    The steps are those of `T2TSubwords`, taken for all characters, or tokens, of a batch at once.

    Args:
        subwords: the vocabulary.
    """

    def __init__(self, subwords: T2TSubwords) -> None:
        super().__init__()
        ids = subwords.ids
        self._pieces = np.array([piece.encode() for piece in subwords.pieces()], dtype=object)
        # Where subwords need characters that are none by themselves, spelling may end in a word
        # that cannot be put together; then those are spelled by their code points too.
        alphabets = (subwords.characters, {piece for piece in ids if len(piece) == 1})
        self._alphabets = [np.array(sorted(map(ord, some)), np.int32) for some in alphabets]
        keys = tf.constant([piece.encode() for piece in ids])
        values = tf.constant(list(ids.values()), tf.int64)
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, values), _UNKNOWN
        )
        # Longest match from the left is WordPiece's way as well.
        self._tokenizer = tensorflow_text.WordpieceTokenizer(
            table,
            suffix_indicator="",
            max_bytes_per_word=2**31 - 1,
            max_chars_per_token=subwords.longest,
            unknown_token=None,
        )

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """The ids of every text; see `TextOps.encode`."""
        texts = without_ends(texts)
        codes = tf.strings.unicode_decode(texts, "UTF-8")
        words, rows = self._words(codes)
        ids = self._tokenizer.tokenize(words)
        rows = tf.gather(rows, _row_ids(ids))
        flat = tf.cast(ids.flat_values, tf.int32)
        ids = tf.RaggedTensor.from_value_rowids(flat, rows, codes.nrows())
        return ids, texts == ""

    def _words(self, codes: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Cuts texts into tokens and escapes these.

        Args:
            codes: [batch, (length)] int32 code points.

        Returns:
            [tokens] strings, those of a text side by side, and [tokens] int64, the number of the
            text.
        """
        characters, rows = codes.flat_values, _row_ids(codes)
        count, word = tf.size(characters), is_word(characters)
        same_text = rows[1:] == rows[:-1]
        goes_on = same_text & (word[1:] == word[:-1])
        begins = tf.pad(~goes_on, [[1, 0]], constant_values=True)[:count]
        ends = tf.pad(~goes_on, [[0, 1]], constant_values=True)[:count]
        after_word = tf.pad(same_text & word[:-1], [[1, 0]])[:count]
        before_word = tf.pad(same_text & word[1:], [[0, 1]])[:count]
        is_mere_space = (characters == _SPACE) & after_word & before_word

        first = tf.where(begins)[:, 0]
        token = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        words = self._spelled(characters, ends, token, self._alphabets[0])
        if len(self._alphabets[0]) > len(self._alphabets[1]):
            fails = self._fails(words)
            safe = self._spelled(characters, ends, token, self._alphabets[1])
            words = tf.where(fails, safe, words)
        is_kept = ~tf.gather(is_mere_space, first)
        return tf.boolean_mask(words, is_kept), tf.boolean_mask(tf.gather(rows, first), is_kept)

    def _fails(self, words: tf.Tensor) -> tf.Tensor:
        """Which [tokens] escaped words no subwords make up."""
        ids = self._tokenizer.tokenize(words)
        is_unknown = tf.cast(ids.flat_values == _UNKNOWN, tf.int32)
        return tf.math.unsorted_segment_max(is_unknown, _row_ids(ids), tf.size(words)) > 0

    def _spelled(
        self, characters: tf.Tensor, ends: tf.Tensor, token: tf.Tensor, alphabet: NDArray[np.int32]
    ) -> tf.Tensor:
        """Escapes and joins [characters] of known [characters] tokens: [tokens]."""
        place = tf.searchsorted(alphabet, characters)
        is_known = tf.gather(tf.pad(alphabet, [[0, 1]]), place) == characters
        by_number = tf.strings.join(["\\", tf.strings.as_string(characters), ";"])
        spelled = tf.where(is_known, _as_strings(characters), by_number)
        spelled = tf.where(characters == _BACKSLASH, "\\\\", spelled)
        spelled = tf.where(characters == _UNDERSCORE, "\\u", spelled)
        spelled = tf.where(ends, spelled + "_", spelled)
        return tf.strings.unsorted_segment_join(spelled, token, tf.math.count_nonzero(ends))

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """The text of every sentence.

        Args:
            ids: [batch, length] int32; what follows the first EOS is not read, PAD is skipped, and
                an id outside the vocabulary is no text.

        Returns:
            [batch] strings, valid UTF-8; a number that is no character is written as U+3013.
        """
        tokens = self.tokens(ids)
        pieces = tf.gather(tf.constant(self._pieces), tokens.flat_values)
        escaped = tf.strings.unsorted_segment_join(pieces, _row_ids(tokens), tokens.nrows())
        words = tf.strings.split(escaped, "_")
        is_word_at_all = words.flat_values != ""
        rows = tf.boolean_mask(_row_ids(words), is_word_at_all)
        texts = _unescaped(tf.boolean_mask(words.flat_values, is_word_at_all))
        word = is_word(tf.strings.unicode_decode(texts, "UTF-8")[:, :1].flat_values)
        is_apart = tf.pad((rows[1:] == rows[:-1]) & word[1:] & word[:-1], [[1, 0]])
        texts = tf.where(is_apart[: tf.size(texts)], " " + texts, texts)
        return tf.strings.unsorted_segment_join(texts, rows, words.nrows())

    def tokens(self, ids: tf.Tensor) -> tf.RaggedTensor:
        """The ids [batch, length] that `decode` reads: [batch, (length)]."""
        is_known = (ids >= 0) & (ids < len(self._pieces))
        return tf.ragged.boolean_mask(ids, is_text(ids) & is_known)


def _row_ids(ragged: tf.RaggedTensor) -> tf.Tensor:
    """The row of every value: [values] int64.

    `RaggedTensor.value_rowids` makes a mask [rows, length of the longest row] for that, gigabytes
    where one word of many is long.
    """
    values = tf.range(tf.size(ragged.flat_values, tf.int64))
    return tf.searchsorted(ragged.row_splits[1:], values, side="right", out_type=tf.int64)


def is_word(characters: tf.Tensor) -> tf.Tensor:
    """Which code points are letters or numbers to Python's str.isalnum, and so to T2T."""
    return tf.searchsorted(_word_bounds(), characters, side="right") % 2 == 1


@functools.cache
def _word_bounds() -> NDArray[np.int32]:
    """Where code points begin, or cease, to be letters or numbers; ascending."""
    flags = [chr(code).isalnum() for code in range(sys.maxunicode + 1)]
    return np.flatnonzero(np.diff([False, *flags, False])).astype(np.int32)


def _as_strings(codes: tf.Tensor) -> tf.Tensor:
    """[characters] code points as strings of one character."""
    return tf.strings.unicode_encode(codes[:, None], "UTF-8")


def _unescaped(words: tf.Tensor) -> tf.Tensor:
    """[tokens] strings with their escapes undone."""
    parts = tensorflow_text.regex_split(words, _ESCAPE, _ESCAPE)
    flat = parts.flat_values
    is_number = tf.strings.regex_full_match(flat, _SPELLED)
    flat = tf.where(is_number, _characters_of(flat, is_number), flat)
    flat = tf.where(parts.flat_values == "\\u", "_", flat)
    flat = tf.where(parts.flat_values == "\\\\", "\\", flat)
    return tf.strings.unsorted_segment_join(flat, _row_ids(parts), parts.nrows())


def _characters_of(parts: tf.Tensor, is_number: tf.Tensor) -> tf.Tensor:
    r"""The characters whose numbers these are, as in `\8364;`; any text where there is none."""
    digits = tf.strings.regex_replace(parts, r"^\\0*([0-9]*);$", r"\1")
    is_short = is_number & (tf.strings.length(digits) <= _MOST_DIGITS)
    # An empty string is what is left of zeros.
    readable = tf.where(is_short, tf.strings.join(["0", digits]), "0")
    codes = tf.strings.to_number(readable, tf.int32)
    is_surrogate = (codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1])
    is_character = is_short & (codes <= sys.maxunicode) & ~is_surrogate
    return _as_strings(tf.where(is_character, codes, ord(UNDEFINED)))

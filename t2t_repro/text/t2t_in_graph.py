"""Tensor2Tensor's subwords as TensorFlow operations, with the same results as `text.t2t`."""

import functools
import sys
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text
from numpy.typing import NDArray

from t2t_repro.text.in_graph import TextOps, is_text, stripped

_UNKNOWN = -1
_UNDEFINED = ord("\u3013")
_SPACE, _BACKSLASH, _UNDERSCORE = map(ord, " \\_")
_ESCAPE = r"\\u|\\\\|\\[0-9]+;"
_SPELLED = r"\\[0-9]+;"


class T2TTextOps(TextOps):
    """Encodes and decodes batches of texts with a vocabulary of Tensor2Tensor.

    The steps are those of `T2TSubwords`, for all characters or tokens of a batch at once.

    Args:
        pieces: the subword of every id; an empty one is not a subword.
        ids: the id of every subword.
        characters: all characters of subwords.
        longest: characters of the longest subword.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        ids: Mapping[str, int],
        characters: Collection[str],
        longest: int,
    ) -> None:
        super().__init__()
        self._pieces = np.array([piece.encode() for piece in pieces], dtype=object)
        # A token that cannot be made of subwords is spelled with the second alphabet, of the
        # characters that are subwords themselves.
        alphabets = (characters, {piece for piece in ids if len(piece) == 1})
        self._alphabets = [np.array(sorted(map(ord, some)), np.int32) for some in alphabets]
        keys = tf.constant([piece.encode() for piece in ids])
        values = tf.constant(list(ids.values()), tf.int64)
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, values), _UNKNOWN
        )
        # WordPiece takes the longest match from left to right, too.
        self._tokenizer = tensorflow_text.WordpieceTokenizer(
            table,
            suffix_indicator="",
            max_bytes_per_word=2**31 - 1,
            max_chars_per_token=longest,
            unknown_token=None,
        )

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns the ids of every text; see `TextOps.encode`."""
        texts = stripped(texts)
        codes = tf.strings.unicode_decode(texts, "UTF-8")
        words, rows = self._words(codes)
        ids = self._tokenizer.tokenize(words)
        rows = tf.gather(rows, _row_ids(ids))
        flat = tf.cast(ids.flat_values, tf.int32)
        ids = tf.RaggedTensor.from_value_rowids(flat, rows, codes.nrows())
        return ids, texts == ""

    def _words(self, codes: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Splits texts into tokens and escapes these.

        Args:
            codes: [batch, (length)] int32 code points.

        Returns:
            [tokens] strings, and [tokens] int64, the number of each token's text.
        """
        characters, rows = codes.flat_values, _row_ids(codes)
        count, word = tf.size(characters), is_word(characters)
        same_text = rows[1:] == rows[:-1]
        continues = same_text & (word[1:] == word[:-1])
        begins = tf.pad(~continues, [[1, 0]], constant_values=True)[:count]
        ends = tf.pad(~continues, [[0, 1]], constant_values=True)[:count]
        after_word = tf.pad(same_text & word[:-1], [[1, 0]])[:count]
        before_word = tf.pad(same_text & word[1:], [[0, 1]])[:count]
        is_implied_space = (characters == _SPACE) & after_word & before_word

        first = tf.where(begins)[:, 0]
        token = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        words = self._spelled(characters, ends, token, self._alphabets[0])
        if len(self._alphabets[0]) > len(self._alphabets[1]):
            fails = self._fails(words)
            safe = self._spelled(characters, ends, token, self._alphabets[1])
            words = tf.where(fails, safe, words)
        is_kept = ~tf.gather(is_implied_space, first)
        return tf.boolean_mask(words, is_kept), tf.boolean_mask(tf.gather(rows, first), is_kept)

    def _fails(self, words: tf.Tensor) -> tf.Tensor:
        """Returns which [tokens] escaped words cannot be made of subwords."""
        ids = self._tokenizer.tokenize(words)
        is_unknown = tf.cast(ids.flat_values == _UNKNOWN, tf.int32)
        return tf.math.unsorted_segment_max(is_unknown, _row_ids(ids), tf.size(words)) > 0

    def _spelled(
        self, characters: tf.Tensor, ends: tf.Tensor, token: tf.Tensor, alphabet: NDArray[np.int32]
    ) -> tf.Tensor:
        """Escapes [characters] and joins those of each [characters] token number: [tokens]."""
        place = tf.searchsorted(alphabet, characters)
        is_known = tf.gather(tf.pad(alphabet, [[0, 1]]), place) == characters
        by_number = tf.strings.join(["\\", tf.strings.as_string(characters), ";"])
        as_they_are = tf.strings.unicode_encode(characters[:, None], "UTF-8")
        spelled = tf.where(is_known, as_they_are, by_number)
        spelled = tf.where(characters == _BACKSLASH, "\\\\", spelled)
        spelled = tf.where(characters == _UNDERSCORE, "\\u", spelled)
        spelled = tf.where(ends, spelled + "_", spelled)
        return tf.strings.unsorted_segment_join(spelled, token, tf.math.count_nonzero(ends))

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the text of every sentence; see `TextOps.decode`.

        Ids outside the vocabulary are skipped; a number that is not a character becomes U+3013.
        """
        tokens = self.tokens(ids)
        pieces = tf.gather(tf.constant(self._pieces), tokens.flat_values)
        escaped = tf.strings.unsorted_segment_join(pieces, _row_ids(tokens), tokens.nrows())
        words = tf.strings.split(escaped, "_")
        is_token = words.flat_values != ""
        rows = tf.boolean_mask(_row_ids(words), is_token)
        texts = _unescaped(tf.boolean_mask(words.flat_values, is_token))
        word = is_word(tf.strings.unicode_decode(texts, "UTF-8")[:, :1].flat_values)
        is_apart = tf.pad((rows[1:] == rows[:-1]) & word[1:] & word[:-1], [[1, 0]])
        texts = tf.where(is_apart[: tf.size(texts)], " " + texts, texts)
        return tf.strings.unsorted_segment_join(texts, rows, words.nrows())

    def tokens(self, ids: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of [batch, length] that `decode` reads: [batch, (length)]."""
        is_known = (ids >= 0) & (ids < len(self._pieces))
        return tf.ragged.boolean_mask(ids, is_text(ids) & is_known)


def _row_ids(ragged: tf.RaggedTensor) -> tf.Tensor:
    """Returns the row of every value: [values] int64.

    `RaggedTensor.value_rowids` would make a mask [rows, longest row]: gigabytes if one of many
    rows is long.
    """
    values = tf.range(tf.size(ragged.flat_values, tf.int64))
    return tf.searchsorted(ragged.row_splits[1:], values, side="right", out_type=tf.int64)


def is_word(characters: tf.Tensor) -> tf.Tensor:
    """Returns which code points are letters or numbers, as str.isalnum does and T2T with it."""
    return tf.searchsorted(_word_bounds(), characters, side="right") % 2 == 1


@functools.cache
def _word_bounds() -> NDArray[np.int32]:
    """Returns the code points where runs of letters and numbers begin or end, ascending."""
    flags = [chr(code).isalnum() for code in range(sys.maxunicode + 1)]
    return np.flatnonzero(np.diff([False, *flags, False])).astype(np.int32)


def _unescaped(words: tf.Tensor) -> tf.Tensor:
    """Undoes the escapes of [tokens] strings."""
    parts = tensorflow_text.regex_split(words, _ESCAPE, _ESCAPE)
    flat = parts.flat_values
    is_number = tf.strings.regex_full_match(flat, _SPELLED)
    flat = tf.where(is_number, _characters_of(flat, is_number), flat)
    flat = tf.where(parts.flat_values == "\\u", "_", flat)
    flat = tf.where(parts.flat_values == "\\\\", "\\", flat)
    return tf.strings.unsorted_segment_join(flat, _row_ids(parts), parts.nrows())


def _characters_of(parts: tf.Tensor, is_number: tf.Tensor) -> tf.Tensor:
    r"""Returns the characters of numbers such as `\8364;`; any text for other parts."""
    digits = tf.where(is_number, tf.strings.regex_replace(parts, r"[\\;]", ""), "0")
    numbers = tf.strings.to_number(digits, tf.float64)
    codes = tf.cast(tf.minimum(numbers, sys.maxunicode + 1.0), tf.int32)
    return tf.strings.unicode_encode(codes[:, None], "UTF-8", replacement_char=_UNDEFINED)

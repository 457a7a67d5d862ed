"""Subwords as TensorFlow operations, with the same results as `SubwordModel`s in Python.

A SavedModel takes text in and gives text out with these.
"""

import functools
import hashlib
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tensorflow_text
from numpy.typing import NDArray

from t2t_repro.text.characters import INVISIBLE
from t2t_repro.vocabulary import EOS_ID, NO_WORD, PAD_ID, SPACE_MARK, UNK_ID

if TYPE_CHECKING:
    from t2t_repro.text.marian import MarianSubwords
    from t2t_repro.text.sentencepiece import WordMarks
    from t2t_repro.text.t2t import T2TSubwords

# What Python's str.strip removes; a test compares both.
_SPACES = r"[\t-\r\x1c-\x1f\x{85}\pZ]+"

# The id that WordPiece gives a token of T2T that it cannot make of subwords.
_UNKNOWN = -1
# As in `text.t2t`.
_UNDEFINED = ord("\u3013")
_SPACE, _BACKSLASH, _UNDERSCORE = map(ord, " \\_")
# All escapes of T2T, and those that are code points.
_ESCAPE = r"\\u|\\\\|\\[0-9]+;"
_SPELLED = r"\\[0-9]+;"


class SentencePieceTextOps(tf.Module):
    """Encodes and decodes with a SentencePiece model.

    Args:
        pieces: the name of every id.
        marks: the word marks of the pieces.
        model: the content of the SentencePiece file; empty where words are split at blanks.
        out_type: type of the tokenizer's pieces: int32 for ids, or string.
    """

    def __init__(
        self, pieces: Sequence[str], marks: "WordMarks", model: bytes, out_type: tf.DType = tf.int32
    ) -> None:
        super().__init__()
        # A tf.Module would track a list and all its elements.
        self._pieces = np.array([piece.encode() for piece in pieces], dtype=object)
        self._size = len(pieces)
        self._marked = np.array(marks.marked)
        self._marks_end = marks.at_end
        # Python's loader of a SavedModel confuses two models without names.
        name = f"subwords_{hashlib.sha256(model).hexdigest()}"
        sentencepiece = tensorflow_text.SentencepieceTokenizer
        self._tokenizer = sentencepiece(model, out_type, name=name) if model else _WordTokenizer()

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns the ids of every text, stripped as `Translator` strips it.

        Args:
            texts: [batch] strings of any content; bytes that are not UTF-8 count as U+FFFD.

        Returns:
            ids [batch, (length)] int32, without EOS; and [batch] bool, whether each is blank, i.e.
            "" once stripped, or without ids.
        """
        texts = visible(texts)
        ids = self._tokenizer.tokenize(tf.strings.regex_replace(texts, SPACE_MARK, " "))
        if self._marks_end:
            ids = self._without_lone_marks(ids)
        return ids, (texts == "") | (ids.row_lengths() == 0)

    def _without_lone_marks(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Drops the mark from rows of ids [batch, (length)] that are this mark alone."""
        # SentencePiece returns it for a text that normalization makes empty.
        mark = self._pieces.tolist().index(SPACE_MARK.encode())
        lengths = ids.row_lengths()
        is_lone = tf.repeat(lengths == 1, lengths) & (ids.flat_values == mark)
        return tf.ragged.boolean_mask(ids, ids.with_flat_values(~is_lone))

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the text of every sentence.

        Args:
            ids: [batch, length] int32; ids after the first EOS are ignored, PAD is skipped, and
                those outside the vocabulary count as UNK.

        Returns:
            [batch] strings, with UNK as " ⁇ " and without bytes that are not UTF-8.
        """
        texts = self._tokenizer.detokenize(self.tokens(ids))
        return _readable(tf.strings.regex_replace(texts, " $", "") if self._marks_end else texts)

    def tokens(self, ids: tf.Tensor) -> tf.RaggedTensor:
        """Drops EOS, what follows it, and PAD: [batch, (length)]; ids of no piece become UNK."""
        known = tf.where((ids >= 0) & (ids < self._size), ids, UNK_ID)
        return tf.ragged.boolean_mask(known, is_text(ids))

    def word_numbers(self, texts: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        """Numbers the words of every text, as white space splits them.

        Args:
            texts: [batch] strings.
            ids: [batch, length] int32 of these texts, EOS and PAD last.

        Returns:
            [batch, length] int32, the index of each id's word in the text; `NO_WORD` from EOS on.
        """
        words = tf.strings.split(tf.strings.regex_replace(stripped(texts), _SPACES, " "), " ")
        # How many words the model makes of each word of the text: its normalization may split a
        # word, or remove it.
        counts = self._count_words(self.encode(words.flat_values)[0])
        # The number of the model's words up to the end of each word of the text.
        ends = tf.cumsum(words.with_flat_values(counts).to_tensor(), axis=1)
        model_words = self._number_words(ids)
        last = tf.cast(words.row_lengths(), tf.int32) - 1
        # A word of the model is in the first word of the text that ends after it, or in the last
        # one if there are too many, as with ids of another text.
        numbers = tf.minimum(tf.searchsorted(ends, model_words, side="right"), last[:, None])
        return tf.where(model_words == NO_WORD, NO_WORD, numbers)

    def _number_words(self, ids: tf.Tensor) -> tf.Tensor:
        """Numbers the words of ids [batch, length] as the model splits them: [batch, length]."""
        begins = tf.gather(self._marked, ids)
        if self._marks_end:
            # A word begins at the first id and after each mark.
            begins = tf.pad(begins[:, :-1], [[0, 0], [1, 0]], constant_values=True)
        numbers = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1, 0)
        return tf.where(is_text(ids), numbers, NO_WORD)

    def _count_words(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Counts the words of each row of ids, as the model does.

        Ids are [rows, (length)], the counts [rows]. A row without ids has none. Rows are not
        padded, since one may be as long as all others together.
        """
        marked = tf.cast(tf.gather(self._marked, ids.flat_values), tf.int32)
        # The number of marks before each id, and of all marks.
        before = tf.pad(tf.cumsum(marked), [[1, 0]])
        starts, stops = ids.row_splits[:-1], ids.row_splits[1:]
        if self._marks_end:
            # A word begins with the row and after each mark, but not after a mark at the row's end.
            counts = 1 + tf.gather(before, tf.maximum(stops - 1, 0)) - tf.gather(before, starts)
        else:
            # Each mark begins a word. Subwords before the first mark belong to the first word.
            counts = tf.maximum(tf.gather(before, stops) - tf.gather(before, starts), 1)
        return tf.where(stops > starts, counts, 0)


class MarianTextOps(SentencePieceTextOps):
    """Encodes and decodes with one side of a Marian model.

    Args:
        subwords: the subwords of that side.
    """

    def __init__(self, subwords: "MarianSubwords") -> None:
        file = subwords.content
        super().__init__(file.pieces, subwords.word_marks, file.model, tf.string)
        self._languages = tuple(file.languages)
        self._kind = file.kind
        self._code_pattern = subwords.code_pattern
        self._first_id = subwords.first_id
        self._spaced = subwords.spaced
        # As in `MarianSubwords.ids`: in a text, the names of PAD, EOS and UNK are plain text.
        ids = range(UNK_ID + 1, self._size)
        self._vocab_lookup_table = _id_table(self._pieces[UNK_ID + 1 :], ids, UNK_ID)

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns ids [batch, (length)] of texts [batch], and whether each is blank, [batch].

        Texts may begin with codes of languages, as `MarianSubwords` describes. EOS is left out.
        """
        texts = visible(texts)
        if self._languages:
            ids = self._ids_after_two_codes(texts)
        elif self._code_pattern is None:
            ids = self._ids_of(texts)
        else:
            # Of a whole text, the replacement \1 leaves the code, or nothing.
            text_pattern = f"({self._code_pattern})?(?s:.*)"
            codes = tf.strings.regex_replace(texts, text_pattern, r"\1", replace_global=False)
            rest = tf.strings.regex_replace(texts, self._code_pattern, "", replace_global=False)
            ids = _with_first(self._look_up(codes), codes != "", self._ids_of(rest))
        return ids, (texts == "") | (ids.row_lengths() == 0)

    def _ids_after_two_codes(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids [batch, (length)] of texts [batch], the codes of both languages in front.

        The target's code comes first. The defaults are used for codes that a text lacks.
        """
        # The pattern matches every text as a whole, so each replacement leaves one group.
        group = functools.partial(tf.strings.regex_replace, texts, self._code_pattern)
        first, second, rest = map(group, (r"\1", r"\2", r"\3"))
        has_one, has_both = first != "", second != ""
        # One code alone is the target's.
        source = tf.where(has_both, first, self._languages[0])
        target = tf.where(has_both, second, tf.where(has_one, first, self._languages[1]))
        everywhere = tf.ones_like(has_both)
        ids = _with_first(self._look_up(source), everywhere, self._ids_of(rest))
        return _with_first(self._look_up(target), everywhere, ids)

    def _ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids [batch, (length)] of texts [batch] without language codes."""
        pieces = self._tokenizer.tokenize(texts)
        return pieces.with_flat_values(self._look_up(pieces.flat_values))

    def _look_up(self, pieces: tf.Tensor) -> tf.Tensor:
        """Returns the ids of pieces, int32, elementwise; UNK for those outside the vocabulary."""
        return tf.cast(self._vocab_lookup_table.lookup(pieces), tf.int32)

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the texts [batch] of ids [batch, length]; those after the first EOS are ignored.

        PAD, ids outside the vocabulary, Hugging Face's UNK, and codes of languages are skipped.
        """
        is_known = is_text(ids) & (ids >= self._first_id) & (ids < self._size)
        kept = tf.ragged.boolean_mask(ids, is_known)
        pieces = kept.with_flat_values(tf.gather(tf.constant(self._pieces), kept.flat_values))
        if self._languages:
            is_code = tf.strings.regex_full_match(pieces.flat_values, "(?s)>>.*<<")
            pieces = tf.ragged.boolean_mask(pieces, pieces.with_flat_values(~is_code))
        texts = self._tokenizer.detokenize(pieces)
        if self._kind == "hugging_face":
            texts = stripped(tf.strings.regex_replace(texts, SPACE_MARK, " "))
        elif self._kind == "pieces":
            texts = tf.strings.regex_replace(texts, SPACE_MARK, " ")
            texts = tf.strings.regex_replace(texts, "^ +", "")
        texts = _readable(texts)
        for spaced in self._spaced:
            # The other characters of `spaced` stand for themselves.
            pattern = spaced.replace(".", r"\.").replace("?", r"\?")
            texts = tf.strings.regex_replace(texts, pattern, spaced.strip())
        return texts


class T2TTextOps(tf.Module):
    """Encodes and decodes batches of texts with a vocabulary of Tensor2Tensor.

    The steps are those of `T2TSubwords`, for all characters or tokens of a batch at once.

    Args:
        subwords: the vocabulary.
    """

    def __init__(self, subwords: "T2TSubwords") -> None:
        super().__init__()
        self._pieces = np.array([piece.encode() for piece in subwords.pieces()], dtype=object)
        ids = subwords.ids
        # A token that cannot be made of subwords is escaped again with the second alphabet: the
        # characters that are subwords themselves.
        alphabets = (subwords.characters, {piece for piece in ids if len(piece) == 1})
        self._alphabets = [np.array(sorted(map(ord, alphabet)), np.int32) for alphabet in alphabets]
        table = _id_table([piece.encode() for piece in ids], ids.values(), _UNKNOWN)
        # WordPiece takes the longest match from left to right, as T2T does.
        options = {"suffix_indicator": "", "max_bytes_per_word": 2**31 - 1, "unknown_token": None}
        wordpiece = tensorflow_text.WordpieceTokenizer
        self._tokenizer = wordpiece(table, max_chars_per_token=subwords.longest, **options)

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Returns ids [batch, (length)] of texts [batch], and whether each is blank, [batch].

        EOS is left out.
        """
        texts = visible(texts)
        codes = tf.strings.unicode_decode(texts, "UTF-8")
        words, word_rows = self._escaped_tokens(codes)
        subwords = self._tokenizer.tokenize(words)  # [words, (length)]
        rows = tf.gather(word_rows, _row_ids(subwords))
        ids = tf.cast(subwords.flat_values, tf.int32)
        return tf.RaggedTensor.from_value_rowids(ids, rows, codes.nrows()), texts == ""

    def _escaped_tokens(self, codes: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Splits texts into escaped tokens (steps 1 and 2 of `text.t2t`).

        Args:
            codes: [batch, (length)] int32 code points.

        Returns:
            the tokens [tokens], strings, and the row of each in the batch [tokens], int64.
        """
        characters, rows = codes.flat_values, _row_ids(codes)
        count, in_word = tf.size(characters), is_word(characters)
        # Of each character but the first: whether it continues the text, and the token, before it.
        same_text = rows[1:] == rows[:-1]
        continues = same_text & (in_word[1:] == in_word[:-1])
        # Cut to the count, since padding adds an entry even if there are no characters.
        begins = tf.pad(~continues, [[1, 0]], constant_values=True)[:count]
        ends = tf.pad(~continues, [[0, 1]], constant_values=True)[:count]
        after_word = tf.pad(same_text & in_word[:-1], [[1, 0]])[:count]
        before_word = tf.pad(same_text & in_word[1:], [[0, 1]])[:count]
        is_implied_space = (characters == _SPACE) & after_word & before_word

        # Of each token, the index of its first character; of each character, its token's number.
        starts = tf.where(begins)[:, 0]
        number = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        all_characters, single_subwords = self._alphabets
        words = self._escaped(characters, ends, number, all_characters)
        # If they are the same, no token lacks subwords.
        if len(all_characters) > len(single_subwords):
            safe = self._escaped(characters, ends, number, single_subwords)
            words = tf.where(self._lacks_subwords(words), safe, words)
        # An implied space is a token of one character.
        is_kept = ~tf.gather(is_implied_space, starts)
        return tf.boolean_mask(words, is_kept), tf.boolean_mask(tf.gather(rows, starts), is_kept)

    def _lacks_subwords(self, words: tf.Tensor) -> tf.Tensor:
        """Returns for escaped tokens [tokens] whether any subword of each is unknown: [tokens]."""
        ids = self._tokenizer.tokenize(words)
        is_unknown = tf.cast(ids.flat_values == _UNKNOWN, tf.int32)
        # False for a token without ids, of which the maximum is the lowest int32.
        return tf.math.unsorted_segment_max(is_unknown, _row_ids(ids), tf.size(words)) > 0

    def _escaped(
        self, characters: tf.Tensor, ends: tf.Tensor, number: tf.Tensor, alphabet: NDArray[np.int32]
    ) -> tf.Tensor:
        """Escapes tokens and marks their ends.

        Args:
            characters: [characters] code points of all tokens.
            ends: [characters] bool, whether a token ends with this character.
            number: [characters] int32, the number of each character's token.
            alphabet: ascending code points that are not escaped.

        Returns:
            [tokens] strings.
        """
        position = tf.searchsorted(alphabet, characters)
        # Padded, since characters above the whole alphabet have the position after its end.
        is_plain = tf.gather(tf.pad(alphabet, [[0, 1]]), position) == characters
        by_number = tf.strings.join(["\\", tf.strings.as_string(characters), ";"])
        as_they_are = tf.strings.unicode_encode(characters[:, None], "UTF-8")
        escaped = tf.where(is_plain, as_they_are, by_number)
        escaped = tf.where(characters == _BACKSLASH, "\\\\", escaped)
        escaped = tf.where(characters == _UNDERSCORE, "\\u", escaped)
        escaped = tf.where(ends, escaped + "_", escaped)
        return tf.strings.unsorted_segment_join(escaped, number, tf.math.count_nonzero(ends))

    def decode(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the texts [batch] of ids [batch, length]; those after the first EOS are ignored.

        PAD and ids outside the vocabulary are skipped; numbers that are not characters are U+3013.
        """
        tokens = self.tokens(ids)
        pieces = tf.gather(tf.constant(self._pieces), tokens.flat_values)
        escaped = tf.strings.unsorted_segment_join(pieces, _row_ids(tokens), tokens.nrows())
        words = tf.strings.split(escaped, "_")
        is_token = words.flat_values != ""
        rows = tf.boolean_mask(_row_ids(words), is_token)
        texts = _unescaped(tf.boolean_mask(words.flat_values, is_token))
        are_words = is_word(tf.strings.unicode_decode(texts, "UTF-8")[:, :1].flat_values)
        # Two adjacent tokens of letters or numbers imply a space. Padding adds an entry even if
        # there are no tokens, which is cut off.
        is_apart = tf.pad((rows[1:] == rows[:-1]) & are_words[1:] & are_words[:-1], [[1, 0]])
        texts = tf.where(is_apart[: tf.size(texts)], " " + texts, texts)
        return tf.strings.unsorted_segment_join(texts, rows, words.nrows())

    def tokens(self, ids: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of [batch, length] that `decode` reads: [batch, (length)]."""
        return tf.ragged.boolean_mask(ids, is_text(ids) & (ids >= 0) & (ids < len(self._pieces)))


TextOps = SentencePieceTextOps | T2TTextOps
"""Encodes and decodes batches of texts within a graph. T2T's have no `word_numbers`."""


class _WordTokenizer:
    """Splits texts at blanks and joins words, called as a SentencepieceTokenizer is."""

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the words [batch, (length)] of texts [batch]; runs of blanks split them."""
        words = tf.strings.split(texts, " ")
        return tf.ragged.boolean_mask(words, words != "")

    def detokenize(self, words: tf.RaggedTensor) -> tf.Tensor:
        """Returns the texts [batch] of words [batch, (length)], with a blank between two."""
        return tf.strings.reduce_join(words, axis=1, separator=" ")


def _id_table(keys: Iterable[bytes], ids: Iterable[int], default: int) -> tf.lookup.StaticHashTable:
    """Returns a table from keys to ids, and to `default` for other keys."""
    pairs = tf.lookup.KeyValueTensorInitializer([*keys], tf.constant([*ids], tf.int64))
    return tf.lookup.StaticHashTable(pairs, default)


def _with_first(first: tf.Tensor, has_first: tf.Tensor, others: tf.RaggedTensor) -> tf.RaggedTensor:
    """Puts an id before some of the rows.

    Unlike `tf.concat`, this does not transpose integers, about which oneDNN logs warnings.

    Args:
        first: [batch] int32, the ids.
        has_first: [batch] bool, whether a row gets its id.
        others: [batch, (length)] int32, the rows.

    Returns:
        [batch, (length)] int32.
    """
    shifts = tf.cumsum(tf.cast(has_first, tf.int64))
    splits = others.row_splits + tf.pad(shifts, [[1, 0]])
    starts = tf.boolean_mask(splits[:-1], has_first)
    positions = tf.range(splits[-1])
    # The number of new ids up to each position. The padding is for a new id at position 0.
    new_before = tf.searchsorted(starts, positions, side="right", out_type=tf.int64)
    values = tf.gather(tf.pad(others.flat_values, [[1, 0]]), positions - new_before + 1)
    values = tf.tensor_scatter_nd_update(values, starts[:, None], tf.boolean_mask(first, has_first))
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def stripped(texts: tf.Tensor) -> tf.Tensor:
    """Removes white space at the ends of texts [batch], and makes them valid UTF-8."""
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    return tf.strings.regex_replace(texts, f"^{_SPACES}|{_SPACES}$", "")


def visible(texts: tf.Tensor) -> tf.Tensor:
    """Removes `INVISIBLE` characters, and white space at the ends, from texts [batch]."""
    # The first `stripped` makes valid UTF-8; the second removes spaces beside invisible characters.
    return stripped(tf.strings.regex_replace(stripped(texts), f"[{INVISIBLE}]", ""))


def _readable(texts: tf.Tensor) -> tf.Tensor:
    """Removes U+FFFD from texts [batch]; a word of nothing else goes with one space beside it."""
    # \3 keeps the space or the end after such words.
    return tf.strings.regex_replace(texts, "^(\ufffd+ )+|( \ufffd+)+( |$)|\ufffd", r"\3")


def is_text(ids: tf.Tensor) -> tf.Tensor:
    """Returns whether ids [batch, length] are before the first EOS and not PAD: [batch, length]."""
    ends = tf.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1)
    return (ends == 0) & (ids != PAD_ID)


def _row_ids(ragged: tf.RaggedTensor) -> tf.Tensor:
    """Returns the row of every value: [values] int64.

    `RaggedTensor.value_rowids` would make a mask [rows, longest row]: gigabytes if one of many
    rows is long.
    """
    values = tf.range(tf.size(ragged.flat_values, tf.int64))
    return tf.searchsorted(ragged.row_splits[1:], values, side="right", out_type=tf.int64)


def is_word(characters: tf.Tensor) -> tf.Tensor:
    """Returns, elementwise, whether code points are letters or numbers (str.isalnum, as in T2T)."""
    # An odd number of bounds up to a character: a run has begun and not ended.
    return tf.searchsorted(_word_bounds(), characters, side="right") % 2 == 1


@functools.cache
def _word_bounds() -> NDArray[np.int32]:
    """Returns where runs of letters and numbers begin and end among all code points, ascending."""
    flags = [chr(code).isalnum() for code in range(sys.maxunicode + 1)]
    return np.flatnonzero(np.diff([False, *flags, False])).astype(np.int32)


def _unescaped(words: tf.Tensor) -> tf.Tensor:
    """Undoes the escapes of [tokens] strings: [tokens] strings."""
    # [tokens, (parts)]: each escape is a part, and so is the text between two of them.
    parts = tensorflow_text.regex_split(words, _ESCAPE, keep_delim_regex_pattern=_ESCAPE)
    flat = parts.flat_values
    is_number = tf.strings.regex_full_match(flat, _SPELLED)
    texts = tf.where(is_number, _characters_of(flat, is_number), flat)
    texts = tf.where(flat == "\\u", "_", texts)
    texts = tf.where(flat == "\\\\", "\\", texts)
    return tf.strings.unsorted_segment_join(texts, _row_ids(parts), parts.nrows())


def _characters_of(parts: tf.Tensor, is_number: tf.Tensor) -> tf.Tensor:
    r"""Returns, elementwise, the character of a number such as `\8364;`; any text if it is none.

    It is U+3013 for a number that is not a code point.
    """
    digits = tf.where(is_number, tf.strings.regex_replace(parts, r"[\\;]", ""), "0")
    # As floats, since there may be any number of digits. The bound is above all code points.
    numbers = tf.strings.to_number(digits, tf.float64)
    codes = tf.cast(tf.minimum(numbers, sys.maxunicode + 1.0), tf.int32)
    return tf.strings.unicode_encode(codes[:, None], "UTF-8", replacement_char=_UNDEFINED)

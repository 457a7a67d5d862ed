"""A soft glossary: terms whose sources stand in a sentence should stand in its translation.

A search then wants a high log P(y | x) - bonus · Σ |t|, the sum over the terms t that y lacks, each
of |t| subwords; one is wanted as often as its source stands in x, but not inside of a longer one's.
The bonus is given back subword by subword, and taken again if a term breaks off: a search that
looks one subword ahead finds it.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from t2t_repro.data.line_files import read_lines
from t2t_repro.decoding.shortlist import places_among
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import SubwordPair
from t2t_repro.vocabulary import PAD_ID, SPACE_MARK, UNK_ID

# Words by themselves: symbols, and letters of scripts without blanks.
_ALONE = r"[^\pL\pN\pM\s_]|[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"


class _State(NamedTuple):
    """The terms of each hypothesis.

    Attributes:
        forms: [batch, beam, terms, forms, length] int32, the ids of target terms, then -1.
        begun: the shape of `forms`, bool: whether it ends with the first ids of a form.
        wanted: [batch, beam, terms] int32, how often each term is wanted still.
        given: [batch, beam] int32, subwords that are given back, but not for a whole term; before
            the first id, those of all terms.
    """

    forms: tf.Tensor
    begun: tf.Tensor
    wanted: tf.Tensor
    given: tf.Tensor


class Glossary:
    """A `SoftGrammar` that scores the ids of terms higher.

    Args:
        subwords: subword models of source and target.
        file: see `settings.glossary`.
        bonus: see `settings.glossary`.

    Raises:
        UserError: the file cannot be read, or has something else than terms.
    """

    def __init__(self, subwords: SubwordPair, file: str, bonus: float) -> None:
        names = ["source", "target"]
        lines = [*read_lines(Path(file))]
        of_tabs = csv.DictReader(lines, names, delimiter="\t", quoting=csv.QUOTE_NONE)
        # Weblate exports terms without a translation, too.
        of_commas = csv.DictReader(lines, strict=True)
        try:
            is_csv = {*names} <= {*next(csv.reader(lines[:1]), [])}
            rows = [row for row in of_commas if row["target"]] if is_csv else [*of_tabs]
        except csv.Error as error:
            raise UserError(f"{file}: {error}; expected source and target in CSV.") from error
        terms = [[(row[name] or "").strip() for name in names] for row in rows] or [["", ""]]
        pieces = subwords.source.pieces()
        codes = 2 * len(subwords.languages[:1])
        mark = SPACE_MARK if any(SPACE_MARK in piece for piece in pieces) else "_"
        self._texts = ["", "", *(piece.replace(mark, " ") for piece in pieces[UNK_ID:])]
        sources = subwords.source.encode([source for source, _ in terms])
        # A graph may be under construction.
        with tf.init_scope():
            keys = self._words(tf.ragged.constant([ids[codes:] for ids in sources], tf.int32))
        forms: dict[bytes, set[tuple[int, ...]]] = {}
        for key, ids, (source, target) in zip(keys.numpy(), sources, terms, strict=True):
            # What must not be translated keeps its case at the beginning of a sentence.
            first = target[:1].upper() if target.islower() and source != target else target[:1]
            both = subwords.target.encode([target, first + target[1:]])
            usable = {(*form[:-1],) for form in both if UNK_ID not in form}
            sizes = [len(key.split()), *map(len, usable)]
            # The forms in a state are as long as the longest. All unknown words are one subword.
            if UNK_ID in ids or not usable or not 0 < min(sizes) <= max(sizes) <= 20:
                problem = f"{file}: {source!r}, {target!r}; expected source<TAB>target"
                raise UserError(f"{problem}, at most 20 words and 20 known subwords.")
            forms[key] = forms.get(key, set()) | usable
        self._bonus, self._longest = bonus, max(len(key.split()) for key in forms)
        self._hashes = tf.strings.to_hash_bucket_fast([*forms], 2**63 - 1)
        self._forms = tf.ragged.constant([*map(list, forms.values())], tf.int32).to_tensor(-1)

    def _words(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the text of ids [batch, length], with single blanks between words: [batch]."""
        text = tf.strings.reduce_join(tf.gather(self._texts, ids), axis=1)
        text = tf.strings.regex_replace(text, _ALONE, r" \0 ")
        return tf.strings.strip(tf.strings.regex_replace(text, r"\s+", " "))

    def begin(self, source: tf.Tensor, max_target_lengths: tf.Tensor, beam_size: int) -> _State:
        """Finds the terms of each sentence (see `Grammar`)."""
        words = tf.strings.split(self._words(source))
        places = tf.range(tf.cast(tf.reduce_max(words.row_lengths()), tf.int32))
        # How often each term is found; where the longest that began up to a word has its end.
        left, ends = tf.constant(0), tf.zeros_like(places)[None]
        for size in range(self._longest, 0, -1):
            texts = tf.strings.ngrams(words, size, separator=" ").to_tensor()
            # A term in lower case is found in any case.
            texts = tf.stack([texts, tf.strings.lower(texts, "utf-8")])
            hashes = tf.strings.to_hash_bucket_fast(texts, 2**63 - 1)[..., None]
            is_term = tf.reduce_any(hashes == self._hashes, 0)
            starts = places[: tf.shape(is_term)[1]]
            # One inside of a longer one does not count.
            is_term &= (ends[:, : tf.size(starts)] < starts + size)[..., None]
            left += tf.math.count_nonzero(is_term, 1, dtype=tf.int32)
            last = tf.where(tf.reduce_any(is_term, 2), starts + size, 0)[:, None]
            last = tf.reduce_max(tf.where(starts <= places[:, None], last, 0), 2)
            ends = tf.maximum(ends, last)
        most = tf.reduce_max(tf.reduce_sum(tf.sign(left), 1))
        left, rows = tf.math.top_k(left, tf.maximum(most, 1))
        forms = tf.where(left[..., None, None] > 0, tf.gather(self._forms, rows), -1)
        forms = tf.repeat(forms[:, None], beam_size, 1)
        left = tf.repeat(left[:, None], beam_size, 1)
        longest = tf.reduce_max(tf.math.count_nonzero(forms >= 0, 4, dtype=tf.int32), 3)
        given = tf.reduce_sum(left * longest, 2)
        return _State(forms, tf.zeros_like(forms, tf.bool), left, given)

    def gain(self, state: _State) -> tf.Tensor:
        """Returns the most nats that are given back, from the state before the first id."""
        return self._bonus * tf.cast(tf.reduce_max(state.given), tf.float32)

    def wanted(self, state: _State) -> tf.Tensor:
        """Returns the ids of all forms (see `SoftGrammar`)."""
        forms = tf.maximum(state.forms[:, 0], PAD_ID)
        return tf.reshape(forms, [tf.shape(forms)[0], -1])

    def among(self, state: _State, ids: tf.Tensor) -> _State:
        """Returns the state with positions instead of ids (see `SoftGrammar`)."""
        places = places_among(ids, state.forms)
        return state._replace(forms=tf.where(state.forms < 0, -1, places))

    def after(self, state: _State, ids: tf.Tensor) -> _State:
        """Returns the state after one more id of every hypothesis (see `Grammar`)."""
        begun, wanted, _, given = (part[:, :, 0] for part in _advance(state, ids[..., None]))
        return _State(state.forms, begun, wanted, tf.where(ids == PAD_ID, state.given, given))

    def rescored(self, log_p: tf.Tensor, state: _State) -> tf.Tensor:
        """Adds to the log-probabilities of all ids, [batch, beam, vocab]."""
        batch, beam, vocab = tf.unstack(tf.shape(log_p))
        ids = tf.maximum(tf.reshape(state.forms, [batch, beam, -1]), PAD_ID)
        *_, whole, given = (self._bonus * tf.cast(n, tf.float32) for n in _advance(state, ids))
        flat = tf.reshape(log_p - self._bonus * tf.cast(state.given, tf.float32)[..., None], [-1])
        places = tf.reshape(tf.range(batch * beam), [batch, beam, 1]) * vocab + ids
        # The same value twice for an id that comes twice.
        new = tf.gather(flat, places) + whole + given
        flat = tf.tensor_scatter_nd_update(flat, places[..., None], new)
        return tf.ensure_shape(tf.reshape(flat, [batch, beam, vocab]), log_p.shape)


def _advance(state: _State, ids: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Extends each hypothesis by each of some ids, [batch, beam, ids].

    Returns:
        begun and wanted of the new states, with an axis of ids after that of the beam; the subwords
        of terms that are now whole, and of the longest begun, [batch, beam, ids] int32.
    """
    forms, wanted = state.forms[:, :, None], state.wanted[:, :, None]
    begun = tf.pad(state.begun[..., :-1], [[0, 0]] * 4 + [[1, 0]], constant_values=True)
    # [batch, beam, ids, terms, forms, length]
    begun = begun[:, :, None] & (ids[..., None, None, None] == forms)
    lengths = tf.where(begun, tf.range(1, tf.shape(forms)[-1] + 1), 0)
    form_lengths = tf.math.count_nonzero(forms >= 0, 5, keepdims=True, dtype=tf.int32)
    # [batch, beam, ids, terms]
    whole = tf.reduce_max(tf.where(lengths == form_lengths, lengths, 0), [4, 5]) * tf.sign(wanted)
    wanted -= tf.sign(whole)
    longest = tf.reduce_max(tf.where(lengths < form_lengths, lengths, 0), [4, 5]) * tf.sign(wanted)
    return begun, wanted, tf.reduce_sum(whole, 3), tf.reduce_max(longest, 3)

"""A soft glossary: a sentence with the source of a term should have its target in the translation.

A search then looks for a high log P(y | x) - bonus · Σ |t|, the sum over the terms t that y lacks,
each of |t| subwords. A term is wanted as often as its source occurs in x, but not inside the source
of a longer term. The bonus is added subword by subword, and subtracted again if a term breaks off:
a search that looks one subword ahead finds the term.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from t2t_repro.data.line_files import read_lines
from t2t_repro.decoding.shortlist import places_among
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import SubwordModel, SubwordPair
from t2t_repro.text.t2t import T2TSubwords
from t2t_repro.text.tags import TAG
from t2t_repro.vocabulary import PAD_ID, SPACE_MARK, UNK_ID

# Words by themselves: symbols, and letters of scripts without blanks.
_ALONE = r"[^\pL\pN\pM\s_]|[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"


class _State(NamedTuple):
    """The terms of each hypothesis.

    Attributes:
        forms: [batch, beam, terms, forms, length] int32, the ids of each way to write the target of
            a term, then -1.
        begun: the shape of `forms`, bool: whether the hypothesis ends with the form's ids up to
            this one.
        wanted: [batch, beam, terms] int32, how often each term is still missing.
        pending: [batch, beam] int32, subwords of the longest unfinished term at the end, whose
            bonus the next step subtracts again. Before the first id, the subwords of all terms.
    """

    forms: tf.Tensor
    begun: tf.Tensor
    wanted: tf.Tensor
    pending: tf.Tensor


class Glossary:
    """A `SoftGrammar` that scores the ids of terms higher.

    Args:
        subwords: subword models of source and target.
        file: the file of terms; `settings.glossary` has its format.
        bonus: nats for each subword of a term's target.

    Raises:
        UserError: the file cannot be read, or a line is not a term of known words and subwords.
    """

    def __init__(self, subwords: SubwordPair, file: str, bonus: float) -> None:
        self._bonus = bonus
        # An empty file is refused below, as a file with an empty term.
        terms = _read_terms(file) or [["", ""]]
        # A multilingual source begins with the codes of two languages.
        codes = 2 if subwords.languages else 0
        self._texts = _texts_of(subwords.source)
        source_ids = subwords.source.encode([source for source, _ in terms])
        # A graph may be under construction.
        with tf.init_scope():
            keys = self._words(tf.ragged.constant([ids[codes:] for ids in source_ids], tf.int32))
        # The words of each source -> the ids of each way to write one of its targets.
        forms: dict[bytes, set[tuple[int, ...]]] = {}
        for key, ids, (source, target) in zip(keys.numpy(), source_ids, terms, strict=True):
            new_forms = _forms_of(target, source, subwords)
            sizes = [len(key.split()), *map(len, new_forms)]
            # All unknown words are the same subword. The longest form sets the size of a state.
            if UNK_ID in ids[codes:] or not new_forms or min(sizes) == 0 or max(sizes) > 20:
                problem = f"{file}: {source!r}, {target!r}; expected source<TAB>target"
                raise UserError(f"{problem}, at most 20 words and 20 known subwords.")
            forms[key] = forms.get(key, set()) | new_forms
        self._longest = max(len(key.split()) for key in forms)
        self._hashes = tf.strings.to_hash_bucket_fast([*forms], 2**63 - 1)
        # [terms, forms, length]; -1 after the end of a form.
        self._forms = tf.ragged.constant([*map(list, forms.values())], tf.int32).to_tensor(-1)

    def _words(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the texts [batch] of ids [batch, length], with one blank between words."""
        text = tf.strings.reduce_join(tf.gather(self._texts, ids), axis=1)
        text = tf.strings.regex_replace(text, _ALONE, r" \0 ")
        return tf.strings.strip(tf.strings.regex_replace(text, r"\s+", " "))

    def begin(self, source: tf.Tensor, max_target_lengths: tf.Tensor, beam_size: int) -> _State:
        """Finds the terms of each sentence (see `Grammar`)."""
        all_counts = self._occurrences(tf.strings.split(self._words(source)))
        # Keeps as many terms as occur in one sentence; those that do not occur get no forms below.
        most_terms = tf.reduce_max(tf.reduce_sum(tf.sign(all_counts), 1))
        counts, terms = tf.math.top_k(all_counts, tf.maximum(most_terms, 1))
        forms_of_rows = tf.where(counts[..., None, None] > 0, tf.gather(self._forms, terms), -1)
        # The same for all hypotheses of a row.
        forms = tf.repeat(forms_of_rows[:, None], beam_size, 1)
        wanted = tf.repeat(counts[:, None], beam_size, 1)
        longest = tf.reduce_max(tf.math.count_nonzero(forms >= 0, 4, dtype=tf.int32), 3)
        pending = tf.reduce_sum(wanted * longest, 2)
        return _State(forms, tf.zeros_like(forms, tf.bool), wanted, pending)

    def _occurrences(self, words: tf.RaggedTensor) -> tf.Tensor:
        """Counts each term among the words of each sentence, [batch, terms] int32."""
        positions = tf.range(tf.cast(tf.reduce_max(words.row_lengths()), tf.int32))
        # ends, [batch, positions]: the last end of the occurrences that begin up to each word.
        counts, ends = tf.constant(0), tf.zeros_like(positions)[None]
        for size in range(self._longest, 0, -1):  # Words of a term; the longest terms first.
            texts = tf.strings.ngrams(words, size, separator=" ").to_tensor()
            # A term in lower case is found in any case.
            cases = tf.stack([texts, tf.strings.lower(texts, "utf-8")])  # [2, batch, starts]
            hashes = tf.strings.to_hash_bucket_fast(cases, 2**63 - 1)[..., None]
            # [batch, starts, terms]
            is_term = tf.reduce_any(hashes == self._hashes, 0)
            starts = positions[: tf.shape(is_term)[1]]
            # A term inside of a longer one does not count.
            is_term &= (ends[:, : tf.size(starts)] < starts + size)[..., None]
            counts += tf.math.count_nonzero(is_term, 1, dtype=tf.int32)
            # [batch, 1, starts]: the end of a term that begins there, or 0.
            ends_of = tf.where(tf.reduce_any(is_term, 2), starts + size, 0)[:, None]
            # [batch, positions]: the last of those that begin up to each word.
            last_ends = tf.reduce_max(tf.where(starts <= positions[:, None], ends_of, 0), 2)
            ends = tf.maximum(ends, last_ends)
        return counts

    def gain(self, state: _State) -> tf.Tensor:
        """Returns the most nats that bonuses can add, from the first state (see `SoftGrammar`)."""
        return self._nats(tf.reduce_max(state.pending))

    def wanted(self, state: _State) -> tf.Tensor:
        """Returns the ids of all forms (see `SoftGrammar`)."""
        forms = tf.maximum(state.forms[:, 0], PAD_ID)
        return tf.reshape(forms, [tf.shape(forms)[0], -1])

    def among(self, state: _State, ids: tf.Tensor) -> _State:
        """Returns the state with indices in `ids` as its ids (see `SoftGrammar`)."""
        return state._replace(forms=tf.where(state.forms < 0, -1, places_among(ids, state.forms)))

    def after(self, state: _State, ids: tf.Tensor) -> _State:
        """Returns the state after one more id of every hypothesis (see `Grammar`)."""
        # One id for each hypothesis: the axis of ids is added, and removed again.
        begun, wanted, _, partial = (result[:, :, 0] for result in _advance(state, ids[..., None]))
        # PAD, which stands before the first id too, is no id: what is pending stays so.
        pending = tf.where(ids == PAD_ID, state.pending, partial)
        return _State(state.forms, begun, wanted, pending)

    def rescored(self, log_p: tf.Tensor, state: _State) -> tf.Tensor:
        """Returns log_p [batch, beam, vocab] with the bonuses of terms (see `SoftGrammar`)."""
        batch, beam, vocab = tf.unstack(tf.shape(log_p))
        # [batch, beam, ids of all forms], PAD in the place of -1.
        ids = tf.maximum(tf.reshape(state.forms, [batch, beam, -1]), PAD_ID)
        # Subwords of the terms that an id completes, and of the longest that it leaves unfinished.
        _, _, completed, partial = _advance(state, ids)
        # Takes back the bonus of an unfinished term; below, ids that continue it get it again.
        flat = tf.reshape(log_p - self._nats(state.pending)[..., None], [-1])
        indices = tf.reshape(tf.range(batch * beam), [batch, beam, 1]) * vocab + ids
        # An update, not a sum: an id of several forms gets its bonus once.
        with_bonus = tf.gather(flat, indices) + self._nats(completed) + self._nats(partial)
        flat = tf.tensor_scatter_nd_update(flat, indices[..., None], with_bonus)
        return tf.ensure_shape(tf.reshape(flat, [batch, beam, vocab]), log_p.shape)

    def _nats(self, subwords: tf.Tensor) -> tf.Tensor:
        """Returns the bonus for numbers of subwords, float32 of the same shape."""
        return self._bonus * tf.cast(subwords, tf.float32)


def _read_terms(file: str) -> list[list[str]]:
    """Reads pairs of source and target, "" if missing, from "source<TAB>target" lines or CSV."""
    fields = ["source", "target"]
    lines = [f"{line}\n" for line in read_lines(Path(file))]
    try:
        header = next(csv.reader(lines[:1]), [])
        if {*fields} <= {*header}:
            # Weblate exports terms without a translation, too.
            reader = csv.DictReader(lines, restval="", strict=True)
            rows = [row for row in reader if row["target"].strip()]
        else:
            rows = [*csv.DictReader(lines, fields, delimiter="\t", quoting=csv.QUOTE_NONE)]
    except csv.Error as error:
        raise UserError(f"{file}: {error}; expected CSV with source and target.") from error
    return [[" ".join((row[field] or "").split()) for field in fields] for row in rows]


def _texts_of(subwords: SubwordModel) -> list[str]:
    """Returns the text of each id, with a blank between words; "" for PAD and EOS, " " for tags."""
    pieces = subwords.pieces()
    # T2T's subwords have "_" in the place of a space. Others without any mark are words.
    is_t2t = isinstance(subwords, T2TSubwords)
    mark = "_" if is_t2t else SPACE_MARK
    end = "" if is_t2t or any(SPACE_MARK in piece for piece in pieces) else " "
    texts = [" " if TAG.fullmatch(piece) else piece.replace(mark, " ") + end for piece in pieces]
    # UNK is no tag, even if its name looks like one: <unk>.
    texts[: UNK_ID + 1] = "", "", pieces[UNK_ID].replace(mark, " ") + end
    return texts


def _forms_of(target: str, source: str, subwords: SubwordPair) -> set[tuple[int, ...]]:
    """Returns the ids of each way to write a target, without EOS; none with unknown subwords."""
    # A target may begin a sentence; what must not be translated keeps its case there.
    is_fixed = source == target or not target.islower()
    capitalized = target if is_fixed else target[:1].upper() + target[1:]
    both = subwords.target.encode([target, capitalized])
    return {(*form[:-1],) for form in both if UNK_ID not in form}


def _advance(state: _State, ids: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Extends each hypothesis by one more id, for each of some ids [batch, beam, ids].

    Returns:
        `begun` and `wanted` of the new states, with an axis of ids after that of the beam; the
        subwords of terms that are now complete, and those of the longest unfinished term, both
        [batch, beam, ids] int32.
    """
    forms, wanted = state.forms[:, :, None], state.wanted[:, :, None]
    begun = tf.pad(state.begun[..., :-1], [[0, 0]] * 4 + [[1, 0]], constant_values=True)
    # [batch, beam, ids, terms, forms, length]
    begun = begun[:, :, None] & (ids[..., None, None, None] == forms)
    lengths = tf.where(begun, tf.range(1, tf.shape(forms)[-1] + 1), 0)
    form_lengths = tf.math.count_nonzero(forms >= 0, 5, keepdims=True, dtype=tf.int32)
    # [batch, beam, ids, terms]
    whole = tf.reduce_max(tf.where(lengths == form_lengths, lengths, 0), [4, 5]) * tf.sign(wanted)
    # A complete term counts as unfinished, too, only if it is wanted once more.
    wanted -= tf.sign(whole)
    partial = tf.reduce_max(tf.where(lengths < form_lengths, lengths, 0), [4, 5]) * tf.sign(wanted)
    return begun, wanted, tf.reduce_sum(whole, 3), tf.reduce_max(partial, 3)

"""A translator as one TensorFlow graph: text in, text out, no Python.

Its weights are stored as float32, bfloat16 or int8.
"""

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_repro.decoding.search import UNFILLED_SCORE
from t2t_repro.decoding.settings import Sampling
from t2t_repro.decoding.translator import Translator
from t2t_repro.model.step_decoder import with_values
from t2t_repro.model.transformer import Transformer
from t2t_repro.vocabulary import EOS_ID, PAD_ID

Outputs = dict[str, tf.Tensor]
Signatures = dict[str, tf.types.experimental.GenericFunction]

SIGNATURES = ("serving_default", "nbest", "token_ids", "score")
MORE_SIGNATURES = ("prefix", "sample", "alignment")

_TEXTS = tf.TensorSpec([None], tf.string)


class _Sentences(NamedTuple):
    """Encoded sentences.

    Attributes:
        ids: [batch, length] int32, EOS last, then PAD; only PAD in a blank sentence.
        lengths: [batch] int32, the number of ids of each.
        truncated: [batch] bool, whether ids beyond the limit were cut off.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    truncated: tf.Tensor


class Servable(tf.Module):
    """A `Translator` as functions that a SavedModel can hold.

    They take a batch of any size, also 0, of any texts. All inputs and outputs begin with `batch`.
    Texts and scores do not depend on what is translated together.

    Args:
        translator: its model, subwords, search and limits are used; its number of workers is not.
        weights: "float32", "bfloat16" or "int8", as which weights are stored; see `StoredWeights`.
        more: names of `MORE_SIGNATURES`. "prefix" and "sample" each add a graph of a whole search.
        sampling: the search of the signature "sample"; the translator's own by default.

    Raises:
        UserError: "alignment" is asked for, and cannot be computed: the subwords are not
            SentencePiece's, the model is M2M-100 or NLLB, or `Aligner.layer` is too large.
    """

    def __init__(
        self,
        translator: Translator,
        weights: str,
        more: Collection[str] = (),
        sampling: Sampling | None = None,
    ) -> None:
        super().__init__()
        if "alignment" in more:
            _check_aligns(translator)
        self._sampling = sampling or translator.settings.search
        self._names = (*SIGNATURES, *more)
        # Not its model: a Keras model as an attribute would be saved with all that belongs to it.
        self._translator = translator
        self._weights = StoredWeights(translator.model, weights)
        self._source_ops, self._target_ops = translator.subwords.each(lambda side: side.in_graph())
        # One graph for all signatures, if n_best is a tensor: Python numbers have one each. As an
        # attribute, a tf.function would be traced again by tf.saved_model.save, and written twice.
        search = functools.partial(self._search_sentences, translator)
        self._search = tf.function(search, autograph=False).__call__

    def signatures(self) -> Signatures:
        """Returns the functions that a server offers, by name: `SIGNATURES` and those of `more`."""
        table: dict[str, tuple[Callable[..., Outputs], Sequence[tf.TensorSpec]]] = {
            "serving_default": (self.translate, [_TEXTS]),
            "nbest": (self.translate_n_best, [_TEXTS]),
            "token_ids": (self.translate_ids, [tf.TensorSpec([None, None], tf.int32)]),
            "score": (self.score, [_TEXTS, _TEXTS]),
            "prefix": (self.translate_from_prefix, [_TEXTS, _TEXTS]),
            "sample": (self.sample, [_TEXTS, tf.TensorSpec([None], tf.int64)]),
            "alignment": (self.align, [_TEXTS, _TEXTS]),
        }
        return {name: tf.function(*table[name], autograph=False) for name in self._names}

    def translate(self, source: tf.Tensor) -> Outputs:
        """Translates texts: the signature "serving_default".

        Args:
            source: [batch] strings.

        Returns:
            translation: [batch] strings.
            score: [batch] float32, log-probability over length penalty, in nats.
            finished: [batch] bool, whether the translation is whole; otherwise it is cut off at
                the limit of its length.
            truncated: [batch] bool, whether only the beginning of the source was translated.
        """
        sentences = self._encode(source)
        return self._best(sentences, *self._search(sentences, tf.constant(1)))

    def translate_n_best(self, source: tf.Tensor) -> Outputs:
        """Finds several translations of each text, the best first: the signature "nbest".

        Args:
            source: [batch] strings.

        Returns:
            translation: [batch, beam] strings; where the search found fewer, the last is repeated.
            score: [batch, beam] float32, of each.
            finished: [batch, beam] bool, of each, as in `translate`.
            count: [batch] int32, how many were found: 1 for blank texts.
            truncated: [batch] bool, as in `translate`.
        """
        beam = self._translator.settings.search.beam_size
        sentences = self._encode(source)
        ids, scores = self._search(sentences, tf.constant(beam))
        batch, _, steps = tf.unstack(tf.shape(ids))
        text_ids = tf.reshape(ids, [batch * beam, steps])[:, self._translator.codes :]
        texts = self._target_ops.decode(text_ids)
        # Scores of translations are far above UNFILLED_SCORE.
        count = tf.reduce_sum(tf.cast(scores > UNFILLED_SCORE / 2, tf.int32), axis=1)
        # [batch, beam]: 0, 1, ..., and the last translation again for each that is missing.
        indices = tf.minimum(tf.range(beam), count[:, None] - 1)
        return {
            "translation": tf.gather(tf.reshape(texts, [batch, beam]), indices, batch_dims=1),
            "score": tf.gather(tf.ensure_shape(scores, [None, beam]), indices, batch_dims=1),
            "finished": tf.gather(_are_finished(ids), indices, batch_dims=1),
            "count": count,
            "truncated": sentences.truncated,
        }

    def translate_ids(self, source_ids: tf.Tensor) -> Outputs:
        """Translates ids, for clients with subwords of their own: the signature "token_ids".

        Args:
            source_ids: [batch, source_length] int32. PAD is ignored, and all after the first EOS.
                Ids outside the vocabulary become UNK, or are skipped in a vocabulary of T2T, which
                has no UNK. EOS may be missing, unless a server joins requests of different lengths:
                TensorFlow Serving pads them with the first id of each request. With M2M-100 and
                NLLB a row begins with the codes of target and source.

        Returns:
            translation_ids: [batch, target_length] int32, EOS last unless it is cut off, then PAD;
                with the target's code, if rows have it.
            score, finished, truncated: [batch], as in `translate`.
        """
        tokens = self._source_ops.tokens(source_ids)
        is_blank = tokens.row_lengths() == 0
        sentences = _sentences(tokens, is_blank, self._translator.max_source_length)
        ids, scores = self._search(sentences, tf.constant(1))
        return {"translation_ids": _without_padding(ids[:, 0]), **_outcome(sentences, ids, scores)}

    def score(self, source: tf.Tensor, target: tf.Tensor) -> Outputs:
        """Scores given translations, without length penalty: the signature "score".

        Args:
            source: [batch] strings.
            target: [batch] strings, their translations.

        Returns:
            log_probability: [batch] float32, log P(target, EOS included | source), in nats.
            length: [batch] int32, the number of ids of the target, EOS included.
            truncated: [batch] bool, whether only the beginning of either was read.
        """
        # A blank text is scored, too: as EOS alone.
        none_blank = tf.zeros_like(source, tf.bool)
        source_ids, _ = self._source_ops.encode(source)
        target_ids, _ = self._target_ops.encode(target)
        sources = _sentences(source_ids, none_blank, self._translator.max_source_length)
        targets = _sentences(target_ids, none_blank, self._longest_target())

        def score_rows(rows: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            pair = _group(sources, rows), _group(targets, rows)
            return tf.reduce_sum(self._translator.token_log_probabilities(*pair), axis=1)

        lengths = tf.maximum(sources.lengths, targets.lengths)
        # No length is 0: all of these are replaced.
        zeros = tf.zeros_like(lengths, tf.float32)
        return {
            "log_probability": self._map_groups(lengths, score_rows, zeros),
            "length": targets.lengths,
            "truncated": sources.truncated | targets.truncated,
        }

    def translate_from_prefix(self, source: tf.Tensor, prefix: tf.Tensor) -> Outputs:
        """Translates texts, with given beginnings: the signature "prefix".

        Args:
            source: [batch] strings.
            prefix: [batch] strings, the beginning of each translation; "" for any.

        Returns:
            translation: [batch] strings, with the prefix. That of a blank source is empty.
            score, finished: [batch], as in `translate`; the prefix counts.
            truncated: [batch] bool, whether only the beginning of source or prefix was used.
        """
        sentences = self._encode(source)
        tokens, is_blank = self._target_ops.encode(prefix)
        lengths = tf.where(is_blank, 0, tf.cast(tokens.row_lengths(), tf.int32))
        limits = self._translator.max_target_lengths(sentences.lengths)
        # The codes of languages precede a prefix. A blank source has no translation to begin.
        is_cut = (lengths > limits - self._translator.codes) & (sentences.lengths > 0)
        padded = tokens[:, : self._longest_target()].to_tensor(PAD_ID)
        prefix_ids = tf.where(is_blank[:, None], PAD_ID, padded)
        result = self._search_sentences(self._translator, sentences, 1, prefix=prefix_ids)
        return {**self._best(sentences, *result), "truncated": sentences.truncated | is_cut}

    def sample(self, source: tf.Tensor, seed: tf.Tensor) -> Outputs:
        """Draws a translation of each text: the signature "sample".

        Args:
            source: [batch] strings.
            seed: [batch] int64, of each; another seed draws another translation.

        Returns:
            translation: [batch] strings, the first that a `Translator` draws with that seed.
            score: [batch] float32, log P(translation | source), in nats.
            finished: [batch] bool, as in `translate`.
            truncated: [batch] bool, as in `translate`.
        """
        settings = replace(self._translator.settings, search=self._sampling)
        translator = self._translator.with_settings(settings)
        sentences = self._encode(source)
        return self._best(sentences, *self._search_sentences(translator, sentences, 1, seeds=seed))

    def align(self, source: tf.Tensor, target: tf.Tensor) -> Outputs:
        """Aligns the words of texts and of their translations: the signature "alignment".

        Args:
            source: [batch] strings.
            target: [batch] strings, their translations.

        Returns:
            alignment: [batch] strings, links such as "0-0 1-2": source word, target word, from 0.
            truncated: [batch] bool, whether only the beginning of either was aligned.
        """
        sources = self._encode(source)
        targets = _sentences(*self._target_ops.encode(target), self._longest_target())

        def align_rows(rows: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            source_ids, target_ids = _group(sources, rows), _group(targets, rows)
            source_words = self._source_ops.word_numbers(tf.gather(source, rows), source_ids)
            target_words = self._target_ops.word_numbers(tf.gather(target, rows), target_ids)
            aligner = self._translator.aligner
            return aligner.links(source_ids, target_ids, source_words, target_words)

        # A pair with a blank text has no links.
        has_words = (sources.lengths > 0) & (targets.lengths > 0)
        lengths = tf.where(has_words, tf.maximum(sources.lengths, targets.lengths), 0)
        links = self._map_groups(lengths, align_rows, tf.fill(tf.shape(source), ""))
        return {"alignment": links, "truncated": sources.truncated | targets.truncated}

    def _encode(self, texts: tf.Tensor) -> _Sentences:
        """Returns the sentences of source texts [batch], cut off to the limit of their length."""
        return _sentences(*self._source_ops.encode(texts), self._translator.max_source_length)

    def _longest_target(self) -> tf.Tensor:
        """Returns the most ids of any translation, EOS included: a scalar int32."""
        return self._translator.max_target_lengths(self._translator.max_source_length)

    def _best(self, sentences: _Sentences, ids: tf.Tensor, scores: tf.Tensor) -> Outputs:
        """Returns the outputs of `translate`.

        Args:
            sentences: the sources.
            ids: [batch, n_best, steps], their translations, of which the first is the best.
            scores: [batch, n_best], the scores of these.
        """
        # The codes of languages, with which a translation begins, are no text.
        texts = self._target_ops.decode(ids[:, 0, self._translator.codes :])
        return {"translation": texts, **_outcome(sentences, ids, scores)}

    def _search_sentences(
        self, translator: Translator, sentences: _Sentences, n_best: int | tf.Tensor, **options: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Searches for translations: ids [batch, n_best, steps] and scores [batch, n_best].

        A blank sentence has one translation, with PAD alone and score 0; its other places have PAD
        and `UNFILLED_SCORE`.

        Args:
            translator: with the search.
            sentences: the sources.
            n_best: the number of translations of each; at most the beam size.
            options: prefix [batch, length] or seeds [batch], see `Translator.search_batch`.
        """
        limits = translator.max_target_lengths(sentences.lengths)
        # 0 steps for a batch of size 0.
        steps = tf.reduce_max(tf.concat([[0], limits], axis=0))
        unfilled = [UNFILLED_SCORE] * (translator.settings.search.beam_size - 1)
        batch = tf.size(limits)

        def search(rows: tf.Tensor, length: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            ids = tf.gather(sentences.ids, rows)[:, :length]
            options_of_rows = {name: tf.gather(value, rows) for name, value in options.items()}
            result = translator.search_batch(ids, n_best, **options_of_rows)
            # A group may need fewer steps than the batch.
            missing = steps - tf.shape(result.ids)[2]
            return tf.pad(result.ids, [[0, 0], [0, 0], [0, missing]]), result.scores

        # Of the places of a blank sentence, only the first has a translation.
        blank_ids = tf.fill([batch, n_best, steps], PAD_ID)
        blank_scores = tf.tile(tf.constant([[0.0, *unfilled]])[:, :n_best], [batch, 1])
        return self._map_groups(sentences.lengths, search, (blank_ids, blank_scores))

    def _map_groups(self, lengths: tf.Tensor, compute: Callable, blank: object) -> Any:
        """Calls `map_groups` with the stored weights in place of the model's own.

        A group has at most the translator's `ids_per_batch` tokens, or is one longer sentence.
        """
        weights = self._translator.model.trainable_variables
        with with_values(zip(weights, self._weights.read(), strict=True)):
            return map_groups(lengths, self._translator.ids_per_batch, compute, blank)


def _check_aligns(translator: Translator) -> None:
    """Checks that a translator aligns words in a graph.

    Raises:
        UserError: the subwords are not SentencePiece's, whose boundaries of words are needed, or
            the translator has no aligner.
    """
    # Both are computed for their errors alone.
    translator.subwords.each(lambda side: side.sentencepiece())
    _ = translator.aligner


def _sentences(tokens: tf.RaggedTensor, is_blank: tf.Tensor, limit: int | tf.Tensor) -> _Sentences:
    """Returns tokens [batch, (length)] with EOS, cut off to at most `limit` ids with it.

    Where `is_blank`, [batch] bool, a sentence has no ids.
    """
    # Both lengths count EOS.
    all_lengths = tf.cast(tokens.row_lengths(), tf.int32) + 1
    lengths = tf.minimum(all_lengths, limit)
    kept = tokens[:, : limit - 1]
    # One column more has room for EOS. By padding: joining ragged rows transposes integers, which
    # oneDNN warns of on a server.
    padded = tf.pad(kept.to_tensor(PAD_ID), [[0, 0], [0, 1]], constant_values=PAD_ID)
    ids = tf.where(tf.range(tf.shape(padded)[1]) == lengths[:, None] - 1, EOS_ID, padded)
    return _Sentences(
        ids=tf.where(is_blank[:, None], PAD_ID, ids),
        lengths=tf.where(is_blank, 0, lengths),
        truncated=(all_lengths > limit) & ~is_blank,
    )


def _group(sentences: _Sentences, rows: tf.Tensor) -> tf.Tensor:
    """Returns the ids of the sentences `rows` [group], as wide as the longest: [group, length]."""
    width = tf.reduce_max(tf.gather(sentences.lengths, rows))
    return tf.gather(sentences.ids, rows)[:, :width]


def _outcome(sentences: _Sentences, ids: tf.Tensor, scores: tf.Tensor) -> Outputs:
    """Returns score, finished and truncated of the best, which is the first, of each sentence.

    `ids` are [batch, n_best, steps], and `scores` [batch, n_best].
    """
    finished = _are_finished(ids)[:, 0]
    return {"score": scores[:, 0], "finished": finished, "truncated": sentences.truncated}


def _are_finished(ids: tf.Tensor) -> tf.Tensor:
    """Returns whether translations are whole: ids [batch, n_best, steps] → [batch, n_best] bool.

    One that was cut off has no EOS. That of a blank text has PAD alone, and is whole.
    """
    return tf.reduce_any(ids == EOS_ID, axis=2) | tf.reduce_all(ids == PAD_ID, axis=2)


def _without_padding(ids: tf.Tensor) -> tf.Tensor:
    """Removes the columns at the end of ids [batch, length] that have only PAD."""
    is_used = tf.reduce_any(ids != PAD_ID, axis=0)
    # 0 columns if none is used.
    width = tf.reduce_max(tf.concat([[0], tf.where(is_used)[:, 0] + 1], axis=0))
    return ids[:, :width]


def map_groups(lengths: tf.Tensor, tokens_per_group: int, compute: Callable, blank: Any) -> Any:
    """Computes results for a batch's sentences, a group at a time.

    A long sentence then does not pad all others, and memory is bounded for requests of any size.
    The groups are those of `data.batch_shapes.group_by_length`.

    Args:
        lengths: [batch] int32; a sentence of length 0 is in no group.
        tokens_per_group: the most padded tokens of a group; a longer sentence is a group by itself.
        compute: (row numbers [group], the largest of their lengths) -> nested tensors [group, ...].
        blank: nested tensors [batch, ...], for sentences of length 0.

    Returns:
        `blank`, with the computed values of all other sentences.
    """
    order = tf.argsort(lengths, stable=True)
    ordered = tf.gather(lengths, order)

    def advance(first: tf.Tensor, results: Any) -> tuple:
        # The next n sentences are padded to the n-th, the longest of them. Lengths rise: where
        # n fit, fewer do, too.
        widths = ordered[first:]
        fits = (tf.range(tf.size(widths)) + 1) * widths <= tokens_per_group
        size = tf.maximum(tf.math.count_nonzero(fits, dtype=tf.int32), 1)
        rows = order[first : first + size]
        computed = compute(rows, widths[size - 1])
        # Each group's results replace the blank ones in its rows.
        return first + size, tf.nest.map_structure(
            lambda old, new: tf.tensor_scatter_nd_update(old, rows[:, None], new), results, computed
        )

    # Sentences of length 0 come first in this order, and are left out.
    begin = tf.math.count_nonzero(lengths == 0, dtype=tf.int32), blank
    return tf.while_loop(lambda first, _: first < tf.size(order), advance, begin)[1]


class StoredWeights(tf.Module):
    """A copy of a model's weights, stored once each.

    Vectors (layer norms, biases: a thousandth of all) are always float32. Matrices are float32, or
    rounded to bfloat16, as mixed precision does at every step, or int8: round(w / s) with a float32
    scale s = max |w| / 127 for every output of the matrix. TensorFlow has no int8 product on every
    CPU, so int8 matrices are multiplied out once a request: they save disk and memory, not time.

    Args:
        model: its trainable weights are copied.
        kind: "float32", "bfloat16" or "int8".
    """

    def __init__(self, model: Transformer, kind: str) -> None:
        super().__init__()
        self._variables = [_new_variables(weight, kind) for weight in model.trainable_variables]

    def read(self) -> list[tf.Tensor]:
        """Returns the weights in the model's order: float32, or bfloat16 if they are stored so."""
        return [_dequantized(parts) for parts in self._variables]


def _new_variables(weight: keras.Variable, kind: str) -> list[tf.Variable]:
    """Returns new variables that store a weight: its values; of a matrix in int8, also its scales.

    `kind` is as in `StoredWeights`, which stores vectors as float32.
    """
    value = tf.convert_to_tensor(weight)
    stored_kind = kind if value.shape.rank == 2 else "float32"
    if stored_kind == "int8":
        # A scale for every output: a table multiplies as x E^T, a kernel as x W.
        parts = list(quantized(value, axis=1 if weight.name == "table" else 0))
    else:
        parts = [tf.cast(value, stored_kind)]
    return [tf.Variable(part, trainable=False, name=weight.path) for part in parts]


def _dequantized(parts: list[tf.Variable]) -> tf.Tensor:
    """Returns the weight that `_new_variables` stored in these parts."""
    # Only int8 has scales.
    values, *scales = (tf.convert_to_tensor(part) for part in parts)
    return tf.cast(values, tf.float32) * scales[0] if scales else values


def quantized(matrix: tf.Tensor, axis: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Rounds a matrix to 8 bits, so that integers times scales are close to it.

    Args:
        matrix: [rows, columns] float32.
        axis: the axis along which a scale is shared: 0 for one scale a column, 1 for one a row.

    Returns:
        int8 [rows, columns], and float32 scales, [rows, 1] or [1, columns].
    """
    largest = tf.reduce_max(tf.abs(matrix), axis=axis, keepdims=True)
    # A row or column of zeros needs any scale but 0.
    scale = tf.where(largest > 0, largest / 127.0, 1.0)
    return tf.cast(tf.round(matrix / scale), tf.int8), scale

"""A translator as one graph: text in, text out, nothing of Python left."""

import functools
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

import keras
import tensorflow as tf

from t2t_repro.decoding.sampling import Sampling
from t2t_repro.decoding.search import UNFILLED_SCORE
from t2t_repro.decoding.translator import Translator
from t2t_repro.formats.saved_model.groups import in_groups
from t2t_repro.formats.saved_model.stored_weights import StoredWeights
from t2t_repro.model.kernels.weight_values import with_values
from t2t_repro.text.subword_model import SubwordPair
from t2t_repro.vocabulary import EOS_ID, PAD_ID

Outputs = dict[str, tf.Tensor]

_TEXTS = tf.TensorSpec([None], tf.string)
_SEEDS = tf.TensorSpec([None], tf.int64)


class _Sentences(NamedTuple):
    """Encoded sentences.

    Attributes:
        ids: [batch, length] int32, EOS last and PAD after it; PAD alone where there are none.
        lengths: [batch] int32, ids of each.
        truncated: [batch] bool, whether ids beyond the longest permitted were cut off.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    truncated: tf.Tensor


class _Given(NamedTuple):
    """What is given with sentences, [batch, ...]; see `decoding.search.Given`."""

    prefix: tf.Tensor | None = None
    seeds: tf.Tensor | None = None

    def of(self, rows: tf.Tensor) -> "_Given":
        """That of some of the sentences."""
        return _Given(*(None if of_all is None else tf.gather(of_all, rows) for of_all in self))


class Servable(tf.Module):
    """What a `Translator` does, as functions that a SavedModel can hold.

    They give the same texts and scores, whatever is translated together: every method takes a
    batch of any size, 0 too, of any texts. All inputs and outputs begin with `batch`.

    Args:
        translator: its model, subwords, search and limits are used; its number of workers is not.
        weights: how the model's weights are stored; see `StoredWeights`.
        more: which other signatures there are: "prefix" and "sample", each of which has a graph of
            the whole search of its own, and "alignment".

    Raises:
        UserError: subwords are Tensor2Tensor's, with "alignment".
        ValueError: `more` has a name that is none of these.
    """

    def __init__(self, translator: Translator, weights: str, more: Collection[str] = ()) -> None:
        super().__init__()
        if unknown := set(more) - {"prefix", "sample", "alignment"}:
            raise ValueError(f"more has {sorted(unknown)}, expected prefix, sample or alignment.")
        self._more = frozenset(more)
        # A Keras model as an attribute would be saved with all that belongs to it.
        self._translator = translator
        self._weights = StoredWeights(translator.model, weights)
        self._source_text, self._target_text = translator.subwords.each(
            lambda model: model.in_graph()
        )
        if "alignment" in more:
            # Word boundaries are SentencePiece's.
            translator.subwords.each(lambda model: model.sentencepiece())
        # One graph for all signatures. A tf.function itself as an attribute would be traced anew by
        # tf.saved_model.save, and written twice.
        search = functools.partial(self._search_sentences, translator)
        self._search = tf.function(search, autograph=False).__call__

    @property
    def subwords(self) -> SubwordPair:
        """The subword models of source and target."""
        return self._translator.subwords

    def signatures(self) -> dict[str, tf.types.experimental.GenericFunction]:
        """The functions that a server offers, by name."""
        return {
            "serving_default": self.translate,
            "nbest": self.translate_n_best,
            "token_ids": self.translate_ids,
            "score": self.score,
            **{name: function for name, function in self._others() if name in self._more},
        }

    def _others(self) -> Iterator[tuple[str, tf.types.experimental.GenericFunction]]:
        # Not decorated as methods: what is an attribute is saved in any case.
        for name, function, inputs in (
            ("prefix", self.translate_from_prefix, [_TEXTS, _TEXTS]),
            ("sample", self.sample, [_TEXTS, _SEEDS]),
            ("alignment", self.align, [_TEXTS, _TEXTS]),
        ):
            yield name, tf.function(function, inputs, autograph=False)

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def translate(self, source: tf.Tensor) -> Outputs:
        """Translates texts.

        Args:
            source: [batch] strings.

        Returns:
            translation: [batch] strings.
            score: [batch] float32, log-probability over length penalty, in nats.
            truncated: [batch] bool, whether only the beginning of the source was translated.
        """
        outputs = self._translated(source, 1)
        best = {name: outputs[name][:, 0] for name in ("translation", "score")}
        return {**outputs, **best}

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def translate_n_best(self, source: tf.Tensor) -> Outputs:
        """Finds several translations of each text, the best first.

        Args:
            source: [batch] strings.

        Returns:
            translation: [batch, beam] strings; where beam search found fewer, the last one again.
            score: [batch, beam] float32, of each.
            count: [batch] int32, how many it found: 1 for blank texts.
            truncated: [batch] bool, as in `translate`.
        """
        beam = self._translator.settings.search.beam_size
        outputs = self._translated(source, beam)
        count = tf.reduce_sum(tf.cast(outputs["score"] > UNFILLED_SCORE / 2, tf.int32), axis=1)
        found = tf.minimum(tf.range(beam), count[:, None] - 1)
        repeated = {
            name: tf.gather(outputs[name], found, batch_dims=1) for name in ("translation", "score")
        }
        return {**outputs, **repeated, "count": count}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def translate_ids(self, source_ids: tf.Tensor) -> Outputs:
        """Translates ids, for clients that encode and decode by themselves.

        Args:
            source_ids: [batch, source_length] int32; what follows the first EOS is not read, PAD
                is skipped, and ids outside the vocabulary count as UNK (in a vocabulary of T2T,
                which has none, they are skipped). A row may lack EOS, but not
                where a server joins requests of different lengths: what TensorFlow Serving fills
                rows up with is the request's first id.

        Returns:
            translation_ids: [batch, target_length] int32, EOS last, then PAD.
            score: [batch] float32, as in `translate`.
            truncated: [batch] bool, as in `translate`.
        """
        tokens = self._source_text.tokens(source_ids)
        is_empty = tokens.row_lengths() == 0
        sentences = _sentences(tokens, is_empty, self._translator.max_source_length)
        ids, scores = self._search(sentences, tf.constant(1))
        return {
            "translation_ids": _without_room(ids[:, 0]),
            "score": scores[:, 0],
            "truncated": sentences.truncated,
        }

    @tf.function(input_signature=[_TEXTS, _TEXTS], autograph=False)
    def score(self, source: tf.Tensor, target: tf.Tensor) -> Outputs:
        """Scores given translations under the model, without length penalty.

        Args:
            source: [batch] strings.
            target: [batch] strings, their translations.

        Returns:
            log_probability: [batch] float32, log P(target, EOS included | source), in nats.
            length: [batch] int32, ids of the target, EOS included.
            truncated: [batch] bool, whether only the beginning of either was read.
        """
        longest = self._translator.max_source_length
        source_ids, _ = self._source_text.encode(source)
        target_ids, _ = self._target_text.encode(target)
        never = tf.zeros_like(source, tf.bool)
        sources = _sentences(source_ids, never, longest)
        targets = _sentences(target_ids, never, self._translator.limits(longest))
        return {
            "log_probability": self._log_probabilities(sources, targets),
            "length": targets.lengths,
            "truncated": sources.truncated | targets.truncated,
        }

    def translate_from_prefix(self, source: tf.Tensor, prefix: tf.Tensor) -> Outputs:
        """Finds translations that begin as they are told: the signature "prefix".

        Args:
            source: [batch] strings.
            prefix: [batch] strings, "" where a translation may begin as it likes.

        Returns:
            translation: [batch] strings, with the prefix. That of a blank source is empty.
            score: [batch] float32, as in `translate`; the prefix counts.
            truncated: [batch] bool, whether only the beginning of source or prefix was used.
        """
        sentences = self._encoded(source)
        ids, is_blank = self._target_text.encode(prefix)
        lengths = tf.where(is_blank, 0, tf.cast(ids.row_lengths(), tf.int32))
        limits = self._translator.limits(sentences.lengths)
        longest = self._translator.limits(self._translator.max_source_length)
        ids = tf.where(is_blank[:, None], PAD_ID, ids[:, :longest].to_tensor(PAD_ID))
        found = self._search_sentences(self._translator, sentences, 1, _Given(prefix=ids))
        is_cut = (lengths > limits) & (sentences.lengths > 0)
        truncated = sentences.truncated | is_cut
        return {**self._best(sentences, *found), "truncated": truncated}

    def sample(self, source: tf.Tensor, seed: tf.Tensor) -> Outputs:
        """Draws a translation of each text, as gin binds `Sampling`: the signature "sample".

        Args:
            source: [batch] strings.
            seed: [batch] int64, of each; another one gives another translation.

        Returns:
            translation: [batch] strings, what a `Translator` draws first with that seed.
            score: [batch] float32, log P(translation | source), in nats.
            truncated: [batch] bool, as in `translate`.
        """
        translator = Translator(
            self._translator.models,
            self._translator.subwords,
            replace(self._translator.settings, search=Sampling(samples=1)),
        )
        sentences = self._encoded(source)
        found = self._search_sentences(translator, sentences, 1, _Given(seeds=seed))
        return self._best(sentences, *found)

    def align(self, source: tf.Tensor, target: tf.Tensor) -> Outputs:
        """Aligns the words of texts and of their translations: the signature "alignment".

        Args:
            source: [batch] strings.
            target: [batch] strings, their translations.

        Returns:
            alignment: [batch] strings, the links as `Translator.align` gives them.
            truncated: [batch] bool, whether only the beginning of either was aligned.
        """
        sources = self._encoded(source)
        ids, is_blank = self._target_text.encode(target)
        longest = self._translator.limits(self._translator.max_source_length)
        targets = _sentences(ids, is_blank, longest)

        def align(rows: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            ids = [_group(side, rows) for side in (sources, targets)]
            text_ops = (self._source_text, self._target_text)
            words = [
                text.word_numbers(tf.gather(lines, rows), of_side)
                for text, lines, of_side in zip(text_ops, (source, target), ids, strict=True)
            ]
            return self._translator.aligner.links(*ids, *words)

        is_pair = (sources.lengths > 0) & (targets.lengths > 0)
        lengths = tf.where(is_pair, tf.maximum(sources.lengths, targets.lengths), 0)
        with self._stored_weights():
            links = in_groups(
                lengths, self._translator.tokens_at_once, align, tf.fill(tf.shape(source), "")
            )
        return {"alignment": links, "truncated": sources.truncated | targets.truncated}

    def _encoded(self, texts: tf.Tensor) -> _Sentences:
        ids, is_blank = self._source_text.encode(texts)
        return _sentences(ids, is_blank, self._translator.max_source_length)

    def _best(self, sentences: _Sentences, ids: tf.Tensor, scores: tf.Tensor) -> Outputs:
        """The outputs of ids [batch, 1, steps] and scores [batch, 1]."""
        return {
            "translation": self._target_text.decode(ids[:, 0]),
            "score": scores[:, 0],
            "truncated": sentences.truncated,
        }

    def _translated(self, texts: tf.Tensor, n_best: int) -> Outputs:
        sentences = self._encoded(texts)
        ids, scores = self._search(sentences, tf.constant(n_best))
        batch, _, steps = tf.unstack(tf.shape(ids))
        found = self._target_text.decode(tf.reshape(ids, [batch * n_best, steps]))
        return {
            "translation": tf.reshape(found, [batch, n_best]),
            "score": tf.ensure_shape(scores, [None, n_best]),
            "truncated": sentences.truncated,
        }

    def _search_sentences(
        self,
        translator: Translator,
        sentences: _Sentences,
        n_best: int | tf.Tensor,
        given: _Given = _Given(),  # noqa: B008 (it is a tuple)
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Ids [batch, n_best, steps] and scores [batch, n_best]; "" with score 0 for the blank."""
        batch = tf.size(sentences.lengths)
        limits = translator.limits(sentences.lengths)
        steps = tf.reduce_max(tf.concat([[0], limits], axis=0))
        scores = tf.constant([0.0] + [UNFILLED_SCORE] * (translator.settings.search.beam_size - 1))

        def search(rows: tf.Tensor, length: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            group = tf.gather(sentences.ids, rows)[:, :length]
            found = translator.search_batch(group, n_best, *given.of(rows))
            room = steps - tf.shape(found.ids)[2]
            return tf.pad(found.ids, [[0, 0], [0, 0], [0, room]]), found.scores

        of_blank = (
            tf.fill([batch, n_best, steps], PAD_ID),
            tf.tile(scores[None, :n_best], [batch, 1]),
        )
        with self._stored_weights():
            return in_groups(sentences.lengths, translator.tokens_at_once, search, of_blank)

    def _log_probabilities(self, sources: _Sentences, targets: _Sentences) -> tf.Tensor:
        """Each log P(target | source), [batch]."""
        model = self._translator.model

        def score(rows: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            return model.log_probabilities(_group(sources, rows), _group(targets, rows))

        lengths = tf.maximum(sources.lengths, targets.lengths)
        with self._stored_weights():
            return in_groups(
                lengths,
                self._translator.tokens_at_once,
                score,
                tf.zeros_like(lengths, tf.float32),
            )

    def _stored_weights(self) -> keras.StatelessScope:
        weights = self._translator.model.trainable_variables
        return with_values(zip(weights, self._weights.read(), strict=True))


def _sentences(
    tokens: tf.RaggedTensor, is_blank: tf.Tensor, longest: int | tf.Tensor
) -> _Sentences:
    """Cuts off what is too long and adds EOS; a blank sentence has no ids at all."""
    kept = tokens[:, : longest - 1]
    lengths, all_lengths = (tf.cast(rows.row_lengths(), tf.int32) + 1 for rows in (kept, tokens))
    # Joining ragged rows transposes integers, at which oneDNN complains of a server's processor.
    ids = tf.pad(kept.to_tensor(PAD_ID), [[0, 0], [0, 1]], constant_values=PAD_ID)
    ids = tf.where(tf.range(tf.shape(ids)[1]) == lengths[:, None] - 1, EOS_ID, ids)
    return _Sentences(
        ids=tf.where(is_blank[:, None], PAD_ID, ids),
        lengths=tf.where(is_blank, 0, lengths),
        truncated=(all_lengths > longest) & ~is_blank,
    )


def _group(sentences: _Sentences, rows: tf.Tensor) -> tf.Tensor:
    """The ids of some sentences, as wide as the longest of them."""
    width = tf.reduce_max(tf.gather(sentences.lengths, rows))
    return tf.gather(sentences.ids, rows)[:, :width]


def _without_room(ids: tf.Tensor) -> tf.Tensor:
    """[batch, length] ids without the columns at the end that hold nothing but PAD."""
    is_used = tf.reduce_any(ids != PAD_ID, axis=0)
    return ids[:, : tf.reduce_max(tf.concat([[0], tf.where(is_used)[:, 0] + 1], axis=0))]

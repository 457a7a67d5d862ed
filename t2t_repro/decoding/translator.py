"""Text in, text out: subwords, batches of similar length, search (paper, section 6.1)."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, Protocol, runtime_checkable

import gin
import numpy as np
import tensorflow as tf
from absl import logging
from numpy.typing import NDArray

from t2t_repro.config.values import Range, texts, validated
from t2t_repro.decoding.alignment import Aligner, AlignerSettings
from t2t_repro.decoding.batch_plan import (
    BatchPlanner,
    Sentences,
    default_workers,
    for_each_batch,
    padded,
)
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.pair_scores import PairScore, PairScorer
from t2t_repro.decoding.random_numbers import keys_of
from t2t_repro.decoding.search import (
    UNFILLED_SCORE,
    Cache,
    DecodingConstraints,
    Grammar,
    GrammaticalModel,
    Search,
    SearchResult,
    StepModel,
    Translation,
)
from t2t_repro.errors import UserError
from t2t_repro.model.ensemble import Combine, Ensemble, mean_probability
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.subword_model import SubwordPair
from t2t_repro.text.tags import Tags
from t2t_repro.vocabulary import EOS_ID, PAD_ID


@runtime_checkable
class Reranker(Protocol):
    """Orders the hypotheses that a search has found; `MinimumBayesRisk` is one."""

    def rerank(self, hypotheses: Sequence[Translation]) -> list[Translation]:
        """Orders the hypotheses of a sentence (at least one): the best first, each text once."""
        ...


@gin.configurable("Translator")
@validated
@dataclass(frozen=True)
class TranslatorSettings:
    """The settings of a `Translator`.

    Attributes:
        search: finds the translations; the paper's beam search by default.
        max_extra_length: the most subwords of a translation beyond max_length_factor times the
            length of its source, EOS included (paper, section 6.1: 50).
        max_source_length: the most subwords of a source sentence, EOS included. The rest is cut
            off, with a warning.
        tokens_per_batch: the most source subwords times beam size that are decoded together. The
            batches of all workers also have to fit into half of the free memory, and into 16 GB.
        workers: batches decoded at the same time, fewer if they do not fit in memory; by default
            one a core, or one on a GPU.
        rerank: orders all hypotheses of the search; None keeps the search's order.
        forbid_pad: whether translations must not contain PAD, for models that were not trained to
            avoid it, such as Marian's; see `DecodingConstraints`.
        renormalize: whether a forbidden PAD's probability is given to the other ids, in scores too.
        aligner: of `Translator.align`.
        max_length_factor: see max_extra_length. The product is rounded up.
        forbidden_ids: further ids that translations must not contain, such as UNK. They keep their
            probability, also with `renormalize`.
        ensemble: makes one score of several models' log-probabilities.
        trained_length: the most subwords of a source in training, EOS included; a longer source is
            translated with a warning.
        grammar: makes, from the subwords, what says which ids may come next, such as
            `TreeGrammar`; None lets all come.

    Raises:
        UserError: a value is out of range, or not a search.
    """

    search: Search = field(default_factory=BeamSearch)
    max_extra_length: Annotated[int, Range(least=0, most=10_000)] = 50
    max_source_length: Annotated[int, Range(least=1, most=100_000)] = 1024
    tokens_per_batch: Annotated[int, Range(least=1, most=1_000_000)] = 8192
    workers: Annotated[int, Range(least=1, most=1024)] | None = None
    rerank: Reranker | None = None
    forbid_pad: bool = False
    renormalize: bool = False
    aligner: AlignerSettings = field(default_factory=AlignerSettings)
    max_length_factor: Annotated[float, Range(above=0, most=1000)] = 1.0
    forbidden_ids: tuple[Annotated[int, Range(least=0, most=2**31 - 1)], ...] = ()
    ensemble: Combine = mean_probability
    trained_length: Annotated[int, Range(least=1)] | None = None
    grammar: Callable[[SubwordPair], Grammar] | None = None


class Translator:
    """Translates, scores and aligns sentences; the results do not depend on the batch.

    Args:
        models: one Transformer, or several that translate together as an ensemble. The weights
            that they have at a call are used.
        subwords: the subword models of source and target.
        settings: as gin binds them by default.

    Attributes:
        max_source_length: as in the settings, but at most the model's learned positions.
        forbidden: the ids that translations must not contain.

    Raises:
        UserError: models of an ensemble differ in vocab_size.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        subwords: SubwordPair,
        settings: TranslatorSettings | None = None,
    ) -> None:
        self.subwords = subwords
        self.settings = settings or TranslatorSettings()
        without_pad = self.settings.forbid_pad and self.settings.renormalize
        self._ensemble = Ensemble(tuple(models), self.settings.ensemble, without_pad)
        pad = [PAD_ID] * self.settings.forbid_pad
        self.forbidden = tuple(sorted({*self.settings.forbidden_ids, *pad}))
        self._grammar = self.settings.grammar and self.settings.grammar(subwords)
        # Sinusoids have no last position.
        self._max_positions = self._ensemble.longest or 2**31 - 1
        self.max_source_length = min(self.settings.max_source_length, self._max_positions)
        self._beam_size = self.settings.search.beam_size
        self._workers = self.settings.workers or default_workers()
        self._planner = BatchPlanner(
            self.settings.tokens_per_batch, self._workers, self._beam_size, self._bytes_of
        )
        self._decode = tf.function(self.search_batch, autograph=False)
        self._faults: set[str] = set()

    @cached_property
    def tags(self) -> Tags:
        """The tags that the source's vocabulary has."""
        return Tags(self.subwords.source.pieces())

    @property
    def models(self) -> Sequence[Transformer]:
        """The Transformers that translate."""
        return self._ensemble.models

    @property
    def model(self) -> Transformer:
        """The only Transformer.

        Raises:
            UserError: there are several.
        """
        if len(self.models) > 1:
            raise UserError(
                f"the translator has an ensemble of {len(self.models)} models, expected one model: "
                "only translate and evaluate take several."
            )
        return self.models[0]

    def translate(
        self,
        lines: Iterable[str],
        n_best: int = 1,
        prefixes: Iterable[str] | None = None,
        *,
        first: int | None = 1,
    ) -> list[list[Translation]]:
        """Translates sentences.

        Args:
            lines: N source sentences, any text. A blank one has one translation: "", with score 0.
            n_best: the number of translations of each, at most beam_size.
            prefixes: N texts with which the translations have to begin, "" for any beginning. They
                count in the scores. Give whole words: the model continues the subwords that
                the text has by itself. The translation of a blank line stays empty.
            first: the number of the first line, for warnings about lines that are too long, or
                whose translations are cut off; None for no such warnings.

        Returns:
            N lists of translations, the best first, or as they were drawn; fewer than n_best where
            the search found fewer different ones.

        Raises:
            ValueError: n_best is not in 1 ... beam_size, or there are not N prefixes.
            UserError: the model's scores are not numbers, or a sentence does not fit in memory.
        """
        if not 1 <= n_best <= self._beam_size:
            raise ValueError(
                f"n_best is {n_best}, expected 1 ... beam_size={self._beam_size}: ask for fewer "
                "translations or bind a larger beam_size of the search (or Sampling.samples)."
            )
        sources = _without_blank(self._encode("source", lines, first)).ids
        prefix_ids = self._encode_prefixes(prefixes, sources, first).ids
        memory = self._planner.memory_for(max(map(len, sources), default=0))
        results = [[Translation("", 0.0)] for _ in sources]
        longest = self.settings.trained_length or self.max_source_length
        _warn(
            first,
            [index for index, ids in enumerate(sources) if len(ids) > longest],
            f"longer than the {longest} subwords of training, and may be translated in part; "
            "--split_sentences translates sentence by sentence",
        )
        rerank = self.settings.rerank
        searched = self._beam_size if rerank else n_best
        inputs = [sources, prefix_ids] if any(prefix_ids) else [sources]
        # One graph for batches of every shape.
        spec = tf.TensorSpec([None, None], tf.int32)
        decode = self._decode.get_concrete_function(spec, searched, *[spec] * (len(inputs) - 1))

        def translate_batch(batch: NDArray[np.int64]) -> None:
            ids = (padded([of_all[index] for index in batch]) for of_all in inputs)
            result = decode(*map(tf.constant, ids))
            for index, *hypotheses in zip(
                batch, result.ids.numpy(), result.scores.numpy(), strict=True
            ):
                translations = self._translations(*hypotheses)
                results[index] = (rerank.rerank(translations) if rerank else translations)[:n_best]

        batches = self._planner.batches(sources, memory)
        workers = self._planner.workers_for(batches, sources, memory)
        for_each_batch(translate_batch, batches, workers)
        unfinished = [index for index, found in enumerate(results) if not found[0].finished]
        _warn(first, unfinished, "the translation is cut off at the limit of its length")
        return results

    def truncated(self, lines: Iterable[str], prefixes: Iterable[str] | None = None) -> list[bool]:
        """Returns whether `translate` cuts off each line or its prefix."""
        sources = self._encode("source", lines)
        beginnings = self._encode_prefixes(prefixes, _without_blank(sources).ids, None)
        truncated = sources.truncated | beginnings.truncated
        return [index in truncated for index in range(len(sources.lines))]

    def score(
        self, sources: Iterable[str], targets: Iterable[str], *, first: int | None = 1
    ) -> list[PairScore]:
        """Scores given translations under the model: log P(target | source).

        Blank lines are scored like all others, as sentences of EOS alone. Sources are cut off at
        `max_source_length`, targets at the longest translation of such a source, with a warning.

        Args:
            sources: N sentences, any text.
            targets: N sentences, their translations.
            first: as in `translate`.

        Raises:
            ValueError: there are not as many sources as targets.
            UserError: the translator has several models.
        """
        return self._pair_scorer.score(*self._encode_pairs(sources, targets, first))

    @cached_property
    def _pair_scorer(self) -> PairScorer:
        return PairScorer(self.model, self.subwords.target, self.tokens_at_once, self._workers)

    @property
    def tokens_at_once(self) -> int:
        """The number of positions computed together, with all hypotheses of each sentence."""
        return max(self.settings.tokens_per_batch // self._beam_size, 1)

    def align(self, sources: Iterable[str], targets: Iterable[str]) -> list[str]:
        """Aligns the words of sentences with those of their translations; see `Aligner`.

        Args:
            sources: N sentences.
            targets: N translations, the model's own or any others.

        Returns:
            the links of each pair as in Pharaoh, "0-0 1-2": source word, target word, counted from
            0. Words are separated by white space. Blank sentences have no links, nor has text
            beyond the longest source and translation.

        Raises:
            ValueError: there are not as many sources as targets.
            UserError: the translator has several models.
        """
        one, other = map(_without_blank, self._encode_pairs(sources, targets, None))
        return self.aligner.align(one, other, self.tokens_at_once, self._workers)

    @cached_property
    def aligner(self) -> Aligner:
        """Aligns the words of a pair of sentences."""
        return Aligner(self.model, self.subwords, self.settings.aligner)

    def _encode_pairs(
        self, sources: Iterable[str], targets: Iterable[str], first: int | None
    ) -> tuple[Sentences, Sentences]:
        """Encodes both sides as `_encode` does, and checks that there are as many of both."""
        one, other = self._encode("source", sources, first), self._encode("target", targets, first)
        _check_same_number(one.lines, other.lines, "targets")
        return one, other

    def _encode(
        self, side: Literal["source", "target"], lines: Iterable[str], first: int | None = None
    ) -> Sentences:
        """Encodes lines, EOS last, and cuts off long ones.

        Args:
            side: whose subwords and limit are used.
            lines: any text.
            first: the number of the first line, for warnings; None for no warnings.
        """
        subwords, longest = getattr(self.subwords, side), self.max_source_length
        lines = texts(f"{side} texts", lines)
        if side == "target":
            longest = self.limit(longest)
        else:
            self._warn_of_tags(lines, first)
        # As in T2T: models are not trained on white space at the ends.
        encoded = subwords.encode([line.strip() for line in lines])
        truncated = {index for index, ids in enumerate(encoded) if len(ids) > longest}
        for index in truncated:
            del encoded[index][longest - 1 : -1]
        _warn(first, truncated, f"the {side} is long, only the first {longest} subwords are used")
        return Sentences(lines, encoded, truncated)

    def _warn_of_tags(self, lines: Sequence[str], first: int | None) -> None:
        """Logs each fault of a tag once, whatever the number of calls and lines."""
        for index, line in enumerate(lines):
            fault = self.tags.fault(line)
            if fault and fault not in self._faults and len(self._faults) < 10:
                self._faults.add(fault)
                where = "a text" if first is None else f"line {first + index}"
                logging.warning(f"{where}: {fault}")

    def _encode_prefixes(
        self,
        prefixes: Iterable[str] | None,
        sources: Sequence[Sequence[int]],
        first: int | None,
    ) -> Sentences:
        """Encodes the beginnings of translations, without EOS; none for blank sources."""
        prefixes = [""] * len(sources) if prefixes is None else texts("prefixes", prefixes)
        _check_same_number(sources, prefixes, "prefixes")
        encoded = self.subwords.target.encode([prefix.strip() for prefix in prefixes])
        truncated = set()
        for index, ids in enumerate(encoded):
            del ids[-1]
            length = len(sources[index])
            limit = self.limit(length) if length else 0
            if 0 < limit < len(ids):
                truncated.add(index)
            del ids[limit:]
        _warn(first, truncated, "the prefix is longer than a translation, and cut off")
        return Sentences(prefixes, encoded, truncated)

    def limit(self, length: int) -> int:
        """Returns the most ids of a translation, as `limits` does."""
        scaled = int(np.ceil(np.float32(length) * np.float32(self.settings.max_length_factor)))
        return min(scaled + self.settings.max_extra_length, self._max_positions)

    def _bytes_of(self, length: int) -> int:
        return self._ensemble.bytes_of_row(self._beam_size, length, self.limit(length))

    def limits(self, lengths: tf.Tensor) -> tf.Tensor:
        """Returns the most ids of each translation, from the ids of its source; [batch] int32."""
        # As Marian, in float32: 1.1 · 10 is 11, not a little more.
        scaled = tf.math.ceil(tf.cast(lengths, tf.float32) * self.settings.max_length_factor)
        longest = tf.cast(scaled, tf.int32) + self.settings.max_extra_length
        return tf.minimum(longest, self._max_positions)

    def search_batch(
        self,
        source: tf.Tensor,
        n_best: int | tf.Tensor,
        prefix: tf.Tensor | None = None,
        seeds: tf.Tensor | None = None,
    ) -> SearchResult:
        """Searches for translations, eagerly or in a graph.

        Args:
            source: [batch, source_length] int32 ids, at least one in every row, then PAD.
            n_best: the number of translations of each.
            prefix: see `DecodingConstraints`.
            seeds: see `DecodingConstraints`.
        """
        limits = self.limits(tf.math.count_nonzero(source != PAD_ID, axis=1, dtype=tf.int32))
        is_normalized = len(self.models) > 1
        model: StepModel = (decoder := self._ensemble.decoder(self._beam_size))
        cache: Cache = decoder.begin(source)
        if self._grammar:
            model = GrammaticalModel(decoder, self._grammar, is_normalized)
            cache = cache, self._grammar.begin(source, limits, self._beam_size)
            is_normalized = True
        constraints = DecodingConstraints(
            keys_of(source), prefix, seeds, self.forbidden, is_normalized
        )
        return self.settings.search.search(
            model, cache, limits, tf.reduce_max(limits), n_best, constraints
        )

    def _translations(
        self, ids: NDArray[np.int32], scores: NDArray[np.float32]
    ) -> list[Translation]:
        """Decodes the hypotheses of a sentence: ids [n_best, max_steps], scores [n_best].

        Raises:
            UserError: there is none, because no score is a number.
        """
        if not scores[0] > UNFILLED_SCORE / 2:
            raise UserError(
                "the model's scores are not numbers, so there is no translation: its weights are "
                "damaged or far too large; give another --checkpoint."
            )
        return [
            Translation(self.subwords.target.decode(of_one), float(score), EOS_ID in of_one)
            for of_one, score in zip(ids, scores, strict=True)
            if score > UNFILLED_SCORE / 2
        ]


def _without_blank(sentences: Sentences) -> Sentences:
    """Removes the ids of blank lines, which are EOS alone."""
    return sentences._replace(ids=[ids if len(ids) > 1 else [] for ids in sentences.ids])


def _warn(first: int | None, indices: Collection[int], message: str) -> None:
    """Logs the first numbers of the lines that a message is about, and how many more there are."""
    if first is not None and indices:
        numbers = ", ".join(str(first + index) for index in sorted(indices)[:5])
        more = f" and {len(indices) - 5} more" if len(indices) > 5 else ""
        logging.warning(f"line{'s' * (len(indices) > 1)} {numbers}{more}: {message}")


def _check_same_number(sources: Sequence, others: Sequence, name: str) -> None:
    if len(sources) != len(others):
        raise ValueError(
            f"there are {len(sources)} sources and {len(others)} {name}, expected one for each."
        )

"""Text in, text out: subwords, batches of similar length, beam search (paper, section 6.1)."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, NamedTuple, Protocol, runtime_checkable

import gin
import numpy as np
import tensorflow as tf
from absl import logging
from numpy.typing import NDArray

from t2t_repro.config.values import Range, validated
from t2t_repro.decoding.alignment import Aligner, Sentences
from t2t_repro.decoding.batch_plan import BatchPlanner
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.cores import for_each_batch, idle_workers
from t2t_repro.decoding.pair_scores import PairScore, PairScorer, cut_off, padded
from t2t_repro.decoding.random_numbers import keys_of
from t2t_repro.decoding.search import (
    UNFILLED_SCORE,
    DecodingConstraints,
    Search,
    SearchResult,
    WithoutPad,
)
from t2t_repro.errors import UserError
from t2t_repro.model.ensemble import Ensemble
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.subword_model import SubwordModel, SubwordPair
from t2t_repro.vocabulary import PAD_ID


class Translation(NamedTuple):
    """One translation.

    Attributes:
        text: the sentence.
        score: in nats; beam search's is log-probability divided by the length penalty. Where a
            `Choice` has been made, its own measure.
    """

    text: str
    score: float


@runtime_checkable
class Reranker(Protocol):
    """Chooses among the hypotheses that a search has found; `MinimumBayesRisk` is one."""

    def rerank(self, hypotheses: Sequence[Translation]) -> list[Translation]:
        """Orders the hypotheses of a sentence, one at least: the best first, each text once."""
        ...


@gin.configurable(denylist=["model", "subwords"])
@validated
class Translator:
    """Translates sentences with a model, the same whatever is translated with them.

    Args:
        model: a Transformer, or several as an `Ensemble`; the weights that they have at a call are
            used in it.
        subwords: the subword models of source and target.
        search: finds the translations; the paper's beam search by default.
        max_extra_length: a translation has at most so many subwords more than its source (paper,
            section 6.1: 50).
        max_source_length: subwords of a source sentence, EOS included; what is beyond is cut off,
            with a warning.
        tokens_per_batch: source subwords times beam size decoded together, at most. The batches of
            all workers together have to fit, at their longest, into half of the free memory, and
            into 16 GB.
        workers: batches decoded at the same time; by default one a core, or one on a GPU; fewer
            where sentences are so long that there is no memory for as many. (Two cores do two
            batches in less time than they do one batch twice: the more so where the process has
            called `one_core_a_batch`, as the command lines do.)
        rerank: chooses among all that the search has found; by default its own order stays.
        forbid_pad: whether PAD is kept out of translations, for models that were never trained not
            to write it, such as Marian's; see `decoding.search.Given`.
        renormalize: whether scores, too, give the probability of a forbidden PAD to the other ids.

    Raises:
        UserError: one of these is no such number, or no search; or one sentence would take more
            than 16 GB.
    """

    def __init__(
        self,
        model: Transformer | Ensemble,
        subwords: SubwordPair,
        search: Search | None = None,
        # A configuration may be a stranger's: this bounds what is ever computed for a sentence.
        max_extra_length: Annotated[int, Range(least=0, most=10_000)] = 50,
        max_source_length: Annotated[int, Range(least=1, most=100_000)] = 1024,
        tokens_per_batch: Annotated[int, Range(least=1, most=1_000_000)] = 8192,
        workers: Annotated[int, Range(least=1, most=1024)] | None = None,
        rerank: Reranker | None = None,
        forbid_pad: bool = False,
        renormalize: bool = False,
    ) -> None:
        self._ensemble = model if isinstance(model, Ensemble) else Ensemble([model])
        self.subwords = subwords
        self.search: Search = search or BeamSearch()
        self.rerank = rerank
        self.forbid_pad = forbid_pad
        self.renormalize = renormalize
        self.max_extra_length = max_extra_length
        # Learned positions end somewhere; sinusoids do not.
        self._max_positions = self._ensemble.longest or 2**31 - 1
        self.max_source_length = min(max_source_length, self._max_positions)
        self.tokens_per_batch = tokens_per_batch
        self.workers = workers or idle_workers()
        self._planner.check_settings(max_extra_length)
        self._decode = tf.function(self.search_batch, autograph=False)

    @property
    def models(self) -> Sequence[Transformer]:
        """The Transformers that translate; of an ensemble, several."""
        return self._ensemble.models

    @property
    def model(self) -> Transformer:
        """The Transformer that translates.

        Raises:
            UserError: there are several.
        """
        if len(self._ensemble.models) > 1:
            raise UserError(
                f"the translator has an ensemble of {len(self._ensemble.models)} models, expected "
                "one model: only translate and evaluate take several."
            )
        return self._ensemble.models[0]

    @staticmethod
    def load(
        model_dir: str | Path, *gin_params: str, ensemble: Sequence[str | Path] = ()
    ) -> "Translator":
        """Loads a trained model, with the configuration it was trained with.

        gin's bindings are then those of the training run, for the whole process.

        Args:
            model_dir: of the training run.
            gin_params: bindings on top of it, e.g. "BeamSearch.beam_size = 1".
            ensemble: model directories of others with the same subwords, to translate with it.

        Raises:
            UserError: something is missing or cannot be used.
        """
        # Above this room; nothing here needs it but this name, where a user looks for it.
        from t2t_repro.experiment import load_translator

        others = [(directory, None) for directory in ensemble]
        return load_translator(model_dir, gin_params, ensemble=others)

    def with_search(self, search: Search) -> "Translator":
        """A translator that differs in nothing but its search."""
        return Translator(
            self._ensemble,
            self.subwords,
            search,
            max_extra_length=self.max_extra_length,
            max_source_length=self.max_source_length,
            tokens_per_batch=self.tokens_per_batch,
            workers=self.workers,
            rerank=self.rerank,
            forbid_pad=self.forbid_pad,
            renormalize=self.renormalize,
        )

    def translate(
        self,
        lines: Sequence[str],
        n_best: int = 1,
        prefixes: Sequence[str] | None = None,
        *,
        first: int = 1,
    ) -> list[list[Translation]]:
        """Translates sentences.

        Args:
            lines: N source sentences, whatever they hold. A blank one has one translation, the
                empty one, with score 0.
            n_best: how many translations of each, at most beam_size.
            prefixes: N texts with which the translations have to begin, "" where they may begin
                as they like; None: all may. They count in the scores. Whole words are best:
                the model goes on from the subwords that the text has by itself. The translation
                of a blank line stays empty.
            first: the number of the first line, for warnings.

        Returns:
            N lists of translations, the best first, or as they were drawn; fewer than n_best where
            the search found fewer different ones.

        Raises:
            ValueError: if n_best is not in 1 ... beam_size, or there are not N prefixes.
            UserError: the model's scores are no numbers, or there is no memory for a sentence.
        """
        if prefixes is not None and len(prefixes) != len(lines):
            raise ValueError(
                f"prefixes are {len(prefixes)}, expected {len(lines)}, one for each line: give an "
                "empty text where a translation may begin as it likes."
            )
        if not 1 <= n_best <= self.search.beam_size:
            raise ValueError(
                f"n_best is {n_best}, expected 1 ... beam_size={self.search.beam_size}: "
                "ask for fewer translations or bind a larger BeamSearch.beam_size (or "
                "Sampling.samples)."
            )
        sources = self._encode(lines, first)
        beginnings = self._encode_prefixes(prefixes or (), sources, first)
        planner = self._planner
        memory = planner.memory_for(max(map(len, sources), default=0))
        results = [[Translation("", 0.0)] for _ in lines]
        searched = self.search.beam_size if self.rerank else n_best
        # One graph for batches of every shape.
        ids = tf.TensorSpec([None, None], tf.int32)
        # Where nothing is given, in no batch, nothing has to be looked for.
        given = [beginnings] if any(beginnings) else []
        decode = self._decode.get_concrete_function(ids, searched, *([ids] * len(given)))

        def translate_batch(batch: NDArray[np.int64]) -> None:
            of_batch = ([rows[number] for number in batch] for rows in (sources, *given))
            found = decode(*(tf.constant(padded(rows)) for rows in of_batch))
            for number, *hypotheses in zip(
                batch, found.ids.numpy(), found.scores.numpy(), strict=True
            ):
                texts = self._texts(*hypotheses)
                results[number] = (self.rerank.rerank(texts) if self.rerank else texts)[:n_best]

        batches = planner.batches(sources, memory)
        for_each_batch(translate_batch, batches, planner.workers_for(batches, sources, memory))
        return results

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, first: int = 1
    ) -> list[PairScore]:
        """Scores given translations under the model: log P(target | source).

        Blank lines are scored as all others are, as sentences without subwords before EOS. What
        of a source is beyond `max_source_length`, or of a target beyond what the longest source
        may have, is cut off, with a warning.

        Args:
            sources: N sentences, whatever they hold.
            targets: N sentences, their translations.
            first: the number of the first line, for warnings.

        Raises:
            ValueError: there are not as many of one as of the other.
            UserError: the translator has several models.
        """
        if len(sources) != len(targets):
            raise ValueError(
                f"there are {len(sources)} sources and {len(targets)} targets, expected a target "
                "for every source."
            )
        return self._pair_scorer.score(sources, targets, first)

    @cached_property
    def _pair_scorer(self) -> PairScorer:
        longest = {
            "source": self.max_source_length,
            "target": self._limit(self.max_source_length),
        }
        return PairScorer(self.model, self.subwords, longest, self.tokens_at_once, self.workers)

    @property
    def tokens_at_once(self) -> int:
        """How many positions of sentences are computed together, with all hypotheses of each."""
        return max(self.tokens_per_batch // self.search.beam_size, 1)

    def align(self, sources: Sequence[str], targets: Sequence[str]) -> list[str]:
        """Aligns the words of sentences with those of their translations; see `Aligner`.

        Args:
            sources: N sentences.
            targets: N translations, the model's own or any others.

        Returns:
            of each pair the links as in Pharaoh, "0-0 1-2": word of the source, word of the target,
            both counted from 0. Words are what white space separates. There are none where a
            sentence is blank, and behind the longest source and translation that `translate` knows.

        Raises:
            UserError: there are several models.
            ValueError: the two are not as many.
        """
        if len(sources) != len(targets):
            raise ValueError(
                f"there are {len(sources)} sources and {len(targets)} targets, expected as many of "
                "one as of the other."
            )
        longest = self.max_source_length
        return self.aligner.align(
            Sentences(sources, _beginnings(self.subwords.source, sources, longest)),
            Sentences(targets, _beginnings(self.subwords.target, targets, self._limit(longest))),
            self.tokens_at_once,
            self.workers,
        )

    @cached_property
    def aligner(self) -> Aligner:
        """What `align` uses."""
        return Aligner(self.model, self.subwords)

    def _encode(self, lines: Sequence[str], first: int = 1) -> list[list[int]]:
        """Encodes all lines; a blank line has no ids at all."""
        # As T2T does: its subwords keep white space at the ends, and no model was trained on that.
        lines = [line.strip() for line in lines]
        sources = self.subwords.source.encode(lines)
        for number, (line, ids) in enumerate(zip(lines, sources, strict=True), first):
            length = len(ids)
            if cut_off(ids, self.max_source_length):
                logging.warning(
                    "line %d has %d subwords, only the first %d are translated",
                    *(number, length, self.max_source_length),
                )
            if len(ids) == 1 or not line:
                ids.clear()
        return sources

    def _encode_prefixes(
        self, prefixes: Sequence[str], sources: Sequence[Sequence[int]], first: int
    ) -> list[list[int]]:
        """Encodes the beginnings of the translations of some sources, which all go on."""
        prefixes = [prefix.strip() for prefix in prefixes]
        encoded = self.subwords.target.encode(prefixes)
        for number, ids in enumerate(encoded):
            del ids[-1]
            length = len(sources[number])
            limit = self._limit(length) if length and prefixes[number] else 0
            if 0 < limit < len(ids):
                logging.warning(
                    "the beginning given for line %d has %d subwords, only the first %d are used",
                    first + number,
                    len(ids),
                    limit,
                )
            del ids[limit:]
        return encoded

    def _limit(self, length: int) -> int:
        """The most ids of a translation, as `limits` has it."""
        return min(length + self.max_extra_length, self._max_positions)

    @property
    def _planner(self) -> BatchPlanner:
        return BatchPlanner(
            self.tokens_per_batch, self.workers, self.search.beam_size, self._bytes_of
        )

    def _bytes_of(self, length: int) -> int:
        return self._ensemble.bytes_of_row(self.search.beam_size, length, self._limit(length))

    def limits(self, lengths: tf.Tensor) -> tf.Tensor:
        """The most ids of a translation, from the ids of its source, [batch] int32 both."""
        return tf.minimum(lengths + self.max_extra_length, self._max_positions)

    def search_batch(
        self,
        source: tf.Tensor,
        n_best: int | tf.Tensor,
        prefix: tf.Tensor | None = None,
        seeds: tf.Tensor | None = None,
    ) -> SearchResult:
        """Searches for translations of ids [batch, source_length], one at least in every row.

        Args:
            source: the ids, PAD after them.
            n_best: how many translations of each.
            prefix: see `Given`.
            seeds: see `Given`.
        """
        limits = self.limits(tf.math.count_nonzero(source != PAD_ID, axis=1, dtype=tf.int32))
        max_steps = tf.reduce_max(limits)
        decoder = self._ensemble.decoder(self.search.beam_size)
        begun = decoder.begin(source)
        scored = WithoutPad(decoder) if self.forbid_pad and self.renormalize else decoder
        given = DecodingConstraints(keys_of(source), prefix, seeds, self.forbid_pad)
        return self.search.search(scored, begun, limits, max_steps, n_best, given)

    def _texts(self, ids: NDArray[np.int32], scores: NDArray[np.float32]) -> list[Translation]:
        """The hypotheses of a sentence: ids [n_best, max_steps], scores [n_best].

        Raises:
            UserError: there is none, since no score is a number.
        """
        if not scores[0] > UNFILLED_SCORE / 2:
            raise UserError(
                "the model's scores are no numbers, so that it has no translation: its weights are "
                "damaged or far too large; give another --checkpoint."
            )
        return [
            Translation(self.subwords.target.decode(of_one), float(score))
            for of_one, score in zip(ids, scores, strict=True)
            if score > UNFILLED_SCORE / 2
        ]


def _beginnings(subwords: SubwordModel, lines: Sequence[str], longest: int) -> list[list[int]]:
    """The ids of lines, EOS last, so many at most; none of blank ones."""
    encoded = subwords.encode([line.strip() for line in lines])
    for ids in encoded:
        cut_off(ids, longest)
    return [ids if len(ids) > 1 else [] for ids in encoded]

"""Text in, text out: subwords, batches of similar length, search (paper, section 6.1)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.config.values import texts
from t2t_repro.decoding import batch_plan, search
from t2t_repro.decoding.alignment import Aligner
from t2t_repro.decoding.batch_plan import BatchPlanner, EncodedPairs, EncodedSentences
from t2t_repro.decoding.grammar import GrammaticalModel
from t2t_repro.decoding.search import SearchResult, SoftGrammar, StepModel, log_numbered_lines
from t2t_repro.decoding.settings import BeamSearch, TranslatorSettings
from t2t_repro.decoding.shortlist import LexicalShortlist, ShortlistFile, narrowed, places_among
from t2t_repro.errors import UserError
from t2t_repro.model.ensemble import Ensemble
from t2t_repro.model.transformer import Transformer
from t2t_repro.progress import Report
from t2t_repro.text.subword_model import SubwordPair
from t2t_repro.text.tags import Tags
from t2t_repro.vocabulary import PAD_ID, UNK_ID

Texts = Iterable[str]

_Decode = Callable[..., SearchResult]


class PairScore(NamedTuple):
    """The score of a given translation, by teacher forcing.

    Attributes:
        log_probability: log P(target, EOS included | source), in nats, without length penalty.
        subwords: the names of the target's subwords, EOS last; see `SentencePieceModel.labels`.
        log_probabilities: of each subword, given the source and the previous subwords.
        truncated: whether source or target was cut off.
    """

    log_probability: float
    subwords: list[str]
    log_probabilities: list[float]
    truncated: bool


class Translator:
    """Translates, scores and aligns sentences.

    The results do not depend on the batch.

    Args:
        models: one Transformer, or several that translate together as an ensemble. The weights
            that they have at a call are used.
        subwords: the subword models of source and target.
        settings: by default those that gin binds.
        shortlist: the target ids of each source word; without it all ids are scored.

    Attributes:
        models: the Transformers that translate.
        beam_size: the search's beam size, the most translations of a line.
        max_source_length: as in the settings, but at most the model's learned positions.
        forbidden: the ids that translations must not contain.
        shortlist_file: the argument `shortlist`.
        codes: the number of ids of a source that become the first of its target: the code of the
            target language, not text.
        aligns: whether `align` works: it takes a single, bilingual model.

    Raises:
        UserError: the grammar of the settings cannot be made of these subwords.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        subwords: SubwordPair,
        settings: TranslatorSettings | None = None,
        shortlist: ShortlistFile | None = None,
    ) -> None:
        self.subwords, self.shortlist_file = subwords, shortlist
        self.settings = settings or TranslatorSettings()
        imported = self.settings.imported
        without_pad = imported.forbid_pad and imported.renormalize
        self.models = tuple(models)
        self._ensemble = Ensemble(self.models, self.settings.ensemble, without_pad)
        forbidden_pad = [PAD_ID] if imported.forbid_pad else []
        self.forbidden = tuple(sorted({*imported.forbidden_ids, *forbidden_pad}))
        self.codes = 1 if subwords.languages else 0
        self.aligns = len(self.models) == 1 and not self.codes
        self._grammar = self.settings.grammar(subwords) if self.settings.grammar else None
        self._soft_grammar = self._grammar if isinstance(self._grammar, SoftGrammar) else None
        lists, size = self.used_shortlist, self.models[0].vocab_size
        self._shortlist = LexicalShortlist(lists, size, self.forbidden) if lists else None
        # Only learned positions have a last one; without them no int32 length reaches the limit.
        self._max_positions = (self._ensemble.longest or 2**31 - 1) - self.codes
        self.max_source_length = min(self.settings.max_source_length, self._max_positions)
        self.beam_size = self.settings.search.beam_size
        self._workers = self.settings.workers or batch_plan.default_workers()
        tokens = self.settings.tokens_per_batch
        self._planner = BatchPlanner(tokens, self._workers, self.beam_size, self._bytes_of)
        self._decode = tf.function(self.search_batch, autograph=False)
        self._compiled: set[_Decode] = set()  # Graphs that were called.
        pair = [tf.TensorSpec([None, None], tf.int32)] * 2
        self._log_probabilities = tf.function(self.token_log_probabilities, pair, autograph=False)

    def with_settings(self, settings: TranslatorSettings) -> "Translator":
        """Returns a translator with the same models and other settings."""
        return Translator(self.models, self.subwords, settings, self.shortlist_file)

    @property
    def used_shortlist(self) -> ShortlistFile | None:
        """The lexical shortlist; None if there is none, or the settings do not use it."""
        return self.shortlist_file if self.settings.shortlist else None

    @cached_property
    def tags(self) -> Tags:
        """The tags of the source's vocabulary."""
        return Tags(self.subwords.source.pieces(), self.subwords.languages)

    @property
    def trained_length(self) -> int:
        """The most subwords of a source that it translates well, EOS included.

        That is the longest in training, as far as it is known, and at most `max_source_length`.
        """
        return min(self.settings.trained_length or self.max_source_length, self.max_source_length)

    @property
    def model(self) -> Transformer:
        """The only Transformer.

        Raises:
            UserError: the translator has several models.
        """
        if len(self.models) > 1:
            problem = f"the translator has an ensemble of {len(self.models)} models"
            raise UserError(f"{problem}, expected one: only translate and evaluate take several.")
        return self.models[0]

    def translate(
        self,
        lines: Texts,
        n_best: int = 1,
        prefixes: Texts | None = None,
        *,
        first: int | None = 1,
        report: Report = None,
    ) -> list[list[search.Translation]]:
        """Translates sentences.

        Args:
            lines: N source sentences, any text. A blank one has one translation: "", with score 0.
            n_best: the most translations of each, at most beam_size.
            prefixes: N texts with which the translations have to begin, "" for any beginning. They
                count in the scores. Give whole words: the model continues the subwords that
                the text has by itself. The translation of a blank line stays empty.
            first: the number of the first line, for warnings about lines that are too long, or
                whose translations are cut off; None for no such warnings.
            report: called after each batch with the share of sentences that are done.

        Returns:
            N lists of translations: the best first, or samples in the order drawn. A list has
            fewer than n_best if the search found fewer different ones.

        Raises:
            ValueError: there are not N prefixes.
            UserError: n_best is not in 1 ... beam_size, the model's scores are not numbers, or a
                sentence does not fit in memory.
        """
        if not 1 <= n_best <= self.beam_size:
            problem = f"n_best is {n_best}, expected 1 ... beam_size={self.beam_size}"
            raise UserError(f"{problem}: ask for fewer or bind beam_size (Sampling.samples).")
        sources = self._encode("source", lines, first).with_blanks_emptied()
        beginnings = self._encode_prefixes(prefixes, sources.ids, first)
        sources = sources._replace(truncated=sources.truncated | beginnings.truncated)
        search.log_untrained(sources.ids, self.trained_length, first)
        has_prefix = any(beginnings.ids)
        sides = [sources, beginnings] if has_prefix else [sources]
        decode = self._decode_graph(self.beam_size if self.settings.rerank else n_best, has_prefix)
        batches, workers = self._planner.plan(list(map(len, sources.ids)))
        if min(len(batches), workers) > 1 and decode not in self._compiled:
            # The first call compiles the graph. Made here, with one sentence, no threads repeat it.
            decode(*[tf.constant(side.padded(batches[0][:1])) for side in sides])
        self._compiled.add(decode)
        blank = [[search.Translation("", 0.0)] for _ in sources.ids]
        translate_batch = partial(self._translate_batch, decode, sides, n_best)
        results = batch_plan.compute_batches(translate_batch, batches, workers, blank, report)
        if first is not None:
            search.log_unfinished([best for best, *_ in results], first)
        return results

    def _translate_batch(
        self, decode: _Decode, sides: Sequence[EncodedSentences], n_best: int, batch: NDArray
    ) -> Iterator[list[search.Translation]]:
        """Yields the translations of each sentence of a batch, from their indices."""
        # The sources, and the prefixes if there are any.
        truncated = sides[0].truncated
        found = decode(*[tf.constant(side.padded(batch)) for side in sides])
        for index, ids, scores in zip(batch, found.ids.numpy(), found.scores.numpy(), strict=True):
            best = search.decoded(ids[:, self.codes :], scores, self.subwords.target.decode)
            if self.settings.rerank:
                best = self.settings.rerank.rerank(best)
            yield [one._replace(truncated=index in truncated) for one in best[:n_best]]

    def _decode_graph(self, n_best: int, has_prefix: bool) -> _Decode:
        """Returns the graph of `search_batch` for an n_best; it takes batches of any shape."""
        ids = tf.TensorSpec([None, None], tf.int32)
        return self._decode.get_concrete_function(ids, n_best, *([ids] if has_prefix else []))

    def score(
        self, sources: Texts, targets: Texts, *, first: int | None = 1, report: Report = None
    ) -> list[PairScore]:
        """Scores given translations: log P(target | source) under the model.

        Blank lines are scored like all others, as sentences of EOS alone. Sources are cut off at
        `max_source_length`, targets at the longest translation of such a source, with a warning.

        Args:
            sources: N sentences, any text.
            targets: N sentences, their translations.
            first: as in `translate`.
            report: as in `translate`.

        Returns:
            N scores.

        Raises:
            ValueError: the numbers of sources and targets differ.
            UserError: the translator has several models.
        """
        pairs = self._encode_pairs(sources, targets, first)
        # Each text has at least EOS, so no pair gets the score for those without ids.
        return pairs.compute(partial(self._score_batch, pairs), PairScore(0, [], [], False), report)

    def _score_batch(self, pairs: EncodedPairs, batch: NDArray) -> Iterator[PairScore]:
        """Yields the score of each pair of a batch, from their indices."""
        rows = self._log_probabilities(pairs.sources.padded(batch), pairs.targets.padded(batch))
        for index, row in zip(batch, rows.numpy(), strict=True):
            target = pairs.targets.ids[index]
            is_cut = index in pairs.sources.truncated or index in pairs.targets.truncated
            log_p = row[: len(target)]
            labels = self.subwords.target.labels(target)
            yield PairScore(float(log_p.sum()), labels, log_p.tolist(), is_cut)

    def token_log_probabilities(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Computes log P [batch, target_length] of each target id, given those before; 0 for PAD.

        Args:
            source: [batch, source_length] int32 ids, with `codes`.
            target: [batch, target_length] int32 ids, without them.
        """
        # The decoder begins with the code of the target language, which is given and not scored.
        if self.codes:
            target = tf.concat([source[:, : self.codes], target], axis=1)
        source = source[:, self.codes :]
        return self.model.token_log_probabilities(source, target)[:, self.codes :]

    @property
    def ids_per_batch(self) -> int:
        """The most padded ids in a batch of sources, so that a search fits; of pairs likewise."""
        return max(self.settings.tokens_per_batch // self.beam_size, 1)

    def align(self, sources: Texts, targets: Texts) -> list[str]:
        """Aligns the words of sentences with those of their translations (see `Aligner`).

        Args:
            sources: N sentences.
            targets: N translations, the model's own or any others.

        Returns:
            the links of each pair as in Pharaoh, "0-0 1-2": source word, target word, counted from
            0. Words are separated by white space. Blank sentences have no links, nor has text that
            is cut off.

        Raises:
            ValueError: the numbers of sources and targets differ.
            UserError: the translator has several models, or one that does not align words.
        """
        pairs = self._encode_pairs(sources, targets, None)
        source, target = pairs.sources.with_blanks_emptied(), pairs.targets.with_blanks_emptied()
        return self.aligner.align(pairs._replace(sources=source, targets=target))

    @cached_property
    def aligner(self) -> Aligner:
        """The aligner of the only model.

        Raises:
            UserError: the model does not align words, or there are several.
        """
        if self.codes:
            raise UserError("M2M-100 and NLLB do not align words: use a bilingual model.")
        return Aligner(self.model, self.subwords, self.settings.aligner)

    def _encode_pairs(self, sources: Texts, targets: Texts, first: int | None) -> EncodedPairs:
        """Encodes sources and targets (see `_encode`)."""
        source = self._encode("source", sources, first)
        target = self._encode("target", targets, first)
        return EncodedPairs(source, target, self.ids_per_batch, self._workers)

    def _encode(
        self, side: Literal["source", "target"], lines: Texts, first: int | None
    ) -> EncodedSentences:
        """Encodes lines, with EOS, and cuts off long ones.

        Args:
            side: chooses the subword model and the limit of length.
            lines: any text.
            first: the number of the first line, for warnings. None: they have no numbers, and only
                faults of tags are logged.
        """
        lines = texts(f"{side} texts", lines)
        longest = self.max_source_length
        if side == "target":
            longest = self.max_target_length(longest)
        else:
            self.tags.warn(lines, first)
        # As in T2T: models are not trained on white space at the ends.
        encoded = getattr(self.subwords, side).encode([line.strip() for line in lines])
        sentences = EncodedSentences.cut(lines, encoded, longest)
        message = f"the {side} is long, only the first {longest} subwords are used"
        log_numbered_lines(first, sentences.truncated, message)
        return sentences

    def _encode_prefixes(
        self, prefixes: Texts | None, sources: Sequence[Sequence[int]], first: int | None
    ) -> EncodedSentences:
        """Encodes the beginnings of translations, without EOS; those of blank sources are empty.

        Args:
            prefixes: N texts; None for empty ones.
            sources: the ids of N sources; those of a blank one are [].
            first: see `_encode`.
        """
        lines = [""] * len(sources) if prefixes is None else texts("prefixes", prefixes)
        encoded = self.subwords.target.encode([line.strip() for line in lines])
        lengths = [len(ids) for ids in sources]
        limits = self.max_target_lengths(tf.constant(lengths, tf.int32)).numpy() - self.codes
        truncated = set()
        for index, (ids, length, limit) in enumerate(zip(encoded, lengths, limits, strict=True)):
            del ids[-1]  # EOS.
            if length > 0 and limit < len(ids):
                truncated.add(index)
            # A blank source has an empty translation, whatever its limit.
            del ids[limit if length > 0 else 0 :]
        log_numbered_lines(first, truncated, "the prefix is longer than a translation, and cut off")
        return EncodedSentences(lines, encoded, truncated)

    def max_target_length(self, length: int) -> int:
        """Returns the most ids of a translation, from the number of ids of its source."""
        return int(self.max_target_lengths(tf.constant(length)))

    def _bytes_of(self, length: int) -> int:
        """Returns the most bytes that decoding takes for a source of `length` ids."""
        return self._ensemble.bytes_of_row(self.beam_size, length, self.max_target_length(length))

    def max_target_lengths(self, lengths: tf.Tensor) -> tf.Tensor:
        """Returns the most ids of each translation, from lengths of sources, both [batch] int32."""
        # In float32, as Marian: there 1.1 · 10 is exactly 11, so `ceil` does not give 12.
        factor = self.settings.imported.max_length_factor
        scaled = tf.math.ceil(tf.cast(lengths, tf.float32) * factor)
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
            n_best: the number of hypotheses of each.
            prefix: [batch, prefix_length] int32 (see `DecodingConstraints`).
            seeds: [batch] int64 (see `DecodingConstraints`).

        Returns:
            the hypotheses; their ids begin with the codes.
        """
        limits = self.max_target_lengths(tf.math.count_nonzero(source != PAD_ID, 1, dtype=tf.int32))
        text = source  # Without the codes.
        if self.codes:
            code, text = tf.split(source, [self.codes, -1], axis=1)
            prefix = code if prefix is None else tf.concat([code, prefix], axis=1)
        state = self._grammar.begin(text, limits, self.beam_size) if self._grammar else None
        allowed = self._allowed(text, prefix, state)
        ids: tf.Tensor | None = None  # The ids that are scored; None for all.
        # In this search an id is its index in `ids`; others, such as your own, see all ids.
        if allowed is not None and isinstance(self.settings.search, BeamSearch):
            ids, allowed = narrowed(allowed)
            prefix = None if prefix is None else places_among(ids, prefix)
            # With a shortlist, a grammar is a soft one (see `_allowed`).
            state = self._soft_grammar.among(state, ids) if self._soft_grammar else None
        decoder = self._ensemble.decoder(self.beam_size, ids)
        begun = decoder.begin(text) if allowed is None else decoder.begin(text, allowed)
        # A model alone returns logits, an ensemble log-probabilities, and so does a grammar.
        is_ensemble = len(self.models) > 1
        model: StepModel = decoder
        if self._grammar:
            model = GrammaticalModel(decoder, self._grammar, is_ensemble, self.codes)
        cache = (begun, state) if self._grammar else begun
        gain = self._soft_grammar.gain(state) if self._soft_grammar else 0.0
        # With narrowed ids, only PAD, EOS and UNK keep their numbers. The shortlist has left out
        # the other forbidden ids.
        forbidden = tuple(token for token in self.forbidden if ids is None or token <= UNK_ID)
        constraints = search.DecodingConstraints(
            source, prefix, seeds, forbidden, is_ensemble or bool(self._grammar), self.codes, gain
        )
        run = self.settings.search.search
        result = run(model, cache, limits, tf.reduce_max(limits), n_best, constraints)
        return result if ids is None else result._replace(ids=tf.gather(ids, result.ids))

    def _allowed(self, text: tf.Tensor, prefix: tf.Tensor | None, state: Any) -> tf.Tensor | None:
        """Returns the ids of each sentence by the shortlist, [batch, vocab] bool; None for all."""
        # A grammar of hard rules may need any id.
        if not self._shortlist or (self._grammar and not self._soft_grammar):
            return None
        needed = [] if prefix is None else [prefix]
        needed += [self._soft_grammar.wanted(state)] if self._soft_grammar else []
        return self._shortlist.allowed(text, *needed)

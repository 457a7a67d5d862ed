"""The settings of decoding, as gin binds them; this module does not import TensorFlow.

The searches themselves are computed in `beam_search.py` and `sampling.py`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from t2t_repro.config.values import REQUIRED, Count, Positive, Range, Seed, configurable
from t2t_repro.decoding import search as protocols
from t2t_repro.decoding.minimum_bayes_risk import MinimumBayesRisk, sentence_bleu, sentence_chrf

if TYPE_CHECKING:
    import tensorflow as tf

    from t2t_repro.text.subword_model import SubwordPair


@configurable(denylist=["length", "alpha"])
def wu_penalty(length: "tf.Tensor", alpha: float) -> "tf.Tensor":
    """Computes lp(length) = ((5 + length) / 6)^alpha.

    It is equation 14 of Wu et al. (2016). The paper has alpha = 0.6 (section 6.1).

    Args:
        length: number of ids in a hypothesis, EOS included; any shape, any integer dtype.
        alpha: strength; 0 means no penalty.

    Returns:
        float32, the shape of `length`.
    """
    import tensorflow as tf

    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


@configurable(denylist=["length", "alpha"])
def power_penalty(length: "tf.Tensor", alpha: float) -> "tf.Tensor":
    """Computes lp(length) = length^alpha, as fairseq and Marian do.

    With alpha = 1 a score is the mean log-probability of the ids. With the same alpha it favours
    long translations more than `wu_penalty` does.

    Args:
        length: number of ids in a hypothesis, EOS included; any shape, any integer dtype.
        alpha: strength; 0 means no penalty.

    Returns:
        float32, the shape of `length`. Length 0 counts as 1.
    """
    import tensorflow as tf

    return tf.pow(tf.maximum(tf.cast(length, tf.float32), 1.0), alpha)


@configurable()
@dataclass(frozen=True)
class BeamSearch:
    """Finds ids y with a high score (paper, section 6.1).

    The score is log P(y) / lp(|y|). Beam size 1 is greedy decoding. `beam_search.BeamSteps` has the
    formulas.

    Attributes:
        beam_size: number of alive, and of finished, hypotheses of a sentence; 4 in the paper.
        length_penalty: alpha in `penalty`; 0.6 in the paper, 0 ranks by plain log-probability.
        penalty: lp(length, alpha); the paper's is `wu_penalty`.
    """

    beam_size: Annotated[int, Range(least=1, most=1024)] = 4
    length_penalty: Annotated[float, Range(least=0, most=100)] = 0.6
    penalty: protocols.LengthPenalty = wu_penalty

    def search(self, *inputs: Any, **more: Any) -> protocols.SearchResult:
        """Decodes a batch; takes the arguments of `Search.search` (see `BeamSteps`)."""
        from t2t_repro.decoding.beam_search import BeamSteps

        return BeamSteps(self, *inputs, **more).run()


@configurable()
@dataclass(frozen=True)
class MarianSearch(BeamSearch):
    """Finds ids with a high score, as Marian does.

    The score is (log P(y) - word_penalty·n) / n^length_penalty, n = |y|. It is Marian's own search,
    for models that Marian trained. `beam_search.MarianSteps` has the formulas.

    Attributes:
        beam_size: hypotheses of a sentence, alive and finished.
        length_penalty: alpha in `penalty`; Marian's `normalize`.
        penalty: lp(length, alpha); Marian's is `power_penalty`.
        word_penalty: nats for each id; Marian's `word-penalty`.
    """

    length_penalty: Annotated[float, Range(least=0, most=100)] = 0.0
    penalty: protocols.LengthPenalty = power_penalty
    word_penalty: Annotated[float, Range(least=-100, most=100)] = 0.0

    def search(self, *inputs: Any, **more: Any) -> protocols.SearchResult:
        """Decodes a batch; takes the arguments of `Search.search` (see `MarianSteps`)."""
        from t2t_repro.decoding.beam_search import MarianSteps

        return MarianSteps(self, *inputs, **more).run()


@configurable()
@dataclass(frozen=True)
class Sampling:
    """Draws independent translations y of a sentence x from P(y | x).

    A sample is a function of the seed, the ids of x and the number of the sample. So it is the
    same in every batch, up to rounding of the model's probabilities.

    The score of a sample is log P(y | x) of the model itself, in nats, for any temperature, top_k
    and nucleus, so that scores can be compared. Samples come in the order in which they were
    drawn: the first n of many are the same as n samples. `sampling.py` has the formulas.

    Attributes:
        samples: translations drawn of each sentence.
        temperature: divides the logits. Below 1 probable ids become more probable; near 0 sampling
            is greedy decoding.
        top_k: number of most probable ids to draw from; None: all.
        nucleus: draws from the smallest set of most probable ids that has at least this
            probability (after temperature and top_k); None: from all.
        seed: seed of the random numbers.
    """

    samples: Annotated[int, Range(least=1, most=1024)] = 1
    temperature: Annotated[float, Range(least=0.001, most=1000)] = 1.0
    top_k: Count | None = None
    nucleus: Annotated[float, Range(above=0, most=1)] | None = None
    seed: Seed = 1

    @property
    def beam_size(self) -> int:
        """The number of translations of a sentence drawn side by side."""
        return self.samples

    def search(self, *inputs: Any, **more: Any) -> protocols.SearchResult:
        """Decodes a batch; takes the arguments of `Search.search` (see `SamplingSteps`)."""
        from t2t_repro.decoding.sampling import SamplingSteps

        return SamplingSteps(self, *inputs, **more).run()


@configurable(denylist=["log_probs"])
def mean_probability(log_probs: "tf.Tensor") -> "tf.Tensor":
    """Computes the log of mean p, [batch, beam, vocab], from log p [models, batch, beam, vocab]."""
    import tensorflow as tf

    return tf.reduce_logsumexp(log_probs, axis=0) - math.log(log_probs.shape[0])


@configurable(denylist=["log_probs"])
def sum_log_probabilities(log_probs: "tf.Tensor") -> "tf.Tensor":
    """Computes Σ_n log p_n, [batch, beam, vocab], from log p_n [models, batch, beam, vocab].

    It is not renormalised, as in Marian: a hypothesis's score is the sum of the models' scores.
    """
    import tensorflow as tf

    return tf.reduce_sum(log_probs, axis=0)


@configurable("TreeGrammar", denylist=["subwords"])
def tree_grammar(
    subwords: "SubwordPair", tags: Mapping[str, str] | None = None, other_tags: str = ""
) -> protocols.Grammar:
    """Makes a `TreeGrammar`: `Translator.grammar = @TreeGrammar`.

    Args:
        subwords: subword models of a treebank.
        tags: limits the tags of certain words. Each key is a list of tags, and its value the words
            that may have only these, separated by spaces: {"DT": "a the", "IN RB": "about"}. A word
            of several subwords is not limited by it. gin/tag_dictionary.py makes it from a
            treebank.
        other_tags: the tags that all other words may have, separated by spaces; "" for any tag.

    Raises:
        UserError: see `TreeGrammar`.
    """
    from t2t_repro.decoding.grammar import TreeGrammar

    return TreeGrammar(subwords, tags or {}, other_tags)


@configurable("Glossary", denylist=["subwords"])
def glossary(
    subwords: "SubwordPair", file: str = REQUIRED, bonus: Positive = 1.0
) -> protocols.SoftGrammar:
    """Makes a `Glossary` of soft terms: --glossary, or `Translator.grammar = @Glossary`.

    Args:
        subwords: subword models of source and target.
        file: a file of terms: lines "source<TAB>target", or CSV with the columns source and target,
            as Weblate exports it. A source in lower case is found in any case.
        bonus: nats for each subword of a target term whose source is in the sentence. It counts in
            the scores.

    Raises:
        UserError: see `Glossary`.
    """
    from t2t_repro.decoding.glossary import Glossary

    return Glossary(subwords, file, bonus)


@configurable("Aligner")
@dataclass(frozen=True)
class AlignerSettings:
    """The settings of an `Aligner`.

    Attributes:
        layer: number of the decoder layer, from 1. By default the last but one of four or more
            layers (Garg et al. 2019), and the last of fewer.
    """

    layer: Count | None = None


@configurable()
@dataclass(frozen=True)
class ImportedBehaviour:
    """The decoding settings that only imported models need.

    Attributes:
        forbid_pad: whether translations must not contain PAD, for models that were not trained to
            avoid it, such as Marian's; see `DecodingConstraints`.
        renormalize: whether a forbidden PAD's probability is given to the other ids, in scores too.
        forbidden_ids: further ids that translations must not contain, such as UNK. They keep their
            probability, also with `renormalize`.
        max_length_factor: a translation has at most this times the length of its source, rounded
            up, plus `Translator.max_extra_length` subwords.
    """

    forbid_pad: bool = False
    renormalize: bool = False
    forbidden_ids: tuple[Annotated[int, Range(least=0, most=2**31 - 1)], ...] = ()
    max_length_factor: Annotated[float, Range(above=0, most=1000)] = 1.0


@configurable("Translator")
@dataclass(frozen=True)
class TranslatorSettings:
    """The settings of a `Translator`.

    Attributes:
        search: finds the translations; the paper's beam search by default.
        max_extra_length: the most subwords of a translation beyond the length of its source, EOS
            included (paper, section 6.1: 50).
        max_source_length: the most subwords of a source sentence, EOS included. The rest is cut
            off, with a warning.
        tokens_per_batch: the most source subwords times beam size that are decoded together. The
            batches of all workers also have to fit into half of the free memory, and into 16 GB.
        workers: batches decoded at the same time, fewer if they do not fit in memory; by default
            one for each core, or one on a GPU.
        rerank: orders all hypotheses of the search; None keeps the search's order.
        aligner: settings of `Translator.align`.
        ensemble: combines the log-probabilities of several models, [models, batch, beam, vocab],
            into one score of each id, [batch, beam, vocab]. A search adds up these scores.
        trained_length: the most subwords of a source in training, EOS included; a longer source is
            translated with a warning.
        grammar: makes a `Grammar`, such as `TreeGrammar`, or a `SoftGrammar` from the subword
            models; None allows all ids.
        shortlist: whether to use the model's lexical shortlist, if it has one.
        imported: settings that only imported models need.
    """

    search: protocols.Search = field(default_factory=BeamSearch)
    max_extra_length: Annotated[int, Range(least=0, most=10_000)] = 50
    max_source_length: Annotated[int, Range(least=2, most=100_000)] = 1024
    tokens_per_batch: Annotated[int, Range(least=1, most=1_000_000)] = 8192
    workers: Annotated[int, Range(least=1, most=1024)] | None = None
    rerank: protocols.Reranker | None = None
    aligner: AlignerSettings = field(default_factory=AlignerSettings)
    ensemble: Callable[[Any], Any] = mean_probability
    trained_length: Annotated[int, Range(least=1)] | None = None
    grammar: Callable[[Any], protocols.Grammar | protocols.SoftGrammar] | None = None
    shortlist: bool = True
    imported: ImportedBehaviour = field(default_factory=ImportedBehaviour)


CONFIGURABLES: tuple[Callable[..., Any], ...] = (
    TranslatorSettings, ImportedBehaviour, AlignerSettings, BeamSearch, MarianSearch, Sampling,
    wu_penalty, power_penalty, mean_probability, sum_log_probabilities, tree_grammar,
    MinimumBayesRisk, sentence_chrf, sentence_bleu,
)  # fmt: skip
"""A model directory's config.gin may bind these. Not `glossary`: it would read a file."""

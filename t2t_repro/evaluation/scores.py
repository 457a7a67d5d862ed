"""Scores of translations against references: one name, one meaning.

BLEU, chrF, chrF++ and TER are sacreBLEU's, each with its signature.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Annotated, Any, Literal, NamedTuple

from absl import logging
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric as SacreBleuMetric

from t2t_repro.config.values import Count, Range, configurable, texts
from t2t_repro.errors import UserError
from t2t_repro.text.scripts import HAN, KANA, bleu_tokenizer, unspaced_script

TEXTS = ["translations", "references", "sources"]
"""Arguments of every metric, used or not; gin does not bind them."""


@dataclass(frozen=True)
class Segments:
    """The sentences of one of sacreBLEU's scores, from which `significance` draws samples.

    Attributes:
        metric: the metric that computed the score.
        translations: the texts that the metric got, e.g. tokenised.
        references: a list of the first references of all sentences, then one of the second, and so
            on; None where a sentence has fewer.
        preprocessing: a suffix of the signature; see `sacrebleu_score`.
    """

    metric: SacreBleuMetric = field(compare=False)
    translations: list[str] = field(repr=False)
    references: list[list[Any]] = field(repr=False)
    preprocessing: str = ""

    def signature(self, metric_signature: object) -> str:
        """Returns a signature of sacreBLEU's with the preprocessing, if any, after it."""
        return "|".join(filter(None, (str(metric_signature), self.preprocessing)))


class Score(NamedTuple):
    """A score with the name of its metric.

    Attributes:
        name: the metric's name.
        value: the score, in percent for all metrics here.
        signature: how the score was computed, e.g. sacreBLEU's signature; "" if the name says all.
        higher_is_better: False for TER.
        segments: the sentences, for confidence intervals; None for metrics that are not
            sacreBLEU's.
    """

    name: str
    value: float
    signature: str = ""
    higher_is_better: bool = True
    segments: Segments | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns all fields but the segments, for JSON."""
        return {name: value for name, value in self._asdict().items() if name != "segments"}


Texts = Iterable[str]
References = Iterable[str | Sequence[str]]
"""The reference of each sentence, or its several references."""

Metric = Callable[[Sequence[str], Sequence[str | Sequence[str]], Sequence[str]], Score]
"""(translations, references, sources) -> score.

The sources are empty where `evaluate` scores translations without --source. A reference is a text,
or a tuple of texts where `evaluate` has several --reference.
"""


# sacreBLEU annotates these settings as any str or number: only these values work.
_SETTING_TYPES: Mapping[str, Any] = {
    "max_ngram_order": Count,
    "char_order": Count,
    "word_order": Annotated[int, Range(least=0)],
    "smooth_value": Annotated[float, Range(least=0)] | None,
    "tokenize": Literal[tuple(BLEU.TOKENIZERS)] | None,
    "smooth_method": Literal[tuple(BLEU.SMOOTH_DEFAULTS)],
}


def _settings_of(metric: type[SacreBleuMetric]) -> Callable[[Callable[..., Score]], Any]:
    """Makes a decorator that lets gin bind the settings of one of sacreBLEU's metrics.

    They replace `**options`, the last parameter, in the signature of the decorated function, which
    becomes configurable. gin binds each by name: `chrf.word_order = 2`.
    """
    settings = []
    for setting in inspect.signature(metric).parameters.values():
        # References are an argument. `bleu_tokenizer` chooses by them, not by trg_lang.
        if setting.name not in ("references", "trg_lang"):
            annotation = _SETTING_TYPES.get(setting.name, setting.annotation)
            settings.append(setting.replace(kind=setting.KEYWORD_ONLY, annotation=annotation))

    def with_settings(function: Callable[..., Score]) -> Any:
        """Decorates a function of texts, references, sources and `**options`."""
        *arguments, _options = inspect.signature(function).parameters.values()
        # gin reads the signature, and `configurable` the annotations.
        function.__signature__ = inspect.Signature([*arguments, *settings])  # type: ignore[attr-defined]
        function.__annotations__ |= {setting.name: setting.annotation for setting in settings}
        return configurable(denylist=TEXTS)(function)

    return with_settings


@_settings_of(BLEU)
def bleu(translations: Texts, references: References, sources: Texts = (), **options: Any) -> Score:
    """Computes cased corpus BLEU of plain text, with sacreBLEU's settings.

    By default `tokenize` is 13a, or zh or char for references in a script without blanks (see
    `bleu_tokenizer`). A sentence has one or several references. The sources are not used.

    Raises:
        UserError: sacreBLEU lacks a package or a file that the tokenizer needs; or see `aligned`.
    """
    hypotheses, rows = aligned(translations, references)
    tokenizer = options["tokenize"] = options.get("tokenize") or bleu_tokenizer(chain(*rows))
    if tokenizer != "13a":
        logging.log_first_n(logging.INFO, f"BLEU: by sacreBLEU's tokenizer {tokenizer!r}", 1)
    # sacreBLEU warns at 100 such lines too, but in several lines: force=True below silences it.
    if not options.get("force") and sum(line.endswith(" .") for line in hypotheses) >= 100:
        message = "the translations look tokenised, which changes BLEU: detokenise them, or bind "
        logging.log_first_n(logging.WARNING, f"{message}bleu.force = True", 1)
    try:
        return sacrebleu_score(BLEU(**options | {"force": True}), "BLEU", hypotheses, rows)
    except (ImportError, RuntimeError, OSError) as error:
        raise UserError(f"bleu.tokenize = {tokenizer!r}: {error} Or bind 'char'.") from error


@configurable(denylist=TEXTS)
def tokenised_bleu(translations: Texts, references: References, sources: Texts = ()) -> Score:
    """Computes corpus BLEU of tokenised text, lower-cased: words are separated by spaces.

    Published Multi30k figures are computed in this way (Moses' multi-bleu.perl -lc). It is not
    comparable with `bleu`, which tokenises differently. The sources are not used.

    Raises:
        UserError: see `aligned`.
    """
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    return sacrebleu_score(metric, "tokenised lower-cased BLEU", translations, references)


@_settings_of(CHRF)
def chrf(translations: Texts, references: References, sources: Texts = (), **options: Any) -> Score:
    """Computes chrF: F2 of character n-grams up to 6 by default; see `bleu`."""
    # As in sacreBLEU: chrF++ has word_order = 2.
    name = "chrF" + "+" * options.get("word_order", 0)
    return sacrebleu_score(CHRF(**options), name, translations, references)


@configurable(denylist=TEXTS)
def chrf_plus_plus(translations: Texts, references: References, sources: Texts = ()) -> Score:
    """Computes chrF++: F2 of character n-grams up to 6 and word n-grams up to 2; see `bleu`."""
    return sacrebleu_score(CHRF(word_order=2), "chrF++", translations, references)


@_settings_of(TER)
def ter(translations: Texts, references: References, sources: Texts = (), **options: Any) -> Score:
    """Computes TER: the edits, including shifts of phrases, from translation to reference.

    It is in percent of the reference's words, so it may exceed 100; lower is better. By default,
    words are lower-cased and separated by spaces. For references in Han or kana, `normalized` and
    `asian_support` are True by default. See `bleu`.
    """
    hypotheses, rows = aligned(translations, references)
    is_asian = unspaced_script(chain(*rows)) in (HAN, KANA)
    metric = TER(**{"normalized": is_asian, "asian_support": is_asian, **options})
    return sacrebleu_score(metric, "TER", hypotheses, rows)._replace(higher_is_better=False)


@configurable(denylist=TEXTS)
def exact_match(translations: Texts, references: References, sources: Texts = ()) -> Score:
    """Computes the share of translations that equal one of their references, in percent.

    The sources are not used.

    Raises:
        UserError: see `aligned`.
    """
    hypotheses, rows = aligned(translations, references)
    matches = sum(text in row for text, row in zip(hypotheses, rows, strict=True))
    return Score("exact match", 100.0 * matches / len(hypotheses))


def sacrebleu_score(
    metric: SacreBleuMetric,
    name: str,
    translations: Texts,
    references: References,
    preprocessing: str = "",
) -> Score:
    """Computes one of sacreBLEU's metrics, with its signature.

    Logs a warning if it is BLEU without a tokenizer, and 0 for text without blanks.

    Args:
        metric: a metric of sacreBLEU.
        name: the score's name.
        translations: the texts that the metric takes, e.g. tokenised.
        references: likewise; one or several of each sentence.
        preprocessing: names the preprocessing of both texts in the signature, e.g.
            "moses:de|compounds:split".

    Raises:
        UserError: see `aligned`.
    """
    hypotheses, rows = aligned(translations, references)
    # From the references of each sentence to the first ones of all, the second ones, and so on.
    references_by_rank = [list(rank) for rank in zip_longest(*rows)]
    segments = Segments(metric, hypotheses, references_by_rank, preprocessing)
    value = float(metric.corpus_score(hypotheses, references_by_rank).score)
    signature = segments.signature(metric.get_signature())
    # sacreBLEU's mark of BLEU without a tokenizer: words end at blanks, so a line without blanks
    # matches whole or not at all.
    if value == 0 and "|tok:none|" in signature and unspaced_script(chain(*rows)):
        logging.log_first_n(logging.WARNING, f"{name} takes a line without blanks for one word", 1)
    return Score(name, value, signature, segments=segments)


def aligned(translations: Texts, references: References) -> tuple[list[str], list[tuple[str, ...]]]:
    """Returns the translations, and a tuple of references for each; ("",) if it has none.

    Logs a warning if sentences have only blank references.

    Raises:
        UserError: the numbers of translations and references differ, or there are none.
    """
    hypotheses = texts("translations", translations)
    # A single text in the place of a list: `texts` raises a UserError.
    items = texts("references", references) if isinstance(references, str) else references
    rows: list[tuple[str, ...]] = []
    for number, item in enumerate(items):
        row = [item] if isinstance(item, str) else item
        rows.append(tuple(texts(f"references[{number}]", row)) or ("",))
    if len(hypotheses) != len(rows) or not rows:
        problem = f"there are {len(hypotheses)} translations and {len(rows)} references"
        raise UserError(f"{problem}, expected as many, at least 1: give files of the same text.")
    if blank := sum(not "".join(row).strip() for row in rows):
        logging.log_first_n(logging.WARNING, f"{blank} of {len(rows)} references are blank", 1)
    return hypotheses, rows


METRICS = (bleu, tokenised_bleu, chrf, chrf_plus_plus, ter, exact_match)


@configurable("evaluate")
@dataclass(frozen=True)
class EvaluationSettings:
    """The metrics of an experiment.

    Attributes:
        metrics: functions of translations, references and sources.
    """

    metrics: Sequence[Metric] = (bleu, chrf)

"""BLEU as the paper measured it, which is not sacreBLEU's: the two must not be compared.

T2T's utils/get_ende_bleu.sh: Moses' tokeniser on both sides, German compounds taken apart at their
hyphens, Moses' multi-bleu.perl with its case. That counts more and easier n-grams than sacreBLEU
does, so that the same translations score higher.
"""

import importlib.metadata
import re
from collections.abc import Callable, Sequence

import gin
from sacrebleu.metrics import BLEU

from t2t_repro.evaluation.scores import Score, sacrebleu_score

PAPER_BLEU = "BLEU as in the paper (tokenised)"
_COMPOUND = re.compile(r"(\S)-(\S)")


@gin.configurable
def paper_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str = "de",
    split_compounds: bool = True,
) -> Score:
    """Cased corpus BLEU of words as Moses tokenises them, without smoothing (multi-bleu.perl).

    Args:
        hypotheses: translations, plain text.
        references: plain text.
        language: of both, for Moses' punctuation and abbreviations.
        split_compounds: whether hyphenated words are taken apart, as T2T did for German.

    Raises:
        UserError: the two are not as many lines.
    """
    words = moses_words(language)
    if split_compounds:
        sides = [[at_compounds(words(line)) for line in side] for side in (hypotheses, references)]
    else:
        sides = [[words(line) for line in side] for side in (hypotheses, references)]
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    score = sacrebleu_score(metric, PAPER_BLEU, *sides)
    how = (
        f"moses:{language}|compounds:{'split' if split_compounds else 'whole'}"
        f"|sacremoses:{importlib.metadata.version('sacremoses')}"
    )
    return score._replace(signature=f"{score.signature}|{how}")


def at_compounds(line: str) -> str:
    """Takes hyphenated words apart: rich-text → rich ##AT##-##AT## text.

    Done once from the left, as T2T's Perl does it: of a-b-c the second hyphen stays, for the b
    before it has been read.
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


def moses_words(language: str) -> Callable[[str], str]:
    """Returns Moses' punctuation normalisation and tokenisation, a line to words and spaces."""
    # Importing it takes a third of a second, which every command would pay.
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normaliser = MosesPunctNormalizer(lang=language, pre_replace_unicode_punct=True)
    tokeniser = MosesTokenizer(lang=language)

    def words(line: str) -> str:
        return str(tokeniser.tokenize(normaliser.normalize(line), return_str=True))

    return words

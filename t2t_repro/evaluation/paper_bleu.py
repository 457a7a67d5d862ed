"""BLEU as the paper measured it, which is not sacreBLEU's: the two must not be compared.

T2T's utils/get_ende_bleu.sh: Moses' replace-unicode-punctuation.perl and tokenizer.perl without
options (no splitting of hyphens by itself, &quot; and the like escaped), German compounds taken
apart at their hyphens on both sides, multi-bleu.perl with its case. That counts more and easier
n-grams than sacreBLEU does, so that the same translations score higher.

T2T held its output against a reference that had been tokenised already, all of whose quotation
marks were plain (T2T's issue 317). So the one mark that Moses' script leaves, the lower „, is made
plain too, here on both sides. normalize-punctuation.perl is no part of it: for German it moves
quotation marks past commas and full stops.

Against Moses' own scripts in Perl, on newstest2014 and references of it corrupted by a seeded
shuffle: 6 and 8 of 3,003 lines are tokenised otherwise, all at a full stop that ends the line, and
BLEU is 63.88 instead of 63.87 (see tests/evaluation/test_paper_bleu.py to repeat it).
"""

import importlib.metadata
import re
from collections.abc import Callable, Sequence

import gin
from sacrebleu.metrics import BLEU

from t2t_repro.config.values import Text, validated
from t2t_repro.evaluation.scores import Score, sacrebleu_score

PAPER_BLEU = "BLEU as in the paper (tokenised)"
_COMPOUND = re.compile(r"(\S)-(\S)")


@gin.configurable(denylist=["hypotheses", "references"])
@validated
def paper_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: Text = "de",
    split_compounds: bool = True,
) -> Score:
    """Cased corpus BLEU of words as Moses tokenises them, without smoothing (multi-bleu.perl).

    Args:
        hypotheses: translations, plain text.
        references: plain text.
        language: of both, for Moses' abbreviations.
        split_compounds: whether hyphenated words are taken apart, as T2T did for German.

    Raises:
        UserError: the two are not as many lines.
    """
    words = moses_words(language)
    split = at_compounds if split_compounds else str
    theirs, ours = ([split(words(line)) for line in side] for side in (references, hypotheses))
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    how = (
        f"moses:{language}|quotes:plain|compounds:{'split' if split_compounds else 'whole'}"
        f"|sacremoses:{importlib.metadata.version('sacremoses')}"
    )
    return sacrebleu_score(metric, PAPER_BLEU, ours, theirs, how)


def at_compounds(line: str) -> str:
    """Takes hyphenated words apart: rich-text → rich ##AT##-##AT## text.

    Done once from the left, as T2T's Perl does it: of a-b-c the second hyphen stays, for the b
    before it has been read.
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


def moses_words(language: str) -> Callable[[str], str]:
    """Returns Moses' plain punctuation and tokenisation, a line to words and spaces."""
    # Importing it takes a third of a second, which every command would pay.
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    punctuation = MosesPunctNormalizer(lang=language)
    tokeniser = MosesTokenizer(lang=language)

    def words(line: str) -> str:
        plain = punctuation.replace_unicode_punct(line).replace("„", '"')
        return str(tokeniser.tokenize(plain, return_str=True))

    return words

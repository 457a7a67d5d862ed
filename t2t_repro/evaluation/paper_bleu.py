"""BLEU as the paper measured it, not comparable with sacreBLEU's.

The steps of T2T's utils/get_ende_bleu.sh: Moses' replace-unicode-punctuation.perl and
tokenizer.perl without options, German compounds split at hyphens on both sides, cased
multi-bleu.perl. These count more and easier n-grams than sacreBLEU, so scores are higher.

T2T's reference was already tokenised, with plain quotation marks (T2T's issue 317). Moses' script
leaves one mark, the lower „, which is therefore replaced here on both sides.
normalize-punctuation.perl is not used: for German it moves quotation marks past commas and full
stops.

Compared with Moses' Perl scripts on newstest2014 and on references corrupted by a seeded shuffle: 6
and 8 of 3,003 lines are tokenised differently, all at a final full stop, and BLEU is 63.88 instead
of 63.87 (tests/evaluation/test_paper_bleu.py repeats it).
"""

import importlib.metadata
import re
from collections.abc import Callable

from sacrebleu.metrics import BLEU

from t2t_repro.config.values import configurable
from t2t_repro.evaluation.scores import TEXTS, References, Score, Texts, aligned, sacrebleu_score

PAPER_BLEU = "BLEU as in the paper (tokenised)"
_COMPOUND = re.compile(r"(\S)-(\S)")


@configurable(denylist=TEXTS)
def paper_bleu(
    translations: Texts,
    references: References,
    sources: Texts = (),
    language: str = "de",
    split_compounds: bool = True,
) -> Score:
    """Computes cased corpus BLEU of Moses' tokens, without smoothing, as multi-bleu.perl does.

    Args:
        translations: plain text.
        references: plain text; one or several of each sentence.
        sources: not used; all metrics have the same arguments.
        language: the language of both texts, for Moses' abbreviations.
        split_compounds: whether hyphenated words are split, as T2T did for German.

    Raises:
        UserError: see `aligned`.
    """
    tokenise = moses_tokeniser(language)

    def preprocess(line: str) -> str:
        """Returns the tokens of a line, separated by spaces."""
        return split_at_hyphens(tokenise(line)) if split_compounds else tokenise(line)

    plain_hypotheses, plain_rows = aligned(translations, references)
    hypotheses = [preprocess(line) for line in plain_hypotheses]
    rows = [tuple(map(preprocess, row)) for row in plain_rows]
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    compounds = "split" if split_compounds else "whole"
    version = importlib.metadata.version("sacremoses")
    preprocessing = f"moses:{language}|quotes:plain|compounds:{compounds}|sacremoses:{version}"
    return sacrebleu_score(metric, PAPER_BLEU, hypotheses, rows, preprocessing)


def split_at_hyphens(line: str) -> str:
    """Splits hyphenated words: rich-text → rich ##AT##-##AT## text.

    Matches do not overlap, as in T2T's Perl: the second hyphen of a-b-c stays.
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


def moses_tokeniser(language: str) -> Callable[[str], str]:
    """Returns a function that tokenises a line as Moses does, with plain punctuation.

    The tokens are separated by spaces.
    """
    # The import takes a third of a second, which other commands need not wait for.
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    # Only its table of Unicode's punctuation is used, not its rules (see the module).
    punctuation = MosesPunctNormalizer(lang=language)
    tokeniser = MosesTokenizer(lang=language)

    def tokenise(line: str) -> str:
        plain = punctuation.replace_unicode_punct(line).replace("„", '"')
        return str(tokeniser.tokenize(plain, return_str=True))

    return tokenise

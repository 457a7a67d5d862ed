"""The paper's BLEU against sacreBLEU of tokens by hand, and against Moses' own scripts."""

import pytest
from sacrebleu.metrics import BLEU

from t2t_repro.evaluation.paper_bleu import moses_tokeniser, paper_bleu, split_at_hyphens
from t2t_repro.evaluation.scores import bleu

HYPOTHESES = [
    "Das „rich-text“-Format wurde gestern in Baden-Württemberg eingeführt – sehr gut.",
    "Frau Dr. Müller-Lüdenscheidt zahlt z.B. 1.000,50 € am 3. März für die Wohnung.",
    "Sie sagte: \"Ich weiß es nicht\", und ging.",
    "Es gibt keinen Grund zur Sorge in dieser Angelegenheit",
]  # fmt: skip
REFERENCES = [
    "Das Rich-Text-Format wurde gestern in Baden-Württemberg eingeführt - sehr gut.",
    "Dr. Müller-Lüdenscheidt zahlt z.B. 1.000,50 € am 3. März für die kleine Wohnung.",
    "Sie sagte: „Ich weiß es nicht“ und ging.",
    "Es gibt in dieser Angelegenheit keinen Grund zur Sorge.",
]
TOKENISED = [
    "Das &quot; rich ##AT##-##AT## text &quot; -Format wurde gestern in Baden ##AT##-##AT## "
    "Württemberg eingeführt – sehr gut .",
    "Frau Dr. Müller ##AT##-##AT## Lüdenscheidt zahlt z.B. 1.000,50 € am 3. März für die Wohnung .",
    "Sie sagte : &quot; Ich weiß es nicht &quot; , und ging .",
    "Es gibt keinen Grund zur Sorge in dieser Angelegenheit",
]


def words_of(lines):
    words = moses_tokeniser("de")
    return [split_at_hyphens(words(line)) for line in lines]


def test_tokens_by_hand():
    assert words_of(HYPOTHESES) == TOKENISED


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rich-text format", "rich ##AT##-##AT## text format"),
        # As Perl's s///g: the b has been read when the second hyphen comes.
        ("a-b-c", "a ##AT##-##AT## b-c"),
        ("a - b -c d-", "a - b -c d-"),
    ],
)
def test_compounds_are_taken_apart_as_t2t_s_perl_does_it(line, expected):
    assert split_at_hyphens(line) == expected


def test_it_is_never_taken_for_sacrebleu():
    ours, theirs = paper_bleu(HYPOTHESES, REFERENCES), bleu(HYPOTHESES, REFERENCES)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    own = metric.corpus_score(TOKENISED, [words_of(REFERENCES)])
    assert ours.value == pytest.approx(own.score)
    assert ours.name != theirs.name
    assert "tok:none|smooth:none" in ours.signature
    assert "|moses:de|quotes:plain|compounds:split|sacremoses:" in ours.signature
    assert abs(ours.value - theirs.value) > 0.5
    whole = paper_bleu(HYPOTHESES, REFERENCES, language="fr", split_compounds=False)
    assert "|moses:fr|quotes:plain|compounds:whole|" in whole.signature
    assert whole.value != ours.value

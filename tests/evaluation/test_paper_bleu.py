"""The paper's BLEU against its definition, counted plainly, and against sacreBLEU told not to."""

import math
from collections import Counter

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.evaluation.paper_bleu import at_compounds, moses_words, paper_bleu
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
    "Württemberg eingeführt - sehr gut .",
    "Frau Dr. Müller ##AT##-##AT## Lüdenscheidt zahlt z.B. 1.000,50 € am 3. März für die Wohnung .",
    "Sie sagte : &quot; Ich weiß es nicht &quot; , und ging .",
    "Es gibt keinen Grund zur Sorge in dieser Angelegenheit",
]


def by_definition(hypotheses, references):
    """Papineni et al. 2002 on lists of words: 100 · BP · exp(mean of log p_n, n = 1 ... 4)."""

    def grams(words, n):
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    matched, total = [0] * 4, [0] * 4
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        for n in range(4):
            here, there = grams(hypothesis, n + 1), grams(reference, n + 1)
            matched[n] += sum(min(count, there[gram]) for gram, count in here.items())
            total[n] += sum(here.values())
    if not all(matched):
        return 0.0
    length, expected = (sum(map(len, side)) for side in (hypotheses, references))
    brevity = min(1.0, math.exp(1 - expected / length))
    return 100 * brevity * math.prod(m / t for m, t in zip(matched, total, strict=True)) ** 0.25


def words_of(lines):
    words = moses_words("de")
    return [at_compounds(words(line)) for line in lines]


def test_tokens_by_hand():
    assert words_of(HYPOTHESES) == TOKENISED


def test_it_is_the_definition_of_bleu():
    tokens = [[line.split() for line in words_of(side)] for side in (HYPOTHESES, REFERENCES)]
    expected = by_definition(*tokens)
    assert 30 < expected < 90
    assert paper_bleu(HYPOTHESES, REFERENCES).value == pytest.approx(expected)


def test_it_is_sacrebleu_s_without_its_tokenisation():
    own = sacrebleu.corpus_bleu(
        words_of(HYPOTHESES), [words_of(REFERENCES)], tokenize="none", force=True
    )
    assert paper_bleu(HYPOTHESES, REFERENCES).value == pytest.approx(own.score)


words_of_letters = st.lists(st.sampled_from(["ab", "Ab", "cd", "ef", "gh"]), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(words_of_letters, words_of_letters), min_size=1, max_size=4))
def test_any_corpus_scores_as_defined(pairs):
    hypotheses, references = zip(*pairs, strict=True)
    score = paper_bleu([" ".join(x) for x in hypotheses], [" ".join(x) for x in references])
    assert score.value == pytest.approx(by_definition(hypotheses, references), abs=1e-9)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rich-text format", "rich ##AT##-##AT## text format"),
        # As Perl's s///g: the b has been read when the second hyphen comes.
        ("a-b-c", "a ##AT##-##AT## b-c"),
        ("ab-cd-ef", "ab ##AT##-##AT## cd ##AT##-##AT## ef"),
        ("a - b -c d-", "a - b -c d-"),
        ("", ""),
    ],
)
def test_compounds_are_taken_apart_as_t2t_s_perl_does_it(line, expected):
    assert at_compounds(line) == expected


def test_quotes_and_dashes_of_any_style_are_the_same_and_case_is_not():
    plain = 'Sie sagte - leise - "nein" und ging.'
    assert paper_bleu(["Sie sagte – leise – „nein“ und ging."], [plain]).value == pytest.approx(100)
    assert paper_bleu([plain.lower()], [plain]).value < 90


def test_it_is_never_taken_for_sacrebleu():
    ours, theirs = paper_bleu(HYPOTHESES, REFERENCES), bleu(HYPOTHESES, REFERENCES)
    assert ours.name != theirs.name
    assert "tok:none|smooth:none" in ours.signature
    assert "|moses:de|compounds:split|sacremoses:" in ours.signature
    assert abs(ours.value - theirs.value) > 0.5
    whole = paper_bleu(HYPOTHESES, REFERENCES, "fr", split_compounds=False)
    assert "|moses:fr|compounds:whole|" in whole.signature
    assert whole.value != ours.value

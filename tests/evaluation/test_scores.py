"""Each score is what its name says: sacreBLEU's own, with its signature."""

import pytest
import sacrebleu

from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import paper_bleu
from t2t_repro.evaluation.scores import (
    Score,
    bleu,
    chrf,
    chrf_plus_plus,
    exact_match,
    ter,
    tokenised_bleu,
)

REFERENCES = ["Das ist ein Test, nicht mehr.", "Zwei Hunde laufen im Park.", "Gut gemacht!"]
HYPOTHESES = ["Das ist ein Test, nicht weniger.", "zwei Hunde laufen im Park .", "Gut gemacht!"]
TOKENISED = {"tokenize": "none", "lowercase": True, "force": True}
HIGHER = [bleu, tokenised_bleu, chrf, chrf_plus_plus, exact_match, paper_bleu]
ALL = [*HIGHER, ter]


@pytest.mark.parametrize(
    ("metric", "theirs", "options"),
    [
        (bleu, sacrebleu.corpus_bleu, {}),
        (tokenised_bleu, sacrebleu.corpus_bleu, TOKENISED),
        (chrf, sacrebleu.corpus_chrf, {}),
        (chrf_plus_plus, sacrebleu.corpus_chrf, {"word_order": 2}),
        (ter, sacrebleu.corpus_ter, {}),
    ],
)
def test_bleu_chrf_and_ter_are_sacrebleu_s_own(metric, theirs, options):
    own = theirs(HYPOTHESES, [REFERENCES], **options)
    assert metric(HYPOTHESES, REFERENCES).value == pytest.approx(own.score)


def test_the_signature_says_tokenisation_and_case():
    signature = bleu(HYPOTHESES, REFERENCES).signature
    assert "case:mixed" in signature
    assert "tok:13a" in signature
    assert f"version:{sacrebleu.__version__}" in signature
    signature = tokenised_bleu(HYPOTHESES, REFERENCES).signature
    assert "case:lc" in signature
    assert "tok:none" in signature
    assert "nc:6|nw:0" in chrf(HYPOTHESES, REFERENCES).signature
    assert "nc:6|nw:2" in chrf_plus_plus(HYPOTHESES, REFERENCES).signature
    assert "tok:tercom" in ter(HYPOTHESES, REFERENCES).signature


def test_tokenised_bleu_takes_words_as_spaces_separate_them():
    cased, plain = "Zwei Hunde laufen im Park .", "zwei hunde laufen im park ."
    assert tokenised_bleu([cased], [plain]).value == pytest.approx(100.0)
    assert tokenised_bleu([plain], ["zwei hunde laufen im park."]).value < 90.0


def test_exact_match_counts_whole_sentences():
    score = exact_match(HYPOTHESES, REFERENCES)
    assert (score.name, score.signature) == ("exact match", "")
    assert score.value == pytest.approx(100 / 3)
    assert exact_match(["a "], ["a"]).value == 0.0


def test_ter_by_hand_is_lower_where_it_is_better():
    # Of four words one is moved, with its fellow, and one is another: two edits.
    score = ter(["c d a x"], ["a b c d"])
    assert (score.value, score.higher_is_better) == (50.0, False)
    assert ter(["a b c d"], ["a b c d"]).value == 0.0
    assert ter(["e f g h i j"], ["a b c d"]).value == 150.0
    assert all(metric(REFERENCES, REFERENCES).higher_is_better for metric in HIGHER)


def test_what_is_written_down_of_a_score_makes_the_same_one():
    score = ter(HYPOTHESES, REFERENCES)
    assert set(score.as_dict()) == {"name", "value", "signature", "higher_is_better"}
    assert Score(**score.as_dict()) == score._replace(segments=None)
    # Texts are not for error messages.
    assert REFERENCES[0] not in repr(score)


@pytest.mark.parametrize("metric", HIGHER)
def test_blank_translations_are_scored_as_lines(metric):
    assert metric(["", ""], ["a b c d", "e f g h"]).value == pytest.approx(0.0)
    half = metric(["", "e f g h i"], ["a b c d e", "e f g h i"]).value
    assert 0.0 < half < 100.0
    assert metric(REFERENCES, REFERENCES).value == pytest.approx(100.0)


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(("translations", "references"), [(1, 2), (0, 0)])
def test_files_that_do_not_belong_together_are_refused(metric, translations, references):
    message = f"there are {translations} translations and {references} references"
    with pytest.raises(UserError, match=message):
        metric(["a b c d"] * translations, ["a b c d"] * references)

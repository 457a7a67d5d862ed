"""Each score is what its name says: sacreBLEU's own, with its signature."""

import gin
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from t2t_repro.decoding.minimum_bayes_risk import sentence_bleu
from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import paper_bleu
from t2t_repro.evaluation.scores import bleu, chrf, chrf_plus_plus, exact_match, ter, tokenised_bleu
from t2t_repro.experiment import configure

REFERENCES = ["Das ist ein Test, nicht mehr.", "Zwei Hunde laufen im Park.", "Gut gemacht!"]
HYPOTHESES = ["Das ist ein Test, nicht weniger.", "zwei Hunde laufen im Park .", "Gut gemacht!"]
TOKENISED = BLEU(tokenize="none", lowercase=True, force=True)
HIGHER = [bleu, tokenised_bleu, chrf, chrf_plus_plus, exact_match, paper_bleu]
ALL = [*HIGHER, ter]


@pytest.mark.parametrize(
    ("metric", "theirs", "bound"),
    [
        (bleu, BLEU(), ()),
        (tokenised_bleu, TOKENISED, ()),
        (chrf, CHRF(), ()),
        (chrf, CHRF(word_order=1), ("word_order=1",)),
        (chrf_plus_plus, CHRF(word_order=2), ()),
        (ter, TER(), ()),
        (bleu, BLEU(tokenize="char", lowercase=True), ("tokenize='char'", "lowercase=True")),
        (ter, TER(normalized=True, no_punct=True), ("normalized=True", "no_punct=True")),
    ],
)
def test_bleu_chrf_and_ter_are_sacrebleu_s_own_with_its_settings(metric, theirs, bound):
    params = [f"{metric.__name__}.{one}" for one in bound]
    configure(None, [*params, f"evaluate.metrics = [@{metric.__name__}]"])
    others = ["Etwas anderes.", *HYPOTHESES[1:]]
    own = theirs.corpus_score(HYPOTHESES, [REFERENCES, others])
    score = gin.get_configurable(metric)(HYPOTHESES, list(zip(REFERENCES, others, strict=True)))
    assert (score.value, score.signature) == (pytest.approx(own.score), str(theirs.get_signature()))
    assert score.name.split()[-1] == own.name.replace("2", "")


@pytest.mark.parametrize("bound", ["bleu.max_ngram_order = 0", "chrf.word_order = -1"])
def test_numbers_without_a_meaning_are_refused(bound):
    with pytest.raises(UserError, match=bound.split(" ")[0]):
        configure(None, [bound])


@pytest.mark.parametrize(
    ("reference", "tokenizer", "is_asian"),
    [
        ("我有2个苹果，她读了2本书。", "zh", "yes"),
        ("彼女は本を2冊読みました。", "char", "yes"),
        ("เธออ่านหนังสือสองเล่ม", "char", "no"),
        ("Herr Li (李) liest ein Buch.", "13a", "no"),
    ],
)
def test_text_without_blanks_is_split_by_default(reference, tokenizer, is_asian):
    text = reference[:-3] + reference[-1]
    own = BLEU(tokenize=tokenizer)
    value = own.corpus_score([text], [[reference]]).score
    assert value > 30
    assert bleu([text], [reference])[1:3] == (pytest.approx(value), str(own.get_signature()))
    assert f"asian:{is_asian}" in ter([text], [reference]).signature
    assert sentence_bleu([text], [reference])[0] > 30


@pytest.mark.parametrize("metric", ALL)
def test_any_iterable_is_a_list_of_texts_but_a_text_is_not(metric):
    assert metric(iter(HYPOTHESES), iter(REFERENCES))[:2] == metric(HYPOTHESES, REFERENCES)[:2]
    for texts in (("a b", ["a b"]), (["a b"], "a b")):
        with pytest.raises(UserError, match="is 'a b', expected a list of texts"):
            metric(*texts)


def test_exact_match_counts_whole_sentences():
    score = exact_match(HYPOTHESES, REFERENCES)
    assert (score.name, score.signature) == ("exact match", "")
    assert score.value == pytest.approx(100 / 3)
    assert exact_match(["a "], ["a"]).value == 0.0


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

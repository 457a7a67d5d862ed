"""The paper's BLEU against sacreBLEU of tokens by hand, and against Moses' own scripts."""

import os
import random
import subprocess
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU

from t2t_repro.data.corpora.tfds import TfdsCorpus
from t2t_repro.evaluation.paper_bleu import at_compounds, moses_words, paper_bleu
from t2t_repro.evaluation.scores import bleu
from tests.real_corpora import corpus_folder

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
    words = moses_words("de")
    return [at_compounds(words(line)) for line in lines]


def test_tokens_by_hand():
    assert words_of(HYPOTHESES) == TOKENISED


@pytest.fixture(scope="module")
def newstest2014(tmp_path_factory):
    """(hypotheses, references): all of newstest2014, and its references made worse."""
    tfds = str(corpus_folder("tfds"))
    corpus = TfdsCorpus(
        "wmt14_translate/de-en", source_language="en", target_language="de", data_dir=tfds
    )
    folder = tmp_path_factory.mktemp("newstest2014")
    references = [german for _, german in corpus.read("test", folder)]
    assert len(references) == 3_003
    return corrupted(references), references


def corrupted(references):
    """Drops, replaces, exchanges and recapitalises words, a fifth of them, always the same."""
    rng = random.Random(0)
    hypotheses = []
    for reference in references:
        words = reference.split()
        for _ in range(len(words) // 5):
            i, how = rng.randrange(len(words)), rng.randrange(4)
            if how == 0 and len(words) > 2:
                del words[i]
            elif how == 1:
                words[i] = rng.choice(rng.choice(references).split())
            elif how == 2:
                words[i - 1], words[i] = words[i], words[i - 1]
            else:
                words[i] = words[i].swapcase()
        hypotheses.append(" ".join(words))
    return hypotheses


@pytest.mark.skipif("MOSES_DECODER" not in os.environ, reason="MOSES_DECODER names no mosesdecoder")
def test_newstest2014_scores_as_with_moses_own_scripts(newstest2014, tmp_path):
    """T2T's get_ende_bleu.sh itself: needs Perl, and MOSES_DECODER naming Moses' checkout."""
    scripts = Path(os.environ["MOSES_DECODER"]) / "scripts"

    def perl(text, *arguments):
        done = subprocess.run(["perl", *arguments], input=text, capture_output=True, check=True)
        return done.stdout

    def prepare(lines):
        text = perl("".join(f"{line}\n" for line in lines).encode(),
                    scripts / "tokenizer/replace-unicode-punctuation.perl")  # fmt: skip
        text = text.replace("„".encode(), b'"')
        text = perl(text, scripts / "tokenizer/tokenizer.perl", "-q", "-l", "de")
        return perl(text, "-ple", r"s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g")

    hypotheses, references = map(prepare, newstest2014)
    (tmp_path / "references").write_bytes(references)
    printed = perl(hypotheses, scripts / "generic/multi-bleu.perl", tmp_path / "references")
    theirs = float(printed.split()[2].rstrip(b","))
    assert paper_bleu(*newstest2014).value == pytest.approx(theirs, abs=0.03)


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
    assert at_compounds(line) == expected


def test_quotes_of_any_style_are_the_same_and_case_is_not():
    plain = 'Sie sagte - leise - "nein", und ging.'
    for other in ("„nein“", "“nein”", "《nein》"):
        score = paper_bleu([plain.replace('"nein"', other)], [plain])
        assert score.value == pytest.approx(100)
    assert paper_bleu([plain.swapcase()], [plain]).value < 50


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

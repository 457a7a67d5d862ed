"""Small models of M2M-100 and NLLB, against transformers; see multilingual/make.py."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.attention.maps import PairAttention
from t2t_repro.decoding.batch_plan import padded
from t2t_repro.decoding.loading import load_translator
from t2t_repro.decoding.search import Translation
from t2t_repro.decoding.settings import BeamSearch, Sampling, TranslatorSettings, power_penalty
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.formats.hugging_face.model import read_hugging_face
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.serving.libretranslate import read_directions
from tests.commands import outcomes_of

HERE = Path(__file__).parent / "multilingual"
EXPECTED = json.loads((HERE / "expected.json").read_text())
LANGUAGES = {
    "m2m": {"source": "en", "target": "de"},
    "nllb": {"source": "eng_Latn", "target": "deu_Latn"},
}


class Theirs:
    """A model of transformers, read by ours, and what transformers make of it."""

    def __init__(self, name, folder):
        self.languages = LANGUAGES[name]
        self.read = read_hugging_face(HERE / name, **self.languages)
        subwords = self.read.text.write(folder)
        search = BeamSearch(6, 0.7, power_penalty)
        self.translator = Translator([self.read.model], subwords, TranslatorSettings(search))
        ids = self.read.text.target.ids
        self.rows = np.append(ids, np.setdiff1d(np.arange(self.read.model.vocab_size), ids))
        *self.found, self.small = EXPECTED[name]
        self.lines = [one["line"] for one in self.found]

    def ours(self, ids):
        return [[*self.rows].index(number) for number in ids]

    def search(self, settings):
        """Their ids of the best translation of each line, and its score."""
        translator = Translator(self.translator.models, self.translator.subwords, settings)
        sources = padded(translator.subwords.source.encode(self.lines))
        result = translator.search_batch(tf.constant(sources), 1)
        ids = [[int(self.rows[i]) for i in row if i] for row in result.ids.numpy()[:, 0]]
        return ids, result.scores.numpy()[:, 0]


@pytest.fixture(scope="module", params=LANGUAGES)
def theirs(request, tmp_path_factory):
    return Theirs(request.param, tmp_path_factory.mktemp(request.param))


def test_ids_logits_and_searches_are_those_of_transformers(theirs):
    for one in theirs.found:
        code, *source = theirs.translator.subwords.source.encode([one["line"]])[0]
        assert theirs.rows[source].tolist() == one["source"]
        target = theirs.ours(one["labels"])
        assert code == target[0]
        logits = theirs.translator.model((np.array([source]), np.array([target])))[0].numpy()
        np.testing.assert_allclose(logits, np.array(one["logits"])[:, theirs.rows], atol=1e-4)
    ids, _ = theirs.search(TranslatorSettings(BeamSearch(1)))
    assert ids == [one["greedy"] for one in theirs.found]
    ids, scores = theirs.search(theirs.translator.settings)
    same = [found == one["best"] for found, one in zip(ids, theirs.found, strict=True)]
    gains = scores - [one["score"] for one in theirs.found]
    # Our search keeps more candidates that end, and so finds one better translation.
    assert sum(same) >= 5
    np.testing.assert_allclose(gains[same], 0, atol=1e-4)
    assert (gains > -1e-4).all()


def found_in(outputs):
    pairs = zip(outputs["translation"].numpy(), outputs["score"].numpy(), strict=True)
    return [Translation(text.decode(), score) for text, score in pairs]


def assert_same(found, expected):
    assert [one.text for one in found] == [one.text for one in expected]
    scores, others = ([one.score for one in some] for some in (found, expected))
    np.testing.assert_allclose(scores, others, atol=1e-4)


@pytest.mark.parametrize("theirs", ["nllb"], indirect=True)
def test_several_languages_in_a_batch_and_in_a_graph(theirs):
    translator = theirs.translator
    lines = [*theirs.lines, "", " "]
    together = [best for (best,) in translator.translate(lines)]
    assert_same(together, [translator.translate([line])[0][0] for line in lines])
    servable = Servable(translator, "float32", ["prefix"])
    assert_same(together, found_in(servable.translate(tf.constant(lines))))
    targets = ["der Hund", "a", "", "x", "der", "o"]
    scored = servable.score(tf.constant(theirs.lines), tf.constant(targets))
    ours = [pair.log_probability for pair in translator.score(theirs.lines, targets)]
    np.testing.assert_allclose(scored["log_probability"], ours, atol=1e-4)
    begun = [best for (best,) in translator.translate(theirs.lines, prefixes=targets)]
    assert begun[0].text.startswith("der Hund")
    texts = tf.constant(theirs.lines), tf.constant(targets)
    assert_same(begun, found_in(servable.translate_from_prefix(*texts)))


def test_the_score_of_a_pair_leaves_out_its_language(theirs):
    line, target = theirs.lines[0], "der Hund"
    (pair,) = theirs.translator.score([line], [target])
    code, *source = theirs.translator.subwords.source.encode([line])[0]
    (ids,) = theirs.translator.subwords.target.encode([target])
    model = theirs.translator.model
    log_p = model.token_log_probabilities(np.array([source]), np.array([[code, *ids]]))[0]
    np.testing.assert_allclose(pair.log_probabilities, log_p[1:], atol=1e-5)
    assert len(pair.subwords) == len(ids)


def test_lines_without_codes_have_the_default_ones(theirs):
    source, target = theirs.languages.values()
    encode = theirs.translator.subwords.source.encode
    both, one, none = encode([f">>{source}<< >>{target}<<a man", f">>{target}<< a man", "a man"])
    assert both == one == none
    assert theirs.translator.subwords.source.decode(none) == "a man"
    assert not theirs.translator.tags.fault("a man")
    assert "does not know >>xx<<" in theirs.translator.tags.fault(">>xx<< a man")


def test_maps_have_the_code_in_front_of_the_target(theirs):
    subwords, line = theirs.translator.subwords, theirs.lines[1]
    encoder, decoder, _ = PairAttention(theirs.read.model, subwords, line, "der Hund").maps()
    code, *source = subwords.source.encode([line])[0]
    assert encoder.queries == subwords.source.labels(source)
    target = [code, *subwords.target.encode(["der Hund"])[0]]
    assert decoder.queries == subwords.target.labels(target)


def test_directions_name_both_languages(theirs):
    """With the codes of clients; a script only where a language has several."""
    found = {one.name: one.tag for one in read_directions(["en-*"], [theirs.translator])}
    source, target = theirs.languages.values()
    assert found["en-de"] == f">>{source}<< >>{target}<<"
    assert "en-en" not in found
    assert ("en-zh-Hant" in found) == (source == "eng_Latn")
    (direction,) = read_directions([f"{source}-{target}"], [theirs.translator])
    assert direction.tag == found["en-de"]
    with pytest.raises(UserError):
        read_directions(["xx-de"], [theirs.translator])
    assert ">><mask><<" not in theirs.translator.subwords.source.pieces()


@pytest.fixture
def small(tmp_path):
    """SMaLL-100: the files of M2M-100 with another tokenizer."""
    folder = shutil.copytree(HERE / "m2m", tmp_path / "theirs")
    change(folder, tokenizer_class="SMALL100Tokenizer")
    return folder


def change(folder, **fields):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_small100_names_the_target_alone(small, tmp_path):
    read = read_hugging_face(small)
    subwords = read.text.write(tmp_path)
    translator = Translator([read.model], subwords, TranslatorSettings(BeamSearch(1)))
    expected = EXPECTED["m2m"][-1]
    (ids,) = subwords.source.encode([expected["line"]])
    assert subwords.source.pieces()[ids[0]] == ">>de<<"
    (found,) = translator.search_batch(tf.constant([ids]), 1).ids.numpy()[:, 0]
    assert [read.text.target.ids[i] for i in found if i] == expected["greedy"]


def test_what_is_known_of_a_licence_is_said(caplog):
    """NLLB's without a card."""
    read_hugging_face(HERE / "nllb")
    assert "CC-BY-NC" in caplog.text


def test_languages_that_a_model_lacks_and_a_damaged_vocabulary_are_refused(small):
    with pytest.raises(UserError, match="takes no languages"):
        read_hugging_face(small, source="en")
    (small / "vocab.json").write_text("{}")
    with pytest.raises(UserError, match=r"vocab\.json"):
        read_hugging_face(small)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tokenizer_class": "T5Tokenizer"}, "tokenizer_class"),
        ({"legacy_behaviour": True}, "legacy_behaviour"),
        ({"language_codes": "wmt21"}, "language_codes"),
        ({"src_lang": "xx"}, ">>xx<<"),
    ],
)
def test_another_tokenizer_is_refused(small, fields, named):
    change(small, **{"tokenizer_class": "M2M100Tokenizer", **fields})
    with pytest.raises(UserError, match=named):
        read_hugging_face(small)


def test_the_command_says_the_licence_and_makes_a_directory_for_translate(tmp_path):
    theirs = shutil.copytree(HERE / "nllb", tmp_path / "theirs")
    flags = ["--model=theirs", "--model_dir=model", "--target_language=deu_Latn"]
    (theirs / "README.md").write_text("---\nlanguage:\n- en\nlicense:\n- cc-by-nc-4.0\n---\n# A\n")
    (outcome,) = outcomes_of([("import_hugging_face", flags, "")], tmp_path)
    assert outcome.status == 0, outcome.err
    assert "licence: cc-by-nc-4.0" in outcome.err
    assert "licence: cc-by-nc-4.0" in (tmp_path / "model" / "config.gin").read_text()
    translator = load_translator(tmp_path / "model")
    assert translator.max_source_length == 48
    assert translator.model.settings.first_position == 2


def test_a_sample_begins_with_the_language_which_costs_nothing(theirs):
    ids, scores = theirs.search(TranslatorSettings(Sampling(samples=1), max_extra_length=0))
    for one, sample, score in zip(theirs.found, ids, scores, strict=True):
        code, *source = theirs.translator.subwords.source.encode([one["line"]])[0]
        ours = theirs.ours(sample)
        assert ours[0] == code
        model = theirs.translator.model
        log_p = model.token_log_probabilities(np.array([source]), np.array([ours]))[0].numpy()
        np.testing.assert_allclose(score, log_p[1:].sum(), atol=1e-4)

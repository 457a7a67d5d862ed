"""A model with the text of Marian's, exported: text in, text out, by stock operations."""

from typing import Any

import numpy as np
import pytest

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.sampling import Sampling
from t2t_repro.decoding.translator import Translator, TranslatorSettings
from t2t_repro.formats.marian.text import read_marian_text
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.vocabulary import PAD_ID
from tests.decoding.random_translator import ODD_LINES, random_model, with_search
from tests.formats.conftest import graph_of
from tests.formats.saved_model.cpp_client import answer_of, cpp_session, text_libraries, texts_of
from tests.formats.saved_model.test_export import known_operations_of
from tests.text.marian_directory import SOURCE_TEXT, TARGET_TEXT, write_marian_text

pytestmark = pytest.mark.long

LINES = [*SOURCE_TEXT, ">>fra<< the fox ☃", ">>deu<<", "</s> a <pad>", " ", *ODD_LINES[:8]]
TARGETS = [*TARGET_TEXT, "der Hund", "", "»ein« Fenster", "a", *ODD_LINES[8:16]]
PREFIXES = ["der", "", "☃", " ", *TARGET_TEXT[:2], *[""] * 10]


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian")
    theirs = write_marian_text(folder / "theirs", clean_up_tokenization_spaces=True)
    subwords = read_marian_text(theirs).write(folder)
    limits: dict[str, Any] = {
        "max_extra_length": 8,
        "max_source_length": 40,
        "tokens_per_batch": 200,
    }
    search = BeamSearch(beam_size=3, length_penalty=0.6)
    return Translator(
        [random_model(subwords.target)], subwords, TranslatorSettings(search, **limits)
    )


@pytest.fixture(scope="module")
def version(translator, tmp_path_factory):
    servable = Servable(translator, "float32", ["prefix", "sample", "alignment"])
    return write_saved_model(servable, tmp_path_factory.mktemp("exported"), 1, "made")


def test_every_operation_is_one_of_tensorflow_2_12(version):
    used = known_operations_of(graph_of(version))
    assert {"LookupTableFindV2", "SentencepieceTokenizeOp"} <= used


def test_what_is_served_is_what_is_translated(translator, version):
    signatures = graph_of(version).signature_def
    expected = translator.translate(LINES, n_best=3)
    with cpp_session(version, text_libraries()) as (ask, loaded):
        assert loaded == {}
        best = answer_of(ask, signatures["serving_default"], {"source": LINES})
        all_found = answer_of(ask, signatures["nbest"], {"source": LINES})
        ids = np.array(translator.subwords.source.encode([">>fra<< the fox"]))
        by_ids = answer_of(ask, signatures["token_ids"], {"source_ids": ids})
        strange = np.array([[PAD_ID, *ids[0]]])
        by_strange = answer_of(ask, signatures["token_ids"], {"source_ids": strange})
        scores = answer_of(ask, signatures["score"], {"source": LINES, "target": TARGETS})
        begun = answer_of(ask, signatures["prefix"], {"source": LINES, "prefix": PREFIXES})
        seeds = np.arange(len(LINES))
        drawn = answer_of(ask, signatures["sample"], {"source": LINES, "seed": seeds})
        aligned = answer_of(ask, signatures["alignment"], {"source": LINES, "target": TARGETS})
    assert texts_of(best["translation"]) == [found[0].text for found in expected]
    np.testing.assert_allclose(best["score"], [found[0].score for found in expected], atol=1e-5)
    for texts, found in zip(all_found["translation"], expected, strict=True):
        assert texts_of(texts)[: len(found)] == [one.text for one in found]
    assert by_strange["translation_ids"].tolist() == by_ids["translation_ids"].tolist()
    (alone,) = translator.translate([">>fra<< the fox"])
    assert translator.subwords.target.decode(by_ids["translation_ids"][0]) == alone[0].text

    pairs = translator.score(LINES, TARGETS)
    np.testing.assert_allclose(
        scores["log_probability"], [pair.log_probability for pair in pairs], rtol=1e-4
    )
    assert scores["length"].tolist() == [len(pair.subwords) for pair in pairs]
    from_prefix = translator.translate(LINES, prefixes=PREFIXES)
    assert texts_of(begun["translation"]) == [found[0].text for found in from_prefix]
    assert texts_of(aligned["alignment"]) == translator.align(LINES, TARGETS)
    assert any(texts_of(aligned["alignment"]))
    samples = list(zip(LINES, seeds, texts_of(drawn["translation"]), strict=True))
    # A few: each seed is a search of its own, traced anew.
    for line, seed, text in samples[:4]:
        sampler = with_search(translator, Sampling(samples=1, seed=int(seed)))
        assert text == sampler.translate([line])[0][0].text

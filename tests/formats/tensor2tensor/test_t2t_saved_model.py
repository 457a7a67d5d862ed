"""A model with Tensor2Tensor's vocabulary, exported: text in, text out, by stock operations."""

from typing import Any

import numpy as np
import pytest

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.translator import Translator
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.text.subword_model import shared
from t2t_repro.text.t2t import T2TSubwords
from t2t_repro.vocabulary import PAD_ID
from tests.decoding.random_translator import ODD_LINES, random_model
from tests.formats.saved_model.cpp_client import answer_of, cpp_session, text_libraries, texts_of
from tests.formats.saved_model.test_export import known_operations_of
from tests.serving.conftest import graph_of
from tests.text.test_t2t import VOCABULARY, write

LINES = ["the quick fox", "straße \u2192 \\\\ _ 64;", "the, 'fox'.", *ODD_LINES[:12]]


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    path = write(tmp_path_factory.mktemp("t2t") / "subwords.model", VOCABULARY)
    subwords = T2TSubwords(path)
    limits: dict[str, Any] = {
        "max_extra_length": 8,
        "max_source_length": 24,
        "tokens_per_batch": 160,
    }
    search = BeamSearch(beam_size=3, length_penalty=0.6)
    return Translator(random_model(subwords), shared(subwords), search, **limits)


@pytest.fixture(scope="module")
def version(translator, tmp_path_factory):
    export_dir = tmp_path_factory.mktemp("exported")
    return write_saved_model(Servable(translator, "float32"), export_dir, 1, "made")


def test_every_operation_is_one_of_tensorflow_2_12(version):
    used = known_operations_of(graph_of(version))
    assert "WordpieceTokenizeWithOffsets" in used
    assert not any("Sentencepiece" in operation for operation in used)


def test_what_is_served_is_what_is_translated(translator, version):
    signatures = graph_of(version).signature_def
    expected = translator.translate(LINES, n_best=3)
    with cpp_session(version, text_libraries()) as (ask, loaded):
        assert loaded == {}
        best = answer_of(ask, signatures["serving_default"], {"source": LINES})
        all_found = answer_of(ask, signatures["nbest"], {"source": LINES})
        ids = np.array(translator.subwords.source.encode(["the fox, 64;"]))
        strange = np.array([[-1, 10**6, PAD_ID, *ids[0]]])
        by_ids, by_strange = (
            answer_of(ask, signatures["token_ids"], {"source_ids": some}) for some in (ids, strange)
        )
    assert texts_of(best["translation"]) == [found[0].text for found in expected]
    np.testing.assert_allclose(best["score"], [found[0].score for found in expected], atol=1e-5)
    for texts, found in zip(all_found["translation"], expected, strict=True):
        assert texts_of(texts)[: len(found)] == [one.text for one in found]
    # What is in no vocabulary is no text.
    assert by_strange["translation_ids"].tolist() == by_ids["translation_ids"].tolist()
    (alone,) = translator.translate(["the fox, 64;"])
    assert translator.subwords.target.decode(by_ids["translation_ids"][0]) == alone[0].text

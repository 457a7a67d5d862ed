"""One small model, exported once for all tests of this folder."""

from typing import Any

import pytest
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.translator import Translator, TranslatorSettings
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import shared
from tests.decoding.random_translator import random_model, write_subwords
from tests.formats.saved_model.cpp_client import answer_of, cpp_session, text_libraries
from tests.serving.server_process import server_process


@pytest.fixture(scope="session")
def subwords(tmp_path_factory):
    return SentencePieceModel(write_subwords(tmp_path_factory.mktemp("subwords") / "made.model"))


@pytest.fixture(scope="session")
def make_translator(subwords):
    """A translator of a model with random weights, in the precision that is asked for."""

    def make(precision="float32"):
        search = BeamSearch(beam_size=4, length_penalty=0.6)
        # So few tokens a batch that a request becomes several groups.
        limits: dict[str, Any] = {
            "max_extra_length": 8,
            "max_source_length": 24,
            "tokens_per_batch": 160,
        }
        return Translator(
            [random_model(subwords, precision)],
            shared(subwords),
            TranslatorSettings(search, **limits),
        )

    return make


@pytest.fixture(scope="session")
def translator(make_translator):
    return make_translator()


@pytest.fixture(scope="session")
def export_dir(translator, tmp_path_factory):
    """Holds version 3 of the model "made"."""
    export_dir = tmp_path_factory.mktemp("exported")
    write_saved_model(Servable(translator, "float32"), export_dir, 3, "made")
    return export_dir


def graph_of(version):
    """The graph of a SavedModel."""
    saved = SavedModel.FromString((version / "saved_model.pb").read_bytes())
    assert len(saved.meta_graphs) == 1
    return saved.meta_graphs[0]


@pytest.fixture(scope="session")
def graph(export_dir):
    return graph_of(export_dir / "3")


@pytest.fixture(scope="session")
def serve(export_dir, graph):
    """Answers a request to a signature, through the C++ loader."""
    with cpp_session(export_dir / "3", text_libraries()) as (ask, loaded):
        assert loaded == {}
        yield lambda signature, inputs: answer_of(ask, graph.signature_def[signature], inputs)


@pytest.fixture(scope="package")
def server(export_dir):
    """A server of "made" that takes little."""
    limits = ("--max_request_mb=0.5", "--max_batch_size=64", "--client_seconds=2")
    with server_process(export_dir, *limits) as server:
        yield server

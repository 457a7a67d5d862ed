"""One small model, exported once for all tests of this folder."""

import pytest
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from t2t_repro.decoding.settings import BeamSearch, Sampling, TranslatorSettings
from t2t_repro.decoding.translator import Translator
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import MORE_SIGNATURES, Servable
from t2t_repro.text.subword_model import shared
from tests.decoding.random_translator import random_model, write_subwords
from tests.formats.saved_model.cpp_client import answer_of, cpp_session, text_libraries
from tests.processes import held_folder


@pytest.fixture(scope="session")
def subwords(tmp_path_factory):
    return write_subwords(tmp_path_factory.mktemp("subwords") / "made.model")


@pytest.fixture(scope="session")
def make_translator(subwords):
    """Makes a translator of a model with random weights."""

    def make(precision="float32", **layer):
        # So few tokens a batch that a request becomes several groups.
        settings = TranslatorSettings(BeamSearch(4, 0.6), 8, 24, tokens_per_batch=160)
        model = random_model(subwords, precision, layer=layer, num_decoder_layers=2)
        return Translator([model], shared(subwords), settings)

    return make


@pytest.fixture(scope="session")
def translator(make_translator):
    return make_translator()


@pytest.fixture(scope="session")
def export_dir(translator, tmp_path_factory):
    """Holds version 3 of the model "made", with all signatures."""
    with held_folder(tmp_path_factory, "exported") as export_dir:
        if not (export_dir / "3").exists():
            servable = Servable(translator, "float32", MORE_SIGNATURES, Sampling(samples=1))
            write_saved_model(servable, export_dir, 3, "made")
    return export_dir


def graph_of(version):
    """Reads the graph of a SavedModel."""
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

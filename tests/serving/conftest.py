"""One small model with random weights, for all tests of this folder."""

import threading

import pytest

from t2t_repro.decoding.settings import BeamSearch, TranslatorSettings
from t2t_repro.decoding.translator import Translator
from t2t_repro.text.subword_model import shared
from tests.decoding.random_translator import random_model, write_subwords


@pytest.fixture(scope="package")
def translator(tmp_path_factory):
    subwords = shared(write_subwords(tmp_path_factory.mktemp("subwords") / "made.model"))
    settings = TranslatorSettings(BeamSearch(4, 0.6), 8, 24, workers=1)
    return Translator([random_model(subwords.target)], subwords, settings)


class Held:
    """Holds the calls of the functions of signatures.

    Attributes:
        may_go: calls of the default signature wait until it is set.
        calls: the texts of each call.
    """

    def __init__(self, functions):
        self.may_go = threading.Event()
        self.calls: list[list[str]] = []
        compute = functions["serving_default"]

        def held(source):
            assert self.may_go.wait(60)
            self.calls.append(source)
            return compute(source)

        functions["serving_default"] = held

"""One small model with random weights, for all tests of this folder."""

import pytest

from t2t_repro.decoding.settings import TranslatorSettings
from t2t_repro.decoding.translator import Translator
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import shared
from tests.decoding.random_translator import random_model, write_subwords


class RecordingSubwords(SentencePieceModel):
    """Remembers the ids that it was last asked to decode."""

    def decode(self, ids):
        self.decoded = [int(token) for token in ids]
        return super().decode(ids)


@pytest.fixture(scope="package")
def subwords(tmp_path_factory):
    made = write_subwords(tmp_path_factory.mktemp("subwords") / "made.model")
    return RecordingSubwords(made.model_path)


@pytest.fixture(scope="package")
def model(subwords):
    return random_model(subwords)


@pytest.fixture(scope="package")
def make(model, subwords):
    """Makes a translator with a search and other settings."""

    def make(search, **settings):
        return Translator([model], shared(subwords), TranslatorSettings(search, 8, 24, **settings))

    return make

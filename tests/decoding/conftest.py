"""One small model with random weights, for all tests of this folder."""

import pytest

from t2t_repro.text.sentencepiece import SentencePieceModel
from tests.decoding.random_translator import random_model, write_subwords


class RecordingSubwords(SentencePieceModel):
    """Remembers the ids that it was last asked to decode."""

    def decode(self, ids):
        self.decoded = [int(token) for token in ids]
        return super().decode(ids)


@pytest.fixture(scope="package")
def subwords(tmp_path_factory):
    return RecordingSubwords(write_subwords(tmp_path_factory.mktemp("subwords") / "made.model"))


@pytest.fixture(scope="package")
def model(subwords):
    return random_model(subwords)

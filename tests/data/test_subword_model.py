"""Which kind of subword model a file holds."""

import pytest

from t2t_repro.data.subword_model import open_subwords
from t2t_repro.data.subwords import Subwords, SubwordTraining
from t2t_repro.data.t2t_subwords import T2TSubwords
from t2t_repro.errors import UserError

SUBWORDS = ["<pad>_", "<EOS>_", *"\\_u;0123456789abc"]


@pytest.mark.parametrize("quote", ["'", '"', ""])
def test_a_vocabulary_of_t2t(tmp_path, quote):
    path = tmp_path / "subwords.model"
    path.write_text("".join(f"{quote}{subword}{quote}\n" for subword in SUBWORDS))
    model = open_subwords(path)
    assert isinstance(model, T2TSubwords)
    assert (model.size, model.model_path) == (len(SUBWORDS), path)


def test_a_model_of_sentencepiece(tmp_path):
    path = tmp_path / "subwords.model"
    SubwordTraining(vocab_size=270).train(["a b c d e f g"] * 9, path)
    model = open_subwords(path)
    assert isinstance(model, Subwords)
    assert (model.size, model.model_path) == (270, path)


def test_neither(tmp_path):
    with pytest.raises(UserError, match="no subword model at"):
        open_subwords(tmp_path / "subwords.model")
    (tmp_path / "subwords.model").write_text("<pad>\n<EOS>\n")
    with pytest.raises(UserError, match="not a SentencePiece model"):
        open_subwords(tmp_path / "subwords.model")

import struct

import pytest
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from t2t_repro.data.subwords import Subwords, SubwordTraining
from t2t_repro.errors import UserError
from t2t_repro.strangers.sentencepiece_file import check_sentencepiece
from tests.decoding.random_translator import TEXT, write_subwords


@pytest.mark.parametrize("rule", ["identity", "nmt_nfkc"])
def test_models_of_every_normalisation_are_taken(tmp_path, rule):
    SubwordTraining(vocab_size=300, normalization=rule).train(TEXT, tmp_path / "model")


def test_a_table_that_leads_out_of_itself(tmp_path):
    path = write_subwords(tmp_path / "model")
    model = ModelProto.FromString(path.read_bytes())
    table = model.normalizer_spec.precompiled_charsmap
    for spoilt in (
        table[:4] + struct.pack("<I", 0x7FFFFFFF & ~0x200) + table[8:],
        table[:4] + struct.pack("<I", 0xFFFFFFFF) + table[8:],
        table[:-1] + b"x",
        struct.pack("<I", 2**31) + table[4:],
        table[:500],
    ):
        model.normalizer_spec.precompiled_charsmap = spoilt
        with pytest.raises(ValueError, match="normalisation"):
            check_sentencepiece(model.SerializeToString())
        path.write_bytes(model.SerializeToString())
        with pytest.raises(UserError, match="is not a SentencePiece model"):
            Subwords(path)

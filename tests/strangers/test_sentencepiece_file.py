import struct

import numpy as np
import pytest
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from t2t_repro.errors import UserError
from t2t_repro.strangers.sentencepiece_file import check_sentencepiece
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.training import SubwordTraining
from tests.decoding.random_translator import TEXT, write_subwords

LEAF, VALUE = 1 << 8, 1 << 31


def with_trie(path, units):
    """A model whose normalisation has this trie: units by their place, other places hold 0."""
    model = ModelProto.FromString(path.read_bytes())
    table = np.zeros(1024, "<u4")
    for place, unit in units.items():
        table[place] = unit
    trie = table.tobytes()
    model.normalizer_spec.precompiled_charsmap = struct.pack("<I", len(trie)) + trie + b"x\0"
    return model.SerializeToString()


def node(character, place, after, more=0):
    """A unit at a place, which is reached by a character, and goes on at the place `after`."""
    return {place: (place ^ after) << 10 | character | more}


def chain(length):
    """The texts a, aa, aaa, and so on, so many, each of which is replaced."""
    units = node(0, 0, 4)
    for n in range(1, length + 1):
        units |= node(0x61, 4 * n ^ 0x61, 4 * (n + 1), LEAF) | {4 * (n + 1): VALUE}
    return units


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
            SentencePieceModel(path)


def test_a_table_that_finds_a_text_where_there_is_none(tmp_path):
    path = write_subwords(tmp_path / "model")
    root, place = node(0, 0, 0), 0x61
    leads_to = {0x161: 1023 << 10}
    check_sentencepiece(with_trie(path, root | node(0x61, place, 0x161) | leads_to))
    for units in (root | node(0x61, place, 0x161, LEAF) | leads_to, {0: VALUE}):
        with pytest.raises(ValueError, match=r"normalisation has (texts|places) that are not"):
            check_sentencepiece(with_trie(path, units))


def test_a_table_that_finds_more_than_there_is_room_for(tmp_path):
    """SentencePiece lists what a text begins with in an array of 32."""
    path = write_subwords(tmp_path / "model")
    check_sentencepiece(with_trie(path, chain(32)))
    loop = node(0, 0, 4) | node(0x61, 4 ^ 0x61, 4, LEAF) | {4: VALUE}
    for units in (chain(33), loop):
        with pytest.raises(ValueError, match="finds more than 32 texts at once"):
            check_sentencepiece(with_trie(path, units))
    # One without texts ends with the line that is read.
    check_sentencepiece(with_trie(path, node(0, 0, 4) | node(0x61, 4 ^ 0x61, 4)))

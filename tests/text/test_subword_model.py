"""Files of subword models: their kind, and their pairs."""

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.text import subword_model
from t2t_repro.text.marian import MarianFile
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import SHARED_SUBWORDS, SOURCE_SUBWORDS, TARGET_SUBWORDS
from t2t_repro.text.t2t import T2TSubwords
from tests.text.marian_directory import train
from tests.text.test_t2t import VOCABULARY, write


def test_the_file_says_which_kind_it_is(tmp_path, subwords):
    for quote in ("'", '"', ""):
        path = write(tmp_path / "v", VOCABULARY, quote)
        assert isinstance(subword_model.open_subwords(path), T2TSubwords)
    assert isinstance(subword_model.open_subwords(subwords.model_path), SentencePieceModel)
    (tmp_path / "v").write_text("<pad>\n<EOS>\n")
    with pytest.raises(UserError, match="not a SentencePiece model"):
        subword_model.open_subwords(tmp_path / "v")


def test_a_pair_is_opened_from_its_files(models, tmp_path):
    plain, tagged = models["plain"], models["tagged"]
    for pair in (subword_model.shared(plain), subword_model.SubwordPair(plain, tagged)):
        folder = tmp_path / str(len(pair.files()))
        folder.mkdir()
        for name, content in pair.contents().items():
            (folder / name).write_bytes(content)
        again = subword_model.open_pair(folder)
        assert again.checksum() == pair.checksum()
        assert (again.source is again.target) == (pair.source is pair.target)
        assert [one.size for one in again] == [one.size for one in pair]
        # What is shared is made once.
        made = again.each(lambda model: [model.size])
        assert (made[0] is made[1]) == (pair.source is pair.target)


def test_training_pairs_have_the_code_in_front_of_the_target(tmp_path):
    model, codes = train(["1 2 12 21"] * 9, 12), [">>en<<", ">>de<<"]
    pieces = ["<pad>", "</s>", "<unk>", "\u2581", "1", "2", *codes]
    for name, languages in ((SOURCE_SUBWORDS, codes), (TARGET_SUBWORDS, [])):
        content = MarianFile(model, pieces, languages=languages).content()
        (tmp_path / name).write_bytes(content)
    pair = subword_model.open_pair(tmp_path)
    lines, targets = ["1 2", "", ">>en<< 2"], ["2", "1 1 2", ""]
    (sources, lengths), (ids, counts) = pair.encode_blocks(lines, targets)
    expected = [[code, *rest] for code, *rest in pair.source.encode(lines)]
    assert [one[0] for one in expected] == [7, 7, 6]
    found = np.split(sources, np.cumsum(lengths)), np.split(ids, np.cumsum(counts))
    assert [one.tolist() for one in found[0]] == [*(rest for _, *rest in expected), []]
    of_targets = zip(expected, pair.target.encode(targets), strict=True)
    assert [one.tolist() for one in found[1]] == [*([one[0], *own] for one, own in of_targets), []]


@pytest.mark.parametrize("names", [[], [SOURCE_SUBWORDS], [SHARED_SUBWORDS, TARGET_SUBWORDS]])
def test_a_directory_has_the_files_of_one_pair(tmp_path, subwords, names):
    for name in names:
        (tmp_path / name).write_bytes(subwords.sentencepiece())
    with pytest.raises(UserError, match=str(tmp_path)):
        subword_model.open_pair(tmp_path)


def test_subwords_of_tensor2tensor_and_sentencepiece_match(subwords, tmp_path):
    """PAD and EOS, which have other names there, are the same; an empty line is not a subword."""
    t2t = T2TSubwords(write(tmp_path / "vocab", [*VOCABULARY[:20], "", *VOCABULARY[20:]]))
    longer = T2TSubwords(write(tmp_path / "longer", [*VOCABULARY, "wombat_"]))
    ids = subword_model.matching_ids(longer, t2t)
    assert [*ids[:20], *ids[20:-1] - 1] == [*range(len(VOCABULARY))]
    assert ids[-1] == -1
    assert subword_model.matching_ids(t2t, longer)[20] == -1
    across = subword_model.matching_ids(subwords, t2t)
    assert across[:2].tolist() == [0, 1]

"""A model with the text of Marian's in CTranslate2: the texts of `translate`."""

import re

import pytest
import sentencepiece

from t2t_repro.data.marian_text import read_marian_text
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.translator import Translator
from tests.data.marian_directory import SOURCE_TEXT, write_marian_text
from tests.decoding.random_translator import random_model

ctranslate2 = pytest.importorskip("ctranslate2")

from t2t_repro.serving.ctranslate2_model import write_ctranslate2_model  # noqa: E402

LINES = [*SOURCE_TEXT, ">>fra<< the fox ☃ Männer", ">>xxx<<a", "☃", "</s> a <pad>"]


def translations(folder, lines):
    """As docs/marian.md has it."""
    engine = ctranslate2.Translator(str(folder), intra_threads=1)
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}_subwords.model"))
        for side in ("source", "target")
    )
    texts = []
    for line in lines:
        ((code, text),) = re.findall(r"(?s)\A(>>.*?<<)?(.*)\Z", line)
        tokens = [code] * bool(code) + source.encode(text, out_type=str)
        (found,) = engine.translate_batch(
            [tokens], beam_size=1, min_decoding_length=0, max_decoding_length=len(tokens) + 1 + 30
        )
        pieces = [token for token in found.hypotheses[0] if token not in ("<unk>", "<pad>")]
        texts.append(target.decode_pieces(pieces).replace("\u2581", " ").strip())
    return texts


@pytest.mark.parametrize("separate", [False, True])
def test_texts_are_those_of_translate(tmp_path, separate):
    theirs = write_marian_text(tmp_path / "theirs", separate)
    pair = read_marian_text(theirs).write(tmp_path)
    sizes = {"tied_embeddings": "none", "source_vocab_size": pair.source.size} if separate else {}
    model = random_model(pair.target, **sizes)
    translator = Translator(model, pair, BeamSearch(beam_size=1), max_extra_length=30)
    write_ctranslate2_model(translator, "float32", tmp_path / "exported")
    expected = [found[0].text for found in translator.translate(LINES)]
    assert len(set(expected)) > 4
    assert translations(tmp_path / "exported", LINES) == expected
    for side in ("source", "target"):
        exported = (tmp_path / "exported" / f"{side}_subwords.model").read_bytes()
        assert exported == (theirs / f"{side}.spm").read_bytes()

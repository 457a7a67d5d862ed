"""A model with the text of Marian's in CTranslate2: the texts of `translate`."""

import re

import pytest

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.translator import Translator, TranslatorSettings
from t2t_repro.formats.marian.text import read_marian_text
from tests.decoding.random_translator import random_model
from tests.processes import CHECKOUT, output_of
from tests.text.marian_directory import SOURCE_TEXT, write_marian_text

ctranslate2 = pytest.importorskip("ctranslate2")

from t2t_repro.formats.ctranslate2 import write_ctranslate2_model  # noqa: E402

LINES = [SOURCE_TEXT[0], ">>fra<< the fox ☃ Männer", ">>xxx<<a </s><pad>"]


def translations(folder, lines, limit):
    """What the page's program makes of lines, with one limit for all."""
    page = (CHECKOUT / "docs" / "marian_text.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert code is not None
    program = code[1].replace("runs/opus/ctranslate2", str(folder)).replace("256", str(limit))
    work = folder.with_name("work")
    work.mkdir(exist_ok=True)
    (work / "in.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    output_of("-c", program, folder=work)
    return (work / "out.txt").read_text(encoding="utf-8").split("\n")[:-1]


@pytest.mark.parametrize("separate", [False, True])
def test_texts_are_those_of_translate(tmp_path, separate):
    theirs = write_marian_text(tmp_path / "theirs", separate)
    pair = read_marian_text(theirs).write(tmp_path)
    sizes = {"tied_embeddings": "none", "source_vocab_size": pair.source.size} if separate else {}
    model = random_model(pair.target, **sizes)
    translator = Translator(
        [model], pair, TranslatorSettings(BeamSearch(beam_size=1), max_extra_length=20)
    )
    write_ctranslate2_model(translator, "float32", tmp_path / "exported")
    texts = []
    for line in LINES:
        (found,) = translator.translate([line])
        # The program's limit is the same for all sentences, ours is not.
        limit = len(pair.source.encode([line])[0]) + 20
        assert translations(tmp_path / "exported", [line], limit) == [found[0].text]
        texts.append(found[0].text)
    assert len(set(texts)) == len(LINES)
    for side in ("source", "target"):
        exported = (tmp_path / "exported" / f"{side}_subwords.model").read_bytes()
        assert exported == (theirs / f"{side}.spm").read_bytes()

"""What we make of CTranslate2's model directories, against CTranslate2 itself."""

import json
import struct
from typing import Any

import numpy as np
import pytest
from sentencepiece import SentencePieceTrainer

ctranslate2 = pytest.importorskip("ctranslate2")

from t2t_repro.decoding.loading import load_translator  # noqa: E402
from t2t_repro.decoding.translator import Translator  # noqa: E402
from t2t_repro.errors import UserError  # noqa: E402
from t2t_repro.formats.ctranslate2.export import write_ctranslate2_model  # noqa: E402
from t2t_repro.formats.ctranslate2.model import read_ctranslate2  # noqa: E402
from t2t_repro.formats.imported import write_imported  # noqa: E402
from t2t_repro.runs.weights import named_values  # noqa: E402
from t2t_repro.text.subword_model import shared  # noqa: E402
from tests.commands import outcomes_of  # noqa: E402
from tests.formats.ctranslate2.directory import FAMILIES, WORDS, set_config, write  # noqa: E402
from tests.formats.ctranslate2.test_export import SIZES, model_of  # noqa: E402
from tests.text.marian_directory import train  # noqa: E402

pytestmark = pytest.mark.usefixtures("eagerly")

SOURCES = ["w3 w4 w9", "w20 w21 unheard", "w5 w6 w7"]
TARGETS = ["w1 w2", "w29 w28 w27 w1 w1", "w12"]
LIMIT = 12


def import_it(folder, **given):
    """Imports a directory as the command does, and loads what it writes."""
    ours = folder.with_name("ours")
    write_imported(ours, read_ctranslate2(folder), "theirs", None)
    params = ["BeamSearch.length_penalty = 0.0", f"Translator.max_extra_length = {LIMIT - 4}"]
    return load_translator(ours, [*params, *(f"{name} = {value}" for name, value in given.items())])


def split(lines):
    return [*map(str.split, lines)]


def assert_same_scores(ours, engine):
    found = engine.score_batch(split(SOURCES), split(TARGETS))
    for score, expected in zip(ours.score(SOURCES, TARGETS), found, strict=True):
        np.testing.assert_allclose(score.log_probabilities, expected.log_probs, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_and_greedy_translations_are_theirs_and_so_they_are_again(family, tmp_path):
    engine = write(tmp_path / "theirs", family)
    ours = import_it(tmp_path / "theirs", **{"BeamSearch.beam_size": 1})
    assert_same_scores(ours, engine)
    options = {"beam_size": 1, "min_decoding_length": 0, "max_decoding_length": LIMIT}
    found = engine.translate_batch(split(SOURCES), **options)
    pad = ours.subwords.target.pieces()[0]
    for (one,), other in zip(ours.translate(SOURCES), found, strict=True):
        assert one.text.split() == [token for token in other.hypotheses[0] if token != pad]
    # Written back, as after fine-tuning.
    write_ctranslate2_model(ours, "float32", tmp_path / "back")
    assert_same_scores(ours, ctranslate2.Translator(str(tmp_path / "back"), intra_threads=1))


def test_the_command_writes_a_model_directory_or_nothing(tmp_path):
    write(tmp_path / "theirs", "OpenNMT-py")
    flags = ["--model=theirs", "--model_dir=ours"], ["--model=ours", "--model_dir=none"]
    done, refused = outcomes_of([("import_ctranslate2", of, "") for of in flags], tmp_path)
    assert done.status == 0, done.err
    assert load_translator(tmp_path / "ours").model.settings.start_id
    assert (refused.status, f"\n{refused.err}".count("\nerror:")) == (2, 1)
    assert "t2t_repro.translate reads; expected model.bin with config.json" in refused.err
    assert {path.name for path in tmp_path.iterdir()} == {"theirs", "ours"}


def test_codes_of_languages_are_words_of_both_sides(tmp_path):
    """Here no id is that of unknown words."""
    words, special = ["__en__", "__de__", "fra_Latn", *WORDS], ["<s>", "<blank>", "</s>"]
    engine = write(tmp_path / "theirs", "fairseq", words=words, special=special)
    (found,) = engine.score_batch([["__en__", "w3"]], [["__de__", "w4"]])
    ours = import_it(tmp_path / "theirs")
    (score,) = ours.score([">>en<< w3"], [">>de<< w4"])
    np.testing.assert_allclose(score.log_probabilities, found.log_probs, atol=1e-4)
    assert ours.model.settings.first_position == 2
    assert ours.tags.languages == {"en": ">>en<<", "de": ">>de<<", "fra_Latn": ">>fra_Latn<<"}


def test_beams_are_theirs_or_more_probable(tmp_path):
    # Some translations end.
    engine = write(tmp_path / "theirs", "OPUS-MT", end=3.0)
    ours = import_it(tmp_path / "theirs", **{"BeamSearch.beam_size": 4})
    options = {"length_penalty": 0, "min_decoding_length": 0, "max_decoding_length": LIMIT}
    found = engine.translate_batch(split(SOURCES), beam_size=4, return_scores=True, **options)
    pairs = [*zip((best for best, *_ in ours.translate(SOURCES)), found, strict=True)]
    assert all(best.score > expected.scores[0] - 1e-4 for best, expected in pairs)
    same = [pair for pair in pairs if pair[0].text == " ".join(pair[1].hypotheses[0])]
    assert all(best.score < expected.scores[0] + 1e-4 for best, expected in same)
    assert len(same) > 1


@pytest.mark.parametrize("weights", ["int8", "int16", "float16", "bfloat16"])
def test_weights_of_fewer_bits_are_what_ctranslate2_makes_of_them(weights, tmp_path):
    engine = write(tmp_path / "theirs", "fairseq", weights)
    assert_same_scores(import_it(tmp_path / "theirs"), engine)


@pytest.mark.parametrize("sizes", SIZES)
def test_our_own_models_come_back_bit_for_bit(sizes, subwords, tmp_path):
    translator = Translator([model := model_of(subwords, **SIZES[sizes])], shared(subwords))
    write_ctranslate2_model(translator, "float32", tmp_path / "theirs")
    ours = import_it(tmp_path / "theirs")
    before, after, layer = named_values(model), named_values(ours.model), model.config
    assert before.keys() == after.keys()
    for name, value in before.items():
        first = name in ("embedding/table", "source_embedding/table")  # PAD's is not exported.
        if layer.key_depth == layer.value_depth or "_attention/" not in name:
            np.testing.assert_array_equal(value[first:], after[name][first:])
    lines = ["the red bird", "a tree, a house", "🙂"]
    assert ours.subwords.source.encode(lines) == subwords.encode(lines)
    one, other = (of.score(lines, lines)[0].log_probability for of in (ours, translator))
    assert one == pytest.approx(other, abs=1e-4)


def test_text_is_split_by_the_sentencepiece_model_beside(tmp_path):
    write(tmp_path / "theirs", "OpenNMT-py", words=["▁", "▁w", "w", "▁a", "b", *WORDS[5:]])
    with (tmp_path / "theirs" / "sentencepiece.model").open("wb") as file:
        options: Any = {"hard_vocab_limit": False, "vocab_size": 9, "model_type": "char"}
        lines = iter(["a b w w", "w b a"])
        SentencePieceTrainer.train(sentence_iterator=lines, model_writer=file, **options)
    ours = import_it(tmp_path / "theirs").subwords
    (ids,) = ours.source.encode(["w b q"])
    assert [ours.source.pieces()[one] for one in ids] == ["▁", "w", "▁", "b", "▁", "<unk>", "</s>"]
    assert ours.target.decode(ids) == "w b  ⁇ "


def test_lines_and_a_map_are_a_vocabulary_and_a_layer_aligns(tmp_path):
    write(tmp_path, "OPUS-MT", spec={"num_layers": 2, "alignment_layer": 0, "pre_norm": False})
    path = tmp_path / "shared_vocabulary.json"
    before = read_ctranslate2(tmp_path).text.source.file.pieces
    tokens = json.loads(path.read_text())
    path.write_text(json.dumps({token: tokens.index(token) for token in sorted(tokens)}))
    assert read_ctranslate2(tmp_path).text.source.file.pieces == before
    path.with_suffix(".txt").write_bytes("".join(f"{token}\r\n" for token in tokens).encode())
    path.unlink()
    after = read_ctranslate2(tmp_path)
    assert after.text.source.file.pieces == before
    assert "Aligner.layer = 1\n" in after.decoding
    assert after.model.positional_encoding.kind == "halves"


def change(folder, old, new):
    """Changes bytes of model.bin."""
    content = (folder / "model.bin").read_bytes()
    assert old in content
    (folder / "model.bin").write_bytes(content.replace(old, new, 1))


def rebuilt(folder, **spec):
    write(folder, "OPUS-MT", spec={"num_layers": 1, **spec})


BAD = {
    "another version": lambda f: change(f, struct.pack("<I", 6), struct.pack("<I", 5)),
    "a name without an end": lambda f: change(f, b"layer_norm/beta\0", b"layer_norm/betaa"),
    "sizes that overflow": lambda f: change(f, b"\2 \0\0\0\20\0\0\0", b"\2 \0\0\200\20\0\0\200"),
    "no scale": lambda f: change(f, b"linear_0/weight_scale", b"linear_0/weight_stale"),
    "cut": lambda f: (f / "model.bin").write_bytes((f / "model.bin").read_bytes()[:-9]),
    "not there": lambda f: (f / "model.bin").unlink(),
    "another norm": lambda f: rebuilt(f, layernorm_embedding=True),
    "a gate": lambda f: rebuilt(f, ffn_glu=True),
    "another gelu": lambda f: rebuilt(f, activation=1),
    "the source begins": lambda f: set_config(f, add_source_bos=True),
    "the user gives the first token": lambda f: set_config(f, decoder_start_token=None),
    "a list for a token": lambda f: set_config(f, decoder_start_token=[1]),
    "splits one side": lambda f: (f / "source.spm").write_bytes(train(["a b"], 9)),
    "tokens without end": lambda f: (f / "shared_vocabulary.json").write_text("[" * 10**5),
    "too few tokens": lambda f: (f / "shared_vocabulary.json").write_text('["<unk>", "</s>"]'),
    "ids with a gap": lambda f: (f / "shared_vocabulary.json").write_text('{"a": 0, "b": 2}'),
    "not a number": lambda f: write(f, "OPUS-MT", scale=float("nan")),
    "BPE": lambda f: (f / "bpe.model").write_text("#version: 0.2"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_a_line(what, tmp_path):
    write(tmp_path / "theirs", "OPUS-MT", "int8")
    BAD[what](tmp_path / "theirs")
    with pytest.raises(UserError, match=r"expected|copy"):
        read_ctranslate2(tmp_path / "theirs")

"""A student goes out as Firefox's are shipped, and comes in again as it went."""

import gzip
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from t2t_repro.decoding.loading import load_translator
from t2t_repro.decoding.settings import BeamSearch, ImportedBehaviour, TranslatorSettings
from t2t_repro.decoding.shortlist import ShortlistFile
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.formats.imported import model_files, write_imported
from t2t_repro.formats.marian import _find_vocabularies, read_marian
from t2t_repro.formats.marian_binary import OPTIONS, read_binary, write_shortlist
from t2t_repro.formats.marian_export import write_marian_model
from t2t_repro.text.subword_model import SubwordPair, shared
from t2t_repro.text.training import SubwordTraining
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID
from tests.commands import outcomes_of
from tests.decoding.random_translator import TEXT, random_model
from tests.marian_formulas import assert_same_weights

LINES = ["the red bird sees a tree", "a blue house", "", "the river, the stone and the cloud"]
LAYER = {"decoder_self_attention": "ssru", "attention_biases": True}


@pytest.fixture(scope="module", params=["one vocabulary", "a table a side"])
def student(request, subwords, tmp_path_factory):
    """A translator as training makes it, and a shortlist."""
    pair, sizes = shared(subwords), {}
    if request.param == "a table a side":
        path = tmp_path_factory.mktemp("source") / "source.model"
        pair = SubwordPair(SubwordTraining(vocab_size=290).train(TEXT, path), subwords)
        sizes = {"source_vocab_size": pair.source.size, "tied_embeddings": "target_softmax"}
    more = {"positional_encoding": "concatenated", "logits_bias": True, "num_decoder_layers": 2}
    model = random_model(subwords, layer=LAYER, rows=0, **more, **sizes)
    size, rows = model.vocab_size, pair.source.size
    lists = np.arange(2, 2 * rows) // 2 % size
    splits = np.array([0, 0, *range(2, 2 * rows - 1, 2)])
    always = np.array([EOS_ID, UNK_ID, *range(3, 40)])
    behaviour = ImportedBehaviour(True, max_length_factor=2.0)
    settings = TranslatorSettings(BeamSearch(2), 0, 24, imported=behaviour)
    file = ShortlistFile(splits, np.sort(lists).astype(np.int32), always.astype(np.int32))
    return Translator([model], pair, settings, file)


@pytest.fixture(scope="module")
def exported(student, tmp_path_factory):
    folder = tmp_path_factory.mktemp("student") / "first"
    write_marian_model(student, folder, LINES)
    return folder


@pytest.fixture(scope="module")
def imported(exported):
    """What comes in of it: a model directory."""
    (model,) = read_marian(exported)
    folder = exported.with_name("model")
    write_imported(folder, model, "first", None)
    return folder


@pytest.mark.usefixtures("eagerly")
def test_what_comes_in_again_translates_alike(student, imported):
    translator = load_translator(imported)
    size = student.subwords.target.size
    # Marian has no row for our PAD that is never written; here it has two.
    assert translator.model.vocab_size == size + 1
    pairs = [[line] * 2 for line in LINES]
    ours, theirs = (one.score(*zip(*pairs, strict=True)) for one in (student, translator))
    for before, after in zip(ours, theirs, strict=True):
        assert after.log_probability == pytest.approx(before.log_probability, rel=0.05, abs=0.5)
    assert (translator.settings.search.beam_size, translator.model.config.dropout) == (2, 0)
    assert translator.settings.imported.max_length_factor == 2.0


@pytest.mark.usefixtures("eagerly")
def test_the_integers_of_an_unchanged_model_are_the_file_s_own(imported, exported):
    again = exported.with_name("second")
    write_marian_model(load_translator(imported), again, LINES)
    first, second = (read_binary((f / "model.bin").read_bytes()) for f in (exported, again))
    assert first.keys() == second.keys()
    for name, values in first.items():
        if not name.endswith("_QuantMultA"):
            np.testing.assert_array_equal(second[name], values)
    for path in exported.iterdir():
        assert path.name == "model.bin" or (again / path.name).read_bytes() == path.read_bytes()


def test_every_matrix_says_how_its_inputs_are_rounded(exported):
    tensors = read_binary((exported / "model.bin").read_bytes())
    options = yaml.safe_load(tensors.pop(OPTIONS).tobytes().split(b"\0")[0])
    assert options["transformer-decoder-autoreg"] == "rnn"
    matrices = {name for name in tensors if "Wemb" in name or re.search("_W.?$", name)}
    # What is only looked up.
    matrices.discard("encoder_Wemb")
    inputs = {name for name in tensors if name.endswith("_QuantMultA")}
    assert {f"{name}_QuantMultA" for name in matrices - inputs} | {"none_QuantMultA"} == inputs
    # After a layer norm with gamma and beta of about 1, no |x| is above 10.
    assert all(127 / 60 < tensors[name].item() < 127 for name in inputs)
    assert tensors["decoder_ff_logit_out_b"][0, PAD_ID] == -1000


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ({"positional_encoding": "interleaved"}, "positional_encoding = 'interleaved'"),
        ({"layer": LAYER | {"normalization": "pre"}}, "normalization"),
        ({"layer": LAYER | {"d_k": 9}}, "heads"),
        ({"start_id": 3}, "start_id = 3"),
    ],
)
def test_what_marian_cannot_hold_is_refused_by_name(sizes, named, subwords, tmp_path):
    model = random_model(
        subwords, **{"layer": LAYER, "positional_encoding": "concatenated", **sizes}
    )
    with pytest.raises(UserError, match=named):
        write_marian_model(Translator([model], shared(subwords)), tmp_path / "out", LINES)
    assert not (tmp_path / "out").exists()


def test_files_may_be_compressed_one_by_one_and_have_no_config(exported, tmp_path):
    (tmp_path / "adapter_config.json").touch()
    # Beside a model it need not even be whole.
    (tmp_path / "train.log.gz").write_bytes(gzip.compress(bytes(2**25))[:-9])
    for path in exported.glob("*[!l]"):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    (plain,) = read_marian(exported)
    archive = shutil.make_archive(str(exported.with_name("all")), "zip", tmp_path)
    for given in (tmp_path / "model.bin.gz", Path(archive), tmp_path):
        with model_files(given, "import_marian") as files:
            (packed,) = read_marian(files)
        assert_same_weights(packed.model, plain.model)
    assert packed.shortlist
    assert plain.shortlist
    np.testing.assert_array_equal(packed.shortlist.ids, plain.shortlist.ids)
    for setting in ("MarianSearch.beam_size = 1\n", "Translator.tokens_per_batch = 1024\n"):
        assert setting in packed.decoding


def test_files_of_a_pair_belong_together_in_a_folder_of_several(exported, tmp_path):
    for path in exported.iterdir():
        shutil.copy(path, tmp_path / path.name.replace(".", ".enpt.", 1))
        (tmp_path / path.name.replace(".", ".aabb.", 1)).write_bytes(b"another pair's")
    # Not that of a model whose name ends alike.
    config = tmp_path / "config.enpt.yml"
    (tmp_path / "config.a.yml").write_text("models: [a.model.enpt.bin]\nbeam-size: 7\n")
    config.write_text(re.sub(r"(\w+)(\..*(?:bin|spm))", r"\1.enpt\2", config.read_text()))
    (found,), (plain,) = map(read_marian, (tmp_path / "model.enpt.bin", exported))
    assert_same_weights(found.model, plain.model)
    np.testing.assert_equal(found.shortlist, plain.shortlist)
    assert found.decoding.replace(".enpt", "") == plain.decoding
    if [path.unlink() for path in tmp_path.glob("trgvocab*")]:
        with pytest.raises(UserError, match="trgvocab"):
            _find_vocabularies(tmp_path, tmp_path / "model.enpt.bin")


def test_inputs_are_rounded_by_texts_alone(imported, tmp_path):
    (tmp_path / "blank").write_text("\n \n")
    flags = f"--model_dir={imported}", "--export_dir=out", "--format=marian", "--calibration=blank"
    (refused,) = outcomes_of([("export", flags, "")], tmp_path)
    assert "error: --calibration=blank has no text" in refused.err


def test_a_shortlist_of_another_vocabulary_is_refused(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "other")
    lists = ShortlistFile.of_lists([*np.array([[2], [3]])], np.arange(2))
    write_shortlist(tmp_path / "other" / "lex.s2t.bin", lists)
    with pytest.raises(UserError, match=r"has 2 lists"):
        read_marian(tmp_path / "other")

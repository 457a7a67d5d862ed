"""Models as Marian itself writes them: what they compute, their texts, files that do not fit."""

import ast
import os
import shutil
import tarfile
import zipfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import yaml

from t2t_repro.decoding.loading import load_translator
from t2t_repro.decoding.settings import MarianSearch
from t2t_repro.errors import UserError
from t2t_repro.formats.imported import model_files, write_imported
from t2t_repro.formats.marian import read_marian
from t2t_repro.vocabulary import EOS_ID, UNK_ID
from tests.commands import outcomes_of
from tests.formats.marian import directory
from tests.formats.marian.directory import OPTIONS, PRE_NORM, STUDENT, TIED, random_tensors, save
from tests.marian_formulas import assert_same_weights, logits_of
from tests.text.marian_directory import SOURCE_TEXT, TARGET_TEXT, train


def write(folder, joint=True, options=TIED):
    """A model with SentencePiece's vocabularies; returns its weights."""
    names = directory.write_spm(folder, joint)
    models = [sentencepiece.SentencePieceProcessor(model_file=str(folder / x)) for x in names]
    return directory.write_model(folder, (len(models[0]), len(models[1])), names, options)


def write_changed(folder, options):
    """A model of which only the options are changed."""
    weights = write(folder)
    values = OPTIONS | TIED | {"dim-vocabs": [len(weights["Wemb"])] * 2}
    save(folder / "model.npz", weights, values | options)
    return weights, values


def rewrite(folder, **changed):
    """Changes fields of decoder.yml."""
    path = folder / "decoder.yml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changed))


@pytest.mark.parametrize(
    ("joint", "options"),
    [
        (True, TIED),
        (False, {"tied-embeddings": True, "transformer-ffn-activation": "relu"}),
        (True, {"tied-embeddings-src": True, "transformer-ffn-activation": "gelu"}),
        (False, PRE_NORM),
        (True, STUDENT),
        (False, STUDENT | {"tied-embeddings-all": False, "tied-embeddings": True}),
    ],
    ids=["all", "target", "source", "pre-norm, none tied", "a student", "its own two tables"],
)
def test_log_probabilities_are_those_of_the_formulas(joint, options, tmp_path):
    write(tmp_path, joint, options)
    ((model, text, *_),) = read_marian(tmp_path)
    rng = np.random.default_rng(1)
    source, target = ([*rng.integers(3, 50, length), EOS_ID] for length in (7, 5))
    logits = logits_of(model, source, target)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    theirs = text.source.ids[source], text.target.ids[target]
    tensors = random_tensors((len(text.source.ids) - 1, len(text.target.ids) - 1), options)
    logits = directory.formulas_of(tensors, options).logits(*theirs)
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    np.testing.assert_allclose(log_p[:, 1:], expected[:, text.target.ids[1:]], atol=2e-5)
    assert np.exp(log_p[:, 0]).max() == 0


def test_older_names_and_types_of_weights_are_read(tmp_path):
    weights = write(tmp_path, False, {})
    ((model, *_),) = read_marian(tmp_path)
    expected = [np.float32(np.float16(value)) for value in model.get_weights()]
    older: dict = {name: np.float16(value) for name, value in weights.items()}
    older["decoder_ff_logit_out_W"] = older.pop("decoder_ff_logit_out_Wt").T
    sizes = [len(weights[f"{stack}_Wemb"]) for stack in ("encoder", "decoder")]
    save(tmp_path / "model.npz", older, OPTIONS | {"dim-vocabs": sizes})
    ((model, *_),) = read_marian(tmp_path)
    np.testing.assert_equal(model.get_weights(), expected)


def test_a_zip_a_directory_and_an_npz_are_the_same_model(tmp_path):
    folder = tmp_path / "opus"
    write(folder)
    archive = shutil.make_archive(str(folder), "zip", tmp_path, "opus")
    ((one, _, search, *_),) = read_marian(folder)
    with model_files(Path(archive)) as files:
        found = [*read_marian(files), *read_marian(folder / "decoder.yml")]
    (folder / "decoder.yml").unlink()
    found += read_marian(folder) + read_marian(folder / "model.npz", [folder / "vocab.spm"])
    for other in found:
        assert_same_weights(other.model, one)
    # Without decoder.yml, Marian's defaults.
    assert [other.decoding == search for other in found] == [True, True, False, False]


def test_the_search_is_that_of_decoder_yml(tmp_path):
    write(tmp_path / "marian")
    flags = ["--model=marian", "--model_dir=model"]
    more = {"max-length-factor": 2.5, "word-penalty": 0.25, "allow-unk": True, "mini-batch": 9}
    rewrite(tmp_path / "marian", **more, **{"unheard-of": 3})
    (outcome,) = outcomes_of([("import_marian", flags, "")], tmp_path)
    assert outcome.status == 0, outcome.err
    assert "unheard-of = 3" in outcome.err
    assert "mini-batch" not in outcome.err
    settings = load_translator(tmp_path / "model").settings
    search = settings.search
    assert search == MarianSearch(3, 0.5, word_penalty=0.25)
    assert (settings.imported.max_length_factor, settings.max_extra_length) == (2.5, 0)
    assert settings.imported.forbidden_ids == ()


def test_an_ensemble_becomes_a_directory_for_each_model(tmp_path):
    weights, options = write_changed(tmp_path / "marian", {})
    other = {name: value[::-1] for name, value in weights.items()}
    save(tmp_path / "marian" / "model2.npz", other, options)
    rewrite(tmp_path / "marian", models=["model.npz", "elsewhere/model2.npz"])
    flags = ["--model=marian", "--model_dir=model"]
    (outcome,) = outcomes_of([("import_marian", flags, "")], tmp_path)
    assert outcome.status == 0, outcome.err
    found = load_translator(tmp_path / "model/1", ensemble=[tmp_path / "model/2"])
    tables = [model.embedding.table.numpy()[3:] for model in found.models]
    assert not np.array_equal(*tables)
    assert found.settings.ensemble.__name__ == "sum_log_probabilities"
    assert len(found.translate(["the dog"])[0]) == 1


def vocabulary_of(tmp_path, ids, rows, name="vocab.yml", tokenizers=False):
    """The text of a model with a vocabulary that is no .spm."""
    if name.endswith((".yml", ".json")):
        directory.write_map(tmp_path / name, ids)
    else:
        (tmp_path / name).write_text("".join(f"{piece}\n" for piece in ids), encoding="utf-8")
    if tokenizers:
        for side, lines in (("source", SOURCE_TEXT), ("target", TARGET_TEXT)):
            (tmp_path / f"{side}.spm").write_bytes(train(lines))
    directory.write_model(tmp_path, (rows, rows), [name, name])
    ((_, text, search, *_),) = read_marian(tmp_path)
    (tmp_path / "ours").mkdir(exist_ok=True)
    return text, text.write(tmp_path / "ours"), search


# What YAML's own types would make of them: true, null, a number, a date, a list ...
ODD = ["on", "no", "true", "null", "~", "1", "1.0", "0x1F", "=", "<<", "2001-01-01", "-", "#", ":"]
ODD += ["'", '"', "\u2028", "\x85", "\x7f", "é", "[", "{a}", "&", "*x", "!", "|", "%", "@", "`"]


@pytest.mark.parametrize("name", ["vocab.yml", "vocab.json", "vocab.txt"])
def test_every_name_is_a_word_wherever_eos_and_unk_are(name, tmp_path):
    words = [*ODD[:5], "</s>", *ODD[5:], "<unk>", "end"]
    ids = {word: number for number, word in enumerate(words)}
    text, subwords, search = vocabulary_of(tmp_path, ids, len(ids), name)
    pieces = text.source.file.pieces
    assert dict(zip(pieces, text.source.ids.tolist(), strict=True)) == ids | {"<pad>": -1}
    assert (pieces[EOS_ID], pieces[UNK_ID]) == ("</s>", "<unk>")
    assert "forbidden_ids = (2,)" in search
    lines = [" ".join(ODD[:5]), " end  </s> unheard"]
    found = subwords.source.encode(lines)
    end = pieces.index("end")
    assert text.source.ids[found[0]].tolist() == [*range(5), ids["</s>"]]
    assert found[1] == [end, UNK_ID, UNK_ID, EOS_ID]
    assert [subwords.target.decode(one) for one in found] == [lines[0], "end <unk> <unk>"]


def test_pieces_are_sentencepiece_s_where_its_models_lie_beside(tmp_path):
    processors = [sentencepiece.SentencePieceProcessor(model_proto=train(SOURCE_TEXT))]
    processors.append(sentencepiece.SentencePieceProcessor(model_proto=train(TARGET_TEXT)))
    known = {one.id_to_piece(number) for one in processors for number in range(len(one))}
    words = sorted({*known, ">>deu<<", "<0x0A>", "<0x41>"} - {"z"})
    ids = {piece: number for number, piece in enumerate(words)}
    text, subwords, search = vocabulary_of(tmp_path, ids, len(ids), tokenizers=True)
    for line in ("the lazy dog z", ">>deu<< the lazy dog", "x >>deu<<"):
        code, rest = ([">>deu<<"], line[7:]) if line.startswith(">>") else ([], line)
        pieces = [*code, *processors[0].encode(rest, out_type=str), "</s>"]
        expected = [ids.get(piece, ids["<unk>"]) for piece in pieces]
        assert text.source.ids[subwords.source.encode([line])[0]].tolist() == expected
    (encoded,) = subwords.target.encode(["Männer"])
    assert subwords.target.decode(encoded) == "Männer"
    forbidden = [text.target.file.pieces[number] for number in (2, *_forbidden(search)[1:])]
    assert forbidden == ["<unk>", "<0x0A>"]


def _forbidden(search):
    name = "ImportedBehaviour.forbidden_ids = "
    (line,) = (line for line in search.split("\n") if line.startswith(name))
    return ast.literal_eval(line.removeprefix(name))


def test_ids_of_sentencepiece_are_its_own(tmp_path):
    write(tmp_path)
    ((_, text, *_),) = read_marian(tmp_path)
    (tmp_path / "ours").mkdir()
    source, target = text.write(tmp_path / "ours")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "vocab.spm"))
    for line in [*SOURCE_TEXT, *TARGET_TEXT, ">>deu<< the  dog ☃", "</s> <unk> <pad>"]:
        (ids,) = source.encode([line])
        assert text.source.ids[ids].tolist() == [*processor.encode(line), processor.eos_id()]
        assert target.decode(ids) == processor.decode(processor.encode(line))
    mark = target.pieces().index("\u2581")
    (ids,) = source.encode(["the dog"])
    assert target.decode([mark, *ids[:-1], mark]) == "the dog "


def test_nematus_names_gaps_padding_and_cuts_are_marian_s(tmp_path):
    ids = {"eos": 0, "UNK": 1, "a": 2, "c": 5, "rare": 16}
    text, subwords, _ = vocabulary_of(tmp_path, ids, 16)
    (found,) = subwords.source.encode(["a c rare"])
    assert text.source.ids[found].tolist() == [2, 5, 1, 0]
    ids = {"<unk>": 5, "a": 6, "</s>": 7}
    text, subwords, _ = vocabulary_of(tmp_path, ids, 16)
    (found,) = subwords.source.encode(["a b"])
    # As Marian has it: without a name, 0 is EOS and 1 is UNK.
    assert text.source.ids[found].tolist() == [6, 1, 0]
    # Marian pads to multiples of 8, so this vocabulary is of another model.
    with pytest.raises(UserError, match="expected 17 ids"):
        vocabulary_of(tmp_path, ids, 17)


def test_sides_that_share_an_embedding_can_have_other_pieces(tmp_path):
    names = ["source.vocab", "target.vocab"]
    for name, words in zip(names, ("a b c", "x y z"), strict=True):
        (tmp_path / name).write_text("\n".join(["<unk>", "</s>", *words.split()]) + "\n")
    directory.write_model(tmp_path, (5, 5), names)
    ((_, text, *_),) = read_marian(tmp_path)
    np.testing.assert_array_equal(text.source.ids, text.target.ids)
    assert text.source.file.pieces[3:] == ["a", "b", "c"]
    assert text.target.file.pieces[3:] == ["x", "y", "z"]


@pytest.mark.parametrize(
    "options",
    [
        {"type": "s2s"},
        {"transformer-decoder-autoreg": "average-attention"},
        {"transformer-preprocess": "r"},
        {"transformer-postprocess-top": "n"},
        {"transformer-decoder-dim-ffn": 7},
        {"right-left": True},
        {"transformer-ffn-activation": "prelu"},
        {"version": "v1.9.56", "transformer-ffn-activation": "gelu"},
        {"version": "v1.9.56", **PRE_NORM},
    ],
)
def test_what_our_transformer_cannot_be_is_refused_by_name(options, tmp_path):
    write_changed(tmp_path, options)
    with pytest.raises(UserError, match=next(iter(options))):
        read_marian(tmp_path)


def change_weights(folder, change):
    arrays = dict(np.load(folder / "model.npz"))
    change(arrays)
    np.savez(folder / "model.npz", **arrays)


def call_binary(folder):
    (folder / "model.npz").rename(folder / "model.intgemm.bin")
    rewrite(folder, models=["model.intgemm.bin"])


MORE = {"Wpos": np.zeros((50, 8), np.float32)}
# How a model is damaged, by what the error must name.
BROKEN: dict[str, Any] = {
    "model.npz": lambda f: os.truncate(f / "model.npz", 1000),
    "vocab.spm .* expected": lambda f: (f / "vocab.spm").write_bytes(train(SOURCE_TEXT, 60)),
    "model.intgemm.bin .*binary": call_binary,
    "Wpos": lambda f: change_weights(f, lambda arrays: arrays.update(MORE)),
    "vocab.spm .*empty": lambda f: (f / "vocab.spm").write_bytes(b""),
    "float32 numbers": lambda f: change_weights(f, lambda a: a["Wemb"].fill(np.nan)),
    "int8 numbers": lambda f: change_weights(f, lambda a: a.update(Wemb=np.int8(a["Wemb"]))),
    "encoder_l1_self_Wq": lambda f: change_weights(f, lambda a: a.pop("encoder_l1_self_Wq")),
}


def write_aliases(folder):
    lists = "".join(f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefghijklmnop"))
    (folder / "decoder.yml").write_text(f"a: &a [x, x, x]\n{lists}")


def write_zeros(folder):
    weights, options = write_changed(folder, {})
    text = np.frombuffer(yaml.safe_dump(options).encode(), np.int8)
    zeros = {"Wemb": np.zeros((10_000, 1000), np.float32), "special:model.yml": text}
    np.savez_compressed(folder / "model.npz", **weights | zeros)


def write_header(folder):
    shape = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000)}\n"
    with zipfile.ZipFile(folder / "model.npz", "a") as file:
        file.writestr("x.npy", b"\x93NUMPY\x01\x00" + bytes([len(shape), 0]) + shape)


# How a small model is made to claim, or become, a large one, by what the error names.
BOMBS: dict[str, Any] = {
    "decoder.yml": write_aliases, "expand": write_zeros, "npz": write_header,
    "weights": lambda folder: write_changed(folder, {"enc-depth": 10**9}),
}  # fmt: skip


@pytest.mark.parametrize("named", [*BROKEN, *BOMBS])
def test_damaged_files_and_small_ones_that_would_fill_the_memory_are_one_line(named, tmp_path):
    write(tmp_path)
    (BROKEN | BOMBS)[named](tmp_path)
    with pytest.raises(UserError, match=named):
        read_marian(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), [None, "x"]], ids=str)
def test_no_value_of_any_type_is_more_than_one_line(value, tmp_path):
    weights, options = write_changed(tmp_path, {})
    decoder = yaml.safe_load((tmp_path / "decoder.yml").read_text())
    for name in options:
        save(tmp_path / "model.npz", weights, options | {name: value})
        with suppress(UserError):
            read_marian(tmp_path)
    save(tmp_path / "model.npz", weights, options)
    for name in [*decoder, "max-length", "max-length-factor", "weights"]:
        (tmp_path / "decoder.yml").write_text(yaml.safe_dump(decoder | {name: value}))
        with suppress(UserError):
            read_marian(tmp_path)


@pytest.mark.parametrize("search", [{"beam-size": 10**9}, {"normalize": float("nan")}])
def test_a_search_that_decoding_refuses_is_refused_at_import(search, tmp_path):
    write(tmp_path)
    rewrite(tmp_path, **search)
    with pytest.raises(UserError, match=r"beam_size|normalize"):
        write_imported(tmp_path / "model", read_marian(tmp_path)[0], "made", None)


@pytest.mark.parametrize("name", ["opus.ZIP", "opus.tgz"])
def test_an_archive_is_read_for_its_model_alone(name, tmp_path):
    write(tmp_path / "opus")
    is_zip = name.endswith("ZIP")
    # As Windows writes them.
    folder = "a\\b\\" if is_zip else "a/b/"
    names = {path: f"{folder}{path.name}" for path in (tmp_path / "opus").iterdir()}
    others = "__MACOSX/a/b/._model.npz", "../outside.npz", "a/b/model.npz.optimizer.npz"
    model = tmp_path / "opus" / "model.npz"
    made: Any = zipfile.ZipFile if is_zip else tarfile.open
    with made(tmp_path / name, "w" if is_zip else "w:gz") as archive:
        for path, inside in [*names.items(), *((model, other) for other in others)]:
            (archive.write if is_zip else archive.add)(path, inside)
    with model_files(tmp_path / name) as files:
        assert len(read_marian(files)) == 1
        assert {path.name for path in files.iterdir()} == {path.name for path in names}
    assert not files.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["opus", name]


def test_names_of_windows_and_missing_vocabularies_are_found(tmp_path):
    write(tmp_path)
    for side in ("source", "target"):
        shutil.copy(tmp_path / "vocab.spm", tmp_path / f"{side}.spm")
    (tmp_path / "vocab.spm").unlink()
    rewrite(tmp_path, models=["C:\\me\\model.npz"], vocabs=["m.src.vocab", "m.trg.vocab"])
    ((_, text, *_),) = read_marian(tmp_path)
    assert text.source.file.kind == text.target.file.kind == "sentencepiece"

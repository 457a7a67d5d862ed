"""Checkpoints of the original, imported by the command line: T2T's own ids come out."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (its operations)

from t2t_repro.attention.maps import collect_weights
from t2t_repro.formats.tensor2tensor.checkpoint import transformer_from_t2t
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.text.t2t import T2TSubwords
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.commands import outcomes_of
from tests.formats.tensor2tensor.test_checkpoint import VOCAB, t2t_variables, write_checkpoint
from tests.oracle import VARIANTS, oracle_arrays, oracle_folder

EXTRA = 10
LENGTH = f"--gin_param=Translator.max_extra_length = {EXTRA}"
STEPS = {"paper": 1200, "v3": 3400}


def run(folder, *commands):
    """What the commands wrote to standard output; (module, flags, standard input) each."""
    outcomes = outcomes_of(commands, folder)
    for outcome in outcomes:
        assert outcome.status == 0, outcome.err
    return [outcome.out for outcome in outcomes]


def write_vocabulary(path, size, used):
    """A vocabulary in which id 14 is the word u14, so that a sentence of ids is a text.

    The characters that a vocabulary must have take ids that are not used.
    """
    subwords = ["<pad>_", "<EOS>_", *(f"u{i}_" for i in range(2, size))]
    free = (i for i in range(2, size) if i not in used)
    for character in "\\_u;0123456789":
        subwords[next(free)] = character
    path.write_text("".join(f"'{subword}'\n" for subword in subwords))


def as_text(sentences):
    lines = []
    for ids in sentences:
        ends = np.flatnonzero((ids == EOS_ID) | (ids == PAD_ID))
        lines.append(" ".join(f"u{token}" for token in ids[: ends[0] if ends.size else None]))
    return "".join(line + "\n" for line in lines)


def test_the_original_s_ids(tmp_path):
    imports, expected = [], {}
    for variant in VARIANTS:
        arrays = oracle_arrays(variant)
        source = arrays["batch1/source_ids"][arrays["decode_early1/rows"]]
        target = arrays[f"decode_early1/beam4_top1_extra{EXTRA}/ids"]
        write_vocabulary(tmp_path / variant, 96, {*source.ravel(), *target.ravel()})
        expected[variant] = as_text(target)
        (tmp_path / "source").write_text(as_text(source))
        (tmp_path / f"{variant}.reference").write_text(expected[variant])
        checkpoint = f"--checkpoint={oracle_folder(variant) / 'checkpoint'}"
        flags = [checkpoint, f"--vocabulary={variant}", f"--model_dir=model-{variant}"]
        imports.append(("import_t2t", flags, ""))
    # Both have the same sources.
    translation = ("translate", ["--model_dir=model-paper", LENGTH, "--input=source"], "")
    files = ["--source=source", "--reference=v3.reference", "--output=v3.output"]
    evaluation = ("evaluate", ["--model_dir=model-v3", LENGTH, *files], "")
    *_, translated, scores = run(tmp_path, *imports, translation, evaluation)
    assert translated == expected["paper"]
    assert (tmp_path / "v3.output").read_text() == expected["v3"]
    assert "BLEU 100.00" in scores

    for variant in VARIANTS:
        directory = ModelDirectory(tmp_path / f"model-{variant}")
        assert directory.checkpoint().endswith(f"checkpoints/step-{STEPS[variant]}")
        theirs = (a for name, a in oracle_arrays(variant).items() if name.startswith("transformer"))
        ours = directory.load_model().get_weights()
        assert sorted(a.tobytes() for a in ours) == sorted(a.tobytes() for a in theirs)


@pytest.fixture(scope="module")
def made_here(tmp_path_factory):
    """A folder with an imported model, and the checkpoint that it is of."""
    folder = tmp_path_factory.mktemp("made_here")
    variables, _ = t2t_variables(shards=16)
    variables["transformer/body/target_space_embedding/kernel"] = np.ones((32, 8), np.float32)
    (folder / "t2t").mkdir()
    write_checkpoint(folder / "t2t", {**variables, "global_step": np.int64(250)})
    write_vocabulary(folder / "vocab", VOCAB, range(16, VOCAB))
    (folder / "model").mkdir()  # An empty one may be there.
    flags = ["--checkpoint=t2t/model.ckpt-7", "--vocabulary=vocab", "--model_dir=model"]
    run(folder, ("import_t2t", [*flags, "--target_space=8"], ""))
    return folder


def test_an_imported_model_s_attention_can_be_looked_at(made_here):
    flags = ["--model_dir=model", "--source=u20 u34 x", "--target=u16", "--output=maps"]
    run(made_here, ("attention_maps", [*flags, "--nopictures"], ""))
    page = (made_here / "maps" / "attention.html").read_text(encoding="utf-8")
    data = json.loads(page.split('type="application/json">')[1].split("</script>")[0])
    encoder, decoder, cross = data["kinds"]
    # A word that the vocabulary lacks is spelled: an escape of several subwords.
    assert encoder["queries"] == ["u20", "u34", "\\", "##1", "##2", "##0", "##;", "##_", "<EOS>"]
    assert (cross["queries"], cross["keys"]) == (["u16", "<EOS>"], encoder["keys"])
    assert decoder["keys"] == ["<START>", "u16"]
    model = transformer_from_t2t(made_here / "t2t", target_space=8)
    source = [[20, 34, *T2TSubwords(made_here / "vocab").encode(["x"])[0]]]
    expected = collect_weights(model, np.array(source), np.array([[16, EOS_ID]]))
    for kind, weights in zip(data["kinds"], expected, strict=True):
        found = np.array(kind["weights"]) / data["scale"]
        np.testing.assert_allclose(found, weights[:, 0], atol=6e-4)


def test_an_imported_model_can_be_exported(made_here):
    lines = ["u20 u34 x", "u17, (u16) _"]
    (made_here / "lines").write_text("".join(f"{line}\n" for line in lines))
    *_, translated = run(
        made_here,
        ("export", ["--model_dir=model", "--export_dir=servable"], ""),
        ("translate", ["--model_dir=model", "--input=lines"], ""),
    )
    served = tf.saved_model.load(str(made_here / "servable" / "1")).signatures["serving_default"]
    texts = served(source=tf.constant(lines))["translation"].numpy()
    assert b"".join(text + b"\n" for text in texts).decode() == translated


def test_the_directory_is_complete_in_itself(made_here):
    expected = transformer_from_t2t(made_here / "t2t", target_space=8)
    directory = ModelDirectory((made_here / "model").rename(made_here / "moved"))
    assert directory.checkpoint().endswith("checkpoints/step-250")
    model = directory.load_model()
    assert model.get_config()["config"] == expected.get_config()["config"]
    for ours, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    subwords = directory.subwords().target
    assert isinstance(subwords, T2TSubwords)
    assert subwords.encode(["u20 u34"]) == [[20, 34, EOS_ID]]
    assert not list(made_here.glob(".*"))

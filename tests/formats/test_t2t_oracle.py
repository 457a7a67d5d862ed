"""The original's checkpoints: its logits and its translations come out, exported too."""

import numpy as np
import pytest

from t2t_repro.decoding.loading import load_translator
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.formats.tensor2tensor import transformer_from_t2t
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests import reference
from tests.commands import outcomes_of
from tests.formats.conftest import graph_of
from tests.formats.saved_model.cpp_client import answer_of, cpp_session, text_libraries, texts_of
from tests.oracle import VARIANTS, oracle_arrays, oracle_folder

EXTRA = 10
STEPS = {"paper": 1200, "v3": 3400}


@pytest.fixture(scope="module", params=VARIANTS)
def original(request):
    """The original's model and arrays."""
    arrays = oracle_arrays(request.param)
    return transformer_from_t2t(oracle_folder(request.param) / "checkpoint"), arrays


@pytest.mark.parametrize("batch", ["batch1", "batch2"])
def test_the_forward_pass_is_the_originals(original, batch):
    model, arrays = original
    source, target = arrays[f"{batch}/source_ids"], arrays[f"{batch}/target_ids"]
    memory = model.encode(source)
    logits = model((source, target))
    log_probs = np.take_along_axis(reference.log_softmax(logits), target[..., None], axis=-1)
    for name, received, ids in (
        ("encoder_output", memory, source),
        ("decoder_output", model.decode(target, memory, source), target),
        ("logits", logits, target),
        ("token_log_probs", log_probs[..., 0], target),
    ):
        tokens, expected = ids != PAD_ID, arrays[f"{batch}/{name}"]
        np.testing.assert_allclose(np.asarray(received)[tokens], expected[tokens], atol=5e-6)


def write_vocabulary(path, size, used):
    """Writes a vocabulary in which id 14 is the word u14, so that ids can be given as text.

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
    return lines


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A folder with both checkpoints as model directories."""
    folder = tmp_path_factory.mktemp("imported")
    commands = []
    for variant in VARIANTS:
        arrays = oracle_arrays(variant)
        used = {*arrays["batch1/source_ids"].ravel(), *best_of(arrays).ravel()}
        write_vocabulary(folder / f"{variant}.vocab", 96, used)
        checkpoint = f"--checkpoint={oracle_folder(variant) / 'checkpoint'}"
        flags = [checkpoint, f"--vocabulary={variant}.vocab", f"--model_dir={variant}"]
        commands.append(("import_t2t", flags, ""))
    for outcome in outcomes_of(commands, folder):
        assert outcome.status == 0, outcome.err
    return folder


def best_of(arrays):
    return arrays[f"decode_early1/beam4_top1_extra{EXTRA}/ids"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_translations_of_an_imported_model_are_the_originals(imported, variant):
    arrays = oracle_arrays(variant)
    lines = as_text(arrays["batch1/source_ids"][arrays["decode_early1/rows"]])
    directory = ModelDirectory(imported / variant)
    assert directory.checkpoint().endswith(f"step-{STEPS[variant]}")
    translator = load_translator(imported / variant, [f"Translator.max_extra_length = {EXTRA}"])
    expected = as_text(best_of(arrays))
    assert [best.text for (best,) in translator.translate(lines)] == expected
    if variant == "paper":
        version = write_saved_model(Servable(translator, "float32"), imported / "made", 1, "made")
        signature = graph_of(version).signature_def["serving_default"]
        with cpp_session(version, text_libraries()) as (ask, loaded):
            assert loaded == {}
            answer = answer_of(ask, signature, {"source": [*lines, "x, 64", ""]})
        odd = [best.text for (best,) in translator.translate(["x, 64", ""])]
        assert texts_of(answer["translation"]) == [*expected, *odd]

r"""Makes a model directory of a Marian model of Hugging Face, such as OPUS-MT's.

    python -m t2t_repro.import_marian --model=Helsinki-NLP/opus-mt-en-de --model_dir=runs/ende/model

--model is a directory that `MarianMTModel.save_pretrained` and its tokenizer's have written, or the
name of a model on the hub, which is downloaded: pip install 't2t_repro[hub]'.

The directory is complete in itself, as a training run's is: translate, evaluate and the others
take it. Decoding is set to what the model came with.
"""

import os
from pathlib import Path
from typing import NamedTuple

from absl import flags, logging

from t2t_repro.command_line.flags import check_extra, check_new, define_path
from t2t_repro.command_line.program import run
from t2t_repro.errors import UserError
from t2t_repro.files import whole_directory

FLAGS = flags.FLAGS

WEIGHTS = ("model.safetensors", "tf_model.h5")
"""Of these the first that a model has."""

SMALL_FILES = (
    "config.json", "generation_config.json", "vocab.json", "target_vocab.json", "source.spm",
    "target.spm", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip
"""What a model has besides its weights; not every model has all of them."""


class _Model(NamedTuple):
    """Where a model lies, and where it is from."""

    folder: Path
    origin: str
    commit: str | None


def main() -> None:
    """Runs the import on its flags."""
    check_new("model_dir")
    found = _find_model()
    from t2t_repro.formats.marian.config import read_marian_config
    from t2t_repro.formats.marian.hugging_face_import import transformer_from_marian, weights_file
    from t2t_repro.formats.marian.text import read_marian_text
    from t2t_repro.model.transformer import size_bindings
    from t2t_repro.runs.model_directory import ModelDirectory
    from t2t_repro.runs.records import Ancestor, weights_hash, write_ancestry
    from t2t_repro.runs.weights import named_values, save_weights

    # Of a model of another kind, its kind is told, and not which files it lacks.
    theirs = read_marian_config(found.folder)
    text = read_marian_text(found.folder)
    file = weights_file(found.folder)
    model = transformer_from_marian(found.folder, theirs, text, file)
    longest = min(theirs.positions, text.max_length or theirs.positions)
    limit = f"Translator.max_source_length = {longest}\n"
    config = theirs.decoding + limit + size_bindings(model)
    checkpoint = file.path.name + (f"@{found.commit}" if found.commit else "")
    ancestor = Ancestor(found.origin, checkpoint, weights_hash(named_values(model)), {}, {})
    with whole_directory(Path(FLAGS.model_dir)) as aside:
        directory = ModelDirectory(aside)
        directory.describe(model, text.write(aside), config, config)
        save_weights(model, directory.checkpoints, 0)
        write_ancestry(directory.ancestry_json, [ancestor])
        check_new("model_dir")
    logging.info(
        "imported %s parameters of %s into %s",
        f"{model.count_params():,}",
        found.origin if found.commit is None else f"{found.origin} at {found.commit}",
        FLAGS.model_dir,
    )


def _find_model() -> _Model:
    """The directory that --model names, or what it names on the hub, downloaded."""
    given = os.path.expanduser(FLAGS.model)
    if os.path.isdir(given):
        if FLAGS.revision:
            raise UserError(
                f"--revision={FLAGS.revision} is for a model of the hub, but --model={given} is a "
                "directory: leave it out."
            )
        return _Model(Path(given), os.path.abspath(given), None)
    from t2t_repro.formats.marian.hub import download, is_hub_name

    if not is_hub_name(given):
        raise UserError(
            f"--model={given}: no such directory; expected one with what "
            "MarianMTModel.save_pretrained writes, or the name of a model on the Hugging Face hub, "
            "such as Helsinki-NLP/opus-mt-en-de."
        )
    check_extra("hub", "huggingface_hub")
    small = download(given, SMALL_FILES, FLAGS.revision)
    # One file of weights is enough: the first that there is.
    for name in WEIGHTS:
        with_weights = download(given, (*SMALL_FILES, name), small.commit)
        if (with_weights.folder / name).is_file():
            return _Model(with_weights.folder, given, small.commit)
    of_commit = f"from_pretrained({given!r}, revision={small.commit!r})"
    raise UserError(
        f"{given} at {small.commit} has no {' or '.join(WEIGHTS)} on the hub: convert it once, "
        "with pip install transformers torch sentencepiece and python -c "
        f'"from transformers import MarianMTModel as M, MarianTokenizer as T; '
        f"[c.{of_commit}.save_pretrained('converted') for c in (M, T)]\", and give "
        "--model=converted."
    )


def cli() -> None:
    """Defines the flags, reads the command line, and imports."""
    flags.DEFINE_string(
        "model",
        None,
        "A directory of MarianMTModel.save_pretrained, or the name of a model on the hub.",
        required=True,
    )
    define_path("model_dir", None, "The directory to be made.", is_required=True)
    flags.DEFINE_string(
        "revision", None, "Of a model on the hub: a branch, a tag or a commit; the newest if not."
    )
    run(main)


if __name__ == "__main__":
    cli()

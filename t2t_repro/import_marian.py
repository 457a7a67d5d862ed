r"""Makes a model directory of a Marian model in Hugging Face's form, such as OPUS-MT's.

    python -m t2t_repro.import_marian --model=Helsinki-NLP/opus-mt-en-de --model_dir=runs/ende/model

--model is a directory that `MarianMTModel.save_pretrained` and its tokenizer's wrote, or the name
of a model on the hub, which is downloaded: pip install 't2t_repro[hub]'.

The directory is like that of a training run: translate, evaluate and the other commands take it.
Decoding is set to what the model came with.
"""

import os
import re
from pathlib import Path

from absl import flags, logging

from t2t_repro.command_line.flags import check_extra, check_new, define_path
from t2t_repro.command_line.program import run
from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import whole_directory

FLAGS = flags.FLAGS

_SMALL_FILES = (
    "config.json", "generation_config.json", "vocab.json", "target_vocab.json", "source.spm",
    "target.spm", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "adapter_config.json",
)  # fmt: skip
"""Files that a model can have beside its weights."""


def main() -> None:
    """Imports what the flags name."""
    check_new("model_dir")
    folder, name, commit = _find_model()
    from t2t_repro.formats.marian.hugging_face_import import read_hugging_face
    from t2t_repro.model.transformer import size_bindings
    from t2t_repro.runs.model_directory import ModelDirectory
    from t2t_repro.runs.records import Ancestor, weights_hash, write_ancestry
    from t2t_repro.runs.weights import named_values, save_weights

    marian = read_hugging_face(folder)
    config = marian.decoding + size_bindings(marian.model)
    checkpoint = f"{marian.weights}@{commit}" if commit else marian.weights
    ancestor = Ancestor(name, checkpoint, weights_hash(named_values(marian.model)), {}, {})
    with whole_directory(Path(FLAGS.model_dir)) as partial:
        directory = ModelDirectory(partial)
        directory.describe(marian.model, marian.text.write(partial), config, config)
        save_weights(marian.model, directory.checkpoints, 0)
        write_ancestry(directory.ancestry_json, [ancestor])
    count = f"{marian.model.count_params():,}"
    logging.info(f"imported {count} parameters of {name}, {checkpoint}, into {FLAGS.model_dir}")


def _find_model() -> tuple[Path, str, str | None]:
    """Finds the directory that --model names, or downloads what it names on the hub.

    Returns:
        the directory; its absolute path, or the model's name on the hub; its revision there.
    """
    given = os.path.expanduser(FLAGS.model)
    if os.path.isdir(given):
        return Path(given), os.path.abspath(given), None
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", given, re.ASCII):
        raise UserError(
            f"--model={given}: no such directory; expected one, or the name of a model on the "
            "Hugging Face hub, such as Helsinki-NLP/opus-mt-en-de."
        )
    check_extra("hub", "huggingface_hub")
    folder = _download(given, "model.safetensors", FLAGS.revision)
    # The hub's cache names the folder after the commit.
    if not (folder / "model.safetensors").exists():
        folder = _download(given, "tf_model.h5", folder.name)
    return folder, given, folder.name


def _download(name: str, weights: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    files = [*_SMALL_FILES, weights]
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=files))
    # ValueError: an impossible name. OSError: no network.
    except (HfHubHTTPError, ValueError, OSError) as error:
        raise UserError(
            f"--model={name} cannot be downloaded from the Hugging Face hub ({reason_of(error)}): "
            "check the name, --revision and the network, or give a directory with its files."
        ) from error


def cli() -> None:
    """Runs the command."""
    meaning = "What MarianMTModel.save_pretrained wrote, or the name of a model on the hub."
    flags.DEFINE_string("model", None, meaning, required=True)
    define_path("model_dir", None, "The directory to make.", is_required=True)
    flags.DEFINE_string("revision", None, "Branch, tag or commit of the model on the hub.")
    run(main)


if __name__ == "__main__":
    cli()

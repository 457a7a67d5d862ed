r"""Makes a model directory of a Marian model: of Marian's own files, or in Hugging Face's form.

    python -m t2t_repro.import_marian --model=Helsinki-NLP/opus-mt-en-de --model_dir=runs/ende/model
    python -m t2t_repro.import_marian --model=opus-2020-02-26.zip --model_dir=runs/ende/model

--model is one of these:
- a directory or decoder.yml with model.npz (a student's: model.bin) and its vocabularies, as Marian
  or OPUS-MT wrote them; or the .npz or .bin itself, with --vocab if no decoder.yml is beside it;
- a directory that `MarianMTModel.save_pretrained` and its tokenizer's wrote;
- an archive (.zip, .tar.gz) of such a directory;
- the name of a model on the hub, which is downloaded: pip install -e '.[hub]'.

The directory is like that of a training run: translate, evaluate and the other commands take it.
Decoding is set to what the model came with. An ensemble becomes a directory for each model, 1, 2,
and so on.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from absl import logging

from t2t_repro.command_line.flags import FLAGS, check_new, define_model, define_paths
from t2t_repro.command_line.program import import_tensorflow, run
from t2t_repro.errors import UserError, reason_of, require_installed
from t2t_repro.files import whole_directory

# The files of a model to download; older models have their weights in tf_model.h5 alone.
_FILES = ["*.json", "*.model", "*.spm", "README.md", "*.safetensors"]


def main() -> None:
    """Imports the model or models of --model into --model_dir."""
    import_model([Path(path) for path in FLAGS.vocab])


def import_model(vocab: Sequence[Path] = (), **languages: str | None) -> None:
    """Imports the model or models of --model into --model_dir, and logs how to use an ensemble.

    Args:
        vocab: paths of the vocabularies, for Marian's own files.
        languages: arguments `source` and `target` of `read_hugging_face`; refused for Marian's own
            files.

    Raises:
        UserError: a flag, or the model, cannot be used.
    """
    check_new("model_dir")
    path, name, commit = _find_model()
    import_tensorflow()
    from t2t_repro.formats.hugging_face.model import read_hugging_face
    from t2t_repro.formats.imported import model_files, write_imported
    from t2t_repro.formats.marian import read_marian

    unpacked = model_files(path, "import_marian", "import_hugging_face")
    with whole_directory(Path(FLAGS.model_dir)) as partial, unpacked as files:
        # Hugging Face's form has this file; Marian's own has none.
        is_native = not (files / "config.json").exists()
        if any(languages.values() if is_native else vocab):
            files_of = "--vocab is for Marian's own files, languages are for others"
            raise UserError(f"{files_of}: expected none for {name}.")
        models = read_marian(files, vocab) if is_native else [read_hugging_face(files, **languages)]
        for number, model in enumerate(models, 1):
            folder = partial if len(models) == 1 else partial / str(number)
            write_imported(folder, model, name, commit)
    logging.info(f"imported {name} into {FLAGS.model_dir}")
    if len(models) > 1:
        others = " ".join(f"--ensemble={FLAGS.model_dir}/{n}" for n in range(2, len(models) + 1))
        logging.info(f"translate with --model_dir={FLAGS.model_dir}/1 {others}")


def _find_model() -> tuple[Path, str, str | None]:
    """Finds the directory or file of --model, or downloads it if it is a name on the hub.

    Returns:
        its path; its name, which is the absolute path, or that on the hub; its commit there, or
            None.

    Raises:
        UserError: --model is neither a path nor a name on the hub, or cannot be downloaded.
    """
    # --model may be a name on the hub, so it is not a path flag, which would replace "~".
    given = os.path.expanduser(FLAGS.model)
    if os.path.exists(given):
        if FLAGS.revision:
            raise UserError(f"--revision is for a name on the hub, but --model={given} is here.")
        return Path(given), os.path.abspath(given), None
    # A missing file such as "folder/model.npz" reads like a name on the hub: it is not looked up.
    is_file = re.search(r"\.(npz|bin|zip|yml|t?gz|tar|t?bz2|t?xz|json|h5|safetensors)$", given)
    if is_file or not re.fullmatch(r"[\w.-]+/[\w.-]+", given, re.ASCII):
        expected = "a path, or a name on the hub such as Helsinki-NLP/opus-mt-en-de"
        raise UserError(f"--model={given}: no such file or directory; expected {expected}.")
    require_installed("huggingface_hub", extra="hub")
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(given, revision=FLAGS.revision, allow_patterns=_FILES))
        if not any(folder.glob("*.safetensors")):
            # Of the same commit, by which the hub's cache names the folder: a branch may move.
            snapshot_download(given, revision=folder.name, allow_patterns="tf_model.h5")
    except Exception as error:  # Of the hub's library, of httpx, of Xet and others.
        problem = f"cannot download {given}: {reason_of(error)}; check --revision and network"
        raise UserError(f"{problem}, or give a directory with its files.") from error
    return folder, given, folder.name


def cli() -> None:
    """Defines the flags, reads the command line, and imports the model."""
    define_model("Marian's files, what MarianMTModel.save_pretrained wrote, or a name on the hub.")
    define_paths("vocab", "A vocabulary, or twice, of source and target; decoder.yml's by default.")
    run(main)


if __name__ == "__main__":
    cli()

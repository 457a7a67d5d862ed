r"""Makes a model directory of a model of CTranslate2, or of an Argos package.

    python -m t2t_repro.import_ctranslate2 --model=ende_ctranslate2 --model_dir=runs/ende/model
    python -m t2t_repro.import_ctranslate2 --model=translate-en_de-1_0.argosmodel \
        --model_dir=runs/argos/model

--model is one of these:
- a directory with model.bin, config.json and vocabularies, to which CTranslate2 converts models of
  OpenNMT-py, OpenNMT-tf, fairseq, Marian and transformers;
- a package of Argos Translate, or the directory of an installed one;
- an archive (.zip, .tar.gz) of one of these.

Text is split by the SentencePiece model beside it, or by --sentencepiece. Without one it is words
between blanks.

The directory is like that of a training run: translate, evaluate, trainer and export take it. The
search is the default one, that of a package Argos's.
"""

import os
from pathlib import Path

from absl import logging

from t2t_repro.command_line.flags import FLAGS, check_new, define_path, define_paths
from t2t_repro.command_line.program import import_tensorflow, run
from t2t_repro.files import whole_directory


def main() -> None:
    """Imports the model of --model into --model_dir."""
    check_new("model_dir")
    path = Path(FLAGS.model)
    import_tensorflow()
    from t2t_repro.formats.ctranslate2.model import read_ctranslate2
    from t2t_repro.formats.imported import model_files, write_imported

    unpacked = model_files(path, "import_ctranslate2")
    with whole_directory(Path(FLAGS.model_dir)) as partial, unpacked as folder:
        model = read_ctranslate2(folder, [Path(name) for name in FLAGS.sentencepiece])
        # The name of the model is its path; only models of the hub have a commit.
        write_imported(partial, model, os.path.abspath(path), commit=None)
    logging.info(f"imported {path} into {FLAGS.model_dir}")


def cli() -> None:
    """Defines the flags, reads the command line, and imports the model."""
    define_path("model", "A directory with model.bin, or an .argosmodel file.", is_required=True)
    define_path("model_dir", "The directory to make.", is_required=True)
    define_paths("sentencepiece", "What splits text; or twice, of source and target.")
    run(main)


if __name__ == "__main__":
    cli()

"""Shows who attends to whom: `python -m t2t_repro.attention_maps --model_dir=... --source=...`.

Encoder, decoder and cross-attention of one sentence pair, every layer and head, as the paper's
figures 3 to 5: <output>/attention.html, a page for any browser, and a PNG picture for every layer.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from absl import flags, logging

from t2t_repro import command_line
from t2t_repro.errors import UserError

FLAGS = flags.FLAGS

PAGE = "attention.html"


def main() -> None:
    """Draws the maps on its flags."""
    if not FLAGS.source.strip():
        raise UserError(f"--source={FLAGS.source!r} is empty, expected a sentence.")
    from t2t_repro import experiment
    from t2t_repro.analysis import attention_plots
    from t2t_repro.analysis.attention_maps import PairAttention
    from t2t_repro.analysis.attention_page import Heading, as_html
    from t2t_repro.training.model_directory import ModelDirectory

    if FLAGS.pictures:
        attention_plots.check_matplotlib()
    translator = experiment.load_translator(
        Path(FLAGS.model_dir), FLAGS.gin_param, FLAGS.checkpoint
    )
    source, target, origin = FLAGS.source, FLAGS.target, "given"
    if target is None:
        target, origin = translator.translate([source])[0][0].text, "the model's own translation"
    maps = PairAttention(translator.model, translator.subwords, source, target).maps()
    checkpoint = ModelDirectory(FLAGS.model_dir).checkpoint(FLAGS.checkpoint)
    files = {PAGE: as_html(maps, Heading(checkpoint, source, target, origin)).encode()}
    if FLAGS.pictures:
        files |= {
            f"{attention.kind}_layer_{layer + 1}.png": attention_plots.layer_picture(
                attention, layer
            )
            for attention in maps
            for layer in range(len(attention.weights))
        }
    write_files(Path(FLAGS.output), files)
    logging.info("attention maps: %s and %d pictures", Path(FLAGS.output) / PAGE, len(files) - 1)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files into a folder, each whole or not at all; older ones are replaced.

    Raises:
        UserError: they cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".partial", dir=folder) as aside:
            for name, content in files.items():
                (Path(aside) / name).write_bytes(content)
            for name in files:
                os.replace(Path(aside) / name, folder / name)
    except OSError as error:
        raise UserError(
            f"--output={folder}: {error.strerror}; expected a folder that can be written to."
        ) from error


if __name__ == "__main__":
    command_line.define_model_dir()
    flags.DEFINE_string("checkpoint", None, "averaged, best, latest or checkpoints/step-<n>.")
    flags.DEFINE_string("source", None, "A sentence.", required=True)
    flags.DEFINE_string("target", None, "Its translation; the model's own by default.")
    flags.DEFINE_string("output", None, "A folder for the page and the pictures.", required=True)
    flags.DEFINE_bool("pictures", True, "Draw PNG files too, which takes matplotlib.")
    command_line.run(main)

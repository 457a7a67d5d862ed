"""Shows who attends to whom: `python -m t2t_repro.attention_maps --model_dir=... --source=...`.

Encoder, decoder and cross-attention of one sentence pair, every layer and head, as the paper's
figures 3 to 5: <output>/attention.html, a page for any browser, and a PNG picture for every layer.
With --word a second one for every layer, of lines from that word to what it attends to.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from absl import flags, logging

from t2t_repro.command_line.flags import (
    define_trained_model,
    find_checkpoint,
    load_translator,
)
from t2t_repro.command_line.path_flags import define_path
from t2t_repro.command_line.program import run
from t2t_repro.command_line.quiet_start import import_tensorflow
from t2t_repro.errors import UserError

if TYPE_CHECKING:
    from t2t_repro.attention.maps import AttentionMap

FLAGS = flags.FLAGS

PAGE = "attention.html"


def main() -> None:
    """Draws the maps on its flags."""
    if not FLAGS.source.strip():
        raise UserError(f"--source={FLAGS.source!r} is empty, expected a sentence.")
    if FLAGS.word is not None and not FLAGS.pictures:
        raise UserError("--word asks for pictures, --nopictures for none: leave one of them out.")
    import_tensorflow()
    from t2t_repro.attention.maps import PairAttention, ids_to_show
    from t2t_repro.attention.page import Heading, as_html
    from t2t_repro.attention.pictures import check_matplotlib

    if FLAGS.pictures:
        check_matplotlib()
    checkpoint = find_checkpoint()
    translator = load_translator(checkpoint)
    source, target, origin = FLAGS.source, FLAGS.target, "given"
    # Before it is translated, which takes long if it is too long.
    ids_to_show("source", source, translator.model, translator.subwords.source)
    if target is None:
        target, origin = translator.translate([source])[0][0].text, "the model's own translation"
    maps = PairAttention(translator.model, translator.subwords, source, target).maps()
    heading = Heading(str(Path(FLAGS.model_dir) / checkpoint), source, target, origin)
    files = {PAGE: as_html(maps, heading).encode()}
    if FLAGS.pictures:
        files |= draw(maps, FLAGS.word)
    write_files(Path(FLAGS.output), files)
    logging.info("attention maps: %s and %d pictures", Path(FLAGS.output) / PAGE, len(files) - 1)


def draw(maps: Sequence["AttentionMap"], word: str | None) -> dict[str, bytes]:
    """Draws every layer of every map as a PNG file.

    Args:
        maps: of one sentence pair.
        word: lines from it are drawn too, where it is a query.

    Returns:
        the files' contents by their names.

    Raises:
        UserError: there is no such word.
    """
    from t2t_repro.attention.attention_lines import lines_picture
    from t2t_repro.attention.attention_plots import layer_picture

    names = list(dict.fromkeys(name for attention in maps for name in attention.queries))
    if word is not None and word not in names:
        raise UserError(
            f"--word={word!r} is no subword of source or target, expected one of: {' '.join(names)}"
        )
    files = {}
    for attention in maps:
        for layer in range(len(attention.weights)):
            name = f"{attention.kind}_layer_{layer + 1}"
            files[f"{name}.png"] = layer_picture(attention, layer)
            if word is not None and word in attention.queries:
                files[f"{name}_word.png"] = lines_picture(attention, layer, word)
    return files


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files into a folder, each whole or not at all; older ones are replaced.

    Raises:
        UserError: they cannot be written.
    """
    from t2t_repro.files import lock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".partial", dir=folder) as aside:
            for name, content in files.items():
                (Path(aside) / name).write_bytes(content)
            # The pictures of one sentence belong together.
            with lock(folder / ".attention_maps.lock"):
                for name in files:
                    os.replace(Path(aside) / name, folder / name)
    except OSError as error:
        raise UserError(
            f"--output={folder}: {error.strerror}; expected a folder that can be written to."
        ) from error


def cli() -> None:
    """Defines the flags, reads the command line, and draws the maps."""
    define_trained_model()
    flags.DEFINE_string("source", None, "A sentence.", required=True)
    flags.DEFINE_string("target", None, "Its translation; the model's own by default.")
    define_path("output", None, "A folder for the page and the pictures.", is_required=True)
    flags.DEFINE_bool("pictures", True, "Draw PNG files too, which takes matplotlib.")
    flags.DEFINE_string("word", None, "A subword as the page has it, to draw lines from.")
    run(main)


if __name__ == "__main__":
    cli()

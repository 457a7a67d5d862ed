"""Shows who attends to whom: `python -m t2t_repro.attention_maps --model_dir=... --source=...`.

Encoder, decoder and cross-attention of one sentence pair, every layer and head, as in the paper's
figures 3 to 5: <output>/attention.html, a page for any browser, and a PNG picture for each layer.
"""

from pathlib import Path

from absl import flags, logging

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line.program import run
from t2t_repro.errors import require_installed
from t2t_repro.files import write_whole

FLAGS = flags.FLAGS


def main() -> None:
    """Writes the attention maps of --source and its translation: a page, and pictures."""
    if FLAGS.pictures:
        require_installed("matplotlib", extra="plots")
    checkpoint = shared.find_checkpoint()
    translator = shared.load_translator(checkpoint)
    # Late: it imports TensorFlow, which --help and mistakes in flags do not need.
    from t2t_repro.attention.maps import PairAttention, as_html, layer_picture

    target, target_origin = FLAGS.target, "given"
    if target is None:
        [[best]] = translator.translate([FLAGS.source])
        target, target_origin = best.text, "the model's own translation"
    maps = PairAttention(translator.model, translator.subwords, FLAGS.source, target).maps()
    model = str(Path(FLAGS.model_dir) / checkpoint)
    files = {"attention.html": as_html(maps, model, FLAGS.source, target, target_origin).encode()}
    # Nothing is written before all is drawn.
    for attention in maps if FLAGS.pictures else []:
        for layer in range(len(attention.weights)):
            files[f"{attention.kind}_layer_{layer + 1}.png"] = layer_picture(attention, layer)
    for name, content in files.items():
        write_whole(Path(FLAGS.output) / name, content)
    logging.info("attention maps: %s/attention.html and %d pictures", FLAGS.output, len(files) - 1)


def cli() -> None:
    """Defines the flags, reads the command line, and draws the maps."""
    shared.define_trained_model()
    flags.DEFINE_string("source", None, "A sentence.", required=True)
    flags.DEFINE_string("target", None, "Its translation; the model's own by default.")
    shared.define_path("output", "A folder for the page and the pictures.", is_required=True)
    flags.DEFINE_bool("pictures", True, "Draw PNG files too; needs matplotlib.")
    run(main)


if __name__ == "__main__":
    cli()

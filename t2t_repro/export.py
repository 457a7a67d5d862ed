"""Exports a trained model: `python -m t2t_repro.export --model_dir=... --export_dir=...`.

--format=saved_model (the default) is for TensorFlow Serving: text in, text out, with the search and
the limits of the training run and of --gin_param. Every call writes a new version.
--format=ctranslate2 is a model directory of CTranslate2, an engine for CPUs and GPUs: tokens in,
tokens out, with SentencePiece's model. The engine is given beam and limits when it runs.
--format=argos is a package of Argos Translate, with such a directory in it.
--format=hugging_face is a `MarianMTModel` of transformers, with its tokenizer and a model card.
--format=marian is a student as Firefox ships them: 8-bit weights, SentencePiece's models and the
lexical shortlist, for engines in browsers and on phones.
--format=litert is one file with the search in it, for `translate --litert`, which needs no
TensorFlow, and for phones and browsers.
"""

import re
from itertools import islice
from pathlib import Path

from absl import flags, logging

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line.program import run
from t2t_repro.command_line.text_lines import stream_input
from t2t_repro.errors import UserError, require_installed
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import mean_target_length

FLAGS = flags.FLAGS

# The values of --weights that each format has, its default first.
_WEIGHTS = {
    "saved_model": ["float32", "bfloat16", "int8"],
    "ctranslate2": ["float32", "int8"],
    "argos": ["float32", "int8"],
    "hugging_face": ["float32"],
    "marian": ["int8"],
    "litert": ["int8", "float32"],
}

_CALIBRATION_LINES = 200


def main() -> None:
    """Exports the model of --model_dir in the format of --format.

    Logs a warning of what the format cannot hold and leaves out.
    """
    weights = FLAGS.weights or _WEIGHTS[FLAGS.format][0]
    _check_flags(weights)
    checkpoint = shared.find_checkpoint()
    precision = "mixed_bfloat16" if weights == "bfloat16" else "float32"
    translator = shared.load_translator(checkpoint, precision)
    # A SavedModel follows it; `write_litert_model` refuses it.
    if translator.settings.grammar and FLAGS.format not in ("saved_model", "litert"):
        logging.warning("grammar or glossary is left out: only a SavedModel follows it")
    if translator.settings.rerank:
        logging.warning("Translator.rerank is left out: exported models return the search's order")
    export_dir = Path(FLAGS.export_dir)
    # Each writer is imported where it is used: some need packages that the others do not.
    if FLAGS.format == "saved_model":
        from t2t_repro.decoding.settings import Sampling
        from t2t_repro.formats.saved_model.export import next_version, write_saved_model
        from t2t_repro.formats.saved_model.servable import Servable

        servable = Servable(translator, weights, FLAGS.add_signature, Sampling(samples=1))
        write_saved_model(servable, export_dir, next_version(export_dir), FLAGS.model_name)
    elif FLAGS.format == "ctranslate2":
        from t2t_repro.formats.ctranslate2.export import write_ctranslate2_model

        write_ctranslate2_model(translator, weights, export_dir)
    elif FLAGS.format == "marian":
        from t2t_repro.formats.marian_export import write_marian_model

        texts = filter(str.strip, stream_input(FLAGS.calibration, "calibration"))
        if not (sentences := [*islice(texts, _CALIBRATION_LINES)]):
            raise UserError(f"--calibration={FLAGS.calibration} has no text, expected sentences.")
        write_marian_model(translator, export_dir, sentences)
    elif FLAGS.format == "litert":
        from t2t_repro.formats.litert import write_litert_model

        write_litert_model(translator, weights, FLAGS.max_length, export_dir, FLAGS.one_line)
    elif FLAGS.format == "argos":
        from t2t_repro.formats.ctranslate2.argos import write_argos_package

        languages = FLAGS.direction.split("-")
        write_argos_package(translator, weights, export_dir, languages, FLAGS.package_version)
    else:
        from t2t_repro.formats.hugging_face.export import HuggingFaceModel
        from t2t_repro.formats.hugging_face.model_card import model_card

        directory = ModelDirectory(FLAGS.model_dir)
        model = HuggingFaceModel(translator, mean_target_length(directory.epoch_json))
        card = model_card(directory, checkpoint, translator.model, model.generation, FLAGS.license)
        model.write(export_dir, card)
        for difference in model.differences:
            logging.warning(difference)
    logging.info("exported %s weights: %s", weights, export_dir)


def _check_flags(weights: str) -> None:
    """Checks the flags of the format, before the model is loaded.

    `weights` is the value of --weights, or the format's default.

    Raises:
        UserError: a flag does not fit the format or is missing, --export_dir holds files, or a
            package that the format needs is not installed.
    """
    if weights not in _WEIGHTS[FLAGS.format]:
        given = f"--weights={weights} with --format={FLAGS.format}"
        raise UserError(f"{given}: expected {' or '.join(_WEIGHTS[FLAGS.format])}.")
    shared.check_new("export_dir", may_hold_files=FLAGS.format == "saved_model")
    # Written as on a command line: one pattern checks both flags, and the error shows them.
    package = f"--direction={FLAGS.direction} --package_version={FLAGS.package_version}"
    pattern = r"--direction=[a-z]{2,3}-[a-z]{2,3} --package_version=[0-9]+(\.[0-9]+)*"
    if FLAGS.format == "argos" and not re.fullmatch(pattern, package):
        raise UserError(f"{package}: expected e.g. --direction=en-de --package_version=1.0.")
    if FLAGS.format in ("ctranslate2", "argos"):
        # Babel knows the names of the languages in a package.
        for_languages = ["babel"] if FLAGS.format == "argos" else []
        require_installed("ctranslate2", *for_languages, extra="ctranslate2")
    if FLAGS.format == "marian" and not FLAGS.calibration:
        expected = f"a file of source sentences, of which {_CALIBRATION_LINES} are used"
        raise UserError(f"--format=marian needs --calibration: {expected}.")


def cli() -> None:
    """Defines the flags, reads the command line, and exports the model."""
    shared.define_trained_model()
    shared.define_glossary()
    shared.define_path("export_dir", "The directory to write.", is_required=True)
    flags.DEFINE_enum("format", "saved_model", list(_WEIGHTS), "For which engine.")
    help_text = "How weights are stored: float32 by default, int8 for Marian and LiteRT."
    flags.DEFINE_enum("weights", None, _WEIGHTS["saved_model"], help_text)
    shared.define_path("calibration", "For Marian: source sentences, to round activations by.")
    flags.DEFINE_integer("max_length", 128, "For LiteRT: the most subwords of a line.", 2, 10_000)
    flags.DEFINE_bool("one_line", False, "For LiteRT in browsers: one line at a time.")
    more = "One more signature of a SavedModel: from given prefixes, samples, or word alignments."
    flags.DEFINE_multi_enum("add_signature", [], ["prefix", "sample", "alignment"], more)
    flags.DEFINE_string("model_name", "translate", "The name of a SavedModel, for clients.")
    flags.DEFINE_string("direction", None, "The languages of an Argos package, such as en-de.")
    flags.DEFINE_string("package_version", "1.0", "The version of an Argos package.")
    flags.DEFINE_string("license", None, "The licence in the model card, such as cc-by-4.0.")
    run(main)


if __name__ == "__main__":
    cli()

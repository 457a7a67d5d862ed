"""Exports a trained model: `python -m t2t_repro.export --model_dir=... --export_dir=...`.

--format=saved_model (the default) is for TensorFlow Serving: text in, text out, with the search and
the limits of the training run and of --gin_param. Every call writes a new version.
--format=ctranslate2 is a model directory of CTranslate2, an engine for CPUs and GPUs: tokens in,
tokens out, with SentencePiece's model. The engine is given beam and limits when it runs.
--format=hugging_face is a `MarianMTModel` of transformers, with its tokenizer and a model card.
"""

from pathlib import Path

from absl import flags, logging

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line.program import run
from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import mean_target_length

FLAGS = flags.FLAGS

_WEIGHTS = {
    "saved_model": ["float32", "bfloat16", "int8"],
    "ctranslate2": ["float32", "int8"],
    "hugging_face": ["float32"],
}
"""The values of --weights that each format has."""


def main() -> None:
    """Exports what the flags name."""
    if FLAGS.weights not in (weights := _WEIGHTS[FLAGS.format]):
        given = f"--weights={FLAGS.weights} with --format={FLAGS.format}"
        raise UserError(f"{given}: expected {' or '.join(weights)}.")
    shared.check_new("export_dir", may_exist=FLAGS.format == "saved_model")
    if FLAGS.format == "ctranslate2":
        shared.check_extra("ctranslate2", "ctranslate2")
    checkpoint = shared.find_checkpoint()
    precision = "mixed_bfloat16" if FLAGS.weights == "bfloat16" else "float32"
    translator = shared.load_translator(checkpoint, precision)
    if translator.settings.grammar and FLAGS.format != "saved_model":
        logging.warning("Translator.grammar is left out: only a SavedModel follows it")
    if translator.settings.rerank:
        logging.warning("Translator.rerank is left out: exported models return the search's order")
    export_dir = Path(FLAGS.export_dir)
    if FLAGS.format == "saved_model":
        from t2t_repro.decoding.settings import Sampling
        from t2t_repro.formats.saved_model.export import next_version, write_saved_model
        from t2t_repro.formats.saved_model.servable import Servable

        servable = Servable(translator, FLAGS.weights, FLAGS.add_signature, Sampling(samples=1))
        write_saved_model(servable, export_dir, next_version(export_dir), FLAGS.model_name)
    elif FLAGS.format == "ctranslate2":
        from t2t_repro.formats.ctranslate2 import write_ctranslate2_model

        write_ctranslate2_model(translator, FLAGS.weights, export_dir)
    else:
        from t2t_repro.formats.hugging_face.export import HuggingFaceModel
        from t2t_repro.formats.hugging_face.model_card import model_card

        directory = ModelDirectory(FLAGS.model_dir)
        model = HuggingFaceModel(translator, mean_target_length(directory.epoch_json))
        card = model_card(directory, checkpoint, translator.model, model.generation, FLAGS.license)
        model.write(export_dir, card)
        for difference in model.differences:
            logging.warning(difference)
    logging.info("exported %s weights: %s", FLAGS.weights, export_dir)


def cli() -> None:
    """Runs the command."""
    shared.define_trained_model()
    shared.define_path("export_dir", "The directory to write.", is_required=True)
    flags.DEFINE_enum("format", "saved_model", list(_WEIGHTS), "For which engine.")
    flags.DEFINE_enum("weights", "float32", _WEIGHTS["saved_model"], "How weights are stored.")
    more = "One more signature of a SavedModel: from given prefixes, samples, or word alignments."
    flags.DEFINE_multi_enum("add_signature", [], ["prefix", "sample", "alignment"], more)
    flags.DEFINE_string("model_name", "translate", "The name of a SavedModel, for clients.")
    flags.DEFINE_string("license", None, "The licence in the model card, such as cc-by-4.0.")
    run(main)


if __name__ == "__main__":
    cli()

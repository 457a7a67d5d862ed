"""Makes a servable: `python -m t2t_repro.export --model_dir=... --export_dir=...`.

It translates without t2t_repro. A SavedModel, for TensorFlow Serving: text in, text out, with the
beam and the limits of the training run's configuration, on which --gin_param puts others; every
call writes a new version. A model directory of CTranslate2, an engine for CPUs and GPUs: tokens in,
tokens out, SentencePiece's model beside it; beam and limits are given to the engine. A directory of
Hugging Face's transformers, with tokenizer and model card: theirs is MarianMTModel, which can hold
a model as the paper has it.
"""

import re
from pathlib import Path

from absl import flags, logging

from t2t_repro.command_line.flags import (
    check_extra,
    check_model_name,
    check_new,
    define_path,
    define_trained_model,
    find_checkpoint,
    load_translator,
)
from t2t_repro.command_line.program import run
from t2t_repro.errors import UserError

FLAGS = flags.FLAGS

_LICENSE = r"[A-Za-z0-9.+-]{1,64}"


def main() -> None:
    """Runs the export on its flags."""
    if FLAGS.license is not None and FLAGS.format != "hugging_face":
        raise UserError(
            f"--license={FLAGS.license} with --format={FLAGS.format}, which has no model card: "
            "leave it out, or give --format=hugging_face."
        )
    _EXPORTS[FLAGS.format]()


def _export_saved_model() -> None:
    check_model_name()
    from t2t_repro.files import exclusive_lock
    from t2t_repro.formats.saved_model.export import next_version, write_saved_model
    from t2t_repro.formats.saved_model.servable import Servable
    from t2t_repro.formats.saved_model.stored_weights import PRECISIONS
    from t2t_repro.runs.model_directory import ModelDirectory

    export_dir = Path(FLAGS.export_dir)
    # Before the model is loaded, which takes long: what cannot be written is said now.
    next_version(export_dir, FLAGS.version)
    translator = load_translator(find_checkpoint(), PRECISIONS[FLAGS.weights])
    if translator.settings.rerank:
        logging.warning("Translator.rerank is left out: a servable answers what its search finds")
    servable = Servable(translator, FLAGS.weights, FLAGS.add_signature)
    lock = export_dir / ".export.lock"
    with exclusive_lock(lock, str(export_dir), "give another --export_dir"):
        version = next_version(export_dir, FLAGS.version)
        written = write_saved_model(servable, export_dir, version, FLAGS.model_name)
    logging.info("exported %s weights as version %d: %s", FLAGS.weights, version, written)
    if FLAGS.weights == "float32" and ModelDirectory(FLAGS.model_dir).sizes()["dtype"] != "float32":
        logging.info(
            "it computes in float32, and translate in bfloat16 as in training: some translations "
            "may differ; those of --weights=bfloat16 are the same"
        )


def _export_ctranslate2() -> None:
    _check_ctranslate2()
    from t2t_repro.formats.ctranslate2 import write_ctranslate2_model

    translator = load_translator(find_checkpoint(), "float32")
    write_ctranslate2_model(translator, FLAGS.weights, Path(FLAGS.export_dir))
    logging.info("exported %s weights for CTranslate2: %s", FLAGS.weights, FLAGS.export_dir)
    logging.info("how it searches or samples is told to CTranslate2: no search is exported")


def _check_ctranslate2() -> None:
    """Says at once what neither CTranslate2 nor TensorFlow is needed for."""
    if FLAGS.weights == "bfloat16":
        raise UserError(
            "--weights=bfloat16 with --format=ctranslate2: expected float32 or int8; CTranslate2 "
            "itself computes in bfloat16, where it can, with compute_type='bfloat16'."
        )
    _check_whole_directory(
        "leave it out; CTranslate2 itself takes a beginning (target_prefix) and samples "
        "(sampling_topk, sampling_temperature)."
    )
    check_extra("ctranslate2", "ctranslate2")
    check_new("export_dir")


def _export_hugging_face() -> None:
    _check_hugging_face()
    from t2t_repro.formats.marian.hugging_face_export import HuggingFaceModel
    from t2t_repro.formats.marian.model_card import model_card
    from t2t_repro.runs.model_directory import ModelDirectory
    from t2t_repro.runs.records import mean_target_length

    checkpoint = find_checkpoint()
    translator = load_translator(checkpoint, "float32")
    directory = ModelDirectory(FLAGS.model_dir)
    exported = HuggingFaceModel(translator, mean_target_length(directory.epoch_json))
    card = model_card(directory, checkpoint, translator.model, exported.generation, FLAGS.license)
    exported.write(Path(FLAGS.export_dir), card)
    for difference in exported.differences:
        logging.warning(difference)
    logging.info("exported for Hugging Face's transformers: %s", FLAGS.export_dir)
    if not FLAGS.license:
        logging.info("its model card says that the licence is unknown: --license names it")


def _check_hugging_face() -> None:
    if FLAGS.weights != "float32":
        raise UserError(
            f"--weights={FLAGS.weights} with --format=hugging_face: expected float32; transformers "
            "themselves load in less, with dtype='bfloat16'."
        )
    _check_whole_directory("leave it out; transformers' own generate samples (do_sample).")
    if FLAGS.license and not re.fullmatch(_LICENSE, FLAGS.license):
        raise UserError(
            f"--license={FLAGS.license}: expected an identifier, such as apache-2.0 or cc-by-4.0."
        )
    check_new("export_dir")


def _check_whole_directory(without_signatures: str) -> None:
    """Says what only a SavedModel has.

    Args:
        without_signatures: what to do in place of --add_signature.
    """
    if FLAGS.add_signature:
        raise UserError(
            f"--add_signature={FLAGS.add_signature[0]} with --format={FLAGS.format}, which has no "
            f"signatures: {without_signatures}"
        )
    for name in ("version", "model_name"):
        if FLAGS[name].present:
            raise UserError(
                f"--{name}={FLAGS[name].value} with --format={FLAGS.format}: --export_dir becomes "
                f"the model directory itself; leave --{name} out."
            )


_EXPORTS = {
    "saved_model": _export_saved_model,
    "ctranslate2": _export_ctranslate2,
    "hugging_face": _export_hugging_face,
}


def cli() -> None:
    """Defines the flags, reads the command line, and exports."""
    define_trained_model()
    define_path("export_dir", None, "Where it is written.", is_required=True)
    flags.DEFINE_enum("format", "saved_model", list(_EXPORTS), "For which engine.")
    flags.DEFINE_enum(
        "weights", "float32", ["float32", "bfloat16", "int8"], "How weights are stored."
    )
    flags.DEFINE_multi_enum(
        "add_signature",
        [],
        ["prefix", "sample", "alignment"],
        "One more signature: prefix translates from a given beginning, sample draws, alignment "
        "links words. Can be given several times.",
    )
    flags.DEFINE_integer("version", None, "Its number; one more than the largest by default.")
    flags.DEFINE_string("model_name", "translate", "The model's name, as clients will give it.")
    flags.DEFINE_string(
        "license",
        None,
        "Under which licence the model is given away, for Hugging Face's model card: an "
        "identifier such as cc-by-4.0.",
    )
    run(main)


if __name__ == "__main__":
    cli()

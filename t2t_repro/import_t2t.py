r"""Makes a model directory of a checkpoint of Tensor2Tensor.

    python -m t2t_repro.import_t2t --checkpoint=t2t_train/translate_ende \
        --vocabulary=t2t_data/vocab.translate_ende_wmt32k.32768.subwords --model_dir=runs/t2t/model

The directory is like that of a training run: translate, evaluate and the other commands take it.
Decoding is set to T2T's defaults: beam 4, alpha 0.6, 50 extra tokens.
"""

from pathlib import Path

from absl import flags, logging

from t2t_repro.command_line.flags import FLAGS, check_new, define_path
from t2t_repro.command_line.program import import_tensorflow, run
from t2t_repro.files import whole_directory
from t2t_repro.text.t2t import T2TSubwords


def main() -> None:
    """Imports the checkpoint of --checkpoint into --model_dir."""
    check_new("model_dir")
    subwords = T2TSubwords(FLAGS.vocabulary)
    import_tensorflow()
    from t2t_repro.formats.imported import table_of, write_model_directory
    from t2t_repro.formats.tensor2tensor import step_of_t2t, transformer_from_t2t
    from t2t_repro.text.subword_model import shared

    model = transformer_from_t2t(FLAGS.checkpoint, FLAGS.hparams, subwords.size, FLAGS.target_space)
    with whole_directory(Path(FLAGS.model_dir)) as partial:
        step = step_of_t2t(FLAGS.checkpoint)
        decoding = table_of("tensor2tensor.yml")["decoding"]
        write_model_directory(partial, model, shared(subwords), decoding, step)
    logging.info(f"imported {model.count_params():,} parameters into {FLAGS.model_dir}")


def cli() -> None:
    """Defines the flags, reads the command line, and imports the model."""
    define_path("checkpoint", "T2T's model directory, or its model.ckpt-250000.", is_required=True)
    define_path("vocabulary", "The SubwordTextEncoder's vocab.*.subwords.", is_required=True)
    define_path("model_dir", "The directory to make.", is_required=True)
    define_path("hparams", "T2T's hparams.json; beside the checkpoint by default.")
    flags.DEFINE_integer("target_space", None, "The trained row of target_space_embedding, if any.")
    run(main)


if __name__ == "__main__":
    cli()

r"""Makes a model directory of a model of M2M-100, SMaLL-100 or NLLB.

    python -m t2t_repro.import_hugging_face --model=facebook/nllb-200-distilled-600M \
        --model_dir=runs/nllb/model --source_language=eng_Latn --target_language=deu_Latn

--model is a directory that `save_pretrained` of the model and of its tokenizer wrote, or the name
of a model on the hub, which is downloaded: pip install -e '.[hub]'.

Each line to translate begins with the code of its target's language, or with its own and that:
`>>deu_Latn<< Hello.` or `>>fra_Latn<< >>deu_Latn<< Bonjour.` The flags give the languages of lines
without codes.
"""

from absl import flags

from t2t_repro.command_line.flags import FLAGS, define_model
from t2t_repro.command_line.program import run
from t2t_repro.import_marian import import_model


def main() -> None:
    """Imports the model of --model into --model_dir."""
    import_model(source=FLAGS.source_language, target=FLAGS.target_language)


def cli() -> None:
    """Defines the flags, reads the command line, and imports the model."""
    define_model("What save_pretrained of model and tokenizer wrote, or a name on the hub.")
    help_text = "Of lines without a code of it, such as en or eng_Latn; the tokenizer's by default."
    flags.DEFINE_string("source_language", None, help_text)
    flags.DEFINE_string("target_language", None, "Of lines without codes, such as de or deu_Latn.")
    run(main)


if __name__ == "__main__":
    cli()

"""Translates text: `python -m t2t_repro.translate --model_dir=... < source.txt > target.txt`.

N lines in, N lines out, whatever they hold and however many they are: they are read, translated and
written block by block. Without --input it reads standard input; where that is a terminal, it asks
for a sentence at a time. With --output it may be killed at any time: the same command goes on.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_repro import command_line
from t2t_repro.errors import UserError
from t2t_repro.line_blocks import AlignedTexts, LineBlock
from t2t_repro.text_lines import check_output, converse, written

if TYPE_CHECKING:
    from t2t_repro.block_output import ResumableFiles, StandardOutput
    from t2t_repro.decoding.translator import Translator

FLAGS = flags.FLAGS

Outputs = Mapping[str, Sequence[str]]
"""The lines of each output of a block, by the flag that names its file."""


def main() -> None:
    """Runs the translation on its flags."""
    check_output(FLAGS.output)
    # What belongs to the lines, line by line, and what is written of them, each by its flag.
    inputs, outputs = {"input": FLAGS.input}, {"output": FLAGS.output}
    if FLAGS.prefix:
        inputs["prefix"] = FLAGS.prefix
    is_asked = not FLAGS.input and not FLAGS.prefix and sys.stdin.isatty()
    texts = None if is_asked else AlignedTexts(inputs)
    checkpoint = command_line.find_checkpoint()
    translator = command_line.load_translator(checkpoint, ensemble=FLAGS.ensemble)
    if not 1 <= FLAGS.n_best <= translator.search.beam_size:
        raise UserError(
            f"--n_best={FLAGS.n_best}: expected 1 to the beam size, {translator.search.beam_size}; "
            "widen the beam with --gin_param='BeamSearch.beam_size = <n>', or draw more with "
            "--gin_param='Sampling.samples = <n>'."
        )

    def translated(block: LineBlock) -> Outputs:
        """What becomes of a block."""
        found = translator.translate(
            block.texts["input"], FLAGS.n_best, block.texts.get("prefix"), first=block.first
        )
        numbered = enumerate(found, block.first)
        lines = [line for number, some in numbered for line in written(number, some, FLAGS.scores)]
        return {"output": lines}

    if texts is None:
        converse(lambda lines: iter(translated(LineBlock(1, {"input": [*lines]}, ""))["output"]))
        return
    from t2t_repro.block_output import ResumableFiles, StandardOutput
    from t2t_repro.training.preemption import ended_by_signals

    if FLAGS.output:
        with ended_by_signals():
            _translate(
                texts, translated, ResumableFiles(outputs, _identity(checkpoint, translator))
            )
    else:
        _translate(texts, translated, StandardOutput())


def _translate(
    texts: AlignedTexts,
    translated: Callable[[LineBlock], Outputs],
    output: "ResumableFiles | StandardOutput",
) -> None:
    """Translates what an earlier process has not."""
    from t2t_repro.data.progress import Progress

    with output:
        if output.done and texts.skip(output.done) != output.digest:
            raise UserError(
                f"--output={FLAGS.output}: {FLAGS.output}.partial holds translations of "
                f"{output.done} other lines than the input begins with: give the input that it was "
                f"begun with, or delete {FLAGS.output}.partial to begin anew."
            )
        if not output.finished:
            with Progress("translate", output.done, texts.total, "lines") as progress:
                for block in texts:
                    lines = len(block.texts["input"])
                    output.append(lines, block.digest, translated(block))
                    progress.advance(lines)
        output.finish()


def _identity(checkpoint: str, translator: "Translator") -> dict[str, Any]:
    """What determines the translations of a line, by the names that a user knows it by."""
    import gin

    from t2t_repro.bindings.text import bindings_in, name_of
    from t2t_repro.training.model_directory import ModelDirectory

    directory = ModelDirectory(FLAGS.model_dir)
    # It holds a checksum of every weight.
    index = directory.path / f"{checkpoint}.index"
    subwords = b"".join(translator.subwords.contents().values())
    bindings = {name_of(one): repr(one.value) for one in bindings_in(gin.config_str())}
    return {
        "--checkpoint": checkpoint,
        "weights": hashlib.sha256(index.read_bytes()).hexdigest(),
        "subwords": hashlib.sha256(subwords).hexdigest(),
        "--n_best": FLAGS.n_best,
        "--scores": FLAGS.scores,
        **bindings,
    }


def cli() -> None:
    """Defines the flags, reads the command line, and translates."""
    command_line.define_trained_model()
    command_line.define_ensemble()
    command_line.define_path("input", None, "A text file, plain or .gz; standard input by default.")
    command_line.define_path(
        "prefix",
        None,
        "A text file: how the translation of each line begins; blank lines: as it likes.",
    )
    command_line.define_path("output", None, "A text file; standard output by default.")
    flags.DEFINE_integer("n_best", 1, "How many translations of each line.")
    flags.DEFINE_bool("scores", False, "Write 'line number <tab> score <tab> translation'.")
    command_line.run(main)


if __name__ == "__main__":
    cli()

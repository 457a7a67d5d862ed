"""Long texts block by block: what verbs share that read, work and write in bounded memory."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_repro.command_line.line_blocks import AlignedTexts, LineBlock
from t2t_repro.errors import UserError

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator

Outputs = Mapping[str, Sequence[str]]
"""The lines of each output of a block, by the flag that names its file."""

Identity = Mapping[str, Any]
"""All but the texts that determines what is written; see `ResumableFiles`."""


def work_in_blocks(
    stage: str,
    texts: AlignedTexts,
    made: Callable[[LineBlock], Outputs],
    outputs: Mapping[str, str],
    identity: Callable[[], Identity],
) -> None:
    """Reads texts and writes what becomes of them, after what a killed process has written.

    Args:
        stage: what is done, for the progress, e.g. "translate".
        texts: read block by block.
        made: what becomes of a block.
        outputs: the paths of the files, by their flags; --output among them may be empty, for
            standard output, which nothing can go on with.
        identity: asked for where the output is to be gone on with.

    Raises:
        UserError: a file holds what was made of other texts, or cannot be written.
    """
    from t2t_repro.command_line.resumable_lines import ResumableFiles, StandardOutput
    from t2t_repro.progress import Progress
    from t2t_repro.training.signals import ended_by_signals

    with ExitStack() as held:
        output: ResumableFiles | StandardOutput
        if path := outputs["output"]:
            held.enter_context(ended_by_signals())
            output = held.enter_context(ResumableFiles(outputs, identity()))
        else:
            output = held.enter_context(StandardOutput())
        if output.done and texts.skip(output.done) != output.digest:
            raise UserError(
                f"--output={path}: {path}.partial holds what was made of {output.done} other "
                "lines than the input begins with: give the input that it was begun with, or "
                f"delete {path}.partial to begin anew."
            )
        if output.finished and next(iter(texts), None):
            raise UserError(
                f"--output={path}: {path}.partial holds what was made of {output.done} lines, and "
                "the input has more: give the input that it was begun with, or delete "
                f"{path}.partial to begin anew."
            )
        if not output.finished:
            with Progress(stage, output.done, texts.total, "lines") as progress:
                for block in texts:
                    lines = len(next(iter(block.texts.values())))
                    output.append(lines, block.digest, made(block))
                    progress.advance(lines)
        output.finish()


def identity_of(translator: "Translator", checkpoint: str, flag_names: Sequence[str]) -> Identity:
    """What determines the output of a line, by the names that a user knows it by.

    Args:
        translator: that makes it.
        checkpoint: of its model.
        flag_names: those of the verb that matter, besides its files.
    """
    import gin

    from t2t_repro.config.gin_text import bindings_in, name_of
    from t2t_repro.runs.records import weights_hash
    from t2t_repro.runs.weights import name_of as name_of_weight

    weights = (
        {name_of_weight(weight): weight for weight in model.weights} for model in translator.models
    )
    return {
        "--checkpoint": checkpoint,
        "weights": " ".join(map(weights_hash, weights)),
        "subwords": translator.subwords.checksum(),
        **{f"--{name}": flags.FLAGS[name].value for name in flag_names},
        **{name_of(one): repr(one.value) for one in bindings_in(gin.config_str())},
    }

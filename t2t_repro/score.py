"""Scores given translations: how likely the model finds each target, given its source.

    python -m t2t_repro.score --model_dir=... --source=a.en --target=a.de > a.scores

A line a pair: log P(target, EOS included | source) in nats, a tab, and how many subwords that is.
With --tokens a line is JSON, with every subword and its log-probability. However many pairs there
are, they are read, scored and written block by block. With --output it may be killed at any time:
the same command goes on.
"""

import json
from typing import TYPE_CHECKING

from absl import flags

from t2t_repro.command_line.block_work import Identity, Outputs, identity_of, work_in_blocks
from t2t_repro.command_line.flags import (
    define_trained_model,
    find_checkpoint,
    load_translator,
)
from t2t_repro.command_line.line_blocks import AlignedTexts, LineBlock
from t2t_repro.command_line.path_flags import define_path
from t2t_repro.command_line.program import run
from t2t_repro.command_line.text_lines import check_output

if TYPE_CHECKING:
    from t2t_repro.decoding.pair_scores import PairScore

FLAGS = flags.FLAGS


def main() -> None:
    """Scores the pairs that its flags name."""
    check_output(FLAGS.output)
    texts = AlignedTexts({"source": FLAGS.source, "target": FLAGS.target})
    checkpoint = find_checkpoint()
    translator = load_translator(checkpoint)
    written = _as_json if FLAGS.tokens else _as_line

    def scored(block: LineBlock) -> Outputs:
        """The scores of a block."""
        found = translator.score(block.texts["source"], block.texts["target"], first=block.first)
        return {"output": [written(score) for score in found]}

    def identity() -> Identity:
        return identity_of(translator, checkpoint, ["tokens"])

    work_in_blocks("score", texts, scored, {"output": FLAGS.output}, identity)


def _as_line(score: "PairScore") -> str:
    return f"{score.log_probability:.6f}\t{len(score.subwords)}"


def _as_json(score: "PairScore") -> str:
    fields = score._asdict() | {
        "log_probability": round(score.log_probability, 6),
        "log_probabilities": [round(one, 6) for one in score.log_probabilities],
    }
    return json.dumps(fields, ensure_ascii=False)


def cli() -> None:
    """Defines the flags, reads the command line, and scores."""
    define_trained_model()
    define_path("source", None, "A text file, plain or .gz.", is_required=True)
    define_path("target", None, "Its translations, line by line.", is_required=True)
    define_path("output", None, "A text file; standard output by default.")
    flags.DEFINE_bool("tokens", False, "Write JSON: every subword with its log-probability.")
    run(main)


if __name__ == "__main__":
    cli()

"""Scores given translations: the probability of each target, given its source.

    python -m t2t_repro.score --model_dir=... --source=a.en --target=a.de > a.scores

A line for each pair: log P(target, EOS included | source) in nats, a tab, and the number of
subwords. With --tokens it is JSON, with every subword and its log-probability. With --output it can
be killed at any time: the same command goes on.
"""

import json
from functools import partial
from typing import Any

from absl import flags

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line import text_lines
from t2t_repro.command_line.program import run
from t2t_repro.progress import Report

FLAGS = flags.FLAGS


def main() -> None:
    """Scores the pairs of --source and --target, and writes a line for each, block by block."""
    text_lines.check_output()
    inputs = {"source": FLAGS.source, "target": FLAGS.target}
    total = text_lines.count_lines(inputs)
    checkpoint = shared.find_checkpoint()
    translator = shared.load_translator(checkpoint)

    def work(block: text_lines.Block, report: Report) -> text_lines.Outputs:
        # The texts are in the order of `inputs`: source, target.
        pairs = translator.score(*block.texts.values(), first=block.first, report=report)
        return {"output": [_line_of(pair) for pair in pairs]}

    settings = partial(shared.decoding_settings, translator, checkpoint, ["tokens"])
    blocks = text_lines.read_blocks(inputs)
    text_lines.work_in_blocks("score", blocks, {"output": FLAGS.output}, settings, work, total)


def _line_of(pair: Any) -> str:
    """Returns the output line of a `PairScore`: its score and length, or JSON with --tokens."""
    if not FLAGS.tokens:
        return f"{pair.log_probability:.6f}\t{len(pair.subwords)}"
    fields = pair._asdict()
    fields["log_probability"] = round(pair.log_probability, 6)
    fields["log_probabilities"] = [round(token, 6) for token in pair.log_probabilities]
    return json.dumps(fields, ensure_ascii=False)


def cli() -> None:
    """Defines the flags, reads the command line, and scores the pairs."""
    shared.define_trained_model()
    shared.define_path("source", "A text file, plain, .gz, .xz or .bz2.", is_required=True)
    shared.define_path("target", "Its translations, line by line.", is_required=True)
    shared.define_path("output", "A text file; standard output by default.")
    flags.DEFINE_bool("tokens", False, "Write JSON: every subword with its log-probability.")
    run(main)


if __name__ == "__main__":
    cli()

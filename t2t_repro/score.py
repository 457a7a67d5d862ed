"""Scores given translations: the probability of each target, given its source.

    python -m t2t_repro.score --model_dir=... --source=a.en --target=a.de > a.scores

A line for each pair: log P(target, EOS included | source) in nats, a tab, and the number of
subwords. With --tokens it is JSON, with every subword and its log-probability. With --output it can
be killed at any time: the same command goes on.
"""

import json

from absl import flags

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line.program import run
from t2t_repro.command_line.resumable_lines import Block, Outputs, count_lines, work_in_blocks
from t2t_repro.command_line.text_lines import check_output

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the scoring on its flags."""
    check_output()
    inputs = {"source": FLAGS.source, "target": FLAGS.target}
    total = count_lines(inputs)
    checkpoint = shared.find_checkpoint()
    translator = shared.load_translator(checkpoint)

    def work(block: Block) -> Outputs:
        scores = translator.score(block.texts["source"], block.texts["target"], first=block.first)
        if not FLAGS.tokens:
            return {"output": [f"{one.log_probability:.6f}\t{len(one.subwords)}" for one in scores]}
        rounded = [
            one._replace(
                log_probability=round(one.log_probability, 6),
                log_probabilities=[round(token, 6) for token in one.log_probabilities],
            )
            for one in scores
        ]
        return {"output": [json.dumps(one._asdict(), ensure_ascii=False) for one in rounded]}

    work_in_blocks(
        "score",
        inputs,
        {"output": FLAGS.output},
        lambda: shared.decoding_settings(translator, checkpoint, ["tokens"]),
        work,
        total,
    )


def cli() -> None:
    """Defines the flags, reads the command line, and scores."""
    shared.define_trained_model()
    shared.define_path("source", None, "A text file, plain, .gz, .xz or .bz2.", is_required=True)
    shared.define_path("target", None, "Its translations, line by line.", is_required=True)
    shared.define_path("output", None, "A text file; standard output by default.")
    flags.DEFINE_bool("tokens", False, "Write JSON: every subword with its log-probability.")
    run(main)


if __name__ == "__main__":
    cli()

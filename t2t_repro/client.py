"""Translates with a server: `python -m t2t_repro.client < source.txt > target.txt`.

The server is t2t_repro.serve or TensorFlow Serving. N lines in, N lines out, in their order.
Without --input it reads standard input; where that is a terminal, it asks for sentences.
--load_test=1000 measures the server with the input's sentences instead.
"""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from absl import flags, logging

from t2t_repro.command_line.flags import check_extra, check_model_name, define_path
from t2t_repro.command_line.program import run
from t2t_repro.command_line.text_lines import converse, read_input, write_output, written
from t2t_repro.errors import UserError
from t2t_repro.formats.saved_model.version_numbers import LARGEST_VERSION

if TYPE_CHECKING:
    from t2t_repro.serving.remote_translator import RemoteTranslator

FLAGS = flags.FLAGS

_PORTS = {"rest": 8501, "grpc": 8500}


def main() -> None:
    """Runs the client on its flags."""
    check_model_name()
    check_extra("serve", "tenacity", "urllib3", "grpc")
    is_asked = not FLAGS.input and not FLAGS.output and sys.stdin.isatty()
    lines = None if is_asked else read_input(FLAGS.input)
    translator = _connect()
    if FLAGS.load_test:
        _load_test(translator, lines)
    elif lines is None:
        converse(lambda lines: _translated(translator, lines))
    else:
        write_output(_translated(translator, lines), FLAGS.output)


def _connect() -> "RemoteTranslator":
    from t2t_repro.serving.remote_translator import Address, Predictor, RemoteTranslator

    server = FLAGS.server or f"127.0.0.1:{_PORTS[FLAGS.protocol]}"
    address = Address(server, FLAGS.model_name, FLAGS.version, FLAGS.timeout)
    predictor: Predictor
    if FLAGS.protocol == "grpc":
        from t2t_repro.serving.grpc_predictor import GrpcPredictor

        predictor = GrpcPredictor(address)
    else:
        from t2t_repro.serving.rest_predictor import RestPredictor

        predictor = RestPredictor(address, FLAGS.concurrency)
    return RemoteTranslator(predictor, FLAGS.retries)


def _translated(translator: "RemoteTranslator", lines: Sequence[str]) -> Iterator[str]:
    """The lines to write, of batches that are translated side by side."""
    size = FLAGS.batch_size
    batches = [lines[first : first + size] for first in range(0, len(lines), size)]
    with ThreadPoolExecutor(FLAGS.concurrency) as pool:
        try:
            answers = pool.map(lambda batch: translator.translate(batch, FLAGS.n_best), batches)
            numbered = enumerate((answer for batch in answers for answer in batch), start=1)
            for number, answer in numbered:
                if answer.is_truncated:
                    logging.warning("line %d: only its beginning was translated", number)
                yield from written(number, answer.translations, FLAGS.scores)
        finally:
            # What is left after an error is in vain.
            pool.shutdown(wait=False, cancel_futures=True)


def _load_test(translator: "RemoteTranslator", lines: Sequence[str] | None) -> None:
    from t2t_repro.serving.load_test import run_load_test

    if lines is None:
        raise UserError("--load_test needs sentences to send: give --input a file with some.")
    report = run_load_test(
        lambda sentence: translator.translate([sentence])[0].translations[0].text,
        lines,
        FLAGS.load_test,
        FLAGS.concurrency,
    )
    print(*report.lines(), sep="\n")
    if report.failures or report.mixed_up:
        reason = f"; the first failure: {report.failures[0]}" if report.failures else ""
        raise UserError(
            f"{len(report.failures)} of {report.requests} requests were lost and "
            f"{report.mixed_up} mixed up{reason}"
        )


def cli() -> None:
    """Defines the flags, reads the command line, and translates."""
    flags.DEFINE_string("server", None, "host:port; 127.0.0.1:8501 (REST) or :8500 by default.")
    flags.DEFINE_enum("protocol", "rest", list(_PORTS), "How to speak to it.")
    flags.DEFINE_string("model_name", "translate", "The model's name.")
    flags.DEFINE_integer(
        "version", None, "Which version of it; the newest by default.", 0, LARGEST_VERSION
    )
    define_path("input", None, "A text file; standard input by default.")
    define_path("output", None, "A text file; standard output by default.")
    flags.DEFINE_integer("n_best", 1, "How many translations of each line.", 1)
    flags.DEFINE_bool("scores", False, "Write 'line number <tab> score <tab> translation'.")
    flags.DEFINE_integer("batch_size", 16, "Lines of a request.", 1)
    flags.DEFINE_integer("concurrency", 4, "Requests at a time.", 1)
    flags.DEFINE_float("timeout", 60.0, "Seconds to wait for an answer.", 0.001)
    flags.DEFINE_integer("retries", 4, "How often to repeat what a busy server refused.", 0)
    flags.DEFINE_integer("load_test", 0, "Measure the server with this many requests.", 0)
    run(main)


if __name__ == "__main__":
    cli()

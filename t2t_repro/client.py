"""Translates with a server: `python -m t2t_repro.client < source.txt > target.txt`.

The server is t2t_repro.serve or TensorFlow Serving, over REST. N lines in, N lines out. Without
--input it reads standard input; at a terminal it asks for sentences. If the environment variable
T2T_API_KEY is set, it is sent as the server's key.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from itertools import chain, islice, repeat
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from absl import flags

from t2t_repro.command_line import text_lines
from t2t_repro.command_line.flags import FLAGS, define_path, define_split, split_language
from t2t_repro.command_line.program import run
from t2t_repro.decoding.search import Translation, log_cut
from t2t_repro.decoding.sentences import translate_sentences
from t2t_repro.errors import UserError
from t2t_repro.serving.predict import OUTPUTS, read_api_key


def main() -> None:
    """Translates --input, or what the user types, with the server of the flags."""
    text_lines.check_output()
    if not (FLAGS.input or FLAGS.output) and sys.stdin.isatty() and sys.stdout.isatty():
        text_lines.converse(_output_lines)
    else:
        text_lines.write_output(_output_lines(text_lines.read_input(FLAGS.input)), FLAGS.output)


def _output_lines(lines: Sequence[str]) -> Iterator[str]:
    """Translates lines, whole or by sentences, and yields the lines to write.

    A line of the input has as many as it has translations. Logs which are cut off.
    """
    if (language := split_language()) is None:
        nbest_lists = _nbest_lists(lines)
    else:
        nbest_lists = ([best] for best in translate_sentences(lines, language, _best_translations))
    for number, nbest in enumerate(nbest_lists, start=1):
        log_cut(nbest[:1], number)
        yield from text_lines.output_lines(number, nbest, FLAGS.scores)


def _best_translations(texts: Sequence[str]) -> Iterator[Translation]:
    """Yields the best translation of each text."""
    return (best for best, *_ in _nbest_lists(texts))


def _nbest_lists(texts: Sequence[str]) -> Iterator[list[Translation]]:
    """Yields the translations of each text, the best first, in the order of the texts.

    Raises:
        UserError: a request fails, see `_predict`.
    """
    batches = [texts[n : n + FLAGS.batch_size] for n in range(0, len(texts), FLAGS.batch_size)]
    # Several requests are made at a time; `map` yields their answers in order.
    with ThreadPoolExecutor(FLAGS.concurrency) as pool:
        try:
            yield from chain.from_iterable(pool.map(_predict, batches))
        finally:
            # After an error, requests that have not begun are not made.
            pool.shutdown(cancel_futures=True)


def _read_answer(answer: dict[str, Any]) -> list[Translation]:
    """Returns the translations in a server's answer to a text, the best first.

    The answer has lists, as {"translation": ["a", "b"], "truncated": false, "count": 2, ...}, or
    is that of one translation: {"translation": "a", "truncated": false, ...}.

    Raises:
        LookupError, TypeError: it is not an answer of our models.
    """
    # Models that earlier versions exported do not say which translations are finished.
    outputs: dict[str, Any] = {"finished": True} | answer
    values = [outputs[name] for name in OUTPUTS]
    # A list has a value for each translation; a single value, such as `truncated`, is that of all.
    columns = [value if isinstance(value, list) else repeat(value) for value in values]
    # The lists have the size of the beam; only their first `count` values are of translations.
    count = min(answer.get("count", 1), FLAGS.n_best)
    return [Translation(*row) for row in islice(zip(*columns, strict=False), count)]


def _predict(lines: Sequence[str]) -> list[list[Translation]]:
    """Sends lines in one request, and returns the translations of each, the best first.

    Raises:
        UserError: the server cannot be reached, refuses the request, or serves another model.
    """
    signature = "nbest" if FLAGS.n_best > 1 else "serving_default"
    body = json.dumps({"signature_name": signature, "instances": list(lines)}).encode()
    url = f"http://{FLAGS.server}/v1/models/{FLAGS.model_name}:predict"
    headers = {"Content-Type": "application/json"}
    if key := read_api_key():
        headers["Authorization"] = f"Bearer {key}"
    try:
        with urlopen(Request(url, body, headers)) as response:
            answers = json.load(response)["predictions"]
            if len(answers) != len(lines):
                raise ValueError(f"received {len(answers)} answers to {len(lines)} lines")
            return [_read_answer(answer) for answer in answers]
    # Before OSError, of which HTTPError is a subclass.
    except HTTPError as error:
        reason = f"status {error.code}: {error.read().decode(errors='replace')}"
    # The last three are caused by the answers of other programs.
    except (OSError, HTTPException, LookupError, TypeError, ValueError) as error:
        reason = f"{error}; expected a running server of a model, e.g. python -m t2t_repro.serve"
    raise UserError(f"--server={FLAGS.server}: {reason}")


def cli() -> None:
    """Defines the flags, reads the command line, and translates."""
    flags.DEFINE_string("server", "127.0.0.1:8501", "host:port of the server's REST interface.")
    flags.DEFINE_string("model_name", "translate", "The model's name.")
    define_split()
    define_path("input", "A text file; standard input by default.")
    define_path("output", "A text file; standard output by default.")
    flags.DEFINE_integer("n_best", 1, "Translations of each line.", lower_bound=1)
    flags.DEFINE_bool("scores", False, "Write 'line number <tab> score <tab> translation'.")
    flags.DEFINE_integer("batch_size", 16, "Lines, or split sentences, of a request.", 1)
    flags.DEFINE_integer("concurrency", 4, "Requests at a time.", lower_bound=1)
    run(main)


if __name__ == "__main__":
    cli()

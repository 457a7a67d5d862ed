"""Serves trained models on this machine: `python -m t2t_repro.serve --model_dir=...`.

http://localhost:8501/ is a page with a form; the REST interface is TensorFlow Serving's. With
--direction=en-de it is LibreTranslate's too, for programs such as Weblate. Requests need the key in
the environment variable T2T_API_KEY, if there is one. For heavy use, export the model and start
TensorFlow Serving: `scripts/serve.sh`. SIGTERM and Ctrl-C end the server after it has answered the
requests that it received.
"""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from absl import flags

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line.program import run
from t2t_repro.data.parallel import usable_cores
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.litert import LiteRTTranslator
from t2t_repro.errors import UserError, require_installed
from t2t_repro.serving.predict import read_api_key

FLAGS = flags.FLAGS


def main() -> None:
    """Loads the models that the flags name, and serves them until a signal ends the server."""
    require_installed("aiohttp", "babel", extra="serve")
    from t2t_repro.serving.libretranslate import read_directions, read_pairs

    values = FLAGS.flag_values_dict() | {"api_key": read_api_key()}
    # Mistakes in flags are reported before the minutes in which models are loaded.
    shared.check_model_flags()
    paths = FLAGS.litert or FLAGS.model_dir
    # A single model can do without --direction; several are told apart by theirs.
    if len(FLAGS.direction) != len(paths) and (FLAGS.direction or len(paths) > 1):
        problem = f"received {len(paths)} models and {len(FLAGS.direction)} times --direction"
        raise UserError(f"{problem}, expected one for each model, in the same order.")
    # Only for its errors: `*` needs a model, so directions are read below.
    for directions_of_model in FLAGS.direction:
        read_pairs(directions_of_model)
    _check_port()
    engines, workers = _load_engines(paths)
    from t2t_repro.serving.server import Options, Server

    directions = read_directions(FLAGS.direction, engines)
    # The fields of Options are named as the flags.
    options = Options._make(values[name] for name in Options._fields)
    asyncio.run(Server(engines[0], options, directions, workers).serve())


def _load_engines(paths: Sequence[str]) -> tuple[Sequence[Engine], int]:
    """Loads an engine from each path; returns them, and the number of threads to call them.

    The paths are files of --litert, or else model directories.
    """
    if FLAGS.litert:
        return [LiteRTTranslator(Path(path)) for path in paths], usable_cores()
    # All are found before the first is loaded: a wrong path is reported soon.
    checkpoints = [shared.find_checkpoint(path) for path in paths]
    translators = [*map(_load_compiled, paths, checkpoints)]
    # Late: it imports TensorFlow, which a LiteRT file does not need.
    from t2t_repro.decoding.batch_plan import default_workers

    return translators, default_workers()


def _load_compiled(model_dir: str, checkpoint: str) -> Engine:
    """Loads a translator, and compiles its graphs by calls, so that no request waits for that."""
    loaded = shared.load_translator(checkpoint, model_dir=model_dir)
    # Several threads call it, each of which translates on one core.
    translator = loaded.with_settings(replace(loaded.settings, workers=1))
    # With a tag, if the model has some: it would warn of a text without one.
    text = next(iter(translator.tags.languages.values()), "") + " a"
    # Each number of translations is compiled; most requests ask for the best alone.
    for n_best in (1, translator.beam_size):
        translator.translate([text], n_best, first=None)
    if translator.aligns:
        translator.align([text], ["a"])
    return translator


def _check_port() -> None:
    """Checks that the server can listen on --host and --rest_port, by doing so for a moment.

    Raises:
        UserError: the address is not this machine's, or the port is not free.
    """
    # A colon is in all addresses of IPv6, and in no other name of a host.
    family = socket.AF_INET6 if ":" in FLAGS.host else socket.AF_INET
    try:
        socket.create_server((FLAGS.host, FLAGS.rest_port), family=family).close()
    except OSError as error:
        problem = f"--host={FLAGS.host} --rest_port={FLAGS.rest_port}: {error.strerror}"
        raise UserError(f"{problem}; expected this machine's address and a free port.") from error


def cli() -> None:
    """Defines the flags, reads the command line, and serves."""
    shared.define_paths("model_dir", "Of a training run; several, each with its --direction.")
    shared.define_litert(shared.define_paths)
    shared.define_loading()
    shared.define_glossary()
    shared.define_split()
    direction = "As en-de,de-en: what the model translates; en-*: to all languages of its tags."
    flags.DEFINE_multi_string("direction", [], f"{direction} One for each --model_dir.")
    flags.DEFINE_integer("max_characters", 50_000, "The most characters of a /translate.", 1)
    flags.DEFINE_string("model_name", "translate", "The model's name, as clients give it.")
    flags.DEFINE_string("host", "127.0.0.1", "The address to listen on; 0.0.0.0: all networks.")
    flags.DEFINE_multi_string("allowed_host", [], "Another name by which clients call the server.")
    flags.DEFINE_multi_string("allowed_origin", [], "A site whose pages may ask; '*': all sites.")
    flags.DEFINE_integer("rest_port", 8501, "For REST and the page; 0: any free port.", 0, 65535)
    flags.DEFINE_float("max_request_mb", 4.0, "The most MiB of a request.", 0.001, 1024)
    flags.DEFINE_float("client_seconds", 30.0, "The most seconds to receive a request.", 0.1)
    flags.DEFINE_integer("max_batch_size", 128, "Most texts of a request or of joined ones.", 1)
    flags.DEFINE_integer("max_waiting", 1024, "The most requests at a time.", lower_bound=1)
    flags.DEFINE_float("drain_seconds", 30.0, "The most seconds to finish requests at the end.", 0)
    run(main)


if __name__ == "__main__":
    cli()

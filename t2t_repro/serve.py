"""Serves a trained model on this machine, to try it: `python -m t2t_repro.serve --model_dir=...`.

http://localhost:8501/ is a page with a form; the REST interface is TensorFlow Serving's. For
production, export the model and start TensorFlow Serving: `scripts/serve.sh`. SIGTERM and Ctrl-C
end the server after it has answered the requests that it received.
"""

from typing import Any

from absl import flags

from t2t_repro.command_line.flags import (
    check_extra,
    check_model_name,
    define_split,
    define_trained_model,
    find_checkpoint,
    load_translator,
)
from t2t_repro.command_line.program import run

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the server on its flags."""
    check_model_name()
    check_extra("serve", "aiohttp")
    translator = load_translator(find_checkpoint())
    import asyncio
    from dataclasses import replace

    from t2t_repro.decoding.translator import Translator
    from t2t_repro.serving.server import Options, Server

    # Several requests are translated at a time, each on one core.
    settings = replace(translator.settings, workers=1)
    translator = Translator(translator.models, translator.subwords, settings)
    options: dict[str, Any] = {name: FLAGS[name].value for name in Options._fields}
    asyncio.run(Server(translator, Options(**options)).serve())


def cli() -> None:
    """Defines the flags, reads the command line, and serves."""
    define_trained_model()
    define_split()
    flags.DEFINE_string("model_name", "translate", "The model's name, as clients give it.")
    flags.DEFINE_string("host", "127.0.0.1", "The address to listen on; 0.0.0.0: all networks.")
    flags.DEFINE_multi_string(
        "allowed_host", [], "A name by which clients call the server, besides localhost and --host."
    )
    flags.DEFINE_integer("rest_port", 8501, "For REST and the page; 0: any free port.", 0, 65535)
    flags.DEFINE_float("max_request_mb", 4.0, "The most MiB of a request.", 0.001, 1024)
    flags.DEFINE_float("client_seconds", 30.0, "The most seconds to receive a request.", 0.1)
    sentences = "The most sentences of a request, and of requests that are joined."
    flags.DEFINE_integer("max_batch_size", 128, sentences, 1)
    flags.DEFINE_integer("max_waiting", 1024, "The most requests at a time.", 1)
    flags.DEFINE_float("drain_seconds", 30.0, "The most seconds to finish requests at the end.", 0)
    run(main)


if __name__ == "__main__":
    cli()

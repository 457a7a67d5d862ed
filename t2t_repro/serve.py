"""Serves an exported model on this machine: `python -m t2t_repro.serve --export_dir=...`.

Speaks TensorFlow Serving's REST and gRPC interfaces, for development; `scripts/serve.sh` starts
TensorFlow Serving itself. http://localhost:8501/ is a page to try the model out. A newer version in
--export_dir takes the older one's place. SIGTERM ends the server when all it has taken is answered.
"""

from pathlib import Path
from typing import Any

from absl import flags

from t2t_repro.command_line.flags import check_extra, check_model_name, define_path
from t2t_repro.command_line.program import run
from t2t_repro.errors import UserError

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the server on its flags."""
    check_model_name()
    if not Path(FLAGS.export_dir).is_dir():
        raise UserError(
            f"--export_dir={FLAGS.export_dir}: no such directory; expected what "
            "python -m t2t_repro.export wrote."
        )
    import asyncio

    check_extra("serve", "aiohttp", "grpc_health")
    from t2t_repro.serving.server import Options, serve

    given: dict[str, Any] = {name: FLAGS[name].value for name in Options._fields}
    asyncio.run(serve(Options(**given)))


def cli() -> None:
    """Defines the flags, reads the command line, and serves."""
    define_path("export_dir", None, "Holds the versions of a model.", is_required=True)
    flags.DEFINE_string("model_name", "translate", "The model's name, as clients will give it.")
    flags.DEFINE_string("host", "127.0.0.1", "Where to listen; 127.0.0.1 is for this machine.")
    flags.DEFINE_multi_string(
        "allowed_host", [], "A name by which clients call it, beside --host and localhost."
    )
    flags.DEFINE_integer("rest_port", 8501, "For REST and the page; 0: any free one.", 0, 65535)
    flags.DEFINE_integer("grpc_port", 8500, "For gRPC; 0: any free one.", 0, 65535)
    flags.DEFINE_float("max_request_mb", 4.0, "Most MiB of a request.", 0.001, 1024)
    flags.DEFINE_float("client_seconds", 30.0, "How long a client may take to send one.", 0.1)
    flags.DEFINE_integer(
        "max_batch_size", 128, "Most sentences of a request, and of requests joined.", 1
    )
    flags.DEFINE_integer("max_waiting", 1024, "How many requests may be there at a time.", 1)
    flags.DEFINE_float("max_waiting_mb", 256.0, "Most MiB of them.", 0.001)
    flags.DEFINE_float("poll_seconds", 1.0, "How often to look for other versions.", 0.01)
    flags.DEFINE_float("load_seconds", 300.0, "Until a version must be loaded, warm-up too.", 0.1)
    flags.DEFINE_float(
        "memory_gb",
        None,
        "Most GiB of a version's process; by default three quarters of what is free.",
        0.1,
    )
    flags.DEFINE_float("drain_seconds", 30.0, "How long to finish what was taken, at most.", 0)
    run(main)


if __name__ == "__main__":
    cli()

"""What TensorFlow Serving is started with: which models, how requests are joined, monitoring."""

from importlib import resources
from pathlib import Path

from t2t_repro.files import write_whole

SERVER_FILES = ("models.config", "batching_params.pbtxt", "monitoring.config")
"""Their names; what they say stands in the folder for_server, `{{model}}` for the model's name."""


def write_server_files(export_dir: Path, model_name: str) -> None:
    """Writes the files that are not there; one that is may have been adapted, and stays.

    Args:
        export_dir: where the model's versions are.
        model_name: as clients name the model.
    """
    for name in SERVER_FILES:
        text = (
            resources.files("t2t_repro.formats.saved_model")
            .joinpath("for_server", name)
            .read_text("utf-8")
        )
        path = export_dir / name
        if not path.exists():
            write_whole(path, text.replace("{{model}}", model_name).encode())

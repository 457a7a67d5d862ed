"""XLA's compiled programs on disk, so that a restart does not compile again."""

import hashlib
import importlib.metadata
import os
import platform
import re
import tempfile
from pathlib import Path

from absl import logging

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import nearest_folder

_FLAG = "--tf_xla_persistent_cache_"


def keep_programs(model_dir: Path, directory: str | None = None, is_writer: bool = True) -> None:
    """Makes XLA write the programs it compiles to disk, and look for them there.

    Reaches XLA through TF_XLA_FLAGS, which TensorFlow reads once, in some processes as it is
    imported: call this before. What TF_XLA_FLAGS says already of a cache is left as it
    is. XLA compares the whole program before it loads one, so a changed model is compiled anew.

    A CPU's programs, when loaded, are reported to prefer no scatter instructions, which no
    processor lists among its features: harmless.

    Args:
        model_dir: of the run.
        directory: where the programs lie; "" for nowhere. None is this user's own cache, for
            the programs of CPUs, and nowhere for those of GPUs, where this has not been tried.
        is_writer: whether programs are written, and not only looked for.

    Raises:
        UserError: the directory that was given cannot be written to.
    """
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if directory == "" or _FLAG in flags:
        return
    try:
        folder = Path(directory or _own_folder(model_dir)).resolve() / _machine()
        # Where it could not write, XLA would end the run.
        if is_writer or directory:
            _try_to_write(folder)
    except (OSError, RuntimeError) as error:
        if directory:
            raise UserError(
                f"--xla_cache_dir={directory} cannot be written to ({reason_of(error)}): make "
                "room, mend its permissions, or name another folder; --xla_cache_dir= keeps none."
            ) from error
        # A user without a home, or with one that is full or not to be entered.
        return
    flags += f" {_FLAG}directory={_quoted(str(folder))}"
    if directory is None:
        flags += f" {_FLAG}device_types=CPU"
    if not is_writer:
        flags += f" {_FLAG}read_only=true"
    os.environ["TF_XLA_FLAGS"] = flags.strip()
    if found := len(list(folder.glob("*.pb"))):
        logging.info("XLA: %d programs compiled before are in %s", found, folder)


def _own_folder(model_dir: Path) -> Path:
    """Where this user's programs of a model directory lie.

    Not in the directory itself: whoever it comes from may have put programs into it, and XLA
    would run them.
    """
    folder = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    name = hashlib.sha256(str(model_dir.resolve()).encode()).hexdigest()[:12]
    return Path(folder) / "t2t_repro" / "xla" / name


def _try_to_write(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=nearest_folder(folder)) as file:
        file.write(b"x")


def _quoted(value: str) -> str:
    """The value of a flag, as TensorFlow reads it out of TF_XLA_FLAGS."""
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _machine() -> str:
    """A name for what a program is compiled for: XLA itself does not refuse one of another.

    TensorFlow is not asked for the devices: it would read TF_XLA_FLAGS.
    """
    gpus = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    models = [_line(gpu, "Model") for gpu in gpus]
    # Beyond Linux a processor is known only by the machine that it is in.
    features = _line(Path("/proc/cpuinfo"), "flags", "Features") or platform.node()
    processor = [platform.machine(), features]
    parts = [*processor, *models, os.environ.get("XLA_FLAGS", "")]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return f"tensorflow-{importlib.metadata.version('tensorflow')}-{digest}"


def _line(path: Path, *starts: str) -> str:
    """The first line of a file that starts so, or nothing."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith(starts)), "")

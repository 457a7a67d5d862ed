"""Servable directories as TensorFlow Serving watches them.

export_dir/
  <version>/               a SavedModel; the largest number is served
    assets.extra/tf_serving_warmup_requests
  models.config            what the server is started with, see `server_files`
  batching_params.pbtxt
  monitoring.config
"""

import shutil
from pathlib import Path

import tensorflow as tf

from t2t_repro.errors import UserError, reason_of
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.formats.saved_model.server_files import write_server_files
from t2t_repro.formats.saved_model.version_numbers import LARGEST_VERSION
from t2t_repro.formats.saved_model.warm_up import warm_up_requests, write_warm_up


def next_version(export_dir: Path, asked: int | None = None) -> int:
    """The number of the version to write: the one asked for, or that after the largest there is.

    Raises:
        UserError: the one asked for is there already, or is no number that a server would take;
            or `export_dir` is a file.
    """
    if export_dir.exists() and not export_dir.is_dir():
        raise UserError(f"--export_dir={export_dir}: expected a directory, found a file.")
    entries = export_dir.iterdir() if export_dir.exists() else ()
    numbers = {int(entry.name) for entry in entries if entry.name.isdecimal()}
    there = {number for number in numbers if number <= LARGEST_VERSION}
    version = max(there, default=0) + 1 if asked is None else asked
    if not 1 <= version <= LARGEST_VERSION:
        raise UserError(f"--version={version}: expected 1 or more, at most {LARGEST_VERSION}.")
    if version in there:
        raise UserError(
            f"--version={asked}: {export_dir} holds that version already, and a server may be "
            f"reading it: give a larger number, or none for {max(there) + 1}."
        )
    return version


def write_saved_model(servable: Servable, export_dir: Path, version: int, model_name: str) -> Path:
    """Writes a version of a servable, whole or not at all, with its warm-up requests.

    It is written aside, under a name that no server looks at, and renamed.

    Args:
        servable: what to write.
        export_dir: where the versions are; made where it is missing.
        version: the number of this one; see `next_version`.
        model_name: of the model, as clients name it.

    Returns:
        the version's directory.

    Raises:
        UserError: the directory cannot be written to.
    """
    aside = export_dir / f".{version}.partial"
    try:
        export_dir.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        # Nobody trains a servable: its functions have no gradients.
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        signatures = servable.signatures()
        tf.saved_model.save(servable, str(aside), signatures, options)
        write_warm_up(aside, warm_up_requests(servable.subwords, signatures), model_name)
        write_server_files(export_dir, model_name)
        return aside.rename(export_dir / str(version))
    except (OSError, tf.errors.OpError) as error:
        reason = error.strerror if isinstance(error, OSError) else reason_of(error)
        raise UserError(
            f"--export_dir={export_dir}: {reason}; expected a directory that can be written to."
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)

"""What has to be the same on all workers, checked before anything is sent between them."""

import platform

import gin
import keras
import numpy as np
import tensorflow as tf

import t2t_repro
from t2t_repro.config.gin_text import modules_in
from t2t_repro.model import kernels
from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.source_digest import source_digest
from t2t_repro.training.workers import Workers

_DEVICES = "the devices"


def check_same(workers: Workers, directory: ModelDirectory) -> None:
    """Compares all workers' programs, devices, configurations and model directories.

    Args:
        workers: that train together.
        directory: as this one sees it.

    Raises:
        UserError: on all workers, if one has something else; it is named.
    """
    config = gin.config_str()
    install = "install the same on all machines"
    modules = {name: source_digest(name) for name in modules_in(config)}
    workers.check_same("the versions", _versions(), install)
    workers.check_same("modules with the checksums", modules, install)
    mend = "give every worker as many GPUs, and see why TensorFlow does not find them (nvidia-smi)"
    workers.check_same(_DEVICES, _devices(), mend)
    workers.check_same("the configuration", config.splitlines())
    newest = CheckpointFolder(directory.checkpoints).steps()[-1:]
    workers.check_same("a --model_dir with the newest checkpoint", newest)


def _versions() -> dict[str, str]:
    return {
        "t2t_repro": t2t_repro.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "T2T_REPRO_PLAIN": str(int(kernels.PLAIN)),
    }


def _devices() -> dict[str, int]:
    gpus = len(tf.config.list_physical_devices("GPU"))
    return {"GPU": gpus} if gpus else {"CPU": 1}

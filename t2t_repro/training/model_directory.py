"""A model directory: complete in itself, whatever happens to the data it was trained on.

    model_dir/
      model.json             the Transformer's sizes (its get_config)
      subwords.model         SentencePiece's, or a vocabulary of T2T's
      config.gin             what the gin file and --gin_param bound
      operative_config.gin   what was in effect, defaults included
      versions.json          of t2t_repro, TensorFlow, Keras, Python
      checkpoints/  best/    of the run
      averaged/
      tensorboard/

`averaged` is what the verb of that name wrote.
"""

import json
import os
import platform
import shutil
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import t2t_repro
from t2t_repro.configuration import differing_bindings, differing_values
from t2t_repro.data.prepared import SUBWORDS
from t2t_repro.data.subword_model import SubwordModel, open_subwords
from t2t_repro.errors import UserError, reason_of
from t2t_repro.layers.layer_config import LayerConfig
from t2t_repro.models.transformer import Transformer
from t2t_repro.strangers.checkpoint_index import check_index
from t2t_repro.strangers.json_files import read_json
from t2t_repro.training.checkpoint_folder import CheckpointFolder

CONFIG = "config.gin"
MODEL = "model.json"
_FOLDERS = ("averaged", "best", "checkpoints")
_SIZES = {
    "trainable", "dtype", "vocab_size", "num_layers", "config", "positional_encoding", "max_length",
    "neighbourhood",
}  # fmt: skip
_FLOAT = 4

PRECISIONS = ("float32", "mixed_bfloat16")
"""In which a model computes; its weights are float32."""


class ModelDirectory:
    """Paths and contents of a model directory.

    Args:
        path: the directory; it need not exist to be written to.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def describe(
        self, model: Transformer, subwords: Path, config: str, operative_config: str
    ) -> None:
        """Writes all that belongs to a model but its weights.

        Raises:
            UserError: the directory holds a model of other sizes, or of another vocabulary.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        sizes = json.loads(json.dumps(model.get_config()))
        # Keras numbers the models of a process: the name says nothing about the model.
        del sizes["name"]
        if (self.path / MODEL).exists() and (differing := differing_values(self._sizes(), sizes)):
            raise UserError(
                f"{self.path} holds a model of other sizes ({'; '.join(differing)}): give "
                "another --model_dir, or the gin file that it was trained with."
            )
        copy = self.path / SUBWORDS
        if copy.exists() and copy.read_bytes() != subwords.read_bytes():
            raise UserError(
                f"{copy} is not the subword model of the data, {subwords}: give another "
                "--model_dir, or the data that it was trained on."
            )
        versions = {
            "t2t_repro": t2t_repro.__version__,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "python": platform.python_version(),
        }
        self._write(SUBWORDS, subwords.read_bytes())
        self._write(MODEL, (json.dumps(sizes, indent=2) + "\n").encode())
        self._write("versions.json", (json.dumps(versions, indent=2) + "\n").encode())
        self._write(CONFIG, config.encode())
        self._write("operative_config.gin", operative_config.encode())

    def differing_bindings(self, config: str) -> list[str]:
        """What `config` binds otherwise than the run that this is the directory of, if it is."""
        there = self.path / CONFIG
        if not there.is_file():
            return []
        text = there.read_text(encoding="utf-8", errors="replace")
        return differing_bindings(text, config)

    def subwords(self) -> SubwordModel:
        """Opens the subword model.

        Raises:
            UserError: this is no model directory.
        """
        self._check()
        return open_subwords(self.path / SUBWORDS)

    def checkpoint(self, name: str | None = None) -> str:
        """Finds a checkpoint.

        Args:
            name: "averaged", "best", "latest", the prefix of a checkpoint file such as
                "checkpoints/step-1000", or None for the first there is of averaged, best, latest.

        Returns:
            its path, as TensorFlow writes it: without the endings of its files.

        Raises:
            UserError: there is none.
        """
        self._check()
        folders = _FOLDERS if name is None else (name.replace("latest", "checkpoints"),)
        for folder in map(self._folder, folders):
            if steps := folder.steps():
                return folder.prefix(steps[-1])
        if name and (self.path / f"{name}.index").exists():
            return str(self.path / name)
        raise UserError(
            f"no checkpoint {name or 'of any kind'} in {self.path}, expected one in "
            f"{', '.join(_FOLDERS)}: train first, or give --checkpoint=averaged, best, latest or "
            "checkpoints/step-<n>."
        )

    def last_checkpoints(self, count: int) -> list[str]:
        """The paths of the run's last `count` checkpoints, oldest first.

        Raises:
            UserError: there are fewer.
        """
        self._check()
        folder = self._folder("checkpoints")
        paths = list(map(folder.prefix, folder.steps()))
        if len(paths) < count or count < 1:
            raise UserError(
                f"cannot average {count} checkpoints of {self.path / 'checkpoints'}, which holds "
                f"{len(paths)}: give --last between 1 and that, or train with a larger "
                "Checkpoints.keep."
            )
        return paths[-count:]

    def new_model(self, precision: str | None = None) -> Transformer:
        """Builds the Transformer without restoring its weights.

        Args:
            precision: "float32" or "mixed_bfloat16"; that of the training run by default.

        Raises:
            UserError: this is no model directory, its model.json is damaged, or describes a model
                that is larger than what its checkpoints hold.
        """
        self._check()
        sizes = self._sizes()
        try:
            sizes["dtype"] = precision or _dtype_name(sizes.get("dtype", "float32"))
            self._check_size(sizes)
            model = Transformer.from_config(sizes)
            model.build()
        except UserError:
            raise
        except (TypeError, ValueError, KeyError, ArithmeticError) as error:
            raise self._damaged() from error
        return model

    def _check_size(self, sizes: dict[str, Any]) -> None:
        """Holds the sizes of the largest matrices against the files that should hold them."""
        if not sizes.keys() <= _SIZES:
            raise ValueError(f"received {sizes.keys() - _SIZES}")
        config = LayerConfig.of(sizes.get("config") or {})
        heads = config.num_heads * (config.key_depth + config.value_depth)
        rows = sizes["vocab_size"] + (sizes.get("max_length") or 0)
        rows += sizes.get("num_layers", 1) * (config.d_ff + heads)
        there = max((f.stat().st_size for f in self.path.glob("*/step-*.data-*")), default=0)
        if rows * config.d_model * _FLOAT > there:
            raise UserError(
                f"{self.path / MODEL} describes a model of more than {rows * config.d_model:,} "
                f"parameters, but the checkpoints there have {there:,} bytes at most: put back the "
                "file that the training run wrote, or the checkpoints."
            )

    def load_model(
        self, checkpoint: str | None = None, precision: str | None = None
    ) -> Transformer:
        """Builds the Transformer, see `new_model`, with the weights of a `checkpoint`."""
        path = self.checkpoint(checkpoint)
        model = self.new_model(precision)
        load_weights(model, path)
        return model

    def write_imported(self, model: Transformer, step: int) -> None:
        """Writes weights that were not trained here as the latest; there is no optimizer."""
        _save_weights(model, self.path / "checkpoints", step)

    def write_averaged(self, model: Transformer, step: int) -> Path:
        """Writes the model as the averaged one, in place of the one before."""
        aside = self.path / ".averaged.partial"
        shutil.rmtree(aside, ignore_errors=True)
        _save_weights(model, aside, step)
        target, before = self.path / "averaged", self.path / ".averaged.before"
        shutil.rmtree(before, ignore_errors=True)
        if target.exists():
            target.rename(before)
        aside.rename(target)
        shutil.rmtree(before, ignore_errors=True)
        return target

    def _sizes(self) -> dict[str, Any]:
        """What model.json says, the name apart, which older ones hold."""
        try:
            sizes = dict(read_json(self.path / MODEL))
        except (TypeError, ValueError) as error:
            raise self._damaged() from error
        sizes.pop("name", None)
        return sizes

    def _damaged(self) -> UserError:
        return UserError(
            f"{self.path / MODEL} does not describe a Transformer: put back the file that the "
            "training run wrote, or give another --model_dir."
        )

    def _folder(self, name: str) -> CheckpointFolder:
        return CheckpointFolder(self.path / name, keep=1)

    def _check(self) -> None:
        missing = [name for name in (MODEL, SUBWORDS) if not (self.path / name).is_file()]
        if missing:
            raise UserError(
                f"{self.path} is no model directory: {missing[0]} is missing; give the "
                "--model_dir of a training run."
            )

    def _write(self, name: str, content: bytes) -> None:
        aside = self.path / f".{name}.partial"
        aside.write_bytes(content)
        os.replace(aside, self.path / name)


def _dtype_name(dtype: Any) -> str:
    """The precision that a model.json names; Keras would import a module whose name is in it.

    Raises:
        KeyError, TypeError, ValueError: it names none.
    """
    name = dtype["config"]["name"] if isinstance(dtype, dict) else dtype
    if name not in PRECISIONS:
        raise ValueError(f"dtype is {name!r}, expected one of {', '.join(PRECISIONS)}.")
    return str(name)


def load_weights(model: Transformer, checkpoint: str) -> None:
    """Restores the model's weights, and nothing else, from a checkpoint.

    Raises:
        UserError: the checkpoint is of a model of other sizes, or damaged.
    """
    try:
        check_index(checkpoint)
        status = tf.train.Checkpoint(model=model).restore(checkpoint)
        status.assert_existing_objects_matched().expect_partial()
    # TensorFlow walks over a graph of objects that the checkpoint holds, and checks little of it.
    except Exception as error:
        raise UserError(
            f"{checkpoint} does not fit the model beside it ({reason_of(error)}): give another "
            "--checkpoint."
        ) from error


def _save_weights(model: Transformer, folder: Path, step: int) -> None:
    CheckpointFolder(folder, keep=1).write(tf.train.Checkpoint(model=model), step)


def step_of(checkpoint: str) -> int:
    """The step a checkpoint was written at, from its name."""
    return int(checkpoint.rsplit("-", 1)[1])

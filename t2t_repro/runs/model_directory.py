"""A model directory: complete in itself, and data alone.

TensorFlow is imported where a model is built, so that a wrong directory is said at once.

model_dir/
model.json               the Transformer's sizes (its get_config)
subwords.model           the subword model; or one for each side, see `text.subword_model`
config.gin               what the gin file and --gin_param bound
operative_config.gin     what was in effect, defaults included
versions.json            of t2t_repro, TensorFlow, Keras, Python; the hash of the subwords
checkpoints/step-<n>.*   the last of the run: all that it needs to go on
best/step-<n>.*          the one with the best dev score
averaged/step-<n>.*      what the verb average wrote: weights alone
tensorboard/             event files
ancestry.json            the models whose weights it began with, if it was fine-tuned
epoch.json               an epoch's sentences, tokens and batches
scores/<split>.json      the last evaluation of a split
.trainer.lock            exists while it is trained; says by whom
"""

import platform
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from t2t_repro.errors import UserError
from t2t_repro.files import exclusive_lock, read_json, write_json, write_whole
from t2t_repro.runs.checkpoint_folder import find_checkpoint, last_checkpoints
from t2t_repro.text.subword_model import (
    SubwordPair,
    check_subword_files,
    open_pair,
    read_start,
    subword_files,
)

if TYPE_CHECKING:
    from t2t_repro.model.transformer import Transformer

_SUBWORDS_HASH = "subwords_sha256"

_IMPORT = "import it: python -m t2t_repro.import_{} --model_dir=NEW"
# What a directory of another kind has, and what can be done with it.
_OTHER_KINDS = {
    "model.bin": "it is for CTranslate2, give what it was exported from",
    "saved_model.pb */saved_model.pb": "it is a SavedModel, give what it was exported from",
    "hparams.json model.ckpt-*.index": "it is of Tensor2Tensor, "
    + _IMPORT.format("t2t --checkpoint={} --vocabulary=FILE"),
    "config.json *.safetensors pytorch_model.bin decoder.yml *.decoder.yml *.npz": "it is of "
    "Marian or Hugging Face, " + _IMPORT.format("marian --model={}"),
}


class ModelDirectory:
    """Paths and contents of a model directory; the attributes are named after the files.

    Args:
        path: the directory; it need not exist to be written to.

    Raises:
        UserError: TensorFlow would take the path for a pattern.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path = Path(path)
        if {*str(path)} & {*"*?[]\\"}:
            raise UserError(
                f"the model directory is {str(path)!r}, expected a path without *, ?, [, ] and \\, "
                "which TensorFlow takes for a pattern of names: rename the directory."
            )
        self.model_json = path / "model.json"
        self.config_gin = path / "config.gin"
        self.operative_config_gin = path / "operative_config.gin"
        self.versions_json = path / "versions.json"
        self.checkpoints = path / "checkpoints"
        self.best = path / "best"
        self.averaged = path / "averaged"
        self.tensorboard = path / "tensorboard"
        self.ancestry_json = path / "ancestry.json"
        self.epoch_json = path / "epoch.json"
        self.scores = path / "scores"

    def held(self, verb: str) -> AbstractContextManager[object]:
        """Returns a context in which no other process of this kind writes here.

        Args:
            verb: that writes, such as "trainer".

        Raises:
            UserError: another process does.
        """
        lock = self.path / f".{verb}.lock"
        return exclusive_lock(lock, str(self.path), "give another --model_dir")

    def describe(
        self, model: "Transformer", subwords: SubwordPair, config: str, operative_config: str
    ) -> None:
        """Writes all that belongs to a model apart from its weights.

        Args:
            model: the Transformer.
            subwords: the subword models of its data.
            config: for config.gin.
            operative_config: for operative_config.gin.

        Raises:
            UserError: the directory holds a model of other sizes, or of other subwords.
        """
        import keras
        import tensorflow as tf

        from t2t_repro.runs.model_json import sizes_of

        self.check_same_model(model, subwords)
        for name, content in subwords.contents().items():
            write_whole(self.path / name, content)
        write_json(self.model_json, sizes_of(model))
        versions = {
            "t2t_repro": version("t2t_repro"),
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "python": platform.python_version(),
            _SUBWORDS_HASH: subwords.checksum(),
        }
        write_json(self.versions_json, versions)
        write_whole(self.config_gin, config.encode())
        write_whole(self.operative_config_gin, operative_config.encode())

    def sizes(self) -> dict[str, Any]:
        """Returns the arguments of the Transformer.

        Raises:
            UserError: this is not a model directory, or its model.json is damaged.
        """
        from t2t_repro.runs.model_json import read_model_json

        self._check()
        return read_model_json(self.model_json)

    def subwords(self) -> SubwordPair:
        """Opens the subword models of source and target.

        Raises:
            UserError: this is not a model directory, or has other subwords than in training.
        """
        self._check()
        opened = open_pair(self.path)
        try:
            expected = read_json(self.versions_json).get(_SUBWORDS_HASH)
        except (OSError, ValueError):
            expected = None
        if expected and expected != opened.checksum():
            raise UserError(
                f"{self.path} has other subwords than the model was trained with: put back the "
                f"training run's {' and '.join(opened.files())}, or give another --model_dir."
            )
        return opened

    def checkpoint(self, name: str | None = None) -> str:
        """Finds a checkpoint; see `find_checkpoint`.

        Raises:
            UserError: this is not a model directory, or has no such checkpoint.
        """
        self._check()
        return find_checkpoint(self.path, name)

    def last_checkpoints(self, count: int) -> dict[int, str]:
        """Returns the run's last checkpoints by step; see `last_checkpoints`.

        Raises:
            UserError: this is not a model directory, or has fewer.
        """
        self._check()
        return last_checkpoints(self.checkpoints, count)

    def new_model(
        self, checkpoint: str | None = None, precision: str | None = None
    ) -> "Transformer":
        """Builds the Transformer without restoring its weights.

        Args:
            checkpoint: its path; by default the one that `checkpoint` finds.
            precision: "float32" or "mixed_bfloat16"; by default that of the training run.

        Raises:
            UserError: this is not a model directory, its model.json is damaged, or describes a
                larger model than the checkpoint's.
        """
        from t2t_repro.model.transformer import Transformer
        from t2t_repro.runs.model_json import check_held, not_a_transformer

        sizes = self.sizes()
        check_held(self.model_json, sizes, checkpoint or self.checkpoint())
        try:
            model = Transformer.from_config(sizes | ({"dtype": precision} if precision else {}))
        except UserError as error:
            raise not_a_transformer(self.model_json, error) from error
        model.build()
        return model

    def load_model(
        self, checkpoint: str | None = None, precision: str | None = None
    ) -> "Transformer":
        """Builds the Transformer with the weights of a checkpoint.

        Args:
            checkpoint: see `checkpoint`.
            precision: see `new_model`.

        Raises:
            UserError: as of these two; or the weights do not fit.
        """
        from t2t_repro.runs.weights import load_weights

        path = self.checkpoint(checkpoint)
        model = self.new_model(path, precision)
        load_weights(model, path)
        return model

    def check_same_model(self, model: "Transformer", subwords: SubwordPair) -> None:
        """Compares a model and its subwords with those of the directory, if it has any.

        Raises:
            UserError: the directory holds a model of other sizes, or of other subwords.
        """
        from t2t_repro.runs.model_json import differing_sizes

        if self.model_json.exists() and (differing := differing_sizes(self.sizes(), model)):
            raise UserError(
                f"{self.path} holds a model of other sizes ({'; '.join(differing)}): give "
                "another --model_dir, or the gin file that it was trained with; a model of these "
                f"sizes can start from its weights with {self.as_parent()}."
            )
        # A longer file differs too.
        most = 1 + max(map(len, subwords.contents().values()))
        existing = {path.name: read_start(path, most) for path in subword_files(self.path)}
        # A start that was killed may have written one of two.
        if not existing.items() <= subwords.contents().items():
            raise UserError(
                f"{self.path} has other subwords than the data, "
                f"{subwords.target.model_path.parent}: give the data that it was trained on, or "
                "another --model_dir; to train this model on these data, another --model_dir with "
                f"{self.as_parent()}."
            )

    def as_parent(self) -> str:
        """Returns the binding by which another run starts from these weights."""
        return f"train.init_from = {str(self.path)!r}"

    def _check(self) -> None:
        if not self.model_json.is_file():
            raise UserError(
                f"{self.path} is not a model directory: {self.model_json.name} is missing; "
                f"{_advice(self.path)}."
            )
        check_subword_files(self.path)


def _advice(path: Path) -> str:
    """Returns what to give in the place of a path that is not a model directory."""
    folder = path if path.is_dir() else path.parent
    near = [folder, folder.parent, *sorted(folder.glob("*"))]
    if own := next((one for one in near if (one / "model.json").is_file()), None):
        return f"give --model_dir={quote(str(own))}"
    for patterns, advice in _OTHER_KINDS.items() if path.exists() else ():
        if any(next(folder.glob(pattern), None) for pattern in patterns.split()):
            return advice.format(quote(str(folder)))
    return "give the --model_dir of a training run"

"""A model directory: complete in itself, whatever happens to the data it was trained on.

    model_dir/
      model.json               the Transformer's sizes (its get_config)
      subwords.model           SentencePiece's, or a vocabulary of T2T's; or one for each side, see
                               `data.subword_model`
      config.gin               what the gin file and --gin_param bound
      operative_config.gin     what was in effect, defaults included
      versions.json            of t2t_repro, TensorFlow, Keras, Python; subwords.model's hash
      checkpoints/step-<n>.*   the last of the run: all that it needs to go on
      best/step-<n>.*          the one with the best dev score
      averaged/step-<n>.*      what the verb average wrote: weights alone
      nonfinite/step-<n>.*     before a batch whose gradient could not be used; .npz: the batch
      tensorboard/             event files
      ancestry.json            whose weights it began with, if it was fine-tuned
      epoch.json               an epoch's sentences, tokens and batches
      scores/<split>.json      the last evaluation of a split
      .trainer.lock            there while it is trained; says by whom
      .average.lock            there while checkpoints are averaged
      scores/.scores.lock      there while scores are written
      .averaged.partial        what an average is written to, and .averaged.before, what it replaces

Everybody asks a ModelDirectory for these paths.
"""

import dataclasses
import json
import platform
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import t2t_repro
from t2t_repro.config.checks import differing_bindings, differing_values
from t2t_repro.config.gin_files import read_gin
from t2t_repro.data.batches import EpochReport
from t2t_repro.errors import UserError
from t2t_repro.files import exclusive_lock, lock, read_json, write_json, write_whole
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.checkpoint_choice import CheckpointChoice
from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from t2t_repro.runs.model_json import (
    check_held,
    not_a_transformer,
    read_model_json,
)
from t2t_repro.runs.records import Ancestor, ancestry, read_ancestry
from t2t_repro.runs.weights import load_weights, save_weights
from t2t_repro.text.subword_model import (
    SubwordPair,
    check_subword_files,
    open_pair,
    read_start,
    subword_files,
)

_SUBWORDS_HASH = "subwords_sha256"


class ModelDirectory:
    """Paths and contents of a model directory; each path's name is that of what lies there.

    Args:
        path: the directory; it need not exist to be written to.

    Attributes:
        choice: which of its checkpoints is used.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path = Path(path)
        self.model_json = path / "model.json"
        self.config_gin = path / "config.gin"
        self.operative_config_gin = path / "operative_config.gin"
        self.versions_json = path / "versions.json"
        self.checkpoints = path / "checkpoints"
        self.best = path / "best"
        self.averaged = path / "averaged"
        self.nonfinite = path / "nonfinite"
        self.tensorboard = path / "tensorboard"
        self.ancestry_json = path / "ancestry.json"
        self.epoch_json = path / "epoch.json"
        self.choice = CheckpointChoice(self.checkpoints, self.best, self.averaged)

    @contextmanager
    def held_for_training(self) -> Iterator[None]:
        """A context in which no other process trains here.

        Raises:
            UserError: another process does.
        """
        lock = self.path / ".trainer.lock"
        with exclusive_lock(lock, str(self.path), "give another --model_dir"):
            yield

    def held_for_averaging(self) -> AbstractContextManager[object]:
        """Returns a context in which no other process averages here.

        Raises:
            UserError: another process does.
        """
        return exclusive_lock(self.path / ".average.lock", str(self.averaged), "end it")

    def scores_json(self, split: str) -> Path:
        """Returns the path of a split's evaluation."""
        return self.path / "scores" / f"{split}.json"

    @classmethod
    def of_checkpoint(cls, checkpoint: Path) -> "ModelDirectory":
        """Returns the directory that a checkpoint, or a file beside one, lies in."""
        return cls(checkpoint.resolve().parent.parent)

    def describe(
        self,
        model: Transformer,
        subwords: SubwordPair,
        config: str,
        operative_config: str,
    ) -> None:
        """Writes all that belongs to a model but its weights.

        Raises:
            UserError: the directory holds a model of other sizes, or of other subwords.
        """
        self.check_same_model(model, subwords)
        versions = {
            "t2t_repro": t2t_repro.__version__,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "python": platform.python_version(),
            _SUBWORDS_HASH: subwords.checksum(),
        }
        for name, content in subwords.contents().items():
            write_whole(self.path / name, content)
        write_json(self.model_json, _sizes_of(model))
        write_json(self.versions_json, versions)
        write_whole(self.config_gin, config.encode())
        write_whole(self.operative_config_gin, operative_config.encode())

    def write_epoch(self, report: EpochReport) -> None:
        """Writes down what an epoch holds."""
        write_json(self.epoch_json, dataclasses.asdict(report))

    def write_ancestor(self, parent: Ancestor, directory: "ModelDirectory") -> None:
        """Writes down whose weights a run has begun with.

        Args:
            parent: the nearest ancestor.
            directory: its model directory, which knows of others.
        """
        write_json(self.ancestry_json, ancestry([parent, *directory.ancestors()]))

    def ancestors(self) -> list[Ancestor]:
        """Returns those whose weights this model began with, the parent first; perhaps none."""
        return read_ancestry(self.ancestry_json)

    def has_begun(self) -> bool:
        """Returns whether a run has left a checkpoint here, from which it goes on."""
        return bool(CheckpointFolder(self.checkpoints).expected())

    def write_scores(self, split: str, evaluation: Mapping[str, Any]) -> None:
        """Writes down an evaluation, in place of the split's last one."""
        path = self.scores_json(split)
        with lock(path.parent / ".scores.lock"):
            write_json(path, evaluation)

    def write_imported(self, model: Transformer, step: int) -> None:
        """Writes weights that were not trained here as the latest; there is no optimizer."""
        save_weights(model, self.checkpoints, step)

    def differing_bindings(self, config: str) -> list[str]:
        """Returns what `config` binds otherwise than the run before, if there was one."""
        if not self.config_gin.is_file():
            return []
        return differing_bindings(read_gin(self.config_gin), config)

    def differing_epoch(self, report: EpochReport) -> list[str]:
        """Returns in what an epoch differs from that of the run before, if there was one."""
        try:
            before = read_json(self.epoch_json)
            there = _counted(before)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return []
        now = _counted(dataclasses.asdict(report))
        return [
            f"an epoch has {there[name]} {name.replace('_', ' ')} there, {now[name]} now: what is "
            "left of this one is dealt anew"
            for name in now
            if there.get(name, now[name]) != now[name]
        ]

    def mean_target_length(self) -> float | None:
        """Returns how many subwords a target sentence of the training data has, EOS included.

        None where no epoch was written down.
        """
        try:
            epoch = read_json(self.epoch_json)
            return float(epoch["target_tokens"]) / epoch["sentences"]
        except (OSError, ValueError, TypeError, KeyError, ZeroDivisionError):
            return None

    def subwords(self) -> SubwordPair:
        """Opens the subword models of source and target.

        Raises:
            UserError: this is no model directory, or the subword model is not that of the training
                run.
        """
        self._check()
        opened = open_pair(self.path)
        self._check_subwords(opened)
        return opened

    def checkpoint(self, name: str | None = None) -> str:
        """Finds a checkpoint, see `CheckpointChoice.find`.

        Raises:
            UserError: this is no model directory, or has no such checkpoint whole.
        """
        self._check()
        return self.choice.find(name)

    def last_checkpoints(self, count: int) -> dict[int, str]:
        """Returns the run's last checkpoints, see `CheckpointChoice.last`.

        Raises:
            UserError: this is no model directory, or has not as many whole.
        """
        self._check()
        return self.choice.last(count)

    def sizes(self, checkpoint: str | None = None) -> dict[str, Any]:
        """Returns the arguments that the Transformer of this directory is made of.

        Args:
            checkpoint: the path of one whose shapes are held against these sizes.

        Raises:
            UserError: this is no model directory, its model.json is damaged, or describes a model
                of other sizes than the checkpoint's.
        """
        self._check()
        sizes = read_model_json(self.model_json)
        if checkpoint:
            check_held(self.model_json, sizes, checkpoint)
        return sizes

    def differing_sizes(self, model: Transformer, but: Collection[str] = ()) -> list[str]:
        """Returns in what a model differs from the one here, rates in training aside.

        Args:
            model: to be compared.
            but: names of arguments of the Transformer that are not.

        Raises:
            UserError: model.json is damaged.
        """
        there, now = (
            {name: value for name, value in _lasting(sizes).items() if name not in but}
            for sizes in (read_model_json(self.model_json), _sizes_of(model))
        )
        return differing_values(there, now)

    def new_model(self, checkpoint: str | None = None, precision: str | None = None) -> Transformer:
        """Builds the Transformer of a checkpoint without restoring its weights.

        Args:
            checkpoint: its path, see `checkpoint`, by whose default it is found.
            precision: "float32" or "mixed_bfloat16"; that of the training run by default.

        Raises:
            UserError: this is no model directory, its model.json is damaged, or describes a model
                of other sizes than the checkpoint's.
        """
        sizes = self.sizes(checkpoint or self.checkpoint())
        try:
            model = Transformer.from_config(sizes | ({"dtype": precision} if precision else {}))
        except UserError as error:
            raise not_a_transformer(self.model_json, error) from error
        model.build()
        return model

    def load_model(
        self, checkpoint: str | None = None, precision: str | None = None
    ) -> Transformer:
        """Builds the Transformer, see `new_model`, with the weights of a `checkpoint`."""
        path = self.checkpoint(checkpoint)
        model = self.new_model(path, precision)
        load_weights(model, path)
        return model

    def as_parent(self) -> str:
        """Returns the binding by which another run starts from the weights that are here."""
        return f"train.init_from = {str(self.path)!r}"

    def _check(self) -> None:
        if not self.model_json.is_file():
            raise UserError(
                f"{self.path} is no model directory: {self.model_json.name} is missing; give the "
                "--model_dir of a training run."
            )
        check_subword_files(self.path)

    def _check_subwords(self, subwords: SubwordPair) -> None:
        """Holds the subwords against what was written down of them: ids would mean others."""
        try:
            expected = dict(read_json(self.versions_json)).get(_SUBWORDS_HASH)
        except (OSError, ValueError, TypeError):
            return
        if expected and expected != subwords.checksum():
            raise UserError(
                f"{self.path} has other subwords than the model was trained with: put back the "
                f"training run's own {' and '.join(subwords.files())}, or give another --model_dir."
            )

    def check_same_model(self, model: Transformer, subwords: SubwordPair) -> None:
        """Holds a model and its subwords against those that are here, if any are.

        Raises:
            UserError: the directory holds a model of other sizes, or of other subwords.
        """
        if self.model_json.exists() and (differing := self.differing_sizes(model)):
            raise UserError(
                f"{self.path} holds a model of other sizes ({'; '.join(differing)}): give "
                "another --model_dir, or the gin file that it was trained with; in these sizes, "
                f"{self.as_parent()} has another run start from its weights."
            )
        # A longer one is another too.
        most = 1 + max(map(len, subwords.contents().values()))
        there = {path.name: read_start(path, most) for path in subword_files(self.path)}
        # A start that was killed may have written one of two.
        if not there.items() <= subwords.contents().items():
            raise UserError(
                f"{self.path} has other subwords than the data, "
                f"{subwords.target.model_path.parent}: give the data that it was trained on, or "
                "another --model_dir; to train this model on these data, another --model_dir with "
                f"{self.as_parent()}."
            )


def _counted(epoch: Mapping[str, Any]) -> dict[str, Any]:
    """What two epochs of a run have alike, by what it is: "sentences", "sentences of news"."""
    corpora = epoch.get("corpora", {})
    wanted = ("sentences", "micro_batches", "source_tokens", "target_tokens")
    of_all = {name: epoch[name] for name in wanted if name in epoch}
    return of_all | {f"sentences of {name}": one["sentences"] for name, one in corpora.items()}


def _sizes_of(model: Transformer) -> dict[str, Any]:
    sizes = json.loads(json.dumps(model.get_config())) | {"dtype": model.dtype_policy.name}
    # Keras numbers the models of a process: the name says nothing about the model.
    del sizes["name"]
    return sizes


def _lasting(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """What a run that goes on has to keep: another dropout is another configuration, no more."""
    config = sizes["config"]
    kept = {name: value for name, value in config.items() if name not in LayerConfig.TRAINING_ALONE}
    return {**sizes, "config": kept}

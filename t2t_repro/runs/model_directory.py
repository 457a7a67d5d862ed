"""A model directory: all files of a trained model, without code.

TensorFlow is imported only where a model is built: an error about a directory comes before that.

model_dir/
model.json               the Transformer's sizes (its get_config)
subwords.model           the subword model; or one for each side, see `text.subword_model`
config.gin               what the gin file and --gin_param bound
operative_config.gin     what was in effect, defaults included
versions.json            of t2t_repro, TensorFlow, Keras, Python; the hash of the subwords
checkpoints/step-<n>.*   the last of the run: all that it needs to go on
best/step-<n>.*          the one with the best dev score
averaged/step-<n>.*      what the command average wrote: weights alone
tensorboard/             event files
shortlist.npz            the lexical shortlist of an imported student
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
from t2t_repro.runs import model_json
from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from t2t_repro.text.subword_model import SubwordPair, check_subword_files, open_pair, subword_files

if TYPE_CHECKING:
    from t2t_repro.model.transformer import Transformer

_SUBWORDS_HASH = "subwords_sha256"


class ModelDirectory:
    """Paths and contents of a model directory.

    The attributes are named after the files.

    Args:
        path: the directory; it need not exist to be written to.

    Raises:
        UserError: the path has characters that TensorFlow takes for a pattern.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path = Path(path)
        if set(str(path)) & set("*?[]\\"):
            # Checkpoints could be written there, but not read again.
            problem = f"the model directory {str(path)!r} has one of *, ?, [, ] and \\"
            raise UserError(f"{problem}, which TensorFlow reads as patterns: rename it.")
        self.model_json = path / "model.json"
        self.config_gin = path / "config.gin"
        self.operative_config_gin = path / "operative_config.gin"
        self.versions_json = path / "versions.json"
        self.checkpoints = path / "checkpoints"
        self.best = path / "best"
        self.averaged = path / "averaged"
        self.tensorboard = path / "tensorboard"
        self.shortlist_npz = path / "shortlist.npz"
        self.ancestry_json = path / "ancestry.json"
        self.epoch_json = path / "epoch.json"
        self.scores = path / "scores"

    def held(self, command: str) -> AbstractContextManager[object]:
        """Returns a context that locks the directory against other runs of a command.

        Args:
            command: the command's name, such as "average".

        Raises:
            UserError: on entering it, if another process holds the lock.
        """
        lock = self.path / f".{command}.lock"
        return exclusive_lock(lock, str(self.path), "give another --model_dir")

    def write_metadata(
        self, model: "Transformer", subwords: SubwordPair, config: str, operative_config: str
    ) -> None:
        """Writes all files of a model but its weights.

        Args:
            model: the Transformer; its sizes are written.
            subwords: its subword models.
            config: the text of config.gin.
            operative_config: the text of operative_config.gin.

        Raises:
            UserError: the directory has another model or other subwords.
        """
        self.check_same_model(model, subwords)
        for name, content in subwords.contents().items():
            write_whole(self.path / name, content)
        write_json(self.model_json, model_json.sizes_of(model))
        versions = {name: version(name) for name in ("t2t_repro", "tensorflow", "keras")}
        others = {"python": platform.python_version(), _SUBWORDS_HASH: subwords.checksum()}
        write_json(self.versions_json, versions | others)
        write_whole(self.config_gin, config.encode())
        write_whole(self.operative_config_gin, operative_config.encode())

    def sizes(self) -> dict[str, Any]:
        """Returns the arguments of the `Transformer` in model.json: its sizes, kinds and dtype.

        Raises:
            UserError: a file is missing, or model.json does not describe a Transformer.
        """
        self._check_holds_model()
        return model_json.read_model_json(self.model_json)

    def subwords(self) -> SubwordPair:
        """Opens the subword models of source and target; checks their hash if it was recorded.

        Raises:
            UserError: a file is missing or damaged, or the model was trained with other subwords.
        """
        self._check_holds_model()
        opened = open_pair(self.path)
        versions = read_json(self.versions_json) if self.versions_json.is_file() else {}
        if _SUBWORDS_HASH in versions and versions[_SUBWORDS_HASH] != opened.checksum():
            problem = f"{self.path} has other subwords than the model was trained with"
            fix = f"put back the run's {' and '.join(opened.files())}, or give another --model_dir"
            raise UserError(f"{problem}: {fix}.")
        return opened

    def checkpoint(self, name: str | None = None) -> str:
        """Finds a checkpoint.

        Args:
            name: "averaged", "best", "latest", the prefix of a checkpoint file such as
                "checkpoints/step-1000", or None for the first that exists of averaged, best,
                latest.

        Returns:
            its path without the endings of its files.

        Raises:
            UserError: the checkpoint does not exist, or was copied in part.
        """
        self._check_holds_model()
        # In the order in which they are looked for.
        folders = {"averaged": self.averaged, "best": self.best, "latest": self.checkpoints}
        for kind, folder in folders.items():
            if not name or name == kind:
                checkpoints = CheckpointFolder(folder)
                checkpoints.check_whole()
                if newest := checkpoints.newest:
                    return newest
        if name and (self.path / f"{name}.index").exists():
            return str(self.path / name)
        problem = f"no checkpoint {name or 'of any kind'} in {self.path}"
        expected = "--checkpoint=averaged, best, latest or checkpoints/step-<n>"
        raise UserError(f"{problem}: train first, or give {expected}.")

    def last_checkpoints(self, count: int) -> dict[int, str]:
        """Returns the paths of the run's last checkpoints by step; see `CheckpointFolder.last`.

        Raises:
            UserError: the directory holds no model, or `CheckpointFolder.last` raises it.
        """
        self._check_holds_model()
        return CheckpointFolder(self.checkpoints).last(count)

    def new_model(
        self, checkpoint: str | None = None, precision: str | None = None
    ) -> "Transformer":
        """Builds the Transformer without restoring its weights.

        Args:
            checkpoint: the path of a checkpoint, to compare the sizes with before memory is
                allocated; by default the one that `checkpoint` finds.
            precision: "float32" or "mixed_bfloat16"; by default that of the training run.

        Raises:
            UserError: there is no checkpoint, or model.json does not describe a Transformer, or it
                describes one larger than the checkpoint.
        """
        from t2t_repro.model.transformer import Transformer  # Imports TensorFlow.

        sizes = self.sizes()
        model_json.check_fits_checkpoint(self.model_json, sizes, checkpoint or self.checkpoint())
        try:
            model = Transformer.from_config(sizes | {"dtype": precision or sizes["dtype"]})
        except UserError as error:
            raise model_json.not_a_transformer(self.model_json, error) from error
        model.build()
        return model

    def load_model(
        self, checkpoint: str | None = None, precision: str | None = None
    ) -> "Transformer":
        """Builds the Transformer with the weights of a checkpoint.

        Args:
            checkpoint: the name of a checkpoint; see the method `checkpoint`.
            precision: see `new_model`.

        Raises:
            UserError: the checkpoint does not exist, or model.json or the weights do not fit.
        """
        from t2t_repro.runs.weights import load_weights  # Imports TensorFlow.

        path = self.checkpoint(checkpoint)
        model = self.new_model(path, precision)
        load_weights(model, path)
        return model

    def check_same_model(self, model: "Transformer", subwords: SubwordPair) -> None:
        """Checks that a model and its subwords are the same as the directory's, if it has any.

        Raises:
            UserError: sizes or subwords differ.
        """
        binding = self.init_from_binding()
        saved = self.sizes() if self.model_json.exists() else None
        if saved and (differing := model_json.differing_sizes(saved, model)):
            raise UserError(
                f"{self.path} holds a model of other sizes ({'; '.join(differing)}): give another "
                "--model_dir, or the gin file that it was trained with. A new model that differs "
                f"only in vocabulary or tied embeddings can start from its weights with {binding}."
            )
        existing = {path.name: path.read_bytes() for path in subword_files(self.path)}
        # A subset: a run killed while it started may have written only one of two subword models.
        if not existing.items() <= subwords.contents().items():
            data_dir = subwords.target.model_path.parent
            raise UserError(
                f"{self.path} has other subwords than the data, {data_dir}: give the data that it "
                "was trained on, or another --model_dir; to train this model on these data, give "
                f"another --model_dir with {binding}."
            )

    def init_from_binding(self) -> str:
        """Returns the binding by which another run starts from these weights."""
        return f"train.init_from = {str(self.path)!r}"

    def _check_holds_model(self) -> None:
        """Checks that the directory holds a model.

        Raises:
            UserError: a file of the model is missing.
        """
        if not self.model_json.is_file():
            problem = f"{self.path} is not a model directory: {self.model_json.name} is missing"
            raise UserError(f"{problem}; {self._advice()}.")
        check_subword_files(self.path)

    def _advice(self) -> str:
        """Returns what to do about a directory without a model, as the end of an error.

        It names a model directory nearby, or else the ways to get one.
        """
        folder = self.path if self.path.is_dir() else self.path.parent
        for nearby in (folder, folder.parent, *sorted(folder.glob("*"))):
            # Unlike `is_file`, this raises no error in a folder that may not be read.
            if any(nearby.glob(self.model_json.name)):
                return f"give --model_dir={quote(str(nearby))}"
        return (
            "give that of a training run, or import the model by t2t_repro.import_t2t, "
            "import_marian, import_hugging_face or import_ctranslate2"
        )

"""The JSON records of a model directory: ancestors, epoch, scores."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from t2t_repro.files import lock, read_json, write_json


@dataclasses.dataclass(frozen=True)
class Ancestor:
    """A model from whose weights another one was trained.

    Attributes:
        model_dir: the path of its directory at that time.
        checkpoint: its name in the directory, e.g. "best/step-2000".
        weights_sha256: SHA-256 of these weights, see `weights_hash`.
        carried_rows: by the name of each variable with a row per subword, how many were copied.
        new_rows: likewise, how many were newly initialised.
    """

    model_dir: str
    checkpoint: str
    weights_sha256: str
    carried_rows: Mapping[str, int]
    new_rows: Mapping[str, int]


def weights_hash(weights: Mapping[str, ArrayLike]) -> str:
    """Returns the SHA-256 of the names, shapes and values of weights.

    Weights are sorted by name. Values are hashed as little-endian float32.
    """
    digest = hashlib.sha256()
    for name in sorted(weights):
        # One weight at a time, to save memory: it may be a copy from the device.
        values = np.asarray(weights[name], "<f4")
        digest.update(f"{name} {list(values.shape)}\0".encode())
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def write_ancestry(path: Path, ancestors: Sequence[Ancestor]) -> None:
    """Writes ancestry.json: the ancestors of a model, the nearest first."""
    write_json(path, {"ancestors": [dataclasses.asdict(ancestor) for ancestor in ancestors]})


def read_ancestry(path: Path) -> list[Ancestor]:
    """Reads ancestry.json.

    Returns:
        the ancestors, the nearest first; none if there is no such file.
    """
    entries = read_json(path)["ancestors"] if path.is_file() else []
    return [Ancestor(**entry) for entry in entries]


def differing_epoch(path: Path, epoch: Mapping[str, Any]) -> list[str]:
    """Compares an epoch with that of an earlier start of the run.

    Args:
        path: of epoch.json, which may not exist yet.
        epoch: the fields of an `EpochReport`.

    Returns:
        a sentence for each difference; none if there is no earlier start.
    """
    before = read_json(path) if path.is_file() else {}
    differences = []
    for name in ("sentences", "micro_batches", "source_tokens", "target_tokens"):
        # A field that an older version did not write does not differ.
        there, now = before.get(name, epoch[name]), epoch[name]
        if there != now:
            change = f"an epoch has {there} {name.replace('_', '-')} there, {now} now"
            differences.append(f"{change}: the rest of this one is reshuffled")
    return differences


def mean_target_length(path: Path) -> float | None:
    """Returns the mean target length in epoch.json, in subwords with EOS; None without the file."""
    if not path.is_file():
        return None
    epoch = read_json(path)
    return float(epoch["target_tokens"] / epoch["sentences"])


def write_scores(folder: Path, split: str, evaluation: Mapping[str, Any]) -> None:
    """Writes <split>.json, the evaluation of a split; an earlier one is replaced.

    Raises:
        OSError: a file cannot be written.
    """
    # Evaluations may end at the same time, and `write_json` allows one writer.
    with lock(folder / ".scores.lock"):
        write_json(folder / f"{split}.json", evaluation)


def read_scores(folder: Path) -> dict[str, Any]:
    """Returns the evaluations in a folder by split; none if there is no such folder.

    Raises:
        OSError: a file cannot be read.
        UserError: a file is not JSON.
    """
    return {path.stem: read_json(path) for path in sorted(folder.glob("[!.]*.json"))}

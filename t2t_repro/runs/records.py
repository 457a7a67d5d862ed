"""Where a model's first weights came from: what `ancestry.json` of a model directory holds."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from t2t_repro.files import read_json

_MOST = 1000


@dataclasses.dataclass(frozen=True)
class Ancestor:
    """A model that another one began with the weights of.

    Attributes:
        model_dir: where its directory lay.
        checkpoint: which of its checkpoints, e.g. "best/step-2000".
        weights_sha256: of these weights, see `weights_hash`.
        carried_rows: of every table with a row for a piece, how many pieces' rows came from there.
        new_rows: how many others there are, which began as any new weights do.
    """

    model_dir: str
    checkpoint: str
    weights_sha256: str
    carried_rows: Mapping[str, int]
    new_rows: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        return dataclasses.asdict(self)


def weights_hash(weights: Mapping[str, ArrayLike]) -> str:
    """Returns the SHA-256 of weights: of their names, shapes and values, in the names' order.

    Of Keras's variables it copies one at a time.
    """
    digest = hashlib.sha256()
    for name in sorted(weights):
        values = np.asarray(weights[name], "<f4")
        digest.update(f"{name} {list(values.shape)}\0".encode())
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def read_ancestry(path: Path) -> list[Ancestor]:
    """Reads a file that anyone may have written.

    Returns:
        the ancestors, the parent first; none where there is no such file, or one that says
        something else.
    """
    try:
        found = [_ancestor(one) for one in read_json(path)["ancestors"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    return found[:_MOST]


def _ancestor(entry: Mapping[str, Any]) -> Ancestor:
    names = {field.name: entry[field.name] for field in dataclasses.fields(Ancestor)}
    texts = [names[name] for name in ("model_dir", "checkpoint", "weights_sha256")]
    rows = [names[name] for name in ("carried_rows", "new_rows")]
    counts = [count for one in rows for count in dict(one).values()]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("an ancestor's names are no texts")
    if not all(type(count) is int for count in counts):
        raise ValueError("an ancestor's rows are no numbers")
    return Ancestor(**names)


def ancestry(ancestors: Sequence[Ancestor]) -> dict[str, Any]:
    """Returns what JSON can hold, and `read_ancestry` reads."""
    return {"ancestors": [ancestor.to_dict() for ancestor in ancestors]}

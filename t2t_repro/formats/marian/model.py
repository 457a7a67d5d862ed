"""A Marian model in our terms, read from either form, and its weights by the names there."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.files import write_whole
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_json import parameter_count
from t2t_repro.text.marian import MarianFile, MarianSubwords
from t2t_repro.text.subword_model import SOURCE_SUBWORDS, TARGET_SUBWORDS, SubwordPair

Array = NDArray[np.float32]

NEVER = -1000.0
"""A logit that adds nothing to a sum of exponentials in float32."""


@dataclass(frozen=True)
class MarianSide:
    """The text of one side.

    Attributes:
        file: what a model directory holds of it.
        ids: the model's id of each of our ids, -1 where it has none: [ids].
    """

    file: MarianFile
    ids: NDArray[np.int64]

    @classmethod
    def in_our_order(
        cls, file: MarianFile, names: Mapping[int, str], special: Sequence[int], rows: int
    ) -> "MarianSide":
        """Puts PAD, EOS and UNK first, and all others in their order.

        Args:
            file: without its pieces.
            names: of the model's ids.
            special: the model's ids of PAD, EOS and UNK.
            rows: the number of the model's ids.
        """
        ids = [*special, *(number for number in range(rows) if number not in special)]
        return cls(replace(file, pieces=[names[number] for number in ids]), np.array(ids, np.int64))


@dataclass(frozen=True)
class MarianText:
    """The text of a Marian model.

    Attributes:
        source: of the source.
        target: of the target.
        max_length: the most subwords of a sentence, EOS included, if there is such a limit.
    """

    source: MarianSide
    target: MarianSide
    max_length: int | None = None

    def write(self, folder: Path) -> SubwordPair:
        """Writes a file for each side into a directory, and opens them.

        Raises:
            UserError: SentencePiece cannot use the model of a side.
        """
        sides = {SOURCE_SUBWORDS: self.source, TARGET_SUBWORDS: self.target}
        for name, side in sides.items():
            write_whole(folder / name, side.file.content())
        return SubwordPair(*(MarianSubwords(folder / name) for name in sides))


class MarianModel(NamedTuple):
    """A Marian model, in our terms.

    Attributes:
        model: the Transformer, built and loaded; ids are in our order.
        text: its subwords.
        decoding: gin bindings of its search and limits.
        weights: the name of the file that had its weights.
    """

    model: Transformer
    text: MarianText
    decoding: str
    weights: str


class Weight(NamedTuple):
    """A weight in both forms.

    Attributes:
        name: theirs.
        variable: ours.
        side: whose vocabulary its rows belong to, if any: "source" or "target".
    """

    name: str
    variable: keras.Variable
    side: str | None = None


def table_weights(
    model: Transformer, shared: str, own: Mapping[str, str], softmax: str, bias: str
) -> Iterator[Weight]:
    """Lists what has a row for each id.

    Args:
        model: built, with a bias of the logits.
        shared: the name of the embedding of source and target, if they share it.
        own: the names of their own embeddings.
        softmax: the name of the softmax's own matrix.
        bias: the name of the bias of the logits.
    """
    if model.own_source_embedding is None:
        yield Weight(shared, model.embedding.table, "target")
    else:
        yield Weight(own["source"], model.own_source_embedding.table, "source")
        yield Weight(own["target"], model.embedding.table, "target")
    if model.own_softmax is not None:
        yield Weight(softmax, model.own_softmax.table, "target")
    yield Weight(bias, model.logits_bias, "target")


class WeightsFile(NamedTuple):
    """The weights of a file, by their names there.

    Attributes:
        path: of the file.
        arrays: of the types that they have in the file.
    """

    path: Path
    arrays: dict[str, NDArray]

    def value(self, name: str, shape: tuple[int, ...]) -> Array:
        """Returns a weight.

        Raises:
            UserError: it is missing, has another shape, or values that are not finite.
        """
        found = self.arrays[name].shape if name in self.arrays else "no such weight"
        if found != shape:
            raise UserError(
                f"{self.path} has {found} for {name}, expected {shape} as the model's settings "
                "say: give the files of one model."
            )
        value = self.arrays[name].astype(np.float32)
        if not np.isfinite(value).all():
            raise UserError(f"{self.path} has values that are not finite in {name}.")
        return value

    def check_held(self, sizes: Mapping[str, Any]) -> None:
        """Compares a Transformer's arguments with the weights, before anything is built.

        Raises:
            UserError: it is more than twice as large.
        """
        held = sum(one.size for one in self.arrays.values())
        # A weight that is missing is named later.
        if (needed := parameter_count(sizes)) > 2 * held:
            raise UserError(
                f"{self.path} has {held:,} numbers, expected {needed:,} or more as the model's "
                "settings say: give the files of one model."
            )

    def check_names(self, known: Collection[str]) -> None:
        """Checks that the file has no weights but these.

        Raises:
            UserError: it has.
        """
        if others := self.arrays.keys() - known:
            raise UserError(
                f"{self.path} has {', '.join(sorted(others)[:3])}, expected the weights of a "
                "Transformer with the model's settings: a model with others cannot be imported."
            )

"""The file of a lexical shortlist: which target ids may translate each source id."""

import io
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import write_whole
from t2t_repro.vocabulary import UNK_ID

# As in Marian, the number of ids of a sentence is rounded up to a multiple of `MULTIPLE`, by adding
# the lowest unused ids below `FILL_BELOW`.
MULTIPLE, FILL_BELOW = 8, 1024


class ShortlistFile(NamedTuple):
    """The content of shortlist.npz.

    Attributes:
        splits: [source ids + 1] int64; the list of source id n is ids[splits[n] : splits[n + 1]].
            PAD's is empty.
        ids: [all] int32, the lists of target ids, one after the other.
        always: [some] int32, target ids that every sentence may have; EOS is one.
    """

    splits: NDArray[np.int64]
    ids: NDArray[np.int32]
    always: NDArray[np.int32]

    def of(self, source_id: int) -> NDArray[np.int32]:
        """Returns the target ids that may translate a source id, [n] int32."""
        return self.ids[self.splits[source_id] : self.splits[source_id + 1]]

    def of_sentence(self, source: Iterable[int], never: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Returns the target ids that one sentence may have, ascending, [n] int32.

        They are those that `shortlist.narrowed` finds for it alone, but without TensorFlow.

        Args:
            source: the ids of the sentence.
            never: [vocab] bool, the ids that no sentence may have.
        """
        allowed = np.zeros_like(never)
        allowed[np.concatenate([self.always, *map(self.of, source)])] = True
        allowed &= ~never
        unused = np.flatnonzero(~(allowed | never)[:FILL_BELOW])
        # How many ids the sentence lacks to the next multiple.
        missing = -np.count_nonzero(allowed) % MULTIPLE
        allowed[unused[:missing]] = True
        # A search uses PAD, EOS and UNK by their numbers.
        allowed[: UNK_ID + 1] = True
        return np.flatnonzero(allowed).astype(np.int32)

    @classmethod
    def of_lists(
        cls, lists: Sequence[NDArray[np.integer]], always: NDArray[np.integer]
    ) -> "ShortlistFile":
        """Makes the content from the target ids of each source id, and those always allowed."""
        ids = np.concatenate(lists).astype(np.int32)
        return cls(np.cumsum([0, *map(len, lists)]), ids, always.astype(np.int32))

    @classmethod
    def read(cls, path: Path) -> "ShortlistFile":
        """Reads the file of a model directory.

        Raises:
            UserError: the file is damaged, e.g. copied in part.
        """
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return cls(*(arrays[name] for name in cls._fields))
        except (EOFError, LookupError, TypeError, ValueError, BadZipFile, zlib.error) as error:
            raise UserError(f"{path} is damaged ({reason_of(error)}): copy it again.") from error

    def write(self, path: Path) -> None:
        """Writes the file of a model directory: compressed .npz, one array for each attribute."""
        content = io.BytesIO()
        np.savez_compressed(content, **self._asdict())
        write_whole(path, content.getvalue())

"""The version of a model that is served, and newer ones that take its place."""

import asyncio
from pathlib import Path
from typing import NamedTuple

import grpc
from absl import logging

from t2t_repro.errors import UserError, reason_of
from t2t_repro.serving.loaded_model import LoadedModel
from t2t_repro.serving.request_error import RequestError

# Name, size and time of every file of a version.
_Files = tuple[tuple[str, int, int], ...]


class ServedVersion(NamedTuple):
    """A version that answers requests.

    Attributes:
        number: its number.
        model: the model.
    """

    number: int
    model: LoadedModel


class ServedVersions:
    """Serves the newest version in a directory that can be loaded.

    A version that appears is loaded and warmed up while the one before goes on, which is dropped
    when its last request is answered. One that can't be loaded is refused, and tried again only
    when its files have changed. Where the version that is served is taken away, the newest of the
    others is.

    Args:
        name: of the model, as clients give it.
        export_dir: holds a directory for every version, its number.

    Attributes:
        name: as given.
        refused: why versions could not be loaded, by number.
    """

    def __init__(self, name: str, export_dir: Path) -> None:
        self.name = name
        self.refused: dict[int, str] = {}
        self._export_dir = export_dir
        self._files_of_refused: dict[int, _Files] = {}
        self._files_before: dict[int, _Files] = {}
        self._served: ServedVersion | None = None

    def served(self, name: str, number: int | None = None) -> ServedVersion:
        """The version that is served.

        Args:
            name: of the model that is asked for.
            number: of the version that is asked for, None for any.

        Raises:
            RequestError: it is not served.
        """
        served = self._served
        if served is None or name != self.name or number not in (None, served.number):
            asked = f"Latest({name})" if number is None else f"Specific({name}, {number})"
            raise RequestError(
                grpc.StatusCode.NOT_FOUND, f"Servable not found for request: {asked}"
            )
        return served

    async def start(self) -> None:
        """Loads the first version to serve.

        Raises:
            UserError: there is none that can be loaded.
        """
        if not self._found():
            raise UserError(
                f"--export_dir={self._export_dir} holds no version of a model; expected what "
                "python -m t2t_repro.export wrote."
            )
        await self.look(at_once=True)
        if self._served is None:
            reasons = "; ".join(f"version {n}: {why}" for n, why in self.refused.items())
            raise UserError(f"--export_dir={self._export_dir} cannot be served: {reasons}")

    async def watch(self, poll_seconds: float) -> None:
        """Looks for other versions, for ever."""
        while True:
            await asyncio.sleep(poll_seconds)
            await self.look()

    async def look(self, at_once: bool = False) -> None:
        """Serves the newest version that can be loaded, if it isn't served already.

        Args:
            at_once: take versions that have not been seen before; otherwise the files of one must
                have been the same a look ago, as it may still be copied.
        """
        found = await asyncio.to_thread(self._found)
        before, self._files_before = self._files_before, found
        self.refused = {number: why for number, why in self.refused.items() if number in found}
        for number in sorted(found, reverse=True):
            if self._served and number == self._served.number:
                return
            is_still = at_once or before.get(number) == found[number]
            if not is_still or self._files_of_refused.get(number) == found[number]:
                continue
            if await self._load(number, found[number]):
                return

    async def _load(self, number: int, files: _Files) -> bool:
        """Loads a version and serves it; whether that was possible."""
        try:
            model = await asyncio.to_thread(LoadedModel, self._export_dir / str(number))
        # What is wrong with the files of a model can be anything.
        except Exception as error:
            reason = reason_of(error)
            self.refused[number], self._files_of_refused[number] = reason, files
            other = f", version {self._served.number} goes on" if self._served else ""
            logging.error("version %d is refused%s: %s", number, other, reason)
            return False
        self.refused.pop(number, None)
        self._served = ServedVersion(number, model)
        logging.info("serving version %d of %s", number, self.name)
        return True

    def _found(self) -> dict[int, _Files]:
        """The versions that are there, and their files."""
        try:
            entries = list(self._export_dir.iterdir())
        except OSError:
            return {}
        # A number is written in one way only.
        names = {entry.name for entry in entries if entry.name.isdecimal() and entry.is_dir()}
        numbers = {int(name) for name in names if str(int(name)) == name}
        return {number: _files(self._export_dir / str(number)) for number in numbers}


def _files(directory: Path) -> _Files:
    """What files there are; of one that vanishes meanwhile, its name."""
    found = []
    for path in sorted(directory.rglob("*")):
        try:
            status = path.stat()
            found.append((str(path), status.st_size, status.st_mtime_ns))
        except OSError:
            found.append((str(path), -1, -1))
    return tuple(found)

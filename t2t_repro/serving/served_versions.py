"""The version of a model that is served, and newer ones that take its place."""

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

import grpc
from absl import logging

from t2t_repro.errors import UserError, printable
from t2t_repro.formats.saved_model.version_numbers import LARGEST_VERSION
from t2t_repro.serving.model_process import ModelProcess, VersionError, VersionLimits
from t2t_repro.serving.request_error import RequestError

# Name, size and time of every file of a version.
_Files = tuple[tuple[str, int, int], ...]

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
"""Seconds until what may be loaded another time is tried again; each is twice the one before."""


class _Loading(NamedTuple):
    """A version that is being loaded.

    Attributes:
        number: of it.
        task: that loads it.
    """

    number: int
    task: asyncio.Task[None]


class _Pause(NamedTuple):
    """How long a version is not tried, unless its files change.

    Attributes:
        files: of the version.
        seconds: of it.
        end: when it is over, by the event loop's clock.
    """

    files: _Files
    seconds: float
    end: float


class ServedVersions:
    """Serves the newest version in a directory that can be loaded.

    A version that appears is loaded and warmed up while the one before goes on, which is dropped
    when its last request is answered. One that can't be loaded is refused, and tried again only
    when its files have changed; where the machine has no room for its process, after a while. Where
    the version that is served is taken away, the newest of the others is. A version whose process
    ends is loaded again; as it could be loaded before, it is tried until it can be, with growing
    pauses.

    Args:
        name: of the model, as clients give it.
        export_dir: holds a directory for every version, its number.
        limits: what a version may take.

    Attributes:
        name: as given.
        refused: why versions could not be loaded, by number.
    """

    def __init__(self, name: str, export_dir: Path, limits: VersionLimits) -> None:
        self.name = name
        self.refused: dict[int, str] = {}
        self._export_dir = export_dir
        self._limits = limits
        self._files_of_refused: dict[int, _Files] = {}
        self._files_of_served: dict[int, _Files] = {}
        self._pauses: dict[int, _Pause] = {}
        self._files_before: dict[int, _Files] = {}
        self._served: ModelProcess | None = None
        self._loading: _Loading | None = None

    @property
    def is_served(self) -> bool:
        """Whether there is a version that answers."""
        return self._served is not None and not self._served.ended.done()

    def served(self) -> ModelProcess:
        """The version that is served.

        Raises:
            RequestError: there is none at the moment.
        """
        if self._served is None:
            raise RequestError(grpc.StatusCode.UNAVAILABLE, "the model is being loaded")
        return self._served

    async def start(self) -> None:
        """Loads the first version to serve.

        Raises:
            UserError: there is none that can be loaded.
        """
        await self.look(at_once=True)
        while self._loading:
            await asyncio.wait([self._loading.task], timeout=1)
            await self.look()
        if self._served is None and not self.refused:
            raise UserError(
                f"--export_dir={self._export_dir} holds no version of a model; expected what "
                "python -m t2t_repro.export wrote."
            )
        if self._served is None:
            reasons = "; ".join(f"version {n}: {why}" for n, why in self.refused.items())
            raise UserError(f"--export_dir={self._export_dir} cannot be served: {reasons}")

    async def wait(self, poll_seconds: float) -> None:
        """Waits until it is time to look again: so long, or until a version's state changes."""
        tasks = [self._served.ended] if self._served else []
        tasks += [self._loading.task] if self._loading else []
        pause = asyncio.create_task(asyncio.sleep(poll_seconds))
        await asyncio.wait([pause, *tasks], return_when=asyncio.FIRST_COMPLETED)
        pause.cancel()

    async def look(self, at_once: bool = False) -> None:
        """Begins to load the newest version that can be, if it isn't served already.

        One that is being loaded is dropped where it has changed, or another has become the newest.

        Args:
            at_once: take versions that have not been seen before; otherwise the files of one must
                have been the same a look ago, as it may still be copied.
        """
        found = await asyncio.to_thread(self._found)
        before, self._files_before = self._files_before, found
        self.refused = {number: why for number, why in self.refused.items() if number in found}
        if self._served and self._served.ended.done():
            self._served = None
        if self._loading and self._loading.task.done():
            self._loading = None
        number = self._next(found, found if at_once else before)
        if self._loading and self._loading.number != number:
            self._loading.task.cancel()
            self._loading = None
        if number is not None and self._loading is None:
            task = asyncio.create_task(self._load(number, found[number]))
            self._loading = _Loading(number, task)

    def close(self) -> None:
        """Ends all processes."""
        if self._served:
            self._served.ended.cancel()
        if self._loading:
            self._loading.task.cancel()

    def _next(self, found: dict[int, _Files], before: dict[int, _Files]) -> int | None:
        """The version to load: the newest, of those that are whole and may be tried."""
        for number in sorted(found, reverse=True):
            if self._served and number == self._served.number:
                return None
            is_still = before.get(number) == found[number]
            if is_still and self._may_be_tried(number, found[number]):
                return number
        return None

    def _may_be_tried(self, number: int, files: _Files) -> bool:
        pause = self._pauses.get(number)
        if pause and pause.files == files:
            return asyncio.get_running_loop().time() >= pause.end
        return self._files_of_refused.get(number) != files

    async def _load(self, number: int, files: _Files) -> None:
        """Loads a version and serves it; or refuses it, for now where it was served before."""
        path = self._export_dir / str(number)
        try:
            model = await ModelProcess.start(path, self.name, number, self._limits)
        except VersionError as error:
            reason = printable(str(error))
            if self._files_of_served.get(number) == files:
                self._try_later(number, files, reason)
                return
            self.refused[number] = reason
            self._files_of_refused[number] = files
            self._pauses.pop(number, None)
            other = f", version {self._served.number} goes on" if self._served else ""
            logging.error("version %d is refused%s: %s", number, other, reason)
            return
        except OSError as error:
            # Too many files or processes: another time.
            self._try_later(number, files, f"it cannot be loaded now: {error.strerror}")
            return
        self.refused.pop(number, None)
        self._pauses.pop(number, None)
        self._files_of_served[number] = files
        before, self._served = self._served, model
        if before:
            before.retire()
        logging.info("serving version %d of %s", number, self.name)

    def _try_later(self, number: int, files: _Files, reason: str) -> None:
        """Refuses a version until its next pause is over."""
        before = self._pauses.get(number)
        seconds = _FIRST_PAUSE
        if before and before.files == files:
            seconds = min(2 * before.seconds, _LONGEST_PAUSE)
        end = asyncio.get_running_loop().time() + seconds
        self._pauses[number] = _Pause(files, seconds, end)
        self.refused[number] = reason
        logging.error("version %d is tried again in %g s: %s", number, seconds, reason)

    def _found(self) -> dict[int, _Files]:
        """The versions that are there, and their files."""
        try:
            entries = list(self._export_dir.iterdir())
        except OSError:
            return {}
        # A number is written in one way only.
        names = {entry.name for entry in entries if entry.name.isdecimal() and entry.is_dir()}
        numbers = {int(name) for name in names if str(int(name)) == name}
        return {
            number: _files(self._export_dir / str(number))
            for number in numbers
            if number <= LARGEST_VERSION
        }


def _files(directory: Path) -> _Files:
    """What files there are; of one that vanishes meanwhile, its name."""
    found = []
    # As `Path.rglob` does not, it passes over a directory that vanishes.
    for parent, directories, files in os.walk(directory):
        for name in directories + files:
            path = os.path.join(parent, name)
            try:
                status = os.stat(path)
                found.append((path, status.st_size, status.st_mtime_ns))
            except OSError:
                found.append((path, -1, -1))
    return tuple(sorted(found))

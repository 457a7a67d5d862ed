"""Where the translations of blocks go: to standard output, or to files that survive a kill."""

import errno
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from absl import logging

from t2t_repro.config.gin_files import differing_values
from t2t_repro.data.block_files import BlockFiles
from t2t_repro.errors import UserError
from t2t_repro.files import exclusive_lock, sync, whole_file, write_whole

_IDENTITY, _JOURNAL, _FINISHED = "identity.json", "journal", "finished"
_IDENTITY_ASIDE, _FINISHED_ASIDE = f".{_IDENTITY}.partial", f".{_FINISHED}.partial"
_MOST_DIFFERENCES = 3


class StandardOutput(AbstractContextManager["StandardOutput"]):
    """Standard output: it is written once, and cannot be resumed.

    Attributes:
        done: lines of input whose translations are written by an earlier process: none.
        digest: of these lines.
        finished: whether nothing is left to do.
    """

    done, digest, finished = 0, "", False

    def __exit__(self, *_: object) -> None:
        pass

    def append(self, lines: int, digest: str, texts: Mapping[str, Sequence[str]]) -> None:
        """Writes the one text; see `ResumableFiles.append`."""
        (text,) = texts.values()
        sys.stdout.buffer.write(_bytes_of(text))
        sys.stdout.flush()

    def finish(self) -> None:
        """Does nothing."""


class ResumableFiles(AbstractContextManager["ResumableFiles"]):
    """Files that grow aside, block by block, and are put in their places when they are whole.

    They grow in a folder beside the first of them, `<name>.partial`. A killed process leaves it
    behind; the next one with the same identity goes on after its last whole block.

    Args:
        paths: of the files, by the flags that gave them.
        identity: all but the input that determines what is written, in values of JSON, by the names
            that an error gives them.

    Attributes:
        done: lines of input whose outputs are in the files.
        digest: of these lines; see `LineBlock`.
        finished: whether they are whole, since a process was killed just at its end.

    Raises:
        UserError: another process writes there, or has begun with another identity, or there is
            something else where the folder should be.
    """

    def __init__(self, paths: Mapping[str, str], identity: Mapping[str, Any]) -> None:
        self._places = {flag: Path(os.path.abspath(path)) for flag, path in paths.items()}
        flag, place = next(iter(self._places.items()))
        self._folder = place.with_name(f"{place.name}.partial")
        # As the user would write it.
        self._shown = f"{paths[flag]}.partial"
        with ExitStack() as opened:
            lock = place.with_name(f".{place.name}.lock")
            what = f"--{flag}={paths[flag]}"
            opened.enter_context(exclusive_lock(lock, what, f"give another --{flag}"))
            self._check(json.loads(json.dumps(identity)))
            self.done, self.digest = 0, ""
            self.finished = (self._folder / _FINISHED).exists()
            if self.finished:
                self.done, self.digest = self._read_finished()
            else:
                self._files = opened.enter_context(self._open())
                notes = [block.note for block in self._files.blocks]
                self.done = sum(note["lines"] for note in notes)
                self.digest = notes[-1]["digest"] if notes else self.digest
            self._opened = opened.pop_all()

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error and not self.finished:
            if self.done:
                logging.info(
                    "%s lines are done in %s: the same command goes on from there",
                    *(f"{self.done:,}", self._shown),
                )
            else:
                shutil.rmtree(self._folder, ignore_errors=True)
        self._opened.close()

    def append(self, lines: int, digest: str, texts: Mapping[str, Sequence[str]]) -> None:
        """Writes the outputs of a block.

        Args:
            lines: of input that it has.
            digest: of the input up to its end.
            texts: the lines of each output, by the flags of `paths`.

        Raises:
            UserError: the folder or the lock was deleted, and another process has begun.
        """
        if not self._folder.is_dir():
            raise UserError(
                f"{self._shown} was deleted while it was written: give the same command again, "
                "which begins anew."
            )
        parts = {flag: _bytes_of(text) for flag, text in texts.items()}
        self._files.append(parts, {"lines": lines, "digest": digest})
        self.done += lines
        self.digest = digest

    def finish(self) -> None:
        """Puts the files in their places, and deletes the folder."""
        if not self.finished:
            # Otherwise a power cut could leave the note that all is written, without all of it.
            sync(*filter(Path.exists, (self._folder / flag for flag in self._places)))
            write_whole(self._folder / _FINISHED, json.dumps([self.done, self.digest]).encode())
            sync(self._folder)
        self.finished = True
        # The first one last: it says that all are there.
        for flag, place in reversed(self._places.items()):
            if (grown := self._folder / flag).exists():
                _put(grown, place)
        sync(*{place.parent for place in self._places.values()})
        # This one first: without it what is left says nothing.
        (self._folder / _IDENTITY).unlink()
        shutil.rmtree(self._folder)

    def _read_finished(self) -> tuple[int, str]:
        try:
            done, digest = json.loads((self._folder / _FINISHED).read_bytes())
        except (ValueError, TypeError) as error:
            raise self._foreign() from error
        return done, digest

    def _open(self) -> BlockFiles:
        return BlockFiles(
            self._folder / _JOURNAL, {flag: self._folder / flag for flag in self._places}
        )

    def _check(self, identity: Mapping[str, Any]) -> None:
        """Holds the identity against that of the folder, or makes one."""
        path = self._folder / _IDENTITY
        try:
            there = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            self._make(identity)
            return
        except ValueError as error:
            raise self._foreign() from error
        if differing := differing_values(there, identity):
            more = len(differing) - _MOST_DIFFERENCES
            shown = [*differing[:_MOST_DIFFERENCES], *([f"{more} more"] if more > 0 else [])]
            raise UserError(
                f"{self._shown} was begun by another command ({'; '.join(shown)}): give that one "
                f"to go on, or delete {self._shown} to begin anew."
            )

    def _make(self, identity: Mapping[str, Any]) -> None:
        if self._folder.exists():
            ours = {_JOURNAL, _FINISHED, _FINISHED_ASIDE, _IDENTITY_ASIDE, *self._places}
            if not self._folder.is_dir() or {path.name for path in self._folder.iterdir()} - ours:
                raise self._foreign()
            shutil.rmtree(self._folder)
        self._folder.mkdir()
        write_whole(self._folder / _IDENTITY, (json.dumps(identity, indent=2) + "\n").encode())

    def _foreign(self) -> UserError:
        return UserError(
            f"{self._shown} is there already, and is not what this command leaves: move it away, "
            "or give another --output."
        )


def _put(grown: Path, place: Path) -> None:
    """Puts a file in its place, where it appears whole."""
    try:
        os.replace(grown, place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # On another disk.
        with whole_file(place) as aside:
            shutil.copyfile(grown, aside)


def _bytes_of(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()

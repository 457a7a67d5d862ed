"""Modules that a model directory's configuration imports: nothing of them runs unasked.

A module runs only if it is installed, if this user has trained the model with it, or if the user
has confirmed it by name, once for a model directory. What was confirmed is remembered for the user,
with a checksum of every file: code that has changed, or has come since, is asked for again.
"""

import hashlib
import json
import os
import site
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from absl import logging

from t2t_repro.config.modules import find_module, folder_of, import_found, is_missing
from t2t_repro.errors import UserError
from t2t_repro.files import read_json, whole_file

_OURS = "t2t_repro"

Files = dict[str, str]
"""Paths of source files, and their SHA-256."""


def import_confirmed(
    model_dir: Path, names: Collection[str], folders: Mapping[str, str], allowed: Collection[str]
) -> None:
    """Imports the modules of a configuration, if all of them may run.

    Args:
        model_dir: of the configuration.
        names: of the modules.
        folders: where the training run found them, as the model directory says.
        allowed: names that the user confirms now.

    Raises:
        UserError: a module may not run, or is not there. Nothing has run then that may not.
        Exception: whatever a module raises.
    """
    confirmed = _confirmed().get(_key(model_dir), {})
    found: dict[str, ModuleSpec | None] = {}
    guards: dict[str, _Confirmed] = {}
    asked = {}
    for name in names:
        top = name.partition(".")[0]
        places = [*filter(None, [folders.get(top)]), *sys.path]
        found[name] = spec = find_module(name, places)
        if name in allowed or top == _OURS:
            continue
        if spec is None:
            raise UserError(
                f"{model_dir} was trained with the module {name}, which is not there; expected it "
                "in the working directory or in a folder of PYTHONPATH: if you trust it, give "
                f"--allow_import={name} too."
            )
        if _is_found_installed(spec):
            continue
        files = confirmed.get(top, {})
        if _is_unchanged(spec, files):
            guards[name] = _Confirmed(model_dir, name, folder_of(spec), files)
        else:
            asked[name] = str(spec.origin)
    if asked:
        # All at once, and what is allowed already: nothing is remembered of a call that ends here.
        needed = " ".join(f"--allow_import={name}" for name in names if name in {*asked, *allowed})
        noun = "modules" if len(asked) > 1 else "module"
        raise UserError(
            f"{model_dir} was trained with the {noun} {', '.join(asked)}, "
            "which would run code that may be a stranger's: "
            f"{', '.join(asked.values())}; if you trust it, give {needed}, once."
        )
    with _from_source_alone():
        for name, spec in found.items():
            with _asked_first(guards[name]) if name in guards else nullcontext():
                _import(name, spec)
    if set(names) & set(allowed):
        remember(model_dir, names)


@contextmanager
def _from_source_alone() -> Iterator[None]:
    """What is imported within is what the files say that a person can read.

    Compiled code that lies beside them is not looked at: it may be of another text.
    """
    before = sys.pycache_prefix, sys.dont_write_bytecode
    with tempfile.TemporaryDirectory() as nothing:
        sys.pycache_prefix, sys.dont_write_bytecode = nothing, True
        try:
            yield
        finally:
            sys.pycache_prefix, sys.dont_write_bytecode = before


@contextmanager
def _asked_first(finder: MetaPathFinder) -> Iterator[None]:
    """Has Python ask a finder before all others for what is imported within."""
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Confirmed(MetaPathFinder):
    """Finds what the others find, and refuses what lies beside a module and was not confirmed.

    Args:
        model_dir: whose configuration imports the module.
        name: of the module.
        folder: that it lies in.
        files: that were confirmed.
    """

    def __init__(self, model_dir: Path, name: str, folder: Path, files: Files) -> None:
        self._model_dir = model_dir
        self._name = name
        self._folder = folder
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a module, see `importlib.abc.MetaPathFinder`.

        Raises:
            UserError: it may not run.
        """
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                self._check(fullname, spec)
                return spec
        return None

    def _check(self, fullname: str, spec: ModuleSpec) -> None:
        if not spec.has_location or fullname.partition(".")[0] == _OURS:
            return
        file = Path(str(spec.origin)).resolve()
        is_beside = _is_in(Path(str(spec.origin)), self._folder)
        if not is_beside or _is_installed(str(file)) or _is_pythons(str(file)):
            return
        if str(file) not in self._files:
            raise UserError(
                f"{self._model_dir} was trained with the module {self._name}, which would run code "
                f"that was not there when you trusted it, and may be a stranger's: {file}; if you "
                f"trust it, give --allow_import={self._name}, once."
            )


def _import(name: str, spec: ModuleSpec | None) -> None:
    """Imports a module; its folder does not stay among those that other imports look into."""
    places = list(sys.path)
    try:
        import_found(name, spec)
    except ModuleNotFoundError as error:
        if not is_missing(error, name):
            raise
        raise UserError(
            f"--allow_import={name}: there is no such module; expected it in the working "
            "directory or in a folder of PYTHONPATH."
        ) from error
    finally:
        sys.path[:] = places


def remember(model_dir: Path, names: Collection[str]) -> None:
    """Notes that modules, which are loaded, may run again for a model directory.

    Args:
        model_dir: of the model.
        names: of the modules; what is installed needs no note.
    """
    files = {name.partition(".")[0]: _files(name) for name in names}
    files = {name: found for name, found in files.items() if found}
    if not files:
        return
    notes, path = _confirmed(), _notes_file()
    notes[_key(model_dir)] = files
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as aside:
            aside.write_text(json.dumps(notes, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        logging.warning("%s cannot be written (%s): modules will be asked for again", path, error)


def folders_of(names: Collection[str]) -> dict[str, str]:
    """Where modules that are loaded lie: the folder of each, or of its package, by its name."""
    specs = {name.partition(".")[0]: find_module(name, ()) for name in names}
    return {
        name: str(folder_of(spec)) for name, spec in specs.items() if spec and spec.has_location
    }


def _files(name: str) -> Files:
    """The files of a module, and of what it has imported from beside it."""
    spec = find_module(name, ())
    if spec is None or not spec.has_location or spec.name == _OURS:
        return {}
    loaded = {
        Path(file)
        for top, module in list(sys.modules.items())
        if top.partition(".")[0] not in (_OURS, "__main__")
        if isinstance(file := getattr(module, "__file__", None), str)
    }
    beside = {file.resolve() for file in loaded if _is_in(file, folder_of(spec))}
    return {
        str(file): _checksum(file)
        for file in beside
        if file.is_file() and not _is_installed(str(file))
    }


def _is_in(file: Path, folder: Path) -> bool:
    """Whether a file lies below a folder: by its name, or where a link leads to."""
    named = Path(os.path.abspath(file)).is_relative_to(os.path.abspath(folder))
    return named or file.resolve().is_relative_to(folder.resolve())


def _is_unchanged(spec: ModuleSpec, files: Files) -> bool:
    """Whether a module and all that belongs to it are as they were confirmed."""
    own = str(Path(str(spec.origin)).resolve())
    return own in files and all(
        Path(file).is_file() and _checksum(Path(file)) == checksum
        for file, checksum in files.items()
    )


def _is_found_installed(spec: ModuleSpec) -> bool:
    """Whether an installed module is one by this name: not just any file of a package."""
    folder = folder_of(spec).resolve()
    is_found = any(Path(place).resolve() == folder for place in sys.path)
    return is_found and _is_installed(str(spec.origin))


def _is_installed(file: str) -> bool:
    paths = sysconfig.get_paths()
    folders = (paths["purelib"], paths["platlib"], site.getusersitepackages())
    return _is_below(file, folders)


def _is_pythons(file: str) -> bool:
    """Whether a file is of Python itself, which may lie in the folder that a user works in."""
    paths = sysconfig.get_paths()
    return _is_below(file, (paths["stdlib"], paths["platstdlib"]))


def _is_below(file: str, folders: Sequence[str]) -> bool:
    return any(Path(file).resolve().is_relative_to(Path(folder).resolve()) for folder in folders)


def _confirmed() -> dict[str, dict[str, Files]]:
    """What was confirmed: files by module, by model directory. A damaged note confirms nothing."""
    try:
        notes = read_json(_notes_file())
        for modules in notes.values():
            for files in modules.values():
                if not all(isinstance(text, str) for text in (*files, *files.values())):
                    return {}
    except (OSError, TypeError, ValueError, AttributeError):
        return {}
    return dict(notes)


def _notes_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "t2t_repro" / "confirmed.json"


def _key(model_dir: Path) -> str:
    return str(model_dir.resolve())


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()

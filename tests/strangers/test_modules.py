"""A stranger's model directory runs nothing of its own; one's own is translated with as it is."""

import importlib
import py_compile
import sys
import sysconfig
from pathlib import Path

import pytest

from t2t_repro import experiment
from t2t_repro.config.modules import find_module, import_found
from t2t_repro.errors import UserError
from t2t_repro.strangers.modules import folders_of, import_confirmed, remember

NAMES = ("own_parts", "parts_helper", "parts_more", "own_package", "own_package.deep")


@pytest.fixture(autouse=True)
def _own_notes(tmp_path, monkeypatch):
    """Modules are loaded once a process, and notes are the user's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    forget()
    yield
    forget()


def forget():
    """As in a new process."""
    for name in NAMES:
        sys.modules.pop(name, None)


def write_parts(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "own_parts.py").write_text("RAN = __file__\nimport parts_helper\n")
    (folder / "parts_helper.py").write_text("HELPS = 1\n")
    return folder


def use(model_dir, folder=None, allowed=()):
    """Imports as a verb does, in a process of its own."""
    forget()
    folders = {"own_parts": str(folder)} if folder else {}
    import_confirmed(model_dir, ["own_parts"], folders, allowed)
    return sys.modules["own_parts"].RAN


def refused(*args, **kwargs):
    with pytest.raises(UserError) as caught:
        use(*args, **kwargs)
    assert "own_parts" not in sys.modules
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_stranger_s_module_runs_once_it_is_confirmed_and_is_asked_for_again_when_changed(
    tmp_path,
):
    model_dir = write_parts(tmp_path / "model")
    file = model_dir / "own_parts.py"
    line = refused(model_dir, model_dir)
    assert line.endswith(
        f"which would run code that may be a stranger's: {file}; if you trust it, give "
        "--allow_import=own_parts, once."
    )
    refused(model_dir, model_dir, allowed=["own_part", "other"])
    assert use(model_dir, model_dir, allowed=["own_parts"]) == str(file)
    assert use(model_dir, model_dir) == str(file)
    # What the module imports from beside it was confirmed with it.
    for name in ("own_parts.py", "parts_helper.py"):
        before = (model_dir / name).read_text()
        (model_dir / name).write_text(before + "EVIL = 1\n")
        assert "may be a stranger's" in refused(model_dir, model_dir)
        (model_dir / name).write_text(before)
        assert use(model_dir, model_dir) == str(file)


def test_one_answer_allows_all_modules_that_are_asked_for(tmp_path):
    folder = write_parts(tmp_path / "model")
    names = ["own_parts", "parts_helper"]
    folders = dict.fromkeys(names, str(folder))
    both = "give --allow_import=own_parts --allow_import=parts_helper, once"
    for allowed, asked in (
        ([], "modules own_parts, parts_helper,"),
        (["own_parts"], "module parts_helper,"),
    ):
        with pytest.raises(UserError, match=f"with the {asked} .*{both}"):
            import_confirmed(folder, names, folders, allowed)
        assert not set(names) & sys.modules.keys()
    for allowed in (names, []):
        forget()
        import_confirmed(folder, names, folders, allowed)


def test_what_runs_is_the_text_that_one_can_read(tmp_path):
    """Compiled code beside it may be of another text, and says itself whether it is looked at."""
    model_dir = write_parts(tmp_path / "model")
    file = model_dir / "own_parts.py"
    readable = file.read_text()
    file.write_text("RAN = 'hidden'\n")
    py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    file.write_text(readable)
    assert use(model_dir, model_dir, allowed=["own_parts"]) == str(file)
    assert use(model_dir, model_dir) == str(file)


def test_what_else_lies_there_is_not_imported_later(tmp_path):
    model_dir = write_parts(tmp_path / "model")
    (model_dir / "no_such_extra.py").write_text("")
    path = list(sys.path)
    use(model_dir, model_dir, allowed=["own_parts"])
    assert sys.path == path
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_extra")


def test_what_was_confirmed_holds_for_that_directory_and_that_file_alone(tmp_path, monkeypatch):
    model_dir, other = write_parts(tmp_path / "model"), write_parts(tmp_path / "other")
    use(model_dir, model_dir, allowed=["own_parts"])
    assert "may be a stranger's" in refused(other, model_dir)
    # A file of the same name, even of the same text, is another file.
    assert f"{other / 'own_parts.py'}; if" in refused(model_dir, other)
    monkeypatch.setattr(sys, "path", [str(other), *sys.path])
    assert f"{other / 'own_parts.py'}; if" in refused(model_dir)


def test_the_working_directory_is_not_trusted_and_what_is_installed_is(tmp_path, monkeypatch):
    model_dir = tmp_path / "model"
    monkeypatch.setattr(sys, "path", [str(write_parts(tmp_path / "here")), *sys.path])
    assert str(tmp_path / "here" / "own_parts.py") in refused(model_dir)
    monkeypatch.setattr(
        "sysconfig.get_paths",
        lambda: {"purelib": str(tmp_path / "here"), "platlib": str(tmp_path / "here")},
    )
    assert use(model_dir) == str(tmp_path / "here" / "own_parts.py")
    # One that lies in the model directory is taken in its place nowhere.
    assert "may be a stranger's" in refused(model_dir, write_parts(model_dir))


def test_a_file_within_an_installed_package_is_no_installed_module(tmp_path, monkeypatch):
    """A model directory could name any of thousands, to be run as a module of its own."""
    site_packages = tmp_path / "site"
    folder = write_parts(site_packages / "package" / "scripts")
    paths = {"purelib": str(site_packages), "platlib": str(site_packages)}
    monkeypatch.setattr("sysconfig.get_paths", lambda: paths)
    monkeypatch.setattr(sys, "path", [str(site_packages), *sys.path])
    assert f"{folder / 'own_parts.py'}; if" in refused(tmp_path / "model", folder)
    write_parts(site_packages)
    assert use(tmp_path / "model", site_packages) == str(site_packages / "own_parts.py")


def test_a_model_that_one_has_trained_is_used_unasked(tmp_path):
    folder, model_dir = write_parts(tmp_path / "experiment"), tmp_path / "model"
    import_found("own_parts", find_module("own_parts", [str(folder)]))
    remember(model_dir, ["own_parts"])
    folders = folders_of(["own_parts"])
    assert folders == {"own_parts": str(folder)}
    assert use(model_dir, folders["own_parts"]) == str(folder / "own_parts.py")


def test_a_package_is_confirmed_as_a_whole(tmp_path):
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "deep.py").write_text("x = 1\n")

    def use_package(allowed=()):
        forget()
        folders = {"own_package": str(tmp_path)}
        import_confirmed(tmp_path / "model", ["own_package.deep"], folders, allowed)

    with pytest.raises(UserError, match=r"own_package/__init__\.py; .*=own_package\.deep, once"):
        use_package()
    use_package(["own_package.deep"])
    use_package()
    (package / "deep.py").write_text("x = 2\n")
    with pytest.raises(UserError, match="may be a stranger's"):
        use_package()


def test_a_part_of_a_package_that_came_since_is_asked_for(tmp_path):
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    folders = {"own_package": str(tmp_path)}

    def use_package(*names, allowed=()):
        forget()
        import_confirmed(tmp_path / "model", names, folders, allowed)

    use_package("own_package", allowed=["own_package"])
    (package / "deep.py").write_text("raise AssertionError\n")
    use_package("own_package")
    with pytest.raises(UserError, match=r"not there when you trusted it.*own_package/deep\.py; "):
        use_package("own_package.deep")
    (package / "deep.py").write_text("")
    use_package("own_package.deep", allowed=["own_package.deep"])
    use_package("own_package.deep")


def test_a_link_that_came_since_does_not_run_and_one_that_was_confirmed_does(tmp_path):
    model_dir = write_parts(tmp_path / "model")
    (tmp_path / "elsewhere.py").write_text("HELPS = 2\n")
    (model_dir / "parts_helper.py").unlink()
    (model_dir / "parts_helper.py").symlink_to(tmp_path / "elsewhere.py")
    use(model_dir, model_dir, allowed=["own_parts"])
    assert use(model_dir, model_dir)
    (model_dir / "parts_helper.py").unlink()
    (tmp_path / "evil.py").write_text("raise AssertionError\n")
    (model_dir / "parts_helper.py").symlink_to(tmp_path / "evil.py")
    assert "was not there when you trusted it" in refused(model_dir, model_dir)


def test_what_came_since_is_no_part_of_an_installed_module_either(tmp_path, monkeypatch):
    """An installed module may look for what is not installed."""
    installed = tmp_path / "site"
    installed.mkdir()
    (installed / "own_package.py").write_text(
        "try:\n    import parts_more\nexcept ModuleNotFoundError:\n    pass\n"
    )
    paths = sysconfig.get_paths() | {"purelib": str(installed)}
    monkeypatch.setattr("sysconfig.get_paths", lambda: paths)
    monkeypatch.setattr(sys, "path", [str(installed), *sys.path])
    model_dir = write_parts(tmp_path / "model")
    use(model_dir, model_dir, allowed=["own_parts"])
    (model_dir / "parts_more.py").write_text("raise AssertionError\n")
    forget()
    folders = {"own_parts": str(model_dir)}
    import_confirmed(model_dir, ["own_parts", "own_package"], folders, [])
    assert "own_package" in sys.modules


@pytest.mark.parametrize("where", ["parts_helper/__init__.py", "parts_more.py"])
def test_what_came_since_beside_a_confirmed_module_does_not_run(tmp_path, where):
    """A folder of a module's name comes before the module; and there may be one more."""
    model_dir = write_parts(tmp_path / "model")
    (model_dir / "own_parts.py").write_text(
        "RAN = __file__\nimport parts_helper\n"
        "try:\n    import parts_more\nexcept ModuleNotFoundError:\n    pass\n"
    )
    use(model_dir, model_dir, allowed=["own_parts"])
    assert use(model_dir, model_dir)
    (model_dir / where).parent.mkdir(exist_ok=True)
    (model_dir / where).write_text("raise AssertionError\n")
    message = refused(model_dir, model_dir)
    assert "would run code that was not there when you trusted it" in message
    assert f"{model_dir / where}; if you trust it, give --allow_import=own_parts, once." in message
    assert not any(type(finder).__name__ == "_Confirmed" for finder in sys.meta_path)
    (model_dir / where).write_text("")
    use(model_dir, model_dir, allowed=["own_parts"])
    assert use(model_dir, model_dir)


def test_a_damaged_note_confirms_nothing_and_one_that_cannot_be_written_stops_nothing(tmp_path):
    model_dir = write_parts(tmp_path / "model")
    use(model_dir, model_dir, allowed=["own_parts"])
    notes = tmp_path / "config" / "t2t_repro" / "confirmed.json"
    for damage in ("[]", "{", '{"a": 1}', f'{{"{model_dir}": {{"own_parts": 1}}}}', "\x00"):
        notes.write_text(damage)
        assert "may be a stranger's" in refused(model_dir, model_dir)
    notes.unlink()
    notes.parent.rmdir()
    notes.parent.write_text("a file")
    assert use(model_dir, model_dir, allowed=["own_parts"])
    assert "may be a stranger's" in refused(model_dir, model_dir)


def test_a_module_beside_a_gin_file_is_found_and_hides_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(write_parts(tmp_path / "elsewhere"))
    folder = write_parts(tmp_path / "experiment")
    # No module of Python's own is hidden by what lies there.
    (folder / "colorsys.py").write_text("raise AssertionError\n")
    (folder / "parts_helper.py").write_text("import colorsys\n")
    included = tmp_path / "included"
    included.mkdir()
    (included / "base.gin").write_text("TrainingSchedule.steps = 3\n")
    (folder / "main.gin").write_text(f"include '{included}/base.gin'\nimport own_parts\n")
    sys.modules.pop("colorsys", None)
    experiment.configure_experiment(folder / "main.gin", [])
    assert str(folder / "own_parts.py") == sys.modules["own_parts"].RAN
    forget()
    write_parts(included)
    (included / "base.gin").write_text("import own_parts\n")
    (folder / "main.gin").write_text(f"include '{included}/base.gin'\n")
    experiment.configure_experiment(folder / "main.gin", [])
    assert str(included / "own_parts.py") == sys.modules["own_parts"].RAN
    forget()
    experiment.configure_experiment(folder / "main.gin", ["import own_parts"])
    assert Path(sys.modules["own_parts"].RAN).parent == included

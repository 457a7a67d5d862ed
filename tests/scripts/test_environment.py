"""The environment of the scripts: made once, of a Python that may lie anywhere."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.processes import CHECKOUT

# In place of a Python whose venv and pip take a while, and say that they were called.
PYTHON = f"""#!/bin/bash
case "$1 $2" in
    "-c "*) exec "{sys.executable}" "$@" ;;
    "-m venv")
        echo venv >> calls
        mkdir -p .venv/bin
        cp "$0" .venv/bin/python
        touch .venv/bin/pip
        chmod +x .venv/bin/pip
        sleep 0.5
        echo 'PATH="$PWD/.venv/bin:$PATH"' > .venv/bin/activate
        ;;
    "-m ensurepip")
        if [ -e no_ensurepip ]; then exit 1; fi
        echo ensurepip >> calls
        touch .venv/bin/pip
        chmod +x .venv/bin/pip
        ;;
    "-m pip")
        echo "${{@: -1}}" >> calls
        sleep 0.5
        if [ -e offline ]; then exit 1; fi
        ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "scripts").mkdir()
    shutil.copy(CHECKOUT / "scripts" / "environment.sh", tmp_path / "scripts")
    (tmp_path / "setup.py").touch()
    python = tmp_path / "my programs" / "python"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def start(checkout, extra="base", python="my programs/python", options="-euo pipefail"):
    return subprocess.Popen(
        ["bash", "-c", f"set {options}; source scripts/environment.sh {extra}; which python"],
        cwd=checkout,
        env=os.environ | {"PYTHON": str(checkout / python)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=30)
    return process.returncode, out.splitlines(), err


def test_of_scripts_side_by_side_one_makes_it_and_the_others_wait(checkout):
    for process in [start(checkout), start(checkout), start(checkout, "plots")]:
        status, said, err = finish(process)
        assert (status, err) == (0, "")
        assert said[-1] == str(checkout / ".venv" / "bin" / "python")
    made, *installed = (checkout / "calls").read_text().splitlines()
    assert (made, sorted(installed)) == ("venv", [".", ".[plots]"])
    assert finish(start(checkout))[1] == [str(checkout / ".venv" / "bin" / "python")]


@pytest.mark.parametrize("left", [[], ["python"], ["python", "pip"]])
def test_one_that_was_interrupted_is_made_again(checkout, left):
    """Python's venv writes `activate` last, behind pip."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    for name in left:
        shutil.copy(checkout / "my programs" / "python", checkout / ".venv" / "bin" / name)
    assert finish(start(checkout))[0] == 0
    assert (checkout / "calls").read_text() == "venv\n.\n"


@pytest.mark.parametrize("options", ["-euo pipefail", "+e"])
def test_what_pip_could_not_install_is_installed_the_next_time(checkout, options):
    """At a prompt too, where nothing ends when a command fails."""
    (checkout / "offline").touch()
    finish(start(checkout, options=options))
    assert not (checkout / ".venv" / "installed-base").exists()
    (checkout / "offline").unlink()
    assert finish(start(checkout))[0] == 0
    assert (checkout / "calls").read_text() == "venv\n.\n.\n"


def test_a_prompt_is_told_and_goes_on(checkout):
    status, said, err = finish(start(checkout, "bas", options="+e"))
    assert (status, len(said)) == (0, 1)
    assert err.startswith("error: environment.sh was given 'bas', expected base, test")
    (checkout / "offline").touch()
    command = "set +e; source scripts/environment.sh base; exit $?"
    environment = os.environ | {"PYTHON": str(checkout / "my programs" / "python")}
    assert subprocess.run(["bash", "-c", command], cwd=checkout, env=environment).returncode == 1


def test_an_environment_without_pip_keeps_what_is_in_it(checkout):
    programs = checkout / ".venv" / "bin"
    programs.mkdir(parents=True)
    shutil.copy(checkout / "my programs" / "python", programs / "python")
    (programs / "activate").write_text('PATH="$PWD/.venv/bin:$PATH"\n')
    (programs / "mine").touch()
    (checkout / "no_ensurepip").touch()
    status, _, err = finish(start(checkout))
    assert status == 2
    assert err.startswith(f"error: {checkout}/.venv has no pip, and none could be put into it")
    (checkout / "no_ensurepip").unlink()
    assert finish(start(checkout))[0] == 0
    assert (checkout / "calls").read_text() == "ensurepip\n.\n"
    assert (programs / "mine").exists()


def test_a_python_that_is_none_is_one_line(checkout):
    status, said, err = finish(start(checkout, python="my programs/none"))
    assert (status, said) == (2, [])
    assert err.startswith("error: found no Python 3.11, 3.12 or 3.13")
    assert not (checkout / ".venv").exists()

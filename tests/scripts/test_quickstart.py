"""The quick start's last step, with stand-ins for the verbs."""

import shutil
import subprocess

import pytest

from tests.processes import CHECKOUT

# In place of the script's own, which makes an environment; `python` is a file beside it.
ENVIRONMENT = 'PATH="$PWD/bin:$PATH"\n'


@pytest.mark.parametrize("status", [0, 3])
def test_it_fails_where_its_last_step_does(tmp_path, status):
    for folder in ("scripts", "bin"):
        (tmp_path / folder).mkdir()
    shutil.copy(CHECKOUT / "scripts" / "quickstart.sh", tmp_path / "scripts")
    (tmp_path / "scripts" / "environment.sh").write_text(ENVIRONMENT)
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\ncase "$2" in *.translate) tr a-z A-Z; exit {status} ;; esac\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["bash", tmp_path / "scripts" / "quickstart.sh"], capture_output=True, text=True
    )
    assert done.returncode == status
    assert ("    → PAUL READ 95 PAGES IN 47 MINUTES.\n" in done.stdout) == (status == 0)
    assert ("now your own" in done.stdout) == (status == 0)

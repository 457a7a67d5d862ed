"""A peer's environment is made once, also where two processes ask for it at the same time."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from environments import make_environment
from tests.processes import CHECKOUT

# In place of venv and pip: what was called.
MAKE = """
import subprocess, sys, time
from pathlib import Path
import environments
env_dir = Path(sys.argv[1])
def run(command, check):
    with (env_dir / "calls").open("a") as file:
        file.write(f"{command[2]}\\n")
    if "venv" in command:
        (command[-1] / "bin").mkdir(parents=True)
    time.sleep(0.3)
environments.subprocess.run = run
environments.REQUIREMENTS = {"peer": [["one"]]}
print(environments.make_environment(env_dir, "peer"))
"""


def test_of_two_processes_one_makes_it_and_the_other_waits(tmp_path):
    path = [str(CHECKOUT), str(CHECKOUT / "benchmarks")]
    command = [sys.executable, "-c", f"import sys\nsys.path[:0] = {path!r}\n{MAKE}", tmp_path]

    def make(_):
        return subprocess.run(command, capture_output=True, text=True)

    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(make, range(2)):
            assert done.returncode == 0, done.stderr
            assert done.stdout == f"{tmp_path / 'peer' / 'bin' / 'python'}\n"
    assert (tmp_path / "calls").read_text() == "venv\npip\n"


def test_a_peer_that_there_is_not_is_one_line(tmp_path):
    with pytest.raises(SystemExit, match=r"^error: no peer 'nope'; there are ours, keras_hub, "):
        make_environment(tmp_path, "nope")

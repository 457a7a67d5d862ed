import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from t2t_repro.data.file_lock import held_alone, locked
from t2t_repro.errors import UserError
from tests.processes import CHECKOUT

HOLDER = """
import sys, time
from pathlib import Path
from t2t_repro.data.file_lock import held_alone
with held_alone(Path(sys.argv[1]), "it", "leave it"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_there_is_one_holder_though_the_file_comes_and_goes(tmp_path):
    def hold(_):
        with locked(tmp_path / "lock"):
            os.close(os.open(tmp_path / "held", os.O_CREAT | os.O_EXCL))
            (tmp_path / "held").unlink()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(hold, range(40)))
    assert not list(tmp_path.iterdir())


def test_who_holds_it_is_named_and_a_killed_holder_frees_it(tmp_path):
    path = tmp_path / "model" / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            named = (
                rf"^the model is in use by process {holder.pid} on {socket.gethostname()} since "
                r"20[\d :-]{17}: wait for its end, or go away\.$"
            )
            # Asking does not wipe out what it says.
            for _ in range(2):
                with (
                    pytest.raises(UserError, match=named),
                    held_alone(path, "the model", "go away"),
                ):
                    pass
        finally:
            holder.send_signal(signal.SIGKILL)
    assert path.exists()
    with held_alone(path, "the model", "go away"):
        assert f"process {os.getpid()} on" in path.read_text()
    assert not path.exists()


def test_a_folder_made_for_the_lock_goes_with_it_unless_it_is_used(tmp_path):
    path = tmp_path / "model" / "lock"
    with held_alone(path, "the model", "go away"):
        pass
    assert not path.parent.exists()
    with held_alone(path, "the model", "go away"):
        (path.parent / "model.json").touch()
    assert [file.name for file in path.parent.iterdir()] == ["model.json"]

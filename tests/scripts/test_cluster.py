"""The cluster's files: their shape, and what the Slurm job does with the trainer's exit status."""

import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

CLUSTER = Path(__file__).parents[2] / "scripts" / "cluster"

# Stands for the trainer: ends with a status, on SIGTERM with 143.
TRAINER = """#!/usr/bin/env bash
echo "$@" > arguments
echo $$ > trainer
trap 'exit 143' TERM
touch begun
if [ -n "$END" ]; then exit "$END"; fi
while true; do sleep 0.05; done
"""

# Stands for what starts the trainer on every machine, and kills it when it gets a signal itself.
SRUN = """#!/usr/bin/env bash
touch several
while [[ "$1" == --* ]]; do shift; done
trap 'kill -KILL $!; exit 137' TERM
"$@" &
wait $!
"""

# The step of srun is there a while after srun.
SQUEUE = """#!/usr/bin/env bash
[ "$*" = "--noheader --steps --jobs=42 --format=%i" ] || exit 1
echo 42.batch
if [ -e looked ]; then echo 42.0; fi
touch looked
"""

SCANCEL = """#!/usr/bin/env bash
[ "$*" = "--signal=TERM 42" ] && [ -e looked ] || exit 1
kill -TERM "$(cat trainer)"
"""


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@contextmanager
def slurm_job(folder, end=None, nodes=1, activate=""):
    executable(folder / "bin" / "python", TRAINER)
    executable(folder / "bin" / "scontrol", '#!/usr/bin/env bash\necho "$@" > requeued\n')
    executable(folder / "bin" / "srun", SRUN)
    executable(folder / "bin" / "scancel", SCANCEL)
    executable(folder / "bin" / "squeue", SQUEUE)
    executable(folder / ".venv" / "bin" / "activate", activate)
    environment = os.environ | {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "42",
        "SLURM_JOB_NUM_NODES": str(nodes),
        "END": "" if end is None else str(end),
    }
    command = ["bash", str(CLUSTER / "slurm.sh"), "gin/x.gin", "--model_dir=m"]
    with subprocess.Popen(command, cwd=folder, env=environment) as job:
        yield job


@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("end", [0, 1, 2, 143, None])
def test_the_slurm_job_requeues_itself_after_a_signal_only(tmp_path, end, nodes):
    with slurm_job(tmp_path, end, nodes) as job:
        while end is None and not (tmp_path / "begun").exists():
            assert job.poll() is None
        if end is None:
            job.send_signal(signal.SIGTERM)
        assert job.wait(20) == (143 if end is None else end)
    assert (tmp_path / "several").exists() == (nodes > 1)
    assert (tmp_path / "requeued").exists() == (end in (143, None))
    if end in (143, None):
        assert (tmp_path / "requeued").read_text() == "requeue 42\n"
    expected = "-m t2t_repro.trainer --gin_file=gin/x.gin --model_dir=m\n"
    assert (tmp_path / "arguments").read_text() == expected


@pytest.mark.parametrize("nodes", [1, 4])
def test_after_an_early_signal_the_trainer_does_not_begin(tmp_path, nodes):
    with slurm_job(tmp_path, nodes=nodes, activate="kill -TERM $$\n") as job:
        assert job.wait(20) == 143
    assert not (tmp_path / "begun").exists()
    assert (tmp_path / "requeued").read_text() == "requeue 42\n"


def test_the_slurm_job_asks_for_an_experiment():
    job = subprocess.run(["bash", str(CLUSTER / "slurm.sh")], capture_output=True, text=True)
    assert job.returncode == 2
    assert "usage: sbatch" in job.stderr


def test_outside_slurm_nothing_is_started(tmp_path):
    environment = {name: text for name, text in os.environ.items() if name != "SLURM_JOB_ID"}
    command = ["bash", str(CLUSTER / "slurm.sh"), "gin/x.gin"]
    job = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert job.returncode == 2
    [line] = job.stderr.splitlines()
    assert "start it with sbatch" in line


def test_without_an_environment_no_other_python_trains(tmp_path):
    executable(tmp_path / "bin" / "python", TRAINER)
    environment = os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "42",
        "END": "0",
    }
    command = ["bash", str(CLUSTER / "slurm.sh"), "gin/x.gin"]
    job = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert job.returncode == 2
    assert job.stderr.splitlines()[-1].startswith("error: there is no environment .venv: ")
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize(
    ("file", "kinds"), [("tfjob.yaml", {"Worker"}), ("tfjob_workers.yaml", {"Chief", "Worker"})]
)
def test_the_manifest_is_a_tfjob(file, kinds):
    """As Kubeflow's v1 API has it; a wrong restart policy or container name is ignored silently."""
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((CLUSTER / file).read_text())
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "TFJob")
    assert set(job["spec"]) == {"runPolicy", "tfReplicaSpecs"}
    assert set(job["spec"]["runPolicy"]) <= {
        "cleanPodPolicy",
        "backoffLimit",
        "activeDeadlineSeconds",
    }
    replicas = job["spec"]["tfReplicaSpecs"]
    assert set(replicas) == kinds
    assert replicas.get("Chief", {"replicas": 1})["replicas"] == 1
    for replica in replicas.values():
        check_replica(replica)


def check_replica(replica):
    assert replica["restartPolicy"] == "ExitCode"
    pod = replica["template"]["spec"]
    (container,) = pod["containers"]
    assert container["name"] == "tensorflow"
    assert container["command"][:3] == ["python", "-m", "t2t_repro.trainer"]
    # The default is 30 seconds; a checkpoint of the big model takes longer.
    assert pod["terminationGracePeriodSeconds"] >= 60
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes

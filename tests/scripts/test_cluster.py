"""The cluster's files: Kubernetes' schemas, and what the shell in the manifest does."""

import json
import os
import subprocess
from pathlib import Path

import kubernetes_validate
import yaml

CLUSTER = Path(__file__).parents[2] / "scripts" / "cluster"
SERVICE, JOB = yaml.safe_load_all((CLUSTER / "kubernetes.yaml").read_text())
POD = JOB["spec"]["template"]["spec"]


def test_the_manifest_is_valid():
    for version in ("1.31", kubernetes_validate.latest_version()):
        for part in (SERVICE, JOB):
            kubernetes_validate.validate(part, version, strict=True)
    # What no schema knows: the names of pods come from the Job and its Service.
    job, service = JOB["metadata"]["name"], SERVICE["metadata"]["name"]
    assert SERVICE["spec"]["selector"] == {"batch.kubernetes.io/job-name": job}
    assert POD["subdomain"] == service


def test_the_shell_in_the_manifest_makes_tf_config(tmp_path):
    (container,) = POD["containers"]
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$TF_CONFIG"\necho "$$ $@"\n')
    python.chmod(0o755)
    (workers,) = [each["value"] for each in container["env"] if each["name"] == "WORKERS"]
    assert int(workers) == JOB["spec"]["completions"] == JOB["spec"]["parallelism"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {"PATH": path, "WORKERS": workers, "JOB_COMPLETION_INDEX": "2"}
    with subprocess.Popen(container["command"], env=environment, stdout=subprocess.PIPE) as shell:
        config, command = shell.communicate()[0].decode().splitlines()
    (port,) = [each["port"] for each in SERVICE["spec"]["ports"]]
    hosts = [f"t2t-repro-{index}.t2t-repro:{port}" for index in range(int(workers))]
    task = {"type": "worker", "index": 2}
    assert json.loads(config) == {"cluster": {"worker": hosts}, "task": task}
    # The trainer takes the shell's place, and so gets its signals.
    assert command.split()[:3] == [str(shell.pid), "-m", "t2t_repro.trainer"]

"""What starts TensorFlow Serving: the script and the manifest say the same."""

import os
import re
import subprocess
from pathlib import Path

import yaml

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_the_script_starts_a_container_on_an_export(tmp_path):
    (tmp_path / "docker").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / "docker").chmod(0o755)
    configs = ("models.config", "batching_params.pbtxt", "monitoring.config")
    for name in configs:
        (tmp_path / name).write_text('name: "made"')
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))

    def run(*arguments):
        command = ["bash", str(SCRIPTS / "serve.sh"), *arguments]
        return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True)

    started = run(str(tmp_path), "made")
    words = started.stdout.split()
    assert started.returncode == 0, started.stderr
    assert f"{tmp_path}:/models/made:ro" in words
    for name in configs:
        assert any(word.endswith(f"=/models/made/{name}") for word in words)
    for wrong in ([], ["nowhere"], [str(tmp_path), "other"]):
        assert run(*wrong).returncode == 2


def test_the_manifest_starts_the_same_server():
    deployment, service, kserve = yaml.safe_load_all(
        (SCRIPTS / "serve_kubernetes.yaml").read_text()
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    script = (SCRIPTS / "serve.sh").read_text()
    flags = re.findall(r"^    (--[a-z_]+=\S+)", script.split("\nserver=(")[1], re.MULTILINE)
    flags = [flag.replace('"', "").replace("$folder", "/models/translate") for flag in flags]
    assert container["args"] == flags
    assert len(flags) >= 10
    assert container["image"] in script
    assert container["image"].endswith(kserve["spec"]["predictor"]["model"]["runtimeVersion"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {port["name"]: port["port"] for port in service["spec"]["ports"]}
    of_kserve = {flag.replace("/models/translate", "/mnt/models") for flag in flags}
    assert of_kserve > set(kserve["spec"]["predictor"]["model"]["args"])

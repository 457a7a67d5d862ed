"""What starts TensorFlow Serving: the script and the manifest, and that they say the same."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from t2t_repro.formats.saved_model.server_files import SERVER_FILES, write_server_files

SCRIPTS = Path(__file__).parents[2] / "scripts"
ENGINE = """#!/bin/sh
printf '%s\\n' "$@"
"""


@pytest.fixture
def folder(tmp_path):
    """A place with a container engine that only says what it is asked."""
    (tmp_path / "docker").write_text(ENGINE)
    (tmp_path / "docker").chmod(0o755)
    write_server_files(tmp_path, "made")
    return tmp_path


def serve(folder, *arguments):
    path = os.pathsep.join((str(folder), os.environ["PATH"]))
    command = ["bash", str(SCRIPTS / "serve.sh"), *arguments]
    environment = {"PATH": path, "REST_PORT": "9001"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_container_gets_the_files_of_the_export(folder):
    done = serve(folder, str(folder), "made")
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words[0] == "run"
    assert "127.0.0.1:9001:8501" in words
    assert "127.0.0.1:8500:8500" in words
    assert f"{folder}:/models/made:ro" in words
    for name in SERVER_FILES:
        assert any(word.endswith(f"=/models/made/{name}") for word in words)
    image = next(n for n, word in enumerate(words) if "tensorflow/serving:" in word)
    assert all(word.startswith("--") for word in words[image + 1 :])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: scripts/serve.sh EXPORT_DIR"),
        (["nowhere", "made"], "nowhere/models.config is not there"),
        (["{folder}"], "models.config names another model than translate"),
    ],
)
def test_a_mistake_is_one_line(folder, arguments, message):
    done = serve(folder, *(argument.format(folder=folder) for argument in arguments))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith("error: ")
    assert message in line


def test_a_folder_of_any_name_that_the_engine_takes(folder):
    for name, status in (("-r[1] $x\\", 0), ("a:b", 2)):
        (folder / name).mkdir()
        write_server_files(folder / name, "made")
        path = os.pathsep.join((str(folder), os.environ["PATH"]))
        done = subprocess.run(
            ["bash", str(SCRIPTS / "serve.sh"), name, "made"],
            env={"PATH": path},
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stderr
        assert status or f"\n{folder / name}:/models/made:ro\n" in done.stdout
    assert "a:b has a colon, at which docker and podman cut a path" in done.stderr


def test_the_manifest_starts_the_same_server():
    text = (SCRIPTS / "serve_kubernetes.yaml").read_text()
    deployment, service, kserve = yaml.safe_load_all(text)
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
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels == service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert set(kserve["spec"]["predictor"]["model"]["args"]) < {
        flag.replace("/models/translate", "/mnt/models") for flag in flags
    }
    assert {x["metadata"]["labels"]["way"] for x in (deployment, service)} == {"deployment"}
    assert kserve["metadata"]["labels"]["way"] == "kserve"

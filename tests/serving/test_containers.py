"""What starts TensorFlow Serving: the script and the manifest say the same."""

import re
from pathlib import Path

import yaml

SCRIPTS = Path(__file__).parents[2] / "scripts"


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

"""Makes an environment of its own for every peer, with pinned versions.

    python benchmarks/environments.py [--peers=ctranslate2,marian] [--env_dir=DIR]

Each is made once; one that lacks what is pinned below is made anew. Takes some minutes and about
two gigabytes a peer.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from work import DEFAULT_DIRECTORY

DEFAULT_ENV_DIR = DEFAULT_DIRECTORY / "environments"

OURS = "ours"

_STAMP = "requirements.json"
"""What an environment was made of; written when it is whole."""

# Of each peer, pip's arguments, one list a call.
REQUIREMENTS: dict[str, list[list[str]]] = {
    "hugging_face": [
        ["torch==2.13.0", "transformers==5.23.0", "sentencepiece==0.2.3", "numpy==2.4.6"]
    ],
    "opennmt_tf": [
        [
            "OpenNMT-tf[tensorflow]==2.32.0",
            "tensorflow==2.12.1",
            "tensorflow-text==2.12.1",
            "numpy<2",
            "setuptools<80",
        ]
    ],
    # What it declares is from before what pip, setuptools and isolated builds ask for now.
    "fairseq": [
        ["pip==24.0"],
        ["torch==2.13.0", "numpy==1.26.4", "cython==3.3.1", "setuptools<80", "wheel"],
        ["--no-build-isolation", "fairseq-fixed==0.12.3.1", "subword-nmt==0.3.8"],
    ],
    "ctranslate2": [["ctranslate2==4.8.5", "numpy==2.4.6"]],
    "marian": [["pymarian==1.12.42", "numpy==2.4.6"]],
}


def main() -> None:
    """Makes the environments that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default=",".join(REQUIREMENTS))
    parser.add_argument("--env_dir", type=Path, default=DEFAULT_ENV_DIR)
    arguments = parser.parse_args()
    for peer in arguments.peers.split(","):
        print(f"{peer}: {make_environment(arguments.env_dir, peer)}")


def make_environment(env_dir: Path, peer: str) -> Path:
    """Makes a peer's environment unless it is there as pinned; while another process does, waits.

    Returns:
        its Python; for "ours" the one that runs this.

    Raises:
        subprocess.CalledProcessError: pip failed, and said why.
        SystemExit: there is no such peer.
    """
    if peer == OURS:
        return Path(sys.executable)
    if peer not in REQUIREMENTS:
        raise SystemExit(f"error: no peer {peer!r}; there are {OURS}, {', '.join(REQUIREMENTS)}")
    directory = env_dir / peer
    if not _is_there(directory, peer):
        # Here, as a GPU machine that measures JAX alone lacks what it asks for.
        from t2t_repro.files import lock

        with lock(env_dir / f".{peer}.lock"):
            # Made by another process, which was waited for.
            if not _is_there(directory, peer):
                _install(directory, peer)
    return directory / "bin" / "python"


def _is_there(directory: Path, peer: str) -> bool:
    stamp = directory / _STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == _wanted(peer)


def _wanted(peer: str) -> str:
    return json.dumps(REQUIREMENTS[peer], indent=2)


def _install(directory: Path, peer: str) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    for requirements in REQUIREMENTS[peer]:
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([directory / "bin" / "python", *install, *requirements], check=True)
    (directory / _STAMP).write_text(_wanted(peer), encoding="utf-8")


if __name__ == "__main__":
    main()

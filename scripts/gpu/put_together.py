"""Makes an environment with TensorFlow of the pieces that `make_pieces.py` cut, on a GPU machine.

    python3 scripts/gpu/put_together.py pieces/1              # a call for every piece
    python3 scripts/gpu/put_together.py pieces/4 -- COMMAND   # the last one: and a command in it
    . /tmp/t2t_tensorflow/env.sh; python -m t2t_repro.trainer ...

Needs nothing but Python of the version that the pieces were made for. A piece is kept in --root
until all are there. PyTorch and JAX belong into another shell than that of env.sh: what it sets is
CUDA 12's. TensorFlow is built with CUDA 12; what the pieces do not carry of it is the machine's
CUDA 13, linked under the names that TensorFlow opens: it asks for functions by name, without
versions.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

import pieces

# What TensorFlow opens, and what the same library is called on a machine with CUDA 13.
LIBRARIES = {
    "libcublas.so.12": "libcublas.so.13",
    "libcublasLt.so.12": "libcublasLt.so.13",
    "libcufft.so.11": "libcufft.so.12",
    "libcusolver.so.11": "libcusolver.so.12",
    "libcusparse.so.12": "libcusparse.so.12",
    "libcudnn.so.9": "libcudnn.so.9",
    "libnccl.so.2": "libnccl.so.2",
}
# What those open themselves, in folders that have to be on the library path.
OPENED = (*LIBRARIES.values(), "libnvJitLink.so.13", "libnvrtc.so.13")
SYSTEM = ("/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu")


def main() -> None:
    """Keeps the pieces; when all are there, makes the environment; then runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*", help="pieces")
    parser.add_argument("--root", type=Path, default=Path("/tmp/t2t_tensorflow"))
    own, command = split(sys.argv[1:])
    options = parser.parse_args(own)
    waits_for = arrive(options.folders, options.root)
    if waits_for and command:
        sys.exit(f"error: {' '.join(command)} was not run: pieces are missing")
    if command:
        settings = {**os.environ, **environment(options.root)}
        sys.exit(subprocess.run(command, env=settings).returncode)


def arrive(folders: Sequence[Path], root: Path) -> list[str]:
    """Keeps pieces, and makes the environment once all are there.

    Returns:
        the names of those that are missing still.
    """
    if (root / "env.sh").is_file():
        return []
    kept = root / "pieces"
    for folder in folders:
        pieces.keep(folder, kept)
    waits_for = pieces.missing(kept)
    if waits_for:
        print(f"pieces that have not arrived: {', '.join(waits_for)}", flush=True)
    else:
        assemble(root)
    return waits_for


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Parts arguments at the first "--": this script's own, and a command."""
    if "--" not in words:
        return list(words), []
    at = words.index("--")
    return list(words[:at]), list(words[at + 1 :])


def assemble(root: Path) -> None:
    """Unpacks all pieces, and makes an environment of them; env.sh is written last."""
    site = root / "site"
    shutil.rmtree(site, ignore_errors=True)
    pieces.unpack(root / "pieces", site)
    # An environment of its own: the machine's packages do not get in the way.
    subprocess.run(
        [sys.executable, "-m", "venv", "--clear", "--without-pip", root / "venv"], check=True
    )
    (packages,) = root.glob("venv/lib/python3*/site-packages")
    (packages / "carried.pth").write_text(f"{site.resolve()}\n", encoding="utf-8")
    link_libraries(root)
    lines = [f'export {name}="{value}"' for name, value in environment(root).items()]
    (root / "env.sh").write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.rmtree(root / "pieces")


def link_libraries(root: Path) -> None:
    """Links CUDA's libraries under the names that TensorFlow opens, and says what it found."""
    folder = root / "lib"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for carried in sorted((root / "site" / "nvidia").glob("*/lib/*.so.*")):
        (folder / carried.name).symlink_to(carried.resolve())
    for name, its_name in LIBRARIES.items():
        found = find(name) or find(its_name)
        if found:
            (folder / name).symlink_to(found)
        print(f"{name}: {found or 'is not on this machine'}", flush=True)


def find(name: str) -> Path | None:
    """Looks for a library among Python's packages first, then the system's."""
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    places = (*packages.glob("*/lib"), *map(Path, SYSTEM))
    return next((place / name for place in places if (place / name).is_file()), None)


def environment(root: Path) -> dict[str, str]:
    """Sets what TensorFlow needs: the environment's programs, CUDA's libraries and assembler."""
    root = root.resolve()
    cuda = root / "site" / "nvidia" / "cuda_nvcc"
    folders = _unique(str(found.parent) for found in map(find, OPENED) if found)
    paths = {
        "LD_LIBRARY_PATH": [str(root / "lib"), *folders],
        "PATH": [str(root / "venv" / "bin"), str(cuda / "bin")],
    }
    joined = {
        name: os.pathsep.join([*first, *filter(None, [os.environ.get(name)])])
        for name, first in paths.items()
    }
    return {
        **joined,
        "XLA_FLAGS": f"--xla_gpu_cuda_data_dir={cuda} {os.environ.get('XLA_FLAGS', '')}".strip(),
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


if __name__ == "__main__":
    main()

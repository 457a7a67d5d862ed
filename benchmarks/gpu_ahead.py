"""Compiles the train step for GPUs that are not there: memory, kernels, seconds of compilation.

    python benchmarks/gpu_ahead.py --sizes=gpu_base,gpu_big --gpus H100 A100 --output=ahead.jsonl

Nothing is run. TensorFlow writes the whole step (forward, loss, backward, norm and Adam) as
StableHLO (`exported_step.py`); XLA, as JAX has it in an environment of its own, compiles it for
each GPU (`compile_ahead.py`). Prints a Markdown table; a minute or two a row.

T2T_REPRO_PLAIN=1 has the formulas compiled alone, without `t2t_repro.kernels`.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from environments import DEFAULT_ENV_DIR, make_environment
from toolkits.steps import append_row
from work import DEFAULT_DIRECTORY

HERE = Path(__file__).resolve().parent
GIB = 2**30
LIBRARY = "cublas"

COLUMNS = (
    "program",
    "GPU",
    "arguments",
    "temporaries",
    "together",
    "library calls",
    "fusions and copies",
    "kernels a step",
    "moved by them",
    "compiled in",
)


def main() -> None:
    """Prints a row for every size, dtype, GPU, with and without recomputation as asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="gpu_base,gpu_big")
    parser.add_argument("--dtypes", default="bfloat16")
    parser.add_argument("--gpus", nargs="+", default=["H100", "A100"])
    parser.add_argument("--lengths", nargs="+", default=["64"])
    parser.add_argument("--tokens", default="25000", help="padded target tokens a step")
    parser.add_argument("--recompute", action="store_true", help="LayerConfig.recompute")
    parser.add_argument("--work", type=Path, default=DEFAULT_DIRECTORY / "programs")
    parser.add_argument("--env_dir", type=Path, default=DEFAULT_ENV_DIR)
    parser.add_argument("--output", type=Path, help="a JSON line for every row is appended here")
    arguments = parser.parse_args()
    jax = make_environment(arguments.env_dir, "jax")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for folder in write_programs(arguments):
        for gpu in arguments.gpus:
            found = compile_for(jax, folder, gpu)
            print(row(found), flush=True)
            if arguments.output:
                append_row(arguments.output, found)


def write_programs(arguments: argparse.Namespace) -> list[Path]:
    """Writes the programs to folders, in a process of its own: JAX needs the memory afterwards."""
    command = [sys.executable, str(HERE / "exported_step.py"), f"--output={arguments.work}"]
    command += [f"--sizes={arguments.sizes}", f"--dtypes={arguments.dtypes}"]
    command += [f"--tokens={arguments.tokens}", "--lengths", *arguments.lengths]
    if arguments.recompute:
        command.append("--recompute")
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    written = subprocess.run(command, env=quiet, stdout=subprocess.PIPE, text=True, check=True)
    return [Path(line) for line in written.stdout.splitlines()]


def compile_for(jax: Path, folder: Path, gpu: str, program: str = "update") -> dict[str, Any]:
    """What `compile_ahead.py` says of a folder's step, or of its gradients alone, on a GPU."""
    script = str(HERE / "compile_ahead.py")
    command = [str(jax), script, str(folder), f"--gpu={gpu}", f"--program={program}"]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(said.splitlines()[-1])


def row(found: dict[str, Any]) -> str:
    """A row of the table, in Markdown."""
    calls = sum(count for kind, count in found["kinds"].items() if kind.startswith(LIBRARY))
    together = found["arguments"] + found["outputs"] + found["temporaries"]
    cells = (
        f"`{found['folder']}`",
        found["gpu"],
        f"{found['arguments'] / GIB:.2f} GiB",
        f"{found['temporaries'] / GIB:.2f} GiB",
        f"{together / GIB:.2f} GiB",
        f"{calls:,}",
        f"{found['kernels'] - calls:,}",
        f"{found['kernels']:,}",
        f"{found['moved'] / GIB:.1f} GiB",
        f"{found['seconds']:.0f} s",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

"""Compiles a program of `exported_step.py` for a GPU that is not there, and says what XLA made.

    python benchmarks/compile_ahead.py programs/gpu_base_bfloat16_384x64 --gpu=H100

Prints a JSON line. Needs JAX with XLA's plugin for CUDA (`environments.py` makes an environment of
it), neither a GPU nor TensorFlow. `gpu_ahead.py` runs it for many programs.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from optimised_program import bytes_moved, kernels_by_kind
from step_in_jax import Program


class Gpu(NamedTuple):
    """What XLA asks of a GPU, from NVIDIA's data sheets and the CUDA programming guide.

    Attributes:
        name: as the driver has it.
        major: of the compute capability, whose minor number is 0.
        features: whether XLA may use what this capability alone has.
        cores: streaming multiprocessors.
        fpus: float32 units of each.
        gigahertz: at most.
        bandwidth: of the memory, in bytes a second.
        memory: in bytes.
        cache: level 2, in bytes.
        shared: memory that the threads of a core share, in bytes; a block may have 1 KiB less.
    """

    name: str
    major: int
    features: str
    cores: int
    fpus: int
    gigahertz: float
    bandwidth: int
    memory: int
    cache: int
    shared: int

    def description(self) -> str:
        """The text in which XLA reads it."""
        return f"""
            platform_name: "CUDA"
            device_description_str: "{self.name}"
            dnn_version_info {{ major: 9 minor: 10 }}
            gpu_device_info {{
              cuda_compute_capability {{ major: {self.major} feature_extension: {self.features} }}
              core_count: {self.cores} fpus_per_core: {self.fpus} clock_rate_ghz: {self.gigahertz}
              memory_bandwidth: {self.bandwidth} device_memory_size: {self.memory}
              l2_cache_size: {self.cache} shared_memory_per_core: {self.shared}
              shared_memory_per_block: {48 * 1024}
              shared_memory_per_block_optin: {self.shared - 1024}
              threads_per_warp: 32 threads_per_block_limit: 1024 threads_per_core_limit: 2048
              registers_per_core_limit: 65536 registers_per_block_limit: 65536
              thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
              block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
            }}
            """


GIB = 2**30
GPUS = {
    "H100": Gpu(
        "NVIDIA H100 80GB HBM3",
        9,
        "ACCELERATED_FEATURES",
        132,
        128,
        1.98,
        3_350_000_000_000,
        80 * GIB,
        50 * 2**20,
        228 * 1024,
    ),
    "A100": Gpu(
        "NVIDIA A100-SXM4-80GB",
        8,
        "NONE",
        108,
        64,
        1.41,
        2_039_000_000_000,
        80 * GIB,
        40 * 2**20,
        164 * 1024,
    ),
}

# Without a GPU nothing can be timed: XLA takes a library for every product, and its first choice.
OPTIONS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}


def main() -> None:
    """Compiles one program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", choices=GPUS, default="H100")
    parser.add_argument("--program", choices=("gradients", "update"), default="update")
    parser.add_argument("--text", type=Path, help="where the optimised program is written")
    arguments = parser.parse_args()
    program = Program.read(arguments.folder, arguments.program)
    found, text = compile_for(GPUS[arguments.gpu], program)
    if arguments.text:
        arguments.text.write_text(text, encoding="utf-8")
    print(json.dumps({"folder": arguments.folder.name, "gpu": arguments.gpu, **found}))


def compile_for(gpu: Gpu, program: Program) -> tuple[dict[str, Any], str]:
    """Compiles a program for a GPU.

    Returns:
        what XLA says of its memory, in bytes; how many kernels of which kind a run launches;
        seconds of compilation. And the optimised program's text.
    """
    topology = topologies.get_topology_desc(
        "1x1x1", platform="cuda", topology="1x1x1", target_config=gpu.description()
    )
    everywhere = NamedSharding(Mesh(np.array(topology.devices), ("gpu",)), PartitionSpec())
    function = jax.jit(program.call("cuda"), donate_argnums=program.state)
    lowered = function.lower(*program.specifications(everywhere))
    began = time.monotonic()
    compiled = lowered.compile(OPTIONS)
    seconds = time.monotonic() - began
    text = compiled.as_text()
    memory = compiled.memory_analysis()
    kinds = kernels_by_kind(text)
    found = {
        "program": program.name,
        "jax": jax.__version__,
        "arguments": memory.argument_size_in_bytes,
        "outputs": memory.output_size_in_bytes - memory.alias_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "peak": memory.peak_memory_in_bytes,
        "kernels": sum(kinds.values()),
        "kinds": dict(kinds.most_common()),
        "moved": bytes_moved(text),
        "seconds": round(seconds, 1),
    }
    return found, text


if __name__ == "__main__":
    main()

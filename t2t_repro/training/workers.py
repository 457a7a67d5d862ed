"""The devices of a process, and several processes that train one model together.

TF_CONFIG or Slurm names them, TensorFlow connects them and notices when one is lost.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from t2t_repro.errors import UserError, reason_of
from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from t2t_repro.runs.model_directory import ModelDirectory

# The status of a process that SIGTERM has ended; schedulers start such a job again.
EXIT_START_AGAIN = 143

# What TensorFlow raises in a worker when another one is lost.
_LOSSES = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)

# Far from the keys that tf.distribute counts up from 1 for its own collectives.
_GROUP_KEY = 2**30
_MOST_ITEMS = 5  # Of a list, in an error message.
_SAME_COMMAND = (
    "give all workers the same command, and a --model_dir and --data_dir on a file system that "
    "they share"
)


class Workers:
    """The processes that train together: this one, or this one and others.

    Args:
        addresses: host:port of every worker, the chief's first; empty for one worker.
        index: the number of this process among them.

    Attributes:
        count: number of workers.
        index: the number of this process, from 0.
        is_chief: whether this is the first worker, which alone writes the model directory and
            the log.
        strategy: spreads replicas over all workers, while they are connected; None for one worker.
    """

    def __init__(self, addresses: Sequence[str] = (), index: int = 0) -> None:
        self.count = max(len(addresses), 1)
        self.index = index
        self.is_chief = index == 0
        self.strategy: tf.distribute.Strategy | None = None
        self._addresses = addresses
        self._gather_count = 0

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Connects all workers within the block.

        Waits for the other workers, an hour at most. From then on only the chief logs. If another
        worker is lost, this one ends.

        Raises:
            UserError: the port of this worker is taken.
            SystemExit: another worker is lost. The status makes schedulers start the job again.
        """
        if self.count == 1:
            yield
            return
        try:
            self._connect()
            yield
        except _LOSSES as error:
            problem = f"another worker is lost ({reason_of(error)[:200]})"  # gRPC says much more.
            fix = "start all workers again, and the run goes on from its last checkpoint"
            print(f"error: {problem}: see its log; {fix}.", file=sys.stderr)
            raise SystemExit(EXIT_START_AGAIN) from None

    def gather(self, value: Any) -> list[Any]:
        """Returns the values of all workers, in their order.

        All workers must call it at the same point.

        Args:
            value: this worker's value, of types that JSON has. Several workers get tuples as lists.
        """
        if self.count == 1:
            return [value]
        text = json.dumps(value).encode()
        longest = self._all_gather(np.array([len(text)], np.int32)).max()
        # All rows need the same length: JSON may end with spaces. Collectives take no bytes, but
        # int32, so the length is rounded up to a multiple of 4 bytes.
        padded_length = -(-longest // 4) * 4
        words = np.frombuffer(text.ljust(padded_length), np.int32)
        return [json.loads(row.tobytes()) for row in self._all_gather(words[np.newaxis])]

    @contextmanager
    def chief_first(self) -> Iterator[None]:
        """Runs the block on the chief, then on the others.

        Raises:
            UserError: the chief's block raised it; the others raise it too, and run no block. If
                another error ends the chief, `connected` ends the others.
        """
        if not self.is_chief:
            # The others wait here until the chief gathers its error, or None.
            chief_error = self.gather(None)[0]
            if chief_error is not None:
                raise UserError(chief_error)
            yield
            return
        try:
            yield
        except UserError as error:
            self.gather(str(error))
            raise
        self.gather(None)

    def check_same(self, what: str, value: Any, hint: str = _SAME_COMMAND) -> None:
        """Checks that a value is the same on all workers.

        Args:
            what: names the value in the error, such as "the configuration".
            value: this worker's value, of types that JSON has. Of a list, the error shows the items
                that differ.
            hint: how to fix a difference, in the error.

        Raises:
            UserError: a worker has another value than the first one.
        """
        first, *others = self.gather(value)
        for index, other in enumerate(others, start=1):
            if other != first:
                problem = f"worker {index} has {what} {_differing_json(other, first)}"
                expected = f"worker 0 has {_differing_json(first, other)}"
                raise UserError(f"{problem}, but {expected}: {hint}.")

    def check_same_run(self, directory: ModelDirectory, config: str) -> None:
        """Checks that versions, GPUs, configuration and model directory are the same everywhere.

        Raises:
            UserError: a worker differs from the first one.
        """
        versions = [f"{name} {version(name)}" for name in ("t2t_repro", "tensorflow", "keras")]
        self.check_same("the versions", versions, "install the same on all machines")
        gpus = len(tf.config.list_physical_devices("GPU"))
        self.check_same("this many GPUs:", gpus, "give all workers as many (see nvidia-smi)")
        self.check_same("the configuration", config.splitlines())
        newest = CheckpointFolder(directory.checkpoints).steps()[-1:]
        self.check_same("a --model_dir with the newest checkpoint", newest)

    def _connect(self) -> None:
        """Waits for all workers, and sets `strategy`; from then on only the chief logs.

        Raises:
            UserError: the port of this worker is taken.
        """
        who = f"worker {self.index} (of 0 to {self.count - 1})"
        logging.info("%s waits for the others; worker 0 writes the log", who)
        if not self.is_chief:
            logging.set_verbosity(logging.ERROR)
        # TensorFlow describes the cluster at length.
        tf.get_logger().setLevel("WARNING")
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": list(self._addresses)}),
            task_type="worker",
            task_id=self.index,
            rpc_layer="grpc",
            num_accelerators={"GPU": len(tf.config.list_physical_devices("GPU"))},
        )
        try:
            with _deferring_sigterm():
                self.strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
        except tf.errors.UnknownError as error:
            if "Could not start gRPC server" not in str(error):
                raise
            address = self._addresses[self.index]
            problem = f"the port of worker {self.index} at {address} is taken by another program"
            fix = "end it, or give all workers other ports in TF_CONFIG"
            raise UserError(f"{problem} (see ss -ltnp): {fix}.") from error

    def _all_gather(self, row: np.ndarray) -> np.ndarray:
        """Concatenates arrays of one shape from all workers along the first axis, on CPUs."""
        # TensorFlow matches the workers' calls by this key: all of them count their calls alike.
        self._gather_count += 1
        keys = {"group_key": _GROUP_KEY, "instance_key": self._gather_count}
        options = {"group_size": self.count, "ordering_token": [], "communication_hint": "ring"}
        with tf.device("CPU:0"):
            return np.asarray(tf.raw_ops.CollectiveGatherV2(input=row, **keys, **options))


def choose_strategy(cpu_replicas: int = 1) -> tf.distribute.Strategy:
    """Chooses the strategy of a single worker.

    Several workers have `Workers.strategy`. The strategy has a replica per visible GPU (see
    CUDA_VISIBLE_DEVICES). Without a GPU it has the CPU, which can be split into logical devices to
    try out several replicas.

    Args:
        cpu_replicas: number of logical devices of the CPU; ignored if there is a GPU.

    Returns:
        a MirroredStrategy; TensorFlow's default one for a single device.
    """
    # Listing logical devices initialises them, and then the CPU cannot be split any more: they are
    # listed only if there is a GPU.
    gpus = tf.config.list_logical_devices("GPU") if tf.config.list_physical_devices("GPU") else []
    if len(gpus) > 1:
        return tf.distribute.MirroredStrategy([gpu.name for gpu in gpus])
    if gpus or cpu_replicas == 1:
        return tf.distribute.get_strategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical_devices = [tf.config.LogicalDeviceConfiguration()] * cpu_replicas
    tf.config.set_logical_device_configuration(cpu, logical_devices)
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(cpu_replicas)])


def own_replicas(strategy: tf.distribute.Strategy) -> range:
    """Returns the numbers of this process's replicas among those of all workers.

    With 2 workers of 4 replicas each, these are 0 to 3 on the first worker, 4 to 7 on the second.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return range(strategy.num_replicas_in_sync)
    resolver = strategy.cluster_resolver
    per_worker = strategy.num_replicas_in_sync // resolver.cluster_spec().num_tasks("worker")
    return range(resolver.task_id * per_worker, (resolver.task_id + 1) * per_worker)


def find_workers() -> Workers:
    """Returns the workers of TF_CONFIG, or else of Slurm's `srun`.

    Without either, this process is the only one.

    Raises:
        UserError: TF_CONFIG does not describe workers, or this process is none of them.
    """
    if os.environ.get("TF_CONFIG"):
        return _tf_config_workers()
    if os.environ.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        return _slurm_workers()
    return Workers()


def _tf_config_workers() -> Workers:
    """Returns the workers of TF_CONFIG, the chief first; just this process if it names one.

    Raises:
        UserError: TF_CONFIG does not describe workers, or this process is none of them.
    """
    try:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        jobs = resolver.cluster_spec().as_dict()
        addresses = [*jobs.get("chief", []), *jobs.get("worker", [])]
        if len(addresses) < 2:
            return Workers()
        return Workers(addresses, addresses.index(jobs[resolver.task_type][resolver.task_id]))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"TF_CONFIG is {os.environ['TF_CONFIG'][:300]!r} ({reason_of(error)[:100]}), expected "
            'JSON such as {"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": '
            '"worker", "index": 0}}, with or without one "chief".'
        ) from error


def _slurm_workers() -> Workers:
    """Returns the workers that Slurm has started, in the order of the names of their machines."""
    # Ports depend on the job, since two jobs may share a machine; all are below the ephemeral ones.
    first_port = 12_000 + int(os.environ["SLURM_JOB_ID"]) % 20_000
    # Setting gpus_per_node to the task count stops the resolver from probing GPUs.
    tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        port_base=first_port, gpus_per_node=tasks, gpus_per_task=1, auto_set_gpu=False
    )
    addresses = resolver.cluster_spec().as_dict()["worker"]
    # The tasks of a machine have ports one after the other.
    own_port = first_port + int(os.environ["SLURM_LOCALID"])
    # Not by Slurm's rank: the resolver sorts machines by name (n10 before n9), Slurm does not.
    return Workers(addresses, addresses.index(f"{os.environ['SLURMD_NODENAME']}:{own_port}"))


@contextmanager
def _deferring_sigterm() -> Iterator[None]:
    """Makes SIGTERM wait for the end of the block, which connects workers by a long call in C++.

    Ctrl-C (SIGINT) ends the process at once: Python's handler would run only after the call, which
    may take an hour. Both have Python's handlers again after the block.
    """
    sigint_handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    sigterm_handler = signal.getsignal(signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, sigint_handler)
        # TensorFlow has set a handler of its own. Python's gets a SIGTERM that has waited, once
        # the signal is let through.
        signal.signal(signal.SIGTERM, sigterm_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def _differing_json(value: Any, other: Any) -> str:
    """Returns a worker's value as JSON, for an error about another worker's value.

    Of a list, only the first few items that the other list lacks.
    """
    if isinstance(value, list):
        value = [item for item in value if item not in other][:_MOST_ITEMS]
    return json.dumps(value)

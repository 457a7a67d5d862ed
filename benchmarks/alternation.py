"""Measures peers in alternation: all of them get warm, then each does a round in turn.

So that whatever the machine does meanwhile happens to all of them.
"""

import argparse
import dataclasses
import datetime
import json
import os
import statistics
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

from environments import DEFAULT_ENV_DIR, make_environment
from work import DEFAULT_DIRECTORY, SIZES

WORKER = Path(__file__).with_name("worker.py")
DTYPES = ("float32", "bfloat16", "int8")


@dataclasses.dataclass
class Measurement:
    """The rounds of one peer.

    Attributes:
        peer: its name, @variant behind it.
        versions: of the libraries it used.
        rounds: amount, seconds, cpu_seconds and peak_mib of each.
    """

    peer: str
    versions: dict[str, str]
    rounds: list[dict[str, float]]

    @property
    def rates(self) -> list[float]:
        """Amount per second of every round."""
        return [one["amount"] / one["seconds"] for one in self.rounds]

    def summary(self) -> dict[str, Any]:
        """What of it stands in a line of the results."""
        rates = self.rates
        return {
            "peer": self.peer,
            "value": statistics.median(rates),
            "min": min(rates),
            "max": max(rates),
            "rounds": len(rates),
            "seconds_a_round": statistics.median(one["seconds"] for one in self.rounds),
            "cpu_seconds_a_round": statistics.median(one["cpu_seconds"] for one in self.rounds),
            "peak_mib": max(one["peak_mib"] for one in self.rounds),
            "versions": self.versions,
        }


class Worker:
    """A measuring process; see `worker.py`.

    Args:
        process: started, with pipes.
        log: where its standard error goes.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def answer(self) -> dict[str, Any]:
        """Waits for its next line.

        Raises:
            RuntimeError: it died.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            tail = self._log.read_text(errors="replace").splitlines()[-8:]
            raise RuntimeError("\n".join([f"a worker died, see {self._log}:", *tail]))
        return json.loads(line)

    def do_round(self) -> dict[str, float]:
        """Has it do one round."""
        assert self._process.stdin is not None
        self._process.stdin.write("round\n")
        self._process.stdin.flush()
        return self.answer()


@contextmanager
def running_worker(command: Sequence[Path | str], log: Path) -> Iterator[Worker]:
    """Starts a worker, a script that calls `worker.serve`; it ends with the context.

    Args:
        command: that starts it.
        log: where its standard error goes.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdin=PIPE, stdout=PIPE, stderr=errors, text=True, env=environment
        ) as process,
    ):
        try:
            yield Worker(process, log)
        finally:
            process.kill()
            # What it was told last may not have left this process: it is not told that again.
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()


def measure(
    arguments: argparse.Namespace, peers: Sequence[str], dtype: str, options: Sequence[str]
) -> list[Measurement]:
    """Measures peers on the same work, in alternation.

    Args:
        arguments: what `add_arguments` added.
        peers: names, @variant behind them; one that cannot do the task, or fails, is left out
            with a message.
        dtype: "float32", "bfloat16" or "int8".
        options: of `worker.py`: task, size and so on.
    """
    asked = [*options, f"--dtype={dtype}"]
    commands = {peer: partial(_command, arguments, peer, asked) for peer in peers}
    return alternate(commands, arguments.rounds, arguments.log_dir)


def alternate(
    commands: Mapping[str, Callable[[], Sequence[Path | str]]], rounds: int, log_dir: Path
) -> list[Measurement]:
    """Has workers do rounds in turn, once all of them are warm.

    Args:
        commands: of each peer what makes the command that starts its worker; one that fails is
            left out with a message.
        rounds: of each.
        log_dir: where their standard errors go.
    """
    running: list[tuple[Measurement, Worker]] = []
    with ExitStack() as stack:
        for peer, command in commands.items():
            with _left_out_on_failure(peer):
                worker = stack.enter_context(running_worker(command(), log_dir / f"{peer}.log"))
                running.append((Measurement(peer, _libraries(worker), []), worker))
        for _ in range(rounds):
            # Another one goes first each time.
            for measurement, worker in running[1:] + running[:1]:
                running.remove((measurement, worker))
                with _left_out_on_failure(measurement.peer):
                    measurement.rounds.append(worker.do_round())
                    print(f"  {measurement.peer}: {measurement.rates[-1]:.4g} a second", flush=True)
                    running.append((measurement, worker))
    return sorted((one for one, _ in running), key=lambda one: [*commands].index(one.peer))


def _command(
    arguments: argparse.Namespace, peer: str, options: Sequence[str]
) -> Sequence[Path | str]:
    """What starts the worker of a peer, in its environment."""
    name = peer.partition("@")[0]
    python = make_environment(arguments.env_dir, name)
    return [python, WORKER, f"--peer={peer}", *options, f"--work={arguments.work}"]


def _libraries(worker: Worker) -> dict[str, str]:
    """Waits until a worker is warm; returns the versions of what it uses."""
    answer = worker.answer()
    if "unsupported" in answer:
        raise RuntimeError(answer["unsupported"])
    return answer["ready"]


@contextmanager
def _left_out_on_failure(peer: str) -> Iterator[None]:
    """One peer that fails must not cost the figures of the others."""
    try:
        yield
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"{peer}: left out: {error}", flush=True)


def write_results(output: Path, measured: Sequence[Measurement], labels: dict[str, Any]) -> None:
    """Appends a JSON line for every peer.

    Args:
        output: the file.
        measured: from `measure`.
        labels: benchmark, case, unit and so on.
    """
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("a", encoding="utf-8") as file:
        for measurement in measured:
            file.write(json.dumps({**labels, **measurement.summary(), "date": today}) + "\n")


def some_of(choices: Collection[str]) -> Callable[[str], list[str]]:
    """Makes what reads a flag with commas in it, and says what it may name."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        if not set(names) <= set(choices):
            raise argparse.ArgumentTypeError(f"{text!r}, expected some of {','.join(choices)}")
        return names

    return read


def add_arguments(
    parser: argparse.ArgumentParser, peers: str, sizes: Collection[str] = SIZES
) -> None:
    """Adds the flags that the benchmarks have in common.

    Args:
        parser: that they are added to.
        peers: that are measured where none are named.
        sizes: that can be asked for: by default those that `make_work.py` makes work for.
    """
    add = parser.add_argument
    add("--sizes", type=some_of(sizes), default="base,tiny", help=f"of {', '.join(sizes)}")
    add("--dtypes", type=some_of(DTYPES), default="float32,bfloat16", help=", ".join(DTYPES))
    add("--peers", default=peers)
    add("--rounds", type=int, default=3)
    add("--batches", type=int, help="how many of the batches; a smaller number is no result")
    add("--output", type=Path, default=Path("results.jsonl"), help="lines are appended")
    add("--work", type=Path, default=DEFAULT_DIRECTORY / "work")
    add("--env_dir", type=Path, default=DEFAULT_ENV_DIR)
    add("--log_dir", type=Path, default=DEFAULT_DIRECTORY / "logs")

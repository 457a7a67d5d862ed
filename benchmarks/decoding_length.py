"""What an output token costs by how many have been written before it: 16 ... 512.

    python benchmarks/decoding_length.py [--size=base] [--beams 4 1] [--tokens=512]

A model with random weights that never chooses EOS translates random sentences of 24 tokens, 8 at a
time, through `StepDecoder` and `BeamSearch`. The search makes `SEGMENT` steps between two looks at
its batch; at each of them the clock is read. Beside what a step took stands what of it is
attention's: the products of one position with the keys and values of those before it, measured by
themselves at the same length, and the bytes of these keys and values; and the room made for the
positions to come, a copy once in `SEGMENT` steps. The rest should not grow. Prints a JSON line
every 16 tokens and a Markdown table in the end, and draws a plot.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from peers.ours import never_end, random_model
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.search import Cache, StepModel
from t2t_repro.decoding.step_loop import SEGMENT
from t2t_repro.model.attention import attention_weights
from t2t_repro.model.step_decoder import StepDecoder
from t2t_repro.model.transformer import Transformer
from work import SIZES

SOURCE_LENGTH = 24

PLOT, QUICK_PLOT = Path("docs/decoding_length.png"), Path("runs/quick/decoding_length.png")
"""A run of tiny sizes does not replace the picture of one that says something."""


class Moment(NamedTuple):
    """When something happened, in seconds of wall clock and of all threads."""

    wall: float
    cpu: float


class Point(NamedTuple):
    """What a step costs, on average over a segment, in milliseconds for the whole batch.

    Attributes:
        tokens: written at the segment's end.
        step: all of it, the room included.
        step_cpu: the same, of all threads.
        attention: the products with keys and values of the past, measured by themselves.
        room: making room for the segment, a step's part of it.
        megabytes: of keys and values that a step reads.
    """

    tokens: int
    step: float
    step_cpu: float
    attention: float
    room: float
    megabytes: float

    @property
    def rest(self) -> float:
        """What neither attention nor the room explains."""
        return self.step - self.attention - self.room


def main() -> None:
    """Measures every beam size, then prints the table and draws the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=("base", "tiny", "smoke"), default="base")
    parser.add_argument("--beams", nargs="+", type=int, default=[4, 1])
    parser.add_argument("--batch", type=int, default=8, help="sentences decoded together")
    parser.add_argument("--tokens", type=int, default=512, help=f"a multiple of {SEGMENT}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help=f"the plot; {PLOT} by default")
    parser.add_argument(
        "--quick", action="store_true", help=f"tiny sizes, as a trial: {QUICK_PLOT}"
    )
    options = parser.parse_args()
    options.out = options.out or (QUICK_PLOT if options.quick else PLOT)
    if options.quick:
        options.size, options.batch, options.tokens, options.rounds = "smoke", 2, 48, 2
    if options.tokens < SEGMENT or options.tokens % SEGMENT:
        parser.error(f"--tokens is {options.tokens}, expected a multiple of {SEGMENT}")
    model = random_model(SIZES[options.size], "float32")
    never_end(model)
    curves = {beam: measure(model, beam, options) for beam in options.beams}
    print(f"\n{table(curves, options.batch)}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    plot(curves, options)


def measure(model: Transformer, beam: int, options: argparse.Namespace) -> list[Point]:
    """Medians of the rounds at every `SEGMENT` tokens, of which it prints JSON lines."""
    decode = timed_decoder(model, beam, options.batch, options.tokens)
    attend = attention_timer(model, beam, options.batch)
    lengths = range(SEGMENT, options.tokens + 1, SEGMENT)
    decode()
    found = []
    for _ in range(options.rounds):
        found.append((segments(decode()), [attend(length) for length in lengths]))
    points = []
    for i, length in enumerate(lengths):
        step, cpu, room = (statistics.median(of[i][k] for of, _ in found) for k in range(3))
        attention = statistics.median(times[i] for _, times in found)
        megabytes = bytes_read(model, beam, options.batch, length) / 2**20
        points.append(Point(length, step, cpu, attention, room, megabytes))
        case = f"{options.size}, beam {beam}, {length} tokens"
        labels = {"benchmark": "decoding length", "case": case, "unit": "ms/output token"}
        numbers = {"value": step / options.batch, **points[-1]._asdict(), "rest": points[-1].rest}
        rounded = {name: float(f"{number:.4g}") for name, number in numbers.items()}
        print(json.dumps({**labels, **rounded, "batch": options.batch}), flush=True)
    return points


class Clocked:
    """A step model that says when it is asked for room, and when it has made it.

    Args:
        model: does the work.
        read_clock: called from the graph, before and after.
    """

    def __init__(self, model: StepModel, read_clock: Callable[[], None]) -> None:
        self._model = model
        self._read_clock = read_clock

    def make_room(self, cache: Cache, positions: int) -> Cache:
        """Prepares a cache for so many more steps."""
        # Neither before the last segment's steps are done, nor after the next one's have begun.
        cache = self._clocked(cache)
        return self._clocked(self._model.make_room(cache, positions))

    def step(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, cache: Cache
    ) -> tuple[tf.Tensor, Cache]:
        """Scores the next id of every hypothesis."""
        return self._model.step(ids, parents, position, cache)

    def _clocked(self, cache: Cache) -> Cache:
        with tf.control_dependencies(tf.nest.flatten(cache)):
            read = tf.numpy_function(self._read_clock, [], [])
        with tf.control_dependencies([read]):
            return tf.nest.map_structure(tf.identity, cache)


def timed_decoder(
    model: Transformer, beam: int, batch: int, tokens: int
) -> Callable[[], list[Moment]]:
    """A function that decodes a batch, and returns when each segment began, had room, and ended."""
    moments: list[Moment] = []

    def read_clock() -> None:
        moments.append(Moment(time.perf_counter(), time.process_time()))

    search = BeamSearch(beam)
    generator = np.random.default_rng(1)
    source = generator.integers(3, model.vocab_size, (batch, SOURCE_LENGTH), np.int32)

    # As the translator does it, for any batch.
    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def decode(source: tf.Tensor) -> tf.Tensor:
        decoder = StepDecoder(model, beam)
        clocked = Clocked(decoder, read_clock)
        limits = tf.fill(tf.shape(source)[:1], tokens)
        return search.search(clocked, decoder.begin(source), limits, tokens).steps

    def run() -> list[Moment]:
        moments.clear()
        steps = int(decode(tf.constant(source)))
        read_clock()
        if steps != tokens:
            raise RuntimeError(f"the search ended after {steps} steps, expected {tokens}")
        # Beam search makes room once before its loop, of which only the shapes are used.
        return moments[-(2 * tokens // SEGMENT + 1) :]

    return run


def segments(moments: Sequence[Moment]) -> list[tuple[float, float, float]]:
    """Milliseconds a step of every segment: of wall clock, of all threads, and of making room.

    Args:
        moments: begun, room made, begun, room made, ..., ended.
    """
    begun, roomy = moments[::2], moments[1::2]
    spans = zip(begun, roomy, begun[1:], strict=False)
    scale = 1000 / SEGMENT
    return [
        (
            (end.wall - begin.wall) * scale,
            (end.cpu - begin.cpu) * scale,
            (has.wall - begin.wall) * scale,
        )
        for begin, has, end in spans
    ]


def attention_timer(model: Transformer, beam: int, batch: int) -> Callable[[int], float]:
    """A function of the length: milliseconds of one step's attention to so many positions."""
    layer, steps = model.config, SEGMENT
    depths = (layer.key_depth, layer.value_depth)

    def heads(entries: int | None, depth: int) -> tuple:
        return (batch, layer.num_heads, entries, depth)

    # One graph for all lengths, as the search has it too.
    past_signature = [[tf.TensorSpec(heads(None, d)) for d in depths]] * model.num_layers
    queries_signature = tf.TensorSpec(heads(beam, layer.key_depth))
    mask_signature = tf.TensorSpec([batch, beam, None], tf.bool)

    @tf.function(
        autograph=False, input_signature=[queries_signature, past_signature, mask_signature]
    )
    def attend(queries: tf.Tensor, past: list, mask: tf.Tensor) -> tf.Tensor:
        # Not tf.while_loop: of this alone oneDNN's fusion makes an empty result (TensorFlow 2.21).
        for _ in range(steps):
            for keys, values in past:
                queries = tf.matmul(attention_weights(queries, keys, mask), values)
        return queries

    def measure(length: int) -> float:
        past = [
            [tf.random.normal(heads(length * beam, depth)) for depth in depths]
            for _ in range(model.num_layers)
        ]
        queries = tf.random.normal(heads(beam, layer.key_depth))
        mask = tf.ones([batch, beam, length * beam], tf.bool)
        attend(queries, past, mask)[0, 0, 0, 0].numpy()
        began = time.perf_counter()
        attend(queries, past, mask)[0, 0, 0, 0].numpy()
        return (time.perf_counter() - began) * 1000 / steps

    return measure


def bytes_read(model: Transformer, beam: int, batch: int, length: int) -> float:
    """Bytes of float32 keys and values of the past that a step reads."""
    depths = model.config.key_depth + model.config.value_depth
    return 4.0 * model.num_layers * batch * beam * length * model.config.num_heads * depths


def table(curves: dict[int, list[Point]], batch: int) -> str:
    """Milliseconds of a step where the number of tokens doubles, as Markdown."""
    columns = ["beam", "tokens written", "ms/output token", "ms/step", "CPU ms/step"]
    columns += ["keys and values (MiB)", "attention (ms)", "room (ms)", "rest (ms)"]
    rows = [columns, ["---:"] * len(columns)]
    for beam, points in curves.items():
        shown = [p for p in points if (p.tokens & (p.tokens - 1)) == 0 or p is points[-1]]
        for p in shown:
            numbers = (p.step / batch, p.step, p.step_cpu, p.megabytes, p.attention, p.room, p.rest)
            rows.append([str(beam), str(p.tokens), *(f"{number:.2f}" for number in numbers)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def plot(curves: dict[int, list[Point]], options: argparse.Namespace) -> None:
    """Draws milliseconds an output token, in its parts, against tokens written."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (axes,) = pyplot.subplots(1, len(curves), figsize=(5.5 * len(curves), 4), squeeze=False)
    for axis, (beam, points) in zip(axes, curves.items(), strict=True):
        lengths = [point.tokens for point in points]
        parts = {
            "rest": [point.rest for point in points],
            "room": [point.room for point in points],
            "attention": [point.attention for point in points],
        }
        scaled = [[part / options.batch for part in series] for series in parts.values()]
        axis.stackplot(lengths, scaled, labels=list(parts), alpha=0.6)
        whole = [point.step / options.batch for point in points]
        axis.plot(lengths, whole, color="black", label="measured")
        axis.set_title(f"{options.size}, beam {beam}, batches of {options.batch}", fontsize=10)
        axis.set_xlabel("tokens written")
        axis.set_ylabel("ms an output token")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=8, loc="upper left")
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(options.out, dpi=120)


if __name__ == "__main__":
    main()

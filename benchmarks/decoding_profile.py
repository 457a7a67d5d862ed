"""Where the time of a step of decoding goes: how many operations, and of which kind.

    python benchmarks/decoding_profile.py --sizes=tiny --beams=4,1 --rows=32

One batch of the sentences of `decoding.py`, on one core, exactly 24 output tokens. Counted is what
runs at every step, in the graph as TensorFlow has optimised it. The time is that of the whole call
on one core, encoder included, divided by its steps. TensorFlow times no operation that it takes for
cheap: what these take, and handing tensors from one to the next, is the last line.
"""

import argparse
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.python.eager import context
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

from alternation import DTYPES, some_of
from peers import ours
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.model.step_decoder import StepDecoder
from work import DEFAULT_DIRECTORY, OUTPUT_TOKENS, ROWS, SHARED_SIZES, SIZES, load_sources

_KINDS = {
    "matrix products": r"\w*MatMul",
    "products of attention": r"\w*BatchMatMul\w*",
    "softmax": r"\w*Softmax",
    "search for the best": r"TopKV2|ArgMax|Max",
    "writing to the cache": r"InplaceUpdate",
    "moving": r"\w*Transpose|SplitV?|ConcatV2|GatherV2|Unpack|Tile|Empty",
    "the loop": r"Merge|Switch|NextIteration|Enter|Exit|LoopCond|Identity\w*",
    "shapes and constants": r"Const|Reshape|Shape|Pack|Range|StridedSlice|ExpandDims|Prod|"
    r"EnsureShape|Fill|Snapshot",
}
_OTHER = "sums, norms and the like"
_UNTIMED = "not timed"


def main() -> None:
    """Profiles every size, dtype and beam that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=some_of(SHARED_SIZES), default="tiny,base")
    parser.add_argument("--dtypes", type=some_of(DTYPES), default="float32")
    parser.add_argument("--beams", default="4,1")
    parser.add_argument("--rows", type=int, default=32, help="sentences of the batch")
    parser.add_argument("--work", type=Path, default=DEFAULT_DIRECTORY / "work")
    options = parser.parse_args()
    if not 1 <= options.rows <= ROWS:
        parser.error(f"--rows={options.rows}: expected 1 to {ROWS}, as many as a batch has")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for size in options.sizes:
        for dtype in options.dtypes:
            for beam in map(int, options.beams.split(",")):
                print(f"\n{size} {dtype} beam {beam}")
                translate = prepared(options, size, dtype, beam)
                operations = operations_of_a_step(translate)
                report(operations, seconds_of_a_step(translate), seconds_by_kind(translate))


def prepared(
    options: argparse.Namespace, size: str, dtype: str, beam: int
) -> Callable[[], tf.Tensor]:
    """What translates the batch in one graph, not traced yet."""
    model = ours.random_model(SIZES[size], dtype)
    ours.never_end(model)
    source = next(
        batch for batch in load_sources(options.work, size)[3:] if len(batch) >= options.rows
    )[: options.rows]

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def search(source: tf.Tensor) -> tf.Tensor:
        decoder = StepDecoder(model, beam)
        limits = tf.fill([tf.shape(source)[0]], OUTPUT_TOKENS)
        found = BeamSearch(beam).search(decoder, decoder.begin(source), limits, OUTPUT_TOKENS)
        return found.ids

    return lambda: search(source)


def operations_of_a_step(translate: Callable[[], tf.Tensor]) -> Counter[str]:
    """How many operations of each type stand in the innermost loop."""
    context.context().enable_graph_collection()
    translate()
    collected = context.context().export_run_metadata()
    context.context().disable_graph_collection()
    graphs = [graph for one in collected.function_graphs for graph in one.partition_graphs]
    return _innermost(max(graphs, key=lambda graph: len(graph.node)))


def _innermost(graph: GraphDef) -> Counter[str]:
    """Types of the operations in the deepest loop of a graph with TensorFlow's loop operations."""
    nodes = {node.name: node for node in graph.node}
    readers = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name.removeprefix("^").partition(":")[0]].append(node.name)
    depth = {node.name: 0 for node in graph.node if not node.input}
    reached = list(depth)
    for name in reached:
        leaves = {"Enter": 1, "Exit": -1}.get(nodes[name].op, 0)
        for reader in readers[name]:
            if reader not in depth:
                depth[reader] = depth[name] + leaves
                reached.append(reader)
    deepest = max(depth.values())
    return Counter(nodes[name].op for name in reached if depth[name] == deepest)


def seconds_by_kind(translate: Callable[[], tf.Tensor]) -> dict[str, float]:
    """Seconds of a step by kind of operation."""
    translate()
    spent: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
        tf.profiler.experimental.start(folder, options)
        began = time.perf_counter()
        translate()
        seconds = time.perf_counter() - began
        tf.profiler.experimental.stop()
        space = XSpace()
        space.ParseFromString(next(Path(folder).rglob("*.xplane.pb")).read_bytes())
    for plane in space.planes:
        for event in (event for line in plane.lines for event in line.events):
            name = plane.event_metadata[event.metadata_id].name
            # An operation's event is called name:type.
            if timed := re.fullmatch(r"[^:]*:(\w+)", name):
                spent[_kind(timed[1])] += event.duration_ps / 1e12 / OUTPUT_TOKENS
    return {**spent, _UNTIMED: seconds / OUTPUT_TOKENS - sum(spent.values())}


def seconds_of_a_step(translate: Callable[[], tf.Tensor], calls: int = 5) -> float:
    """Processor seconds of a step, unprofiled."""
    began = time.process_time()
    for _ in range(calls):
        translate()
    return (time.process_time() - began) / calls / OUTPUT_TOKENS


def _kind(operation: str) -> str:
    """Of an operation's type; attention's products are matched before others."""
    matching = (kind for kind, names in reversed(_KINDS.items()) if re.fullmatch(names, operation))
    return next(matching, _OTHER)


def report(operations: Counter[str], seconds: float, spent: dict[str, float]) -> None:
    """Prints them, kind by kind."""
    count = Counter[str]()
    for operation, number in operations.items():
        count[_kind(operation)] += number
    print(f"{1000 * seconds:.2f} ms a step, {operations.total()} operations")
    print("| kind | operations a step | share of the time |")
    print("| --- | ---: | ---: |")
    for kind in [*_KINDS, _OTHER, _UNTIMED]:
        share = spent.get(kind, 0.0) / sum(spent.values())
        print(f"| {kind} | {count[kind] or '–'} | {share:.0%} |")


if __name__ == "__main__":
    main()

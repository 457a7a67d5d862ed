"""Draws a run's curves, as TensorBoard shows them: docs/tensorboard.png was made by it.

    python scripts/draw_curves.py runs/quickstart/model docs/tensorboard.png

Needs matplotlib: pip install -e '.[plots]'.
"""

import sys
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl
import tensorflow as tf

from t2t_repro.training.event_files import read_events
from t2t_repro.training.model_directory import ModelDirectory

Curves = dict[str, list[tuple[int, float]]]

# What TensorBoard calls a chart, and whether its axis is logarithmic.
CHARTS = {
    "train/loss": True,
    "train/nll": True,
    "dev/nll": False,
    "dev/bleu": False,
    "train/learning_rate": False,
    "train/real_tokens_per_second": False,
}


def read_curves(model_dir: Path) -> Curves:
    """Reads the scalars of a model directory: by their tag, (step, value) in order."""
    curves: Curves = defaultdict(list)
    for path in sorted(ModelDirectory(model_dir).tensorboard.glob("events.out.tfevents.*")):
        for event in read_events(path):
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    curves[value.tag].append((event.step, float(tf.make_ndarray(value.tensor))))
    return {tag: sorted(points) for tag, points in curves.items()}


def draw(curves: Curves, path: Path) -> None:
    """Draws a chart for each of CHARTS."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, grid = plt.subplots(2, 3, figsize=(12, 5.5), layout="constrained")
    for axes, (tag, is_logarithmic) in zip(grid.flat, CHARTS.items(), strict=True):
        steps, values = zip(*curves[tag], strict=True)
        axes.plot(steps, values, marker="o" if len(steps) < 10 else None, color="tab:orange")
        axes.set_title(tag)
        axes.set_yscale("log" if is_logarithmic else "linear")
        axes.grid(alpha=0.3)
        if axes in grid[-1]:
            axes.set_xlabel("step")
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    draw(read_curves(Path(sys.argv[1])), Path(sys.argv[2]))

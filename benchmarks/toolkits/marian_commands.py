"""Marian's command lines, the mean of its checkpoints, and what is read out of its logs.

A training that was killed goes on with its last checkpoint, at the same place of the same epoch.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from toolkits.recipe import Recipe
from toolkits.steps import Facts, call

VOCABULARY = "marian.txt"
_WHOLE_SENTENCES = ["--max-length=1000", "--cpu-threads=1"]
_SPEED = re.compile(r" ([\d.]+) words/s")
_PROGRESS = re.compile(r"^(batches|epochs|labels-total): (\d+)$", re.MULTILINE)


def vocabulary(pieces: Sequence[str]) -> list[str]:
    """Returns Marian's vocabulary: its own two symbols, then the pieces."""
    return ["</s>", "<unk>", *pieces]


def training_options(recipe: Recipe, words: int, save_every: int) -> list[str]:
    """Translates a recipe into Marian's options.

    Args:
        recipe: of model and training.
        words: of a batch: real source tokens.
        save_every: updates between two checkpoints, each with a dev evaluation.
    """
    # Nearly an epoch is sorted by length together: 1,000 times 64 sentences.
    return f"""
        --type transformer --enc-depth {recipe.num_layers} --dec-depth {recipe.num_layers}
        --dim-emb {recipe.d_model} --transformer-dim-ffn {recipe.d_ff}
        --transformer-heads {recipe.num_heads} --transformer-ffn-activation relu
        --tied-embeddings-all --output-omit-bias --transformer-dropout {recipe.dropout}
        --cost-type ce-mean-words --label-smoothing {recipe.label_smoothing} --clip-norm 0
        --optimizer-params 0.9 0.98 {recipe.adam_epsilon} --learn-rate {recipe.learning_rate}
        --lr-warmup {recipe.warmup_steps} --lr-decay-inv-sqrt {recipe.warmup_steps}
        --mini-batch-words {words} --maxi-batch 1000 --shuffle-in-ram --data-threads 1
        --after {recipe.steps}u --save-freq {save_every}u --disp-freq 50u
        --valid-freq {save_every}u --valid-metrics ce-mean-words --early-stopping 0
    """.split()


def train(python: Path, prefixes: Mapping[str, Path], model: Path, options: Sequence[str]) -> Facts:
    """Trains, or goes on with a training, in float32 on one thread of the CPU.

    Args:
        python: of Marian's environment.
        prefixes: of the text's files, `<prefix>.en` and `<prefix>.de`, for "train" and "valid"; the
            vocabulary lies beside them.
        model: the folder of checkpoints.
        options: of Marian.

    Returns:
        updates, epochs, target tokens of an update and of a second; the last is the middle one of
        all reports.
    """
    log = model / "train.log"
    files: list[str | Path] = ["--model", model / "model.npz", "--vocabs"]
    files += [prefixes["train"].with_name(VOCABULARY)] * 2
    for name, prefix in prefixes.items():
        files += [f"--{name}-sets", f"{prefix}.en", f"{prefix}.de"]
    call(python, ["-m", "pymarian", "train", *options, *_WHOLE_SENTENCES, *files], log)
    progress = (model / "model.npz.progress.yml").read_text(encoding="utf-8")
    found = {name: int(number) for name, number in _PROGRESS.findall(progress)}
    speeds = map(float, _SPEED.findall(log.read_text(encoding="utf-8")))
    return {
        "updates": found["batches"],
        "epochs": found["epochs"],
        "target_tokens_per_update": round(found["labels-total"] / found["batches"]),
        "target_tokens_per_second": round(statistics.median(speeds)),
    }


def average(model: Path, last: int, to: Path) -> None:
    """Writes the mean of a training's last checkpoints, and removes those before them."""
    found = {int(path.suffixes[0][len(".iter") :]): path for path in model.glob("model.iter*.npz")}
    order = sorted(found)
    checkpoints = [dict(np.load(found[number])) for number in order[-last:]]
    weights = checkpoints[-1]
    for name, weight in weights.items():
        # Its options, as text.
        if not name.startswith("special:"):
            mean = np.mean([one[name] for one in checkpoints], axis=0, dtype=np.float64)
            weights[name] = mean.astype(weight.dtype)
    np.savez(to, **weights)
    for number in order[:-last]:
        found[number].unlink()


def translate(
    python: Path, recipe: Recipe, model: Path, vocabulary: Path, source: Path, to: Path
) -> None:
    """Translates a file of pieces into another."""
    files: list[str | Path] = ["-m", model, "-v", vocabulary, vocabulary, "-i", source, "-o", to]
    options = f"""
        --beam-size {recipe.beam_size} --normalize {recipe.length_penalty} --quiet-translation
        --mini-batch 32 --maxi-batch 100 --maxi-batch-sort src
    """.split()
    arguments = ["-m", "pymarian", "decode", *options, *_WHOLE_SENTENCES, *files]
    call(python, arguments, to.with_suffix(".log"))

"""fairseq's command lines, and what is read out of its logs.

A training that was killed goes on with its last epoch's checkpoint.
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolkits.recipe import Recipe
from toolkits.steps import Facts, call

_HERE = Path(__file__).parent
_HYPOTHESIS = re.compile(r"H-(\d+)\t[^\t]*\t(.*)")


def preprocess(
    python: Path, prefixes: Mapping[str, Path], languages: tuple[str, str], to: Path
) -> None:
    """Makes one dictionary of both languages, and ids of text that is split at its spaces.

    Args:
        python: of fairseq's environment.
        prefixes: of the text's files, `<prefix>.<language>`, for "train", "valid" and "test".
        languages: of source and target.
        to: the folder that is made.
    """
    # fairseq refuses to go on with a dictionary that is there: that of a call that was killed.
    shutil.rmtree(to, ignore_errors=True)
    source, target = languages
    arguments = ["-m", "fairseq_cli.preprocess", "-s", source, "-t", target]
    for split, prefix in prefixes.items():
        arguments += [f"--{split}pref", str(prefix)]
    call(python, [*arguments, "--destdir", to, "--joined-dictionary"], to.with_suffix(".log"))


def training_options(recipe: Recipe) -> list[str]:
    """Translates a recipe into options of fairseq-train."""
    sizes = {
        "embed-dim": recipe.d_model,
        "ffn-embed-dim": recipe.d_ff,
        "layers": recipe.num_layers,
        "attention-heads": recipe.num_heads,
    }
    options = ["--task", "translation", "--arch", "transformer", "--share-all-embeddings"]
    for side in ("encoder", "decoder"):
        for name, size in sizes.items():
            options += [f"--{side}-{name}", str(size)]
    options += ["--dropout", str(recipe.dropout)]
    options += ["--attention-dropout", "0", "--activation-dropout", "0"]
    options += ["--criterion", "label_smoothed_cross_entropy"]
    options += ["--label-smoothing", str(recipe.label_smoothing)]
    options += ["--optimizer", "adam", "--adam-betas", "(0.9, 0.98)"]
    options += ["--adam-eps", str(recipe.adam_epsilon), "--weight-decay", "0"]
    options += ["--lr-scheduler", "inverse_sqrt", "--lr", str(recipe.learning_rate)]
    options += ["--warmup-updates", str(recipe.warmup_steps), "--warmup-init-lr", "1e-07"]
    return [*options, "--max-update", str(recipe.steps)]


def search_options(recipe: Recipe) -> list[str]:
    """Translates a recipe into options of fairseq-generate."""
    return ["--beam", str(recipe.beam_size), "--lenpen", str(recipe.length_penalty)]


def train(python: Path, data: Path, model: Path, options: Sequence[str], seed: int) -> Facts:
    """Trains, or goes on with a training, in float32 on the CPU.

    Args:
        python: of fairseq's environment.
        data: what `preprocess` made.
        model: the folder of checkpoints.
        options: of fairseq-train.
        seed: of initialisation, dropout and the order of batches.

    Returns:
        see `training_facts`.
    """
    log = model / "train.log"
    arguments: list[str | Path] = ["-m", "fairseq_cli.train", data, "--cpu"]
    arguments += ["--save-dir", model, "--seed", str(seed), *options]
    arguments += ["--log-format", "json", "--log-interval", "50", "--num-workers", "0"]
    call(python, arguments, log)
    return training_facts(log.read_text(encoding="utf-8"))


def training_facts(log: str) -> Facts:
    """Reads what a training was out of its log.

    Args:
        log: of all calls, one behind the other.

    Returns:
        updates, epochs, target tokens of an update and of a second, and hours of training alone.
    """
    ends = sorted(_by_epoch(log, "train", "train_num_updates").items())
    tokens = _by_epoch(log, "train", "train_wpb")
    seconds = sum(_by_epoch(log, "train", "train_train_wall").values())
    starts = [0.0, *(end for _, end in ends)]
    total = sum(
        (end - start) * tokens[epoch] for start, (epoch, end) in zip(starts, ends, strict=False)
    )
    epochs, updates = ends[-1]
    return {
        "updates": int(updates),
        "epochs": epochs,
        "target_tokens_per_update": round(total / updates),
        "target_tokens_per_second": round(total / seconds),
        "training_hours": round(seconds / 3600, 3),
    }


def _logged(log: str, tag: str) -> list[Facts]:
    return [json.loads(row) for row in re.findall(rf" \| {tag} \| (\{{.*\}})", log)]


def _by_epoch(log: str, tag: str, name: str) -> dict[int, float]:
    """Returns a logged figure of every epoch; of one that was done twice, that of the last time."""
    return {row["epoch"]: float(row[name]) for row in _logged(log, tag)}


def average(python: Path, model: Path, last: int, to: Path) -> None:
    """Averages a training's last checkpoints, and writes the mean as another."""
    call(python, [_HERE / "fairseq_average.py", model, str(last), to], model / "average.log")


def translate(
    python: Path, data: Path, checkpoint: Path, split: str, options: Sequence[str]
) -> Facts:
    """Translates a split.

    Args:
        python: of fairseq's environment.
        data: what `preprocess` made.
        checkpoint: of the model.
        split: "valid", "test", "test1", ...
        options: of fairseq-generate, for the search.

    Returns:
        see `read_translations`.
    """
    log = checkpoint.with_name(f"translate_{split}.log")
    log.unlink(missing_ok=True)
    arguments: list[str | Path] = ["-m", "fairseq_cli.generate", data, "--path", checkpoint]
    # With its usual multiple, 8, fairseq leaves out the sentences of the last, smaller batch.
    arguments += ["--batch-size", "128", "--required-batch-size-multiple", "1", "--cpu"]
    call(python, [*arguments, "--gen-subset", split, *options], log)
    return read_translations(log.read_text(encoding="utf-8"))


def read_translations(log: str) -> Facts:
    """Reads the `translations`, a line a sentence in the split's order, from fairseq-generate's."""
    found = {int(index): text for index, text in _HYPOTHESIS.findall(log)}
    return {"translations": [found[index] for index in range(len(found))]}

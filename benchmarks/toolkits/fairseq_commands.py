"""fairseq's command lines, and what is read out of its logs.

A training that was killed goes on with its last epoch's checkpoint.
"""

import json
import re
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolkits.recipe import Recipe
from toolkits.steps import Facts, call

_HERE = Path(__file__).parent
_REPORT = re.compile(r" \| train_inner \| (\{.*\})")
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
    return f"""
        --task translation --arch transformer --share-all-embeddings
        --dropout {recipe.dropout} --attention-dropout 0 --activation-dropout 0
        --criterion label_smoothed_cross_entropy --label-smoothing {recipe.label_smoothing}
        --optimizer adam --adam-betas (0.9,0.98) --adam-eps {recipe.adam_epsilon} --weight-decay 0
        --lr-scheduler inverse_sqrt --lr {recipe.learning_rate} --warmup-init-lr 1e-07
        --warmup-updates {recipe.warmup_steps} --max-update {recipe.steps}
        --encoder-layers {recipe.num_layers} --decoder-layers {recipe.num_layers}
        --encoder-embed-dim {recipe.d_model} --decoder-embed-dim {recipe.d_model}
        --encoder-ffn-embed-dim {recipe.d_ff} --decoder-ffn-embed-dim {recipe.d_ff}
        --encoder-attention-heads {recipe.num_heads} --decoder-attention-heads {recipe.num_heads}
    """.split()


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
        updates, epochs, and target tokens of an update and of a second: the means, and the middle
        one, of all reports.
    """
    rows = [json.loads(row) for row in _REPORT.findall(log)]
    return {
        "updates": int(rows[-1]["num_updates"]),
        "epochs": rows[-1]["epoch"],
        "target_tokens_per_update": round(statistics.mean(float(row["wpb"]) for row in rows)),
        "target_tokens_per_second": round(statistics.median(float(row["wps"]) for row in rows)),
    }


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

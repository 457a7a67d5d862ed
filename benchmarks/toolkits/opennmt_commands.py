"""OpenNMT-tf's command lines, its files of settings, and what is read out of its logs."""

import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path

from toolkits.recipe import Recipe
from toolkits.steps import Facts, call

_UPDATES = re.compile(
    r"Step = (\d+) ; steps/s = ([\d.]+), tokens/s = \d+ \(\d+ source, (\d+) target\)"
)
# A number that YAML 1.1 takes for text, as JSON writes it: without a point.
_NO_NUMBER = re.compile(r"(?<=: )(\d+)(e[-+]?\d+)")

VOCABULARY = "opennmt.vocabulary"


def model_text(recipe: Recipe) -> str:
    """Translates a recipe into OpenNMT-tf's description of a model, a Python file."""
    return f"""\
import opennmt


class Transformer(opennmt.models.Transformer):
    def evaluate(self, features, labels):
        # OpenNMT-tf's own searches for translations too, and shows none of them: with an untrained
        # model it takes longer than the training.
        self._dynamic_decode = lambda *_: None
        try:
            return super().evaluate(features, labels)
        finally:
            del self._dynamic_decode


def model():
    return Transformer(
        opennmt.inputters.WordEmbedder(embedding_size={recipe.d_model}),
        opennmt.inputters.WordEmbedder(embedding_size={recipe.d_model}),
        num_layers={recipe.num_layers},
        num_units={recipe.d_model},
        num_heads={recipe.num_heads},
        ffn_inner_dim={recipe.d_ff},
        dropout={recipe.dropout},
        attention_dropout=0.0,
        ffn_dropout=0.0,
        mha_bias=False,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
        pre_norm=False,
        output_layer_bias=False,
    )
"""


def settings_text(recipe: Recipe, pieces: Path, model: Path, tokens: int, save_every: int) -> str:
    """Translates a recipe into OpenNMT-tf's settings, as YAML.

    Args:
        recipe: of model and training.
        pieces: the folder of `train.en`, `train.de`, `dev.en`, `dev.de` and the vocabulary.
        model: the folder of checkpoints.
        tokens: of a batch: rows × their length, that of the longer side.
        save_every: updates between two checkpoints, each with a dev evaluation.
    """
    found = {
        "model_dir": str(model),
        "data": {
            "train_features_file": str(pieces / "train.en"),
            "train_labels_file": str(pieces / "train.de"),
            "eval_features_file": str(pieces / "dev.en"),
            "eval_labels_file": str(pieces / "dev.de"),
            "source_vocabulary": str(pieces / VOCABULARY),
            "target_vocabulary": str(pieces / VOCABULARY),
            # An end of sentence, as the others have.
            "source_sequence_controls": {"end": True},
        },
        "params": {
            "optimizer": "Adam",
            "optimizer_params": {"beta_1": 0.9, "beta_2": 0.98, "epsilon": recipe.adam_epsilon},
            "learning_rate": recipe.learning_rate,
            "decay_type": "InvSqrtDecay",
            "decay_params": {"warmup_steps": recipe.warmup_steps},
            "label_smoothing": recipe.label_smoothing,
            "average_loss_in_time": True,
            "beam_width": recipe.beam_size,
            "length_penalty": recipe.length_penalty,
        },
        "train": {
            "batch_type": "tokens",
            "batch_size": tokens,
            "length_bucket_width": 1,
            "sample_buffer_size": -1,
            "max_step": recipe.steps,
            "save_summary_steps": 50,
            "save_checkpoints_steps": save_every,
            "keep_checkpoint_max": recipe.averaged,
        },
        "eval": {"batch_size": 32, "steps": save_every},
        "infer": {"batch_size": 32, "batch_type": "examples"},
    }
    return _NO_NUMBER.sub(r"\1.0\2", json.dumps(found, indent=2))


def vocabulary(pieces: Sequence[str]) -> list[str]:
    """Returns OpenNMT-tf's vocabulary: its own three symbols, then the pieces."""
    return ["<blank>", "<s>", "</s>", *pieces]


def train(python: Path, files: Sequence[Path], seed: int, log: Path) -> Facts:
    """Trains, or goes on with a training; its batches are then drawn anew.

    Args:
        python: of OpenNMT-tf's environment.
        files: the model's description, and the settings.
        seed: of initialisation, dropout and the order of batches.
        log: of the training.

    Returns:
        see `training_facts`.
    """
    call(python, [*_main(files), "--seed", str(seed), "train", "--with_eval"], log)
    return training_facts(log.read_text(encoding="utf-8"))


def training_facts(log: str) -> Facts:
    """Reads what a training was out of its log.

    Returns:
        updates, and target tokens a second: the middle one of all reports.
    """
    found = {int(step): int(target) for step, _, target in _UPDATES.findall(log)}
    return {
        "updates": max(found),
        "target_tokens_per_second": statistics.median(found.values()),
    }


def average(python: Path, files: Sequence[Path], last: int, to: Path, log: Path) -> None:
    """Averages a training's last checkpoints, and writes the mean to a folder."""
    options: list[str | Path] = ["--output_dir", to, "--max_count", str(last)]
    call(python, [*_main(files), "average_checkpoints", *options], log)


def translate(
    python: Path, files: Sequence[Path], average: Path, source: Path, to: Path, log: Path
) -> None:
    """Translates a file of pieces into another."""
    options: list[str | Path] = ["--features_file", source, "--predictions_file", to]
    call(python, [*_main(files), "--checkpoint_path", average, "infer", *options], log)


def _main(files: Sequence[Path]) -> list[str | Path]:
    description, config = files
    return ["-m", "opennmt.bin.main", "--model", description, "--config", config]

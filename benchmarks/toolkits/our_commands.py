"""t2t_repro's own command lines for a recipe."""

import re
import statistics
from collections.abc import Sequence
from pathlib import Path

from toolkits.recipe import Recipe
from toolkits.steps import Facts, call

_TRANSLATED = 200
"""Sentences of a dev evaluation that are translated; the others' toolkits translate none."""

_SPEED = re.compile(r"([\d,]+) src\+tgt tok/s")


def gin_text(recipe: Recipe, tokens: int, save_every: int) -> str:
    """Translates a recipe into gin, all but the corpus.

    Args:
        recipe: of model and training.
        tokens: of a batch: real source tokens, or target tokens where there are more.
        save_every: updates between two checkpoints, each with a dev evaluation.
    """
    return f"""
Transformer.num_layers = {recipe.num_layers}
LayerConfig.d_model = {recipe.d_model}
LayerConfig.d_ff = {recipe.d_ff}
LayerConfig.num_heads = {recipe.num_heads}
LayerConfig.dropout = {recipe.dropout}
CrossEntropy.label_smoothing = {recipe.label_smoothing}
adam.learning_rate = @InverseSquareRoot()
adam.epsilon = {recipe.adam_epsilon}
InverseSquareRoot.peak = {recipe.learning_rate}
InverseSquareRoot.warmup_steps = {recipe.warmup_steps}
Batches.tokens_per_batch = {tokens}
TrainingSchedule.steps = {recipe.steps}
TrainingSchedule.evaluate_every = {save_every}
DevEvaluation.sentences = {_TRANSLATED}
Checkpoints.every_steps = {save_every}
Checkpoints.keep = {recipe.averaged}
BeamSearch.beam_size = {recipe.beam_size}
BeamSearch.length_penalty = {recipe.length_penalty}
"""


def run_verb(python: Path, verb: str, arguments: Sequence[str | Path], log: Path) -> None:
    """Runs a verb of t2t_repro, such as "trainer"."""
    call(python, ["-m", f"t2t_repro.{verb}", *arguments], log)


def training_facts(log: str, target_share: float) -> Facts:
    """Reads the target tokens a second, the middle one of all reports, out of a training's log.

    Args:
        log: of all calls, one behind the other.
        target_share: what share of the corpus's tokens are target tokens.
    """
    speeds = [int(found.replace(",", "")) for found in _SPEED.findall(log)]
    return {"target_tokens_per_second": round(statistics.median(speeds) * target_share)}

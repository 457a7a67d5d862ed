"""The others read t2t_repro's subwords as words, and t2t_repro is asked for the same recipe."""

import gin
import numpy as np

from equal_budget import RECIPE, as_pieces, as_text
from t2t_repro.text.sentencepiece import SubwordTraining
from toolkits.our_commands import gin_text, training_facts

_WORDS = ["der", "Hund", "läuft", "über", "die", "Straße", "2014", "laut", ",", "schläft", "."]


def _lines(count):
    random = np.random.default_rng(0)
    return [" ".join(random.choice(_WORDS, random.integers(1, 12))) for _ in range(count)]


def test_sentences_come_back_from_pieces(tmp_path):
    subwords = SubwordTraining(340).train(_lines(300), tmp_path / "subwords.model")
    # Without text, and with characters that are spelt out as bytes.
    lines = [*_lines(20), "", "ein 中 Hund", "Straße"]
    ids = subwords.encode(lines)
    flat = np.concatenate(ids), np.array([len(sentence) for sentence in ids])
    pieces = list(as_pieces(subwords.pieces(), flat))
    assert pieces[-1].replace(" ", "") == "▁Straße"
    assert as_text(subwords, pieces) == lines
    assert as_text(subwords, ["<unk> " + pieces[-1]])[0].endswith("Straße")


def test_gin_binds_what_the_recipe_says():
    # Of the package, without which the names are not known.
    import t2t_repro.experiment  # noqa: F401

    gin.parse_config(gin_text(RECIPE, 2048, 300))
    assert gin.query_parameter("LayerConfig.d_model") == RECIPE.d_model
    assert gin.query_parameter("adam.epsilon") == RECIPE.adam_epsilon
    assert gin.query_parameter("Checkpoints.keep") == RECIPE.averaged
    assert gin.query_parameter("BeamSearch.length_penalty") == RECIPE.length_penalty
    gin.clear_config()


def test_speed_is_that_of_target_tokens():
    log = "".join(
        f"step {i}: loss 1.0, {speed} src+tgt tok/s\n"
        for i, speed in enumerate(("1,000", "4,000", "3,000"))
    )
    assert training_facts(log, 0.5) == {"target_tokens_per_second": 1500}
